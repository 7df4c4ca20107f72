"""Bits of packed columns, and tables, lines and literals of csr-ans."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, load, testing
from spmvbench.formats import Csr, get
from spmvbench.formats.compressed.csr_ans import MOST, SLOTS, shares
from spmvbench.matrices.synthetic import generate


def test_a_stencil_takes_few_bits_a_column():
    fmt = get("bro-ell").from_csr(load("pde:24"))
    assert fmt.detail["index_bytes_per_slot"] < 1.5
    assert get("bro-coo").from_csr(load("pde:24")).detail["row_bytes_per_slot"] < 0.5


def test_rows_and_columns_share_32_bits_where_they_fit():
    assert get("blsi").from_csr(load("uniform:65536:1")).keys.dtype == np.uint32
    assert get("blsi").from_csr(load("uniform:65537:1")).keys.dtype == np.uint64


def test_csr_ans_frequent_symbols_have_more_slots():
    assert shares([1]) == [MOST]
    assert shares([5, 5]) == [MOST, MOST]
    found = shares([1000, 10, 1] + [1] * 4000)
    assert sum(found) == SLOTS and found[:2] == [94, 1] and max(found[2:]) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_csr_ans_repeated_values_take_few_bytes(dtype):
    a = Csr.of(generate("uniform:2000:8", 1)).astype(dtype)
    ones = Csr(a.shape, a.row_ptr, a.col_idx, np.ones_like(a.values))
    same, distinct = (formats.get("csr-ans").from_csr(m) for m in (ones, a))
    assert same.words.nbytes < 4 * a.nnz
    # A value that occurs once is a literal of its own bytes.
    once = (np.unique(a.values, return_counts=True)[1] == 1).sum()
    assert once > 0.9 * a.nnz and distinct.words.nbytes >= same.words.nbytes + once * a.dtype.itemsize


def test_csr_ans_long_rows_are_cut_and_added():
    a = testing.hard_matrices()["one full row"]
    fmt = formats.get("csr-ans").from_csr(a, longest=16)
    assert fmt.adds and fmt.lengths.max() == 16 and (fmt.line_row < 0).any()
    assert not formats.get("csr-ans").from_csr(a, longest=1024).adds


@pytest.mark.parametrize(("mean", "longest"), [(3, 64), (40, 128), (100, 256)])
def test_csr_ans_the_longest_line_is_at_least_twice_a_mean_row(mean, longest):
    lengths = np.array([300, *[mean] * 200])
    columns = np.concatenate([np.arange(n) for n in lengths])
    a = Csr.of(sparse.csr_array((np.ones(len(columns)), columns, np.cumsum([0, *lengths]))))
    assert formats.get("csr-ans").from_csr(a).lengths.max() == longest
