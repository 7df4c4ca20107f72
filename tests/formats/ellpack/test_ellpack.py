"""Blocks of columns of amb, lanes of ELL-WARP, and footprints of jagged diagonals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.formats import Csr
from spmvbench.formats.ellpack.amb import block_starts
from spmvbench.formats.ellpack.jad import Jad, Pjds, slot_dtype
from tests.formats.rows import with_lengths


def test_amb_blocks_begin_at_the_first_entry_that_no_block_holds():
    column = np.array([0, 1, 2, 5, 6, 9, 3, 4, 5, 6], np.int32)
    group = np.array([0] * 6 + [1] * 4)
    assert block_starts(group, column, 1).tolist() == [*range(10)]
    assert block_starts(group, column, 2).tolist() == [0, 2, 3, 5, 6, 8]
    assert block_starts(group, column, 4).tolist() == [0, 3, 5, 6]


def test_amb_fast_divides_only_slices_that_span_more_than_a_segment():
    rows, cols = 64, 200_000
    col = np.concatenate([np.full(32, 65_500), np.full(32, 65_600), np.full(32, 10), np.full(32, 190_000)])
    row = np.concatenate([np.arange(32), np.arange(32), np.arange(32, 64), np.arange(32, 64)])
    a = Csr.of(sparse.coo_array((np.ones(128), (row, col)), shape=(rows, cols)).tocsr())
    fast = formats.get("amb").from_csr(a)
    assert fast.pieces[:, 2].tolist() == [0, 1, 1] and fast.pieces[:, 1].tolist() == [65_500, 10, 10 + 2 * 65_536]
    assert (fast.pieces[:, 3] < 0).tolist() == [False, True, True]
    paper = formats.get("amb").from_csr(a, kernel="paper")
    assert (
        paper.pieces[:, 2].tolist() == [0, 1, 0, 1]
        and len(paper.rows) == 128
        and (paper.pieces[:, 1] % 65_536 == 0).all()
    )
    assert (paper.pieces[:, 3] < 0).all()


def test_amb_the_width_of_blocks_is_that_of_fewest_bytes():
    assert formats.get("amb").from_csr(testing.hard_matrices()["uniform 8"]).width == 1
    dense = Csr.of(sparse.csr_array(np.ones((64, 40))))
    assert formats.get("amb").from_csr(dense).width == 4


@pytest.mark.parametrize(
    ("longest", "thr", "lanes", "width"),
    [(6, 6, 1, 6), (7, 6, 2, 4), (192, 6, 32, 6), (193, 6, 32, 7), (64, 64, 1, 64), (65, 64, 2, 33), (3000, 0, 32, 94)],
)
def test_ell_warp_lanes_of_a_row(longest, thr, lanes, width):
    fmt = testing.convert(f"ell-warp-k2[thr={thr}]", with_lengths([longest, 1]))
    assert set(fmt.lanes) == {lanes}
    assert set(np.diff(fmt.warp_ptr)) == {32 * width}


def test_jad_footprints():
    lengths = np.random.default_rng(0).integers(0, 40, 1000)
    a = with_lengths(lengths, 100)
    nnz, longest = lengths.sum(), lengths.max()
    assert Jad.from_csr(a).nbytes == 12 * nnz + 4 * (longest + 1) + 4 * 1000
    # pJDS has the slots of sliced ELLPACK with slices of 32 sorted rows.
    descending = np.append(np.sort(lengths)[::-1], np.zeros(24, dtype=int))
    slots = 32 * descending.reshape(-1, 32).max(axis=1).sum()
    pjds = Pjds.from_csr(a)
    assert pjds.lengths.tolist() == descending[:1000].tolist()
    assert pjds.nbytes == 12 * slots + 4 * (longest + 1) + 8 * 1000


def test_jad_pointers_are_long_where_the_slots_could_need_it():
    assert [slot_dtype(2**31 - 2**16 - 16, 1, br) for br in (1, 16, 32)] == [np.int32, np.int32, np.int64]
