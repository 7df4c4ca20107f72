"""MERBIT: the merge of row ends and entries, a bit per step."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, cdiv
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.csr.merge import tile_rows
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, per_thread, zero_fill, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

LANES = 32
NO_END = constant("include/merbit.cuh", "NO_END")  # in tile_row: no row ends in the tile
NARROW = 14  # the most steps of a thread whose bits fit 32, with two counts of 9


def word_dtype(sigma: int) -> np.dtype:
    """What a thread's bits and its two counts fit."""
    return np.dtype(np.uint32 if sigma <= NARROW else np.uint64)


def sizes(rows: int, nnz: int, sigma: int, block: int) -> tuple[int, int, int]:
    """Threads, tiles of 32 threads, and blocks of `block` threads."""
    lanes = cdiv(rows + nnz, sigma)
    return lanes, cdiv(lanes, LANES), cdiv(lanes, block)


def by_arrays(a: Csr, sigma: int) -> dict[str, Array]:
    """tile_entry, tile_row and lane_bits."""
    xp, word = a.xp, word_dtype(sigma)
    lanes, tiles, _ = sizes(a.rows, a.nnz, sigma, LANES)
    row = tile_rows(a.row_ptr, sigma).astype(np.int64)  # of each thread, and of the end
    entry = xp.minimum(xp.arange(lanes + 1, dtype=np.int64) * sigma, a.rows + a.nnz) - row
    ends = xp.zeros(lanes * sigma, dtype=word)
    ends[a.row_ptr[1:].astype(np.int64) + xp.arange(a.rows)] = 1
    bits = (ends.reshape(lanes, sigma) << xp.arange(sigma, dtype=word)).sum(axis=1, dtype=word)
    first = xp.append(xp.arange(tiles) * LANES, xp.full(1, lanes))
    tile = xp.arange(lanes) // LANES
    counts = 9 if sigma <= NARROW else 11
    before = (entry[:-1] - entry[first][tile]) | (row[:-1] - row[first][tile]) << counts
    none = xp.diff(row[first]) == 0
    return {
        "tile_entry": entry[first].astype(np.int32),
        "tile_row": (row[first] | xp.append(none, xp.zeros(1, dtype=bool)) * NO_END).astype(np.uint32),
        "lane_bits": before.astype(word) | bits << word.type(2 * counts),
    }


def by_kernel(a: Csr, sigma: int, run: Run) -> dict[str, Array]:
    """What `by_arrays` gives, by a kernel. run: runs a launch on the arrays of `a`."""
    lanes, tiles, _ = sizes(a.rows, a.nnz, sigma, LANES)
    found = {
        "tile_entry": a.xp.zeros(tiles + 1, dtype=np.int32),
        "tile_row": a.xp.zeros(tiles + 1, dtype=np.uint32),
        "lane_bits": a.xp.empty(lanes, dtype=word_dtype(sigma)),
    }
    args = (np.int32(a.rows), a.row_ptr.dtype.type(a.nnz), np.int32(tiles), a.row_ptr, *found.values())
    kernel = f"merbit_fields<{ctype(a.row_ptr)}, {sigma}>"
    run(Launch("load_balanced/balanced_convert.cu", kernel, *per_thread(tiles * LANES, 128), args))
    return found


@register
class Merbit(CsrArrays):
    """CSR with the merge path stored as bits: each thread's steps, and its position among rows and entries.

    The shares of `merge-csr`, found once: a warp's tile is 32 x sigma steps, and the product searches nothing. With
    sigma=14 it takes 0.3 bytes per step more than CSR. A block's rows are summed in shared memory and written side by
    side; the rows that blocks share are added to y by atomics, after a launch that sets them to zero (the authors'
    kernel sets those of the next product's y to zero, and swaps two). Every thread's first sum and every run of open
    ones is added to shared memory by an atomic, as the authors do: shuffles in their place were slower on an H200. Sums
    are not reproducible where rows are cut. Our reading: the paper's further optimisations follow its program.
    """

    key = "merbit"
    reference = "Zhang, Yao, Jiang & Zhang, arXiv:2605.07391, 2026"

    sigma = Parameter(14, "merge steps per thread; up to 14 their bits take 4 bytes, else 8", low=5, high=42)
    batch = Parameter(0, "entries per thread in flight; 0 takes sigma, at most 7", choices=(0, 2, 3, 4, 5, 7, 10, 14))
    block = Parameter(256, "threads per block", choices=(64, 128, 256, 512))

    tile_entry: Array  # (tiles + 1,), int32: entry at which each tile begins
    tile_row: Array  # (tiles + 1,), uint32: row at which it begins; the highest bit: no row ends in it
    lane_bits: Array  # (threads,), uint32 or uint64: entries and row ends before it in its tile, bits of its steps
    block_row: Array  # (blocks,), int32: row at which each block of threads begins

    @classmethod
    def _check(cls, a: Csr) -> None:
        if a.rows + a.nnz > INT32_MAX:
            raise Skip(f"merbit counts rows and entries together in 31 bits, here they are {a.rows + a.nnz:,}")

    @classmethod
    def estimate(cls, a: Csr, *, sigma: int, block: int, **params: Any) -> int:
        lanes, tiles, blocks = sizes(a.rows, a.nnz, sigma, block)
        return a.nbytes + 8 * (tiles + 1) + word_dtype(sigma).itemsize * lanes + 4 * blocks

    @classmethod
    def convert(cls, a: Csr, *, sigma: int, block: int, **params: Any) -> dict[str, Any]:
        cls._check(a)
        run = runner(a)
        found = by_kernel(a, sigma, run) if run else by_arrays(a, sigma)
        block_row = (found["tile_row"][: -1 : block // LANES] & np.uint32(NO_END - 1)).astype(np.int32)
        return super().convert(a) | found | {"block_row": block_row}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        if not len(self.values):
            return [zero_fill(y)]
        value, blocks = ctype(self.values), len(self.block_row)
        steps = np.int64(self.shape[0] + len(self.values))
        tables = (np.int32(len(self.tile_entry) - 1), self.tile_entry, self.tile_row, self.lane_bits)
        matrix = (np.int32(self.shape[0]), steps, *tables, self.col_idx, self.values, x, y)
        shared = (self.block * self.sigma + 1) * y.itemsize
        batch = self.batch or min(self.sigma, 7)
        sums = f"merbit<{value}, {self.block}, {self.sigma}, {batch}>"
        return [
            zero_rows(self.block_row, y),
            Launch("load_balanced/merbit.cu", sums, blocks, self.block, matrix, shared),
        ]
