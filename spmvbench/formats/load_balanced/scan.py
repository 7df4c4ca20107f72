"""Sums by segmented scans over tiles of entries: COO, and ModernGPU's CSR+ with a code per thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, array_module, cdiv, expand, round_up
from spmvbench.formats.carries import fix_up
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.coo.coo import Coo
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.load_balanced.tiles import equal_cuts, owners
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "load_balanced/scan.cu"
THREADS = 128  # a block
SPLIT = constant(SOURCE, "SPLIT")  # in limits: the row began before the tile


@register
class CooScan(Coo):
    """COO sorted by row, with a segmented scan over all products: the last entry of a row holds its sum. No atomics.

    Our reading of one sentence of the survey: blocks scan equal shares of the entries, tile by tile, and a second
    kernel adds parts of rows that shares cut. (A plain scan with differences at row ends loses digits where rows differ
    in size, and one infinite product spoils all rows after it.) Sums are reproducible.
    """

    key = "coo-scan"
    vectors_together = 4
    survey_name = "COO sorted by row with prefix scan"
    reference = "Filippone et al. 2017, section 4.1; Baxter, ModernGPU, 2013"

    items = Parameter(7, "neighbouring entries per thread; odd numbers avoid bank conflicts", choices=(3, 5, 7, 9, 11))
    blocks = Parameter(
        4096,
        "most blocks; each has an equal share of the entries and a carry",
        low=1,
        high=2**20,
    )

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        return self._sums(x, y, add=True)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), *self._sums(x, y, add=False)]

    def _sums(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        """The launches that store the sums of rows with entries to y, or add them to it."""
        nnz = self._nnz
        interval = round_up(cdiv(len(self.values), self.blocks), THREADS * self.items)
        blocks = cdiv(len(self.values), max(interval, 1))
        carry_row = self.xp.empty(blocks, dtype=np.int32)
        carry_sum = self.xp.empty(blocks, dtype=y.dtype)
        matrix = (nnz, np.int64(interval), self.row_idx, self.col_idx, self.values, x, y, carry_row, carry_sum)
        kernel = f"coo_scan<{ctype(self.values)}, {ctype(nnz)}, {THREADS}, {self.items}, {cbool(add)}>"
        return [Launch(SOURCE, kernel, blocks, THREADS, matrix), fix_up(SOURCE, carry_row, carry_sum, y)]


def codes_by_arrays(row_ptr: Array, limits: Array, items: int) -> Array:
    """The code of each thread, (tiles x THREADS,), uint32. row_ptr: (m + 1,), of the rows that have entries."""
    xp, tiles = array_module(row_ptr), len(limits) - 1
    ends = xp.zeros(tiles * THREADS * items, dtype=np.uint32)
    ends[row_ptr[1:] - 1] = 1
    flags = (
        (ends.reshape(-1, items) << xp.arange(items, dtype=np.uint32))
        .sum(axis=1, dtype=np.int64)
        .reshape(tiles, THREADS)
    )
    thread = xp.arange(THREADS)
    latest = xp.maximum.accumulate(xp.where(flags > 0, thread, 0), axis=1)
    first = xp.minimum(xp.arange(tiles * THREADS, dtype=np.int64) * items, int(row_ptr[-1]))
    row = owners(row_ptr, first).reshape(tiles, THREADS) - (limits[:-1, None] & np.uint32(SPLIT - 1)).astype(np.int64)
    words: Array = flags | (thread - latest) << 13 | row << 20
    return words.astype(np.uint32).reshape(-1)


def codes_by_kernel(row_ptr: Array, limits: Array, items: int, run: Run) -> Array:
    """What `codes_by_arrays` gives, by a kernel. run: runs a launch on these arrays."""
    tiles = len(limits) - 1
    codes = array_module(row_ptr).empty(tiles * THREADS, dtype=np.uint32)
    args = (np.int32(len(row_ptr) - 1), row_ptr.dtype.type(int(row_ptr[-1])), row_ptr, limits, codes)
    kernel = f"mgpu_codes<{ctype(row_ptr)}, {THREADS}, {items}>"
    run(Launch("load_balanced/balanced_convert.cu", kernel, tiles, THREADS, args))
    return codes


@register
class MgpuCsrPlus(Format):
    """CSR of the nonempty rows, with a 32-bit code per thread that marks the row ends among its entries.

    Tiles of 128 threads with a few neighbouring entries each: the code has a bit per entry, the distance to the thread
    with the row end before, and the row of its first entry in the tile. Sums are written directly to y; the original
    distributes them in a separate pass. A second kernel adds open sums of tiles, as the original's "spine" does. Sums
    of rows over more than 32 tiles are not reproducible.
    """

    key = "mgpu-csr-plus"
    vectors_together = 4
    family = "CSR"
    survey_name = "MGPU CSR+"
    reference = "Baxter, ModernGPU, 2013"

    items = Parameter(7, "entries per thread; odd numbers avoid bank conflicts", choices=(3, 5, 7, 9, 11, 13))

    row_ptr: Array  # (m + 1,), int32, or int64 where nnz needs it: of the m rows that have entries
    row_id: Array  # (m,), int32: their numbers; (0,) where all rows have entries
    limits: Array  # (tiles + 1,), uint32: of the m rows, that of a tile's first entry; the highest bit: it began before
    codes: Array  # (tiles x 128,), uint32
    col_idx: Array  # (nnz,), int32
    values: Array  # (nnz,)

    @classmethod
    def estimate(cls, a: Csr, *, items: int) -> int:
        kept = int((a.row_lengths > 0).sum())
        tiles = cdiv(a.nnz, THREADS * items)
        named = 4 * kept if kept < a.rows else 0
        index = a.row_ptr.dtype.itemsize
        return (kept + 1) * index + named + 4 * (tiles + 1 + tiles * THREADS) + a.nnz * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, items: int) -> dict[str, Any]:
        xp, run = a.xp, runner(a)
        kept = xp.flatnonzero(a.row_lengths).astype(np.int32)
        row_ptr = xp.append(a.row_ptr[kept], a.row_ptr[-1:])
        first = equal_cuts(a.nnz, THREADS * items, xp)
        row = owners(row_ptr, first)
        limits = (row | (row_ptr[row] != first) * np.int64(SPLIT)).astype(np.uint32)
        codes = codes_by_kernel(row_ptr, limits, items, run) if run else codes_by_arrays(row_ptr, limits, items)
        return {
            "row_ptr": row_ptr,
            "row_id": kept if len(kept) < a.rows else kept[:0],
            "limits": limits,
            "codes": codes,
            "col_idx": aligned(a.col_idx),
            "values": aligned(a.values),
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        row = expand(self.row_ptr, len(self.values))
        return self.row_id[row] if len(self.row_id) else row, self.col_idx, self.values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        tiles, rows, value = len(self.limits) - 1, np.int32(self.shape[0]), ctype(self.values)
        carry_row = self.xp.empty(tiles, dtype=np.int32)
        carry_sum = self.xp.empty(tiles, dtype=y.dtype)
        tables = (self.limits, self.codes, self.row_id)
        matrix = (rows, np.int64(len(self.values)), *tables, self.col_idx, self.values, x, y, carry_row, carry_sum)
        named = len(self.row_ptr) - 1 < self.shape[0]
        kernel = f"mgpu<{value}, {THREADS}, {self.items}, {cbool(named)}>"
        carries = (np.int32(tiles), rows, carry_row, carry_sum, y)
        return [
            *([zero_fill(y)] if named else []),
            Launch(SOURCE, kernel, tiles, THREADS, matrix),
            Launch(SOURCE, f"carry_add<{value}>", *per_thread(tiles), carries),
        ]
