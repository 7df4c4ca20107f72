"""What a sparse x brings: programs that run again, full and empty x, parts timed apart, heavy buckets."""

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


def test_buckets_with_many_entries_have_several_blocks():
    rows = formats.get("spmspv-bucket").log_height(8)
    a = sparse.vstack([sparse.csr_array(np.ones((2, 3000))), sparse.csr_array((3 << rows, 3000))])
    fmt = testing.convert("spmspv-bucket", a)
    assert fmt.first_block.tolist() == [0, 4, 5, 6, 7]
    assert fmt.bucket_of.tolist() == [0, 0, 0, 0, 1, 2, 3]
