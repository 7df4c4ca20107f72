"""Columns in shared memory: which they are, and that kernels part the entries as array operations do."""

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.formats import Csr, get
from spmvbench.formats.caching.hub import hub_order
from spmvbench.formats.caching.hub_cache import parts_of


def test_the_fullest_columns_are_cached():
    a = Csr.of(testing.hard_matrices()["one full column"])
    fmt = get("hub-cache").from_csr(a, hubs=1)
    assert fmt.order.tolist() == [7]
    assert fmt.detail == {"hubs": 1, "hub_share": 1.0}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["power law", "empty rows and columns", "no entries"])
def test_kernels_part_as_arrays_do(name, dtype, checking, same_arrays):
    a = Csr.of(testing.hard_matrices()[name]).astype(dtype)
    order = hub_order(a, 1.0)
    by_kernels = parts_of(a, order, 40, lambda launch: checking.compile([launch]).run())
    for found, expected in zip(by_kernels, parts_of(a, order, 40, None), strict=True):
        assert found.shape == expected.shape
        same_arrays(*({n: getattr(part, n) for n in ("row_ptr", "col_idx", "values")} for part in (found, expected)))


@pytest.mark.parametrize("spec", ["hub-cache[sms=2,hubs=20]", "hub-cache[hubs=64,sigma=8]"])
@pytest.mark.parametrize("name", ["power law", "one full row", "wide"])
def test_few_hubs_and_few_blocks(spec, name, emulated):
    testing.check_product(spec, testing.hard_matrices()[name], emulated)
