"""Rows in blocks whose part of y is in shared memory, the entries of a block in the order of their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, offsets, stable_order
from spmvbench.formats.conversion import Run, device_limits, noted, notes, runner, scratch
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

CONVERT = "cache_blocking/sweep_convert.cu"
CHUNK = 32  # entries that a warp takes in one step
THREADS = constant("include/column_sweep.cuh", "THREADS")  # of a block
PANEL = 2**16  # columns that a chunk may reach over: a place has 16 bits for them
PADDING = constant("include/column_sweep.cuh", "PADDING")  # as the row of a place
CONTINUED = np.uint32(constant("include/column_sweep.cuh", "CONTINUED"))
SPARE = 1.25  # of the rows that blocks must hold: room to give blocks with long rows fewer of them
TILE, MOST_KEYS = (constant(CONVERT, f"{of}_BLOCK") * constant(CONVERT, f"{of}_EACH") for of in ("SPLIT", "SORT"))
SPLIT_BLOCK, SORT_BLOCK, OF_BIN = (constant(CONVERT, name) for name in ("SPLIT_BLOCK", "SORT_BLOCK", "OF_BIN"))
MOST_BUCKETS = 4096  # of columns of a row block, if these are not in more panels
SMALLEST = 4096  # entries of a block, one round of its threads: smaller ones would leave threads idle


class Cut(NamedTuple):
    """Row blocks: equal shares of a matrix's entries, in each at most so many rows as fit shared memory."""

    row: Array  # (blocks + 1,), int64: row in which each begins, then the rows
    entry: Array  # (blocks + 1,), int64: its first entry, then nnz; within the row where blocks share it
    start: Array  # (blocks + 1,), uint32: the row, with bit 31 where it has entries in the block before
    most: int  # entries that no block exceeds

    @classmethod
    def of(cls, a: Csr, blocks: int, most_rows: int) -> Cut:
        """A row weighs as much as makes `most_rows` of them a share: blocks of many short rows get fewer entries."""
        free = blocks * (most_rows - 2) - a.rows  # a cut row counts in both blocks
        weight, run = max(cdiv(a.nnz, free), 1), runner(a)
        return cls.by_arrays(a, blocks, weight) if run is None else cls.by_kernel(a, blocks, weight, run)

    @classmethod
    def by_arrays(cls, a: Csr, blocks: int, weight: int) -> Cut:
        """weight: entries that a row counts as, in addition to its own."""
        ends = a.row_ptr.astype(np.int64) + weight * np.arange(a.rows + 1, dtype=np.int64)
        share = np.arange(blocks + 1, dtype=np.int64) * (a.nnz + weight * a.rows) // blocks
        row = np.searchsorted(ends, share, side="right") - 1
        inside = np.minimum(row, max(a.rows - 1, 0))
        length = (a.row_ptr[inside + 1] - a.row_ptr[inside]) if a.rows else np.zeros(len(row), dtype=np.int64)
        taken = share - ends[row]
        whole = (taken >= length) & (row < a.rows) & (taken > 0)  # all its entries are before the cut
        row = row + whole
        entry = a.row_ptr[row].astype(np.int64) + np.where(whole | (row >= a.rows), 0, taken)
        start = row.astype(np.uint32) | np.where(entry > a.row_ptr[row], CONTINUED, np.uint32(0))
        return cls(row, entry, start, cdiv(a.nnz + weight * a.rows, blocks))

    @classmethod
    def by_kernel(cls, a: Csr, blocks: int, weight: int, run: Run) -> Cut:
        """As `by_arrays`. run: runs a launch on the arrays of `a`."""
        row, entry, start = (a.xp.empty(blocks + 1, dtype=dtype) for dtype in (np.int64, np.int64, np.uint32))
        args = np.int32(blocks), np.int32(a.rows), np.int64(a.nnz), np.int64(weight), a.row_ptr, row, entry, start
        run(Launch(CONVERT, f"sweep_cut<{ctype(a.row_ptr)}>", *per_thread(CHUNK * (blocks + 1)), args))
        return cls(row, entry, start, cdiv(a.nnz + weight * a.rows, blocks))


