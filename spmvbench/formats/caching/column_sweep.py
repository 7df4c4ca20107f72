"""Rows in blocks whose part of y lies in shared memory, the entries of a block in the order of their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, offsets, on_host, stable_order
from spmvbench.formats.base import Format, Launch, Parameter, cbool, ctype, per_thread, register, zero_fill
from spmvbench.formats.conversion import Run, device_limits, runner

CHUNK = 32  # entries that a warp takes in one step
THREADS = 1024  # of a block
PANEL = 2**16  # columns that a chunk may reach over: a place has 16 bits for them
PADDING = 2**16 - 1  # as the row of a place
CONTINUED = np.uint32(2**31)
SPARE = 1.25  # of the rows that blocks must hold: room to give blocks with long rows fewer of them
DIGIT_BITS = 8  # of a column that a pass of the sort looks at, at most
SMALLEST = 4096  # entries of a block, one round of its threads: smaller ones would leave threads idle


class Cut(NamedTuple):
    """Row blocks: equal shares of a matrix's entries, in each at most so many rows as fit shared memory."""

    row: Array  # (blocks + 1,), int64: row in which each begins, then the rows
    entry: Array  # (blocks + 1,), int64: its first entry, then nnz; within the row where blocks share it

    @classmethod
    def of(cls, a: Csr, blocks: int, most_rows: int) -> Cut:
        """A row weighs as much as makes `most_rows` of them a share: blocks of many short rows get fewer entries."""
        xp = a.xp
        free = blocks * (most_rows - 2) - a.rows  # a cut row counts in both blocks
        weight = max(cdiv(a.nnz, free), 1)
        ends = a.row_ptr.astype(np.int64) + weight * xp.arange(a.rows + 1, dtype=np.int64)
        total = a.nnz + weight * a.rows
        share = xp.asarray(np.arange(blocks + 1, dtype=np.int64) * total // blocks)
        row = xp.searchsorted(ends, share, side="right") - 1
        inside = xp.minimum(row, max(a.rows - 1, 0))
        length = (a.row_ptr[inside + 1] - a.row_ptr[inside]) if a.rows else xp.zeros(len(row), dtype=np.int64)
        taken = share - ends[row]
        whole = (taken >= length) & (row < a.rows) & (taken > 0)  # all its entries lie before the cut
        row = row + whole
        entry = a.row_ptr[row].astype(np.int64) + xp.where(whole | (row >= a.rows), 0, taken)
        return cls(row, entry)


class Stretches(NamedTuple):
    """What a block has of a panel of 65,536 columns, block by block: it fills whole chunks."""

    begin: Array  # (blocks * panels,), int64: first entry of each in the order by block and column
    chunk_begin: Array  # (blocks * panels + 1,), int32
    panels: int

    @classmethod
    def of(cls, begin: Array, nnz: int, panels: int) -> Stretches:
        """By where each begins."""
        counts = array_module(begin).diff(begin, append=begin.dtype.type(nnz))
        return cls(begin, offsets(cdiv(counts, CHUNK)).astype(np.int32, copy=False), panels)

    @property
    def chunks(self) -> int:
        """Chunks of all stretches."""
        return int(self.chunk_begin[-1])

    def arrays(self) -> dict[str, Array]:
        """The format's fields `chunk_start` and `panel`."""
        xp = array_module(self.begin)
        stretch = expand(self.chunk_begin, self.chunks)
        return {
            "chunk_start": self.chunk_begin[:: self.panels].copy(),
            "panel": (stretch % np.int32(self.panels)).astype(np.uint16),
            "places": xp.full(CHUNK * self.chunks, PADDING << 16, dtype=np.uint32),
        }


def sorted_entries(a: Csr, cut: Cut) -> dict[str, Array]:
    """The format's arrays of entries and chunks, by array operations."""
    xp, blocks, cols = a.xp, len(cut.row) - 1, max(a.cols, 1)
    block = expand(cut.entry, a.nnz)
    keys = block.astype(np.int64) * cols + a.col_idx
    order = stable_order(keys, blocks * cols)
    panels = cdiv(cols, PANEL)
    first = xp.arange(blocks, dtype=np.int64)[:, None] * cols + PANEL * xp.arange(panels, dtype=np.int64)
    stretches = Stretches.of(xp.searchsorted(keys[order], first.reshape(-1)), a.nnz, panels)
    found = stretches.arrays()
    block, column = block[order], a.col_idx[order]
    stretch = block.astype(np.int64) * stretches.panels + (column >> 16)
    slot = CHUNK * stretches.chunk_begin[stretch].astype(np.int64) + xp.arange(a.nnz) - stretches.begin[stretch]
    row = (a.row_idx[order] - cut.row[block]).astype(np.uint32)
    found["places"][slot] = row << np.uint32(16) | (column & 0xFFFF).astype(np.uint32)
    found["values"] = xp.zeros(len(found["places"]), dtype=a.dtype)
    found["values"][slot] = a.values[order]
    return found


def by_kernels(a: Csr, cut: Cut, run: Run) -> dict[str, Array]:
    """`sorted_entries` by two kernels: a block's entries are neighbours already, so that only columns are sorted.

    run: runs a launch on the arrays of `a`.
    """
    xp, blocks, panels = a.xp, len(cut.row) - 1, cdiv(max(a.cols, 1), PANEL)
    bits = max(a.cols - 1, 1).bit_length()
    passes = cdiv(bits, DIGIT_BITS)
    keys = [xp.empty(a.nnz, dtype=np.uint64) for _ in range(2)]
    begin = xp.empty(blocks * panels, dtype=np.int64)
    sort = (np.int32(bits), np.int32(passes), np.int32(panels), cut.entry, a.col_idx, *keys, begin)
    run(Launch("caching/sweep_convert.cu", "sweep_sort", blocks, THREADS, sort))
    stretches = Stretches.of(begin, a.nnz, panels)
    found = stretches.arrays()
    found["values"] = xp.zeros(len(found["places"]), dtype=a.dtype)
    size = np.int64(a.nnz), np.int32(blocks), np.int32(panels)
    matrix = cut.row, a.row_ptr, np.int32(a.rows), a.values
    args = (*size, cut.entry, keys[passes % 2], begin, stretches.chunk_begin, *matrix)
    kernel = f"sweep_places<{ctype(a.values)}, {ctype(a.row_ptr)}>"
    run(Launch("caching/sweep_convert.cu", kernel, *per_thread(a.nnz), (*args, found["places"], found["values"])))
    return found


def chunks_of(a: Csr, blocks: int, most_rows: int) -> int:
    """How many chunks `Layout` has, without sorting: entries of each block and panel, in whole chunks."""
    panels = cdiv(max(a.cols, 1), PANEL)
    key = expand(Cut.of(a, blocks, most_rows).entry, a.nnz).astype(np.int64) * panels + (a.col_idx >> 16)
    return int(cdiv(a.xp.bincount(key, minlength=1), CHUNK).sum())


@register
class ColumnSweep(Format):
    """Rows in blocks whose part of y lies in shared memory; a block goes through its entries column by column.

    Where x is read at random, the 32 bytes of a sector are fetched for every 8 that are used, and no kernel in the
    order of rows passes that rate. Here the lanes of a warp read neighbouring columns, several of which share a sector,
    and all blocks are in the same region of x at the same time. What it costs are additions to y by atomics in shared
    memory, in any order. An entry takes a place of 32 bits (its row in the block, the low half of its column) and its
    value, as in CSR; a chunk of 32 entries has the high half of the columns.

    For rows of moderate length: where some rows hold much of the matrix, their additions collide. Sums have not the
    same bits every time. Blocks are equal shares of the entries, one a multiprocessor or several; a row may lie in two.
    """

    key = "column-sweep"
    family = "CSR"
    reference = "this project"
    own = True
    sources = ("caching/column_sweep.cu", "caching/sweep_convert.cu", "vector.cu")

    sms = Parameter(
        0, "multiprocessors, of which thread blocks are a multiple; 0: of the device at hand", low=0, high=2**16
    )
    shared_bytes = Parameter(0, "shared memory of a block, from 1024 bytes; 0: as much as the device has", low=0)
    parts = Parameter(1, "thread blocks that share a row block, each a stretch of its columns", low=1, high=64)
    chunks = Parameter(
        0, "chunks of a warp under way; 0: 2 in f64, 4 in f32, the fastest on an H200", choices=(0, 1, 2, 4, 8)
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
        most_rows = min(shared_bytes // a.dtype.itemsize, PADDING - 1)
        needed = cdiv(int(SPARE * a.rows) + 1, most_rows - 2)
        wanted = min(max(cdiv(a.nnz, SMALLEST), 1), max(sms // parts, 1))
        return (wanted if needed <= wanted else cdiv(needed * parts, sms) * sms // parts), most_rows

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        blocks, most_rows = cls._blocks(a, **params)
        return 8 * (blocks + 1) + chunks_of(a, blocks, most_rows) * (2 + CHUNK * (4 + a.dtype.itemsize))

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp = a.xp
        blocks, most_rows = cls._blocks(a, **params)
        cut = Cut.of(a, blocks, most_rows)
        begins = xp.append(a.row_ptr, a.row_ptr[-1:])[cut.row]  # behind the last row there is none to continue
        row_start = cut.row.astype(np.uint32) | xp.where(cut.entry > begins, CONTINUED, np.uint32(0))
        run = runner(a)
        found = sorted_entries(a, cut) if run is None else by_kernels(a, cut, run)
        ends = on_host(row_start)
        first, last = ends[:-1] & ~CONTINUED, (ends[1:] & ~CONTINUED) + (ends[1:] >= CONTINUED)
        most_rows = int((last.astype(np.int64) - first).max())
        return found | {"row_start": row_start, "most_rows": most_rows}

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
            "caching/column_sweep.cu",
            f"zero_continued<{value}>",
            *per_thread(blocks),
            (np.int32(blocks), self.row_start, y),
        )
        matrix = (self.row_start, self.chunk_start, self.panel, self.places, self.values)
        chunks = self.chunks or 16 // self.values.dtype.itemsize
        kernel = f"column_sweep<{value}, {chunks}, {cbool(add)}>"
        window = self.most_rows * self.values.dtype.itemsize
        args = (np.int32(self.parts), *matrix, x, y)
        sweep = Launch("caching/column_sweep.cu", kernel, blocks * self.parts, THREADS, args, window)
        return [zero_fill(y) if add else zero, sweep]

    @property
    def detail(self) -> dict[str, Any]:
        return {"blocks": len(self.row_start) - 1, "rows_of_largest": self.most_rows}
