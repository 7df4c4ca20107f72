"""CSC: lanes by the mean length."""

from __future__ import annotations

import pytest

from spmvbench.formats.csc.csc import lanes_by_mean


@pytest.mark.parametrize(
    ("nnz", "lanes"), [(0, 1), (99, 1), (199, 1), (200, 2), (399, 2), (400, 4), (3199, 16), (3200, 32), (10**6, 32)]
)
def test_lanes_are_a_power_of_two_up_to_the_mean(nnz, lanes):
    assert lanes_by_mean(nnz, 100) == lanes
    assert lanes_by_mean(nnz, 100, least=2) == max(lanes, 2)
    assert lanes_by_mean(nnz, 0) >= 1