def sorted_entries(a: Csr, cut: Cut) -> dict[str, Any]:
    """The format's arrays of entries and chunks, and `most_rows`, by array operations."""
    blocks, cols = len(cut.row) - 1, max(a.cols, 1)
    panels = cdiv(cols, PANEL)
    block = expand(cut.entry, a.nnz)
    order = stable_order(block.astype(np.int64) * cols + a.col_idx, blocks * cols)
    block, column = block[order], a.col_idx[order]
    # A stretch, what a block has of a panel, fills whole chunks.
    stretch = block.astype(np.int64) * panels + (column >> 16)
    counts = np.bincount(stretch, minlength=blocks * panels)
    chunk_begin = offsets(cdiv(counts, CHUNK)).astype(np.int32)
    chunks = int(chunk_begin[-1])
    slot = CHUNK * chunk_begin[stretch].astype(np.int64) + np.arange(a.nnz) - offsets(counts)[stretch]
    places, values = np.full(CHUNK * chunks, PADDING << 16, dtype=np.uint32), np.zeros(CHUNK * chunks, dtype=a.dtype)
    row = (a.row_idx[order] - cut.row[block]).astype(np.uint32)
    places[slot] = row << np.uint32(16) | (column & 0xFFFF).astype(np.uint32)
    values[slot] = a.values[order]
    first, last = cut.start[:-1] & ~CONTINUED, (cut.start[1:] & ~CONTINUED) + (cut.start[1:] >= CONTINUED)
    return {
        "most_rows": int((last.astype(np.int64) - first).max()),
        "chunk_start": chunk_begin[::panels].copy(),
        "panel": (expand(chunk_begin, chunks) % np.int32(panels)).astype(np.uint16),
        "places": places,
        "values": values,
    }


