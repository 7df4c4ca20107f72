"""Rows in blocks whose part of y lies in shared memory, the entries of a block in the order of their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, offsets, on_host, run_starts, stable_order
from spmvbench.formats.base import Format, Launch, Parameter, cbool, ctype, per_thread, register, zero_fill
from spmvbench.formats.conversion import device_limits

CHUNK = 32  # entries that a warp takes in one step
THREADS = 1024  # of a block
PANEL = 2**16  # columns that a chunk may reach over: a place has 16 bits for them
PADDING = 2**16 - 1  # as the row of a place
CONTINUED = np.uint32(2**31)
SPARE = 1.25  # of the rows that blocks must hold: room to give blocks with long rows fewer of them
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


class Layout(NamedTuple):
    """Where entries go: chunks of 32 places, each within a block and a panel of 65,536 columns."""

    cut: Cut
    order: Array  # (nnz,): the entries by block and column
    slot: Array  # (nnz,), int64: place of each entry in that order
    block: Array  # (nnz,), int32: in that order
    chunk_start: Array  # (blocks + 1,), int32
    panel: Array  # (chunks,), uint16

    @classmethod
    def of(cls, a: Csr, blocks: int, most_rows: int) -> Layout:
        xp, cut = a.xp, Cut.of(a, blocks, most_rows)
        block = expand(cut.entry, a.nnz)
        order = stable_order(block.astype(np.int64) * a.cols + a.col_idx, blocks * max(a.cols, 1))
        block = block[order]
        panels = cdiv(max(a.cols, 1), PANEL)
        key = block.astype(np.int64) * panels + (a.col_idx[order] >> 16)
        begin = run_starts(key)
        run_ptr = xp.append(begin, xp.full(1, a.nnz, dtype=begin.dtype))
        chunk_ptr = offsets(cdiv(xp.diff(run_ptr), CHUNK))
        run = expand(run_ptr, a.nnz)
        slot = CHUNK * chunk_ptr[run].astype(np.int64) + xp.arange(a.nnz) - begin[run]
        run_block, run_panel = xp.divmod(key[begin], panels)
        chunk_start = chunk_ptr[xp.searchsorted(run_block, xp.arange(blocks + 1))].astype(np.int32)
        panel = run_panel[expand(chunk_ptr, int(chunk_ptr[-1]))].astype(np.uint16)
        return cls(cut, order, slot, block, chunk_start, panel)


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
    sources = ("caching/column_sweep.cu", "vector.cu")

    sms = Parameter(
        0, "multiprocessors, of which thread blocks are a multiple; 0: of the device at hand", low=0, high=2**16
    )
    shared_bytes = Parameter(0, "shared memory of a block, from 1024 bytes; 0: as much as the device has", low=0)
    parts = Parameter(1, "thread blocks that share a row block, each a stretch of its columns", low=1, high=64)
    chunks = Parameter(4, "chunks that a warp has under way", choices=(1, 2, 4, 8))

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
        found = Layout.of(a, blocks, most_rows)
        row, entry = found.cut
        begins = xp.append(a.row_ptr, a.row_ptr[-1:])[row]  # behind the last row there is none to continue
        row_start = row.astype(np.uint32) | xp.where(entry > begins, CONTINUED, np.uint32(0))
        slots = CHUNK * len(found.panel)
        places = xp.full(slots, PADDING << 16, dtype=np.uint32)
        local = (a.row_idx[found.order] - row[found.block]).astype(np.uint32)
        places[found.slot] = local << np.uint32(16) | (a.col_idx[found.order] & 0xFFFF).astype(np.uint32)
        values = xp.zeros(slots, dtype=a.dtype)
        values[found.slot] = a.values[found.order]
        cut = on_host(row_start)
        first, last = cut[:-1] & ~CONTINUED, (cut[1:] & ~CONTINUED) + (cut[1:] >= CONTINUED)
        return {
            "row_start": row_start,
            "chunk_start": found.chunk_start,
            "panel": found.panel,
            "places": places,
            "values": values,
            "most_rows": int((last.astype(np.int64) - first).max()),
        }

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
        kernel = f"column_sweep<{value}, {self.chunks}, {cbool(add)}>"
        window = self.most_rows * self.values.dtype.itemsize
        args = (np.int32(self.parts), *matrix, x, y)
        sweep = Launch("caching/column_sweep.cu", kernel, blocks * self.parts, THREADS, args, window)
        return [zero_fill(y) if add else zero, sweep]

    @property
    def detail(self) -> dict[str, Any]:
        return {"blocks": len(self.row_start) - 1, "rows_of_largest": self.most_rows}
