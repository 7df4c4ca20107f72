"""Block CSR and blocked COO: the tiles that a name may have, and the threads that take them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import testing
from spmvbench.formats.dense_blocks.bcsr import lanes_for, loads_for

HARD = testing.hard_matrices()


def test_interleaved_block_rows_are_blocked_sliced_ellpack():
    a = spmvbench.load("fem:4:3")
    ours = testing.convert("bcsr-verschoor[rows=8,sort=length,order=interleaved]", a)
    theirs = testing.convert("bellpack[r=3,c=3,C=8]", a)
    assert ours.tile == (3, 3)
    chosen = testing.convert("bcsr-verschoor", a)
    assert chosen.in_use == {"rows": 4, "sort": "length", "order": "interleaved"} and len(chosen.perm)
    for name, array in theirs.arrays().items():
        np.testing.assert_array_equal(ours.arrays()[name], array)
    x, y = (np.zeros(side) for side in a.shape)
    assert [launch.source for launch in ours.launches(x, y)] == ["dense_blocks/block_sell.cu"]


@pytest.mark.parametrize("key", ["bsr", "bin-bcsr", "bcsr-xu", "bcsr-verschoor"])
def test_squares_by_their_bytes(key):
    for a in (HARD["power law"], HARD["3x3 blocks"], HARD["stencil"]):
        sizes = {side: testing.convert(f"{key}[block={side}]", a).nbytes for side in (2, 3, 4)}
        fmt = testing.convert(key, a)
        assert fmt.nbytes == min(sizes.values())
        assert sizes[fmt.tile[1]] == fmt.nbytes


def test_rectangles_by_their_bytes():
    found = testing.convert("bcsr-choi", sparse.csr_array(sparse.kron(sparse.eye_array(40), np.ones((2, 8)))))
    assert found.tile == (2, 8)
    assert found.detail == {"r": 2, "c": 8, "fill": 1}


def test_lanes():
    assert [lanes_for(mean, 2) for mean in (0, 31, 63, 64, 1000)] == [8, 8, 16, 32, 32]
    assert [lanes_for(0, c) for c in (8, 16)] == [8, 16]


def test_loads():
    assert loads_for(27, 3, 3, 32, 1) == 9
    assert [loads_for(mean, 2, 2, 32, 1) for mean in (0, 8, 9, 33, 1000)] == [1, 1, 2, 6, 12]
    assert loads_for(27, 3, 3, 32, 2) == 6
    assert [loads_for(100, b, b, 32, 1) for b in (8, 16)] == [6, 1]


@pytest.mark.parametrize("shape", [(1, 8), (8, 1), (3, 8), (8, 3), (8, 8), (1, 1), (3, 4)])
def test_every_way_to_deal_out_a_tile(shape, emulated):
    for name in ("long rows among empty", "3x3 blocks", "one full row"):  # 8, 16 and 32 lanes
        testing.check_product(f"bcsr-choi[r={shape[0]},c={shape[1]}]", HARD[name], emulated)


def test_squares_wider_than_a_warp_has_lanes(emulated):
    for name in ("full", "wide", "1xN"):
        testing.check_product("bsr[block=16]", HARD[name], emulated)
