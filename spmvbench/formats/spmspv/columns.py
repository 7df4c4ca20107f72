"""CSC for a sparse x: the columns of its entries are read and no others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, offsets
from spmvbench.formats.base import Launch, ctype, in_part, per_thread, register, zero_fill
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csc.csc import CscArrays, lanes_by_mean
from spmvbench.formats.vectors import SparseVector

BLOCK = 256
WIDE_EACH = 4  # 16 bytes of y that a thread of `cut` sets to zero
LONG_TIMES = 16  # entries a lane of the longest column that is not cut
PIECE = 512  # entries of a piece
HOT_TIMES = 32  # a hot row has so many times the mean row's entries
PUSH = "spmspv/push.cu"


class Pieces(NamedTuple):
    """The columns of x's entries, cut into pieces; kernels/spmspv/pieces.cu. Made anew in every run.

    counters: (2,), int32, the pieces and what `leave_counters` needs. begin, entries, x: of each piece its first entry,
    its entries and the factor; as much room as any x of that many entries can need.
    """

    counters: Array
    begin: Array
    entries: Array
    x: Array


def cut_runs(lengths: Array, most: int) -> tuple[Array, Array]:
    """Runs, (n,) lengths, cut into pieces of at most so many: of each its run, int32, and its place in it, int64."""
    ptr = offsets(-(-lengths // most))
    run = expand(ptr, int(ptr[-1]))
    return run, (array_module(ptr).arange(len(run), dtype=np.int64) - ptr[run]) * most


class SparseColumns(CscArrays):
    """CSC that a sparse x is pushed through."""

    family = "SpMSpV"
    op = "spmspv"

    multiprocessors: int  # of the device that it was converted for

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return super().convert(a, **params) | {"multiprocessors": device_limits(a).multiprocessors}

    def grid(self, threads: int, block: int = BLOCK) -> int:
        """Blocks for so many threads, but no more than the device runs at once."""
        return min(cdiv(threads, block), max(self.multiprocessors, 1) * (2048 // block))

    def cut(
        self, x: SparseVector, y: Array, piece: int, *, zero: bool = True, clear: Array | None = None
    ) -> tuple[Launch, Pieces]:
        """The launch that cuts the columns of x's entries into pieces of so many entries, and the pieces.

        zero: it sets y to zero as well. clear: int32, set to zero too.
        """
        xp, rows = self.xp, self.shape[0] if zero else 0
        most = len(x) + len(self.values) // piece
        pieces = Pieces(
            xp.zeros(2, dtype=np.int32),
            xp.empty(most, dtype=self.col_ptr.dtype),
            xp.empty(most, dtype=np.int32),
            xp.empty(most, dtype=self.values.dtype),
        )
        grid = max(cdiv(len(x), BLOCK), self.grid(cdiv(rows * self.values.itemsize, 16 * WIDE_EACH)))
        kernel = f"cut_columns<{ctype(self.values)}, {ctype(self.col_ptr)}, {piece}, {BLOCK}>"
        clear = pieces.counters[:0] if clear is None else clear
        args = (np.int32(len(x)), np.int32(rows), x.index, x.value, self.col_ptr, *pieces, clear, np.int32(len(clear)))
        return Launch("spmspv/pieces.cu", kernel, grid, BLOCK, (*args, y)), pieces

    def pieces_expected(self, k: int, piece: int) -> int:
        """About as many pieces as an x of k entries has: where there are more, groups take several."""
        return k + cdiv(len(self.values) * k, max(self.shape[1], 1) * piece)


@register
class SpmspvCscAtomic(SparseColumns):
    """Columns of x's entries scaled and added to y by atomics: the plain push, column-wise SpMSpV in parallel.

    y is set to zero first. Lanes a column: the largest power of two up to the mean column length, so a long column
    keeps its lanes busy long after the others. Not the same bits every time.
    """

    key = "spmspv-csc-atomic"
    reference = "column-wise SpMSpV (Ji et al., TileSpMSpV, ICPP 2022, Algorithm 2)"
    sources = ("spmspv/push.cu", "csc/csc_convert.cu", "vector.cu")

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        lanes = lanes_by_mean(len(self.values), self.shape[1])
        kernel = f"push_columns<{ctype(self.values)}, {ctype(self.col_ptr)}, {lanes}>"
        args = (np.int32(len(x)), x.index, x.value, self.col_ptr, self.row_idx, self.values, y)
        push = Launch("spmspv/push.cu", kernel, *per_thread(len(x) * lanes), args)
        return [*in_part("zero y", [zero_fill(y)]), *in_part("push", [push])]


@register
class SpmspvHubs(SparseColumns):
    """Columns of x's entries added to y by atomics; long columns are cut, long rows summed in shared memory first.

    The push of spmspv-csc-atomic, for matrices with columns or rows of far more entries than the others. Long columns
    are known beforehand, in pieces: the launch that sets y to zero looks them up in x, in the next one a warp takes
    each piece of those that are met. Where there are many products, those of the longest rows, which atomics would
    bring to the same few places, are summed in every block's shared memory first. For a few products one launch does
    it all: a block owns some rows, and takes what falls into them. Not the same bits every time.
    """

    key = "spmspv-hubs"
    reference = "this project"
    sources = ("spmspv/push.cu", "csc/csc_convert.cu")
    own = True

    hub_col: Array  # (hubs,), int32: columns of more than 16 entries a lane
    piece_hub: Array  # (pieces,), int32: which of these a piece is of
    piece_begin: Array  # (pieces,), of col_ptr's type: its first entry
    piece_end: Array  # (pieces,), of col_ptr's type
    hot_row: Array  # (hot,), int32: rows of far more entries than the mean; row_idx has -1 - number for them
    shared_bytes: int  # that a block of the device can have

    HOT_ROWS = 2048
    few, summed_each, zero_each, lanes_least, sum_block = 2048, 1024, 4, 1, 512

    @classmethod
    def hubs(cls, a: Csr) -> tuple[Array, Array, Array, Array]:
        """Long columns, of each piece its column among them and its first entry in it, and hot rows."""
        xp = a.xp
        hub_col = xp.flatnonzero(a.col_lengths > cls.longest(a.nnz, a.cols)).astype(np.int32)
        piece_hub, first = cut_runs(a.col_lengths[hub_col], PIECE)
        most = max(HOT_TIMES * a.row_len_mean, float(a.row_len_max) / 64)
        hot = xp.flatnonzero(a.row_lengths > most)
        if len(hot) > cls.HOT_ROWS:
            least = xp.sort(a.row_lengths[hot])[-cls.HOT_ROWS - 1]
            hot = hot[a.row_lengths[hot] > least]
        return hub_col, piece_hub, first, hot.astype(np.int32)

    @staticmethod
    def longest(nnz: int, cols: int) -> int:
        """Entries of the longest column that is no hub."""
        return LONG_TIMES * lanes_by_mean(nnz, cols)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        hub_col, piece_hub, _, hot = cls.hubs(a)
        each = 4 + 2 * a.row_ptr.dtype.itemsize
        return super().estimate(a, **params) + 4 * (len(hub_col) + len(hot)) + each * len(piece_hub)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, found = a.xp, super().convert(a, **params)
        hub_col, piece_hub, first, hot_row = cls.hubs(a)
        begin, end = (found["col_ptr"][hub_col + step] for step in (0, 1))
        piece_begin = begin[piece_hub] + first.astype(begin.dtype)
        number = xp.arange(a.rows, dtype=np.int32)
        number[hot_row] = -1 - xp.arange(len(hot_row), dtype=np.int32)
        return found | {
            "row_idx": number[found["row_idx"]],
            "hub_col": hub_col,
            "piece_hub": piece_hub,
            "piece_begin": piece_begin,
            "piece_end": xp.minimum(piece_begin + begin.dtype.type(PIECE), end[piece_hub]),
            "hot_row": hot_row,
            "shared_bytes": device_limits(a).shared_bytes,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        row, col, value = super().to_coo()
        if len(self.hot_row):
            row = self.xp.where(row < 0, self.hot_row[self.xp.maximum(-1 - row, 0)], row)
        return row, col, value

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        xp, (rows, cols), k = self.xp, self.shape, len(x)
        value, hubs, pieces, hot = self.values.dtype, len(self.hub_col), len(self.piece_hub), len(self.hot_row)
        lanes = max(lanes_by_mean(len(self.values), cols), self.lanes_least)
        products = len(self.values) * k // max(cols, 1)
        height = cdiv(rows, self.multiprocessors)
        csc = self.col_ptr, self.row_idx, self.values
        types = f"{ctype(value)}, {ctype(self.col_ptr)}, {lanes}"
        if products <= self.few and not hubs and not hot and height * value.itemsize <= self.shared_bytes:
            args = (np.int32(k), np.int32(rows), np.int32(height), x.index, x.value, *csc, y)
            shared = height * value.itemsize
            return [Launch(PUSH, f"push_strips<{types}>", cdiv(rows, max(height, 1)), 1024, args, shared)]

        met = xp.empty(hubs, dtype=bool), xp.empty(hubs, dtype=value)
        zeroing = cdiv(rows * value.itemsize, 16 * self.zero_each * BLOCK)
        args = (np.int32(k), np.int32(rows), np.int32(hubs), x.index, x.value, self.hub_col, *met, y)
        find = Launch(PUSH, f"find_hubs<{ctype(value)}>", max(zeroing, cdiv(hubs * 32, BLOCK)), BLOCK, args)

        block, piece_blocks, shared = BLOCK, cdiv(pieces * 32, BLOCK), 0
        grid = piece_blocks + cdiv(k * lanes, BLOCK)
        mode = "NAMED" if hot else "PLAIN"
        if hot and products >= self.summed_each * 2 * self.multiprocessors:
            mode, block, piece_blocks, shared = "SUMMED", self.sum_block, 0, hot * value.itemsize
            grid = self.multiprocessors * (2048 // block)
        sizes = map(np.int32, (k, self.longest(len(self.values), cols), piece_blocks, pieces, hot))
        of_pieces = self.piece_hub, self.piece_begin, self.piece_end
        args = (*sizes, x.index, x.value, *csc, self.hot_row, *of_pieces, *met, y)
        push = Launch(PUSH, f"push_hubs<{types}, {mode}>", grid, block, args, shared)
        return [*in_part("zero y, find hubs", [find]), *in_part("push", [push])]
