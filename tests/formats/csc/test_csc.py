"""CSC: lanes by the mean length, one build for all keys, column pointers by a kernel, where products are collected."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.formats.csc.csc import lanes_by_mean

A = sparse.csr_array(np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [4, 0, 5, 6]]))


@pytest.mark.parametrize(
    ("nnz", "lanes"), [(0, 1), (99, 1), (199, 1), (200, 2), (399, 2), (400, 4), (3199, 16), (3200, 32), (10**6, 32)]
)
def test_lanes_are_a_power_of_two_up_to_the_mean(nnz, lanes):
    assert lanes_by_mean(nnz, 100) == lanes
    assert lanes_by_mean(nnz, 100, least=2) == max(lanes, 2)
    assert lanes_by_mean(nnz, 0) >= 1


@pytest.mark.parametrize("key", ["csc-atomic", "csc-warp", "csc-thread", "csc-scalar", "csc-vector"])
def test_all_keys_hold_the_same_columns(key):
    fmt = testing.convert(key, A)
    assert fmt.col_ptr.tolist() == [0, 2, 2, 5, 6]
    assert fmt.row_idx.tolist() == [0, 2, 0, 1, 2, 2]
    assert fmt.values.tolist() == [1, 4, 2, 3, 5, 6]
    if key in ("csc-scalar", "csc-vector"):
        assert fmt.place.tolist() == [0, 2, 3, 1, 4, 5]
        assert fmt.nbytes == 12 * 6 + 4 * 5 + 4 * 6 + 4 * 4
