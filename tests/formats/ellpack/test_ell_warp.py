"""ELL-WARP's second kernel: how many lanes and warps a group of rows has, and where their slots are."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import testing
from tests.formats.rows import with_lengths


def test_two_groups_by_hand():
    # The longest row of the first group wants 3 lanes of at most 6 slots and gets 4, of 4 slots: 8 rows per warp.
    a = with_lengths([*[3] * 20, 16, 0, *[2] * 15])
    fmt = testing.convert("ell-warp-k2[thr=6]", a)
    assert fmt.perm.tolist() == [20, *range(20), *range(22, 37)]
    assert fmt.lanes.tolist() == [4, 4, 4, 4, 1]
    assert fmt.first_place.tolist() == [0, 8, 16, 24, 32]
    assert np.diff(fmt.warp_ptr).tolist() == [128, 128, 128, 128, 64]
    steps = fmt.columns[:128].reshape(4, 32)
    assert steps[:, :4].T.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert steps[:, 4:8].T.tolist() == [[0, 1, 2, -1], *[[-1] * 4] * 3]
    assert fmt.columns[512:].reshape(2, 32)[:, :5].tolist() == [[0, 0, 0, 0, -1], [1, 1, 1, 1, -1]]
    assert fmt.detail == {"thr": 6, "warps": 5}


@pytest.mark.parametrize(
    ("longest", "thr", "lanes", "width"),
    [(6, 6, 1, 6), (7, 6, 2, 4), (192, 6, 32, 6), (193, 6, 32, 7), (64, 64, 1, 64), (65, 64, 2, 33), (3000, 0, 32, 94)],
)
def test_lanes_of_a_row(longest, thr, lanes, width):
    fmt = testing.convert(f"ell-warp-k2[thr={thr}]", with_lengths([longest, 1]))
    assert set(fmt.lanes) == {lanes}
    assert set(np.diff(fmt.warp_ptr)) == {32 * width}
