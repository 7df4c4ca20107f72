"""What a sparse x brings: programs that run again with another one, long columns, heavy buckets, passes, tiles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.formats import Csr
from spmvbench.formats.vectors import SparseVector

REGISTERED = formats.keys()
KEYS = [key for key in REGISTERED if formats.get(key).op == "spmspv"]
SPECS = [*KEYS, "tile-spmspv[nt=64,extract=0]", *(f"tile-spmspv[kernel=paper,nt={nt}]" for nt in (16, 32, 64))]


def a_hub(rows=3000, cols=700):
    """A full column and a full row among random entries."""
    a = sparse.random_array((rows, cols), density=0.004, rng=np.random.default_rng(3), format="lil")
    a[:, 11] = a[17, :] = 1.0
    return Csr.of(a.tocsr())


class Bound:
    """A format's launches on a device, bound to an x of k entries that each run sets again."""

    def __init__(self, fmt, device, k):
        self.fmt, self.device = fmt, device
        self.x = SparseVector(np.zeros(k, np.int32), np.zeros(k, fmt.value_dtype), fmt.shape[1])
        self.y = np.full(fmt.shape[0], np.nan, fmt.value_dtype)
        self.launches = fmt.launches(self.x, self.y)
        self.program = device.compile(self.launches)

    def give(self, index, seed=0):
        self.x.index[:] = index
        self.x.value[:] = np.random.default_rng(seed).integers(1, 9, len(index))

    def is_right(self, a):
        self.y[:] = np.nan
        self.program.run()
        exact = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape) @ self.x.dense()
        np.testing.assert_array_equal(self.y, exact)


def whole(a):
    """The same matrix with whole numbers for values: sums are exact in any order."""
    return Csr(a.shape, a.row_ptr, a.col_idx, np.arange(a.nnz) % 7 + 1.0)


@pytest.mark.parametrize("spec", SPECS)
def test_a_program_runs_again_and_with_another_x(spec, emulated):
    a = whole(a_hub())
    bound = Bound(testing.convert(spec, a), emulated, 90)
    for seed in range(3):
        bound.give(np.sort(np.random.default_rng(seed).choice(a.cols, 90, replace=False)), seed)
        bound.is_right(a)
        bound.is_right(a)


@pytest.mark.parametrize("spec", SPECS)
def test_x_may_be_full_or_empty(spec, emulated):
    a = whole(a_hub())
    for index in (np.arange(0), np.arange(a.cols)):
        bound = Bound(testing.convert(spec, a), emulated, len(index))
        bound.give(index)
        bound.is_right(a)


@pytest.mark.parametrize("spec", SPECS)
def test_parts_that_are_timed_apart_can_run_again_and_again(spec, emulated):
    a = whole(a_hub())
    bound = Bound(testing.convert(spec, a), emulated, 90)
    bound.give(np.arange(0, 630, 7))
    bound.is_right(a)
    for part in {launch.part for launch in bound.launches}:
        apart = emulated.compile([launch for launch in bound.launches if launch.part == part])
        for _ in range(3):
            apart.run()
    bound.is_right(a)


def test_tiles_of_a_few_entries_are_taken_apart():
    a = np.zeros((40, 50))
    a[0, [0, 3, 15]] = 1, 2, 3  # tile (0, 0), with the next row
    a[5, 3] = 4
    a[2, 20] = 5  # tile (0, 1)
    a[39, [48, 49]] = 6, 7  # tile (2, 3)
    fmt = testing.convert("tile-spmspv[nt=16,extract=2]", sparse.csr_array(a))
    assert (fmt.tile_row.tolist(), fmt.tile_col.tolist()) == ([0], [0])
    assert fmt.tile_mask.tolist() == [1 | 1 << 3 | 1 << 15]
    assert fmt.list_begin.tolist() == [0, 1, 3, 4]
    assert (fmt.local.tolist(), fmt.values.tolist()) == ([0, 0, 5, 0], [1, 2, 4, 3])
    assert (fmt.extracted_row.tolist(), fmt.extracted_values.tolist()) == ([2, 39, 39], [5, 6, 7])
    assert fmt.extracted_col[[20, 21, 48, 49, 50]].tolist() == [0, 1, 1, 2, 3]
    assert fmt.detail == {"tiles": 1, "extracted_share": 3 / 7}


def test_the_papers_kernel_has_tiles_by_rows_and_packs_those_of_x_and_y(emulated):
    a = sparse.vstack([sparse.csr_array(np.ones((1, 16 * 70))), sparse.eye_array(16 * 70, format="csr")[:31]])
    a = sparse.vstack([a, sparse.csr_array((16, 16 * 70))])
    fmt = testing.convert("tile-spmspv[kernel=paper,nt=16,extract=0]", a)
    assert fmt.tile_ptr.tolist() == [0, 70, 72, 72]
    assert fmt.tile_mask.tolist() == [2**16 - 1] + [1] * 70 + [2**16 - 2]
    assert fmt.local[:18].tolist() == [*range(16), 1 << 4 | 0, 2 << 4 | 1]
    bound = Bound(fmt, emulated, 3)
    bound.give([40, 41, 1111])
    bound.is_right(Csr.of(a))
    # Tiles 2 and 69 of x, and the first row of tiles alone.
    pack, _, multiply = bound.launches[1:4]
    x_ptr, x_tile = pack.args[-2:]
    assert [(t, p) for t, p in enumerate(x_ptr.tolist()) if p >= 0] == [(2, 0), (69, 1)]
    expected = np.zeros(32)
    expected[[8, 9, 16 + 7]] = bound.x.value
    assert x_tile[:32].tolist() == expected.tolist()
    y_tiles, y_ptr, y_tile = multiply.args[-3:]
    assert (y_tiles.tolist(), y_ptr.tolist()) == ([1], [0, -1, -1])
    assert y_tile[:16].tolist() == [bound.x.value.sum(), *[0] * 15]


def test_buckets_with_many_entries_have_several_blocks():
    rows = formats.get("spmspv-bucket").log_height(8)
    a = sparse.vstack([sparse.csr_array(np.ones((2, 3000))), sparse.csr_array((3 << rows, 3000))])
    fmt = testing.convert("spmspv-bucket", a)
    assert fmt.first_block.tolist() == [0, 4, 5, 6, 7]
    assert fmt.bucket_of.tolist() == [0, 0, 0, 0, 1, 2, 3]
