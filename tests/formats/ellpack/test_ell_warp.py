"""ELL-WARP's second kernel: how many lanes and warps a group of rows has."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import testing
from tests.formats.rows import with_lengths


@pytest.mark.parametrize(
    ("longest", "thr", "lanes", "width"),
    [(6, 6, 1, 6), (7, 6, 2, 4), (192, 6, 32, 6), (193, 6, 32, 7), (64, 64, 1, 64), (65, 64, 2, 33), (3000, 0, 32, 94)],
)
def test_lanes_of_a_row(longest, thr, lanes, width):
    fmt = testing.convert(f"ell-warp-k2[thr={thr}]", with_lengths([longest, 1]))
    assert set(fmt.lanes) == {lanes}
    assert set(np.diff(fmt.warp_ptr)) == {32 * width}
