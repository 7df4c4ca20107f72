"""Packed formats keep what their papers keep."""

import numpy as np

from spmvbench import load
from spmvbench.formats import get


def test_a_stencil_takes_few_bits_a_column():
    fmt = get("bro-ell").from_csr(load("pde:24"))
    assert fmt.detail["index_bytes_per_slot"] < 1.5
    assert get("bro-coo").from_csr(load("pde:24")).detail["row_bytes_per_slot"] < 0.5


def test_rows_and_columns_share_32_bits_where_they_fit():
    assert get("blsi").from_csr(load("uniform:65536:1")).keys.dtype == np.uint32
    assert get("blsi").from_csr(load("uniform:65537:1")).keys.dtype == np.uint64