def by_kernels(a: Csr, cut: Cut, run: Run) -> dict[str, Any]:
    """`sorted_entries` by kernels, and `most_rows`: a block's entries are neighbours already, so columns are sorted.

    Entries go into bins of neighbouring columns, and each bin is sorted; in place, if all can be sorted at once. One
    wait. run: runs a launch on the arrays of `a`.
    """
    xp, blocks, panels, value = a.xp, len(cut.row) - 1, cdiv(max(a.cols, 1), PANEL), ctype(a.values)
    most = max(min(cdiv(a.nnz, 8 * blocks), MOST_BUCKETS), panels)
    tiles, bins = cdiv(cut.most, TILE), min(cut.most // OF_BIN + panels + 1, most)
    lengths = [(blocks * n, np.int32) for n in (4, 3 * (bins + 1), tiles)]
    buckets, held, tile_row, bin_of = scratch(xp, *lengths, (blocks * most, np.uint16))
    chunk_begin, state = xp.empty(blocks * panels + 1, dtype=np.int32), notes(xp, blocks, each=1, block=1)
    sizes = np.int32(a.rows), *map(np.int32, (most, bins, panels, tiles))
    types, source = ctype(a.row_ptr), Struct((cut.row, cut.entry, a.row_ptr, a.col_idx))
    args: tuple[Any, ...] = (*sizes, source, buckets, tile_row, bin_of, held, chunk_begin, state)
    run(Launch(CONVERT, f"sweep_count<{types}>", blocks, THREADS, args, 4 * (most + 1)))
    most_rows, largest, _, chunks = noted(state)
    panel, places = xp.empty(chunks, dtype=np.uint16), xp.empty(CHUNK * chunks, dtype=np.uint32)
    values = xp.empty(CHUNK * chunks, dtype=a.dtype)
    split = (places, values) if largest <= MOST_KEYS else (xp.empty_like(places), xp.empty_like(values))
    args = (*sizes, source, a.values, buckets, tile_row, bin_of, held, chunk_begin, *split)
    shared = 8 * TILE + 4 * (bins + 1)
    run(Launch(CONVERT, f"sweep_split<{value}, {types}>", blocks * tiles, SPLIT_BLOCK, args, shared))
    args = *sizes[2:4], cut.row, buckets, held, chunk_begin, *split, panel, places, values
    run(Launch(CONVERT, f"sweep_places<{value}>", blocks * bins, SORT_BLOCK, args))
    chunk_start = chunk_begin if panels == 1 else chunk_begin[::panels].copy()
    found = {"chunk_start": chunk_start, "panel": panel, "places": places, "values": values}
    return found | {"most_rows": most_rows}


@register
class ColumnSweep(Format):
    """Rows in blocks with their part of y in shared memory; a block reads its entries column by column.

    If x is read at random, a sector of 32 bytes is fetched for every 8 bytes that are used, and no kernel that works
    row by row exceeds that rate. Here the threads of a warp read neighbouring columns, several of which share a sector,
    and all blocks are in the same region of x at the same time. Its cost is additions to y by atomics in shared memory,
    in any order. An entry takes a place of 32 bits (its row in the block, the low half of its column) and its value, as
    in CSR; a chunk of 32 entries has the high half of the columns.

    It suits rows of moderate length. If few rows hold much of the matrix, their additions collide. Sums are not
    reproducible. Blocks are equal shares of the entries, one per multiprocessor or several; a row may be in two.
    """

    key = "column-sweep"
    vectors_together = 2
    family = "CSR"
    reference = "this project"
    project_kernel = True
    wide_offsets = True

    sms = Parameter(
        0, "the number of thread blocks is a multiple of this; 0: the device's multiprocessors", low=0, high=2**16
    )
    shared_bytes = Parameter(0, "shared memory of a block in bytes, at least 1024; 0: all that the device has", low=0)
    parts = Parameter(1, "thread blocks per row block, each for a range of its columns", low=1, high=64)
    chunks = Parameter(
        0, "chunks per warp in flight; 0: 2 in f64, 4 in f32, the fastest on an H200", choices=(0, 1, 2, 4, 8)
    )

    row_start: Array  # (blocks + 1,), uint32: row of each block's first entry; bit 31: it began in the block before
    chunk_start: Array  # (blocks + 1,), int32
    panel: Array  # (chunks,), uint16: high half of the columns
    places: Array  # (32 chunks,), uint32: row in the block << 16 | low half of the column; row 65535 is padding
    values: Array  # (32 chunks,)
    most_rows: int  # rows of the largest block

    @classmethod
    def _blocks(cls, a: Csr, *, sms: int, shared_bytes: int, parts: int, **params: Any) -> tuple[int, int]:
        """Row blocks, and the rows that one may have."""
        limits = device_limits(a)
        sms, shared_bytes = sms or limits.multiprocessors, max(shared_bytes or limits.shared_bytes, 1024)
        most_rows = min(shared_bytes // a.vector_dtype.itemsize, PADDING - 1)
        needed = cdiv(int(SPARE * a.rows) + 1, most_rows - 2)
        wanted = min(max(cdiv(a.nnz, SMALLEST), 1), max(sms // parts, 1))
        return (wanted if needed <= wanted else cdiv(needed * parts, sms) * sms // parts), most_rows

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        blocks, most_rows = cls._blocks(a, **params)
        block, panels = expand(Cut.of(a, blocks, most_rows).entry, a.nnz), cdiv(max(a.cols, 1), PANEL)
        counts = a.xp.bincount(block.astype(np.int64) * panels + (a.col_idx >> 16), minlength=1)
        return 8 * (blocks + 1) + int(cdiv(counts, CHUNK).sum()) * (2 + CHUNK * (4 + a.dtype.itemsize))

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        blocks, most_rows = cls._blocks(a, **params)
        cut = Cut.of(a, blocks, most_rows)
        run = runner(a)
        return {"row_start": cut.start} | (sorted_entries(a, cut) if run is None else by_kernels(a, cut, run))

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.places >> np.uint32(16) != PADDING)
        place, chunk = self.places[slot], slot // CHUNK
        block = expand(self.chunk_start, len(self.panel))[chunk]
        rows = (self.row_start[block] & ~CONTINUED) + (place >> np.uint32(16))
        cols = self.panel[chunk].astype(np.uint32) << np.uint32(16) | place & np.uint32(0xFFFF)
        return rows.astype(np.int32), cols.astype(np.int32), self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        blocks, value = len(self.row_start) - 1, ctype(self.values)
        add = self.parts > 1
        zero = Launch(
            "cache_blocking/column_sweep.cu",
            f"zero_continued<{value}>",
            *per_thread(blocks),
            (np.int32(blocks), self.row_start, y),
            zeroes="rows",
        )
        matrix = (self.row_start, self.chunk_start, self.panel, self.places, self.values)
        chunks = self.chunks or 16 // y.dtype.itemsize
        kernel = f"column_sweep<{value}, {chunks}, {cbool(add)}>"
        window = self.most_rows * y.dtype.itemsize
        args = (np.int32(self.parts), *matrix, x, y)
        sweep = Launch("cache_blocking/column_sweep.cu", kernel, blocks * self.parts, THREADS, args, window)
        return [zero_fill(y) if add else zero, sweep]

    @property
    def detail(self) -> dict[str, Any]:
        return {"blocks": len(self.row_start) - 1, "rows_of_largest": self.most_rows}
