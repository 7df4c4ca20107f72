"""CSC for a sparse x: only the columns of its entries are read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csc.csc import CscArrays
from spmvbench.formats.launches import ZEROS_EACH, Launch, ctype, in_part, per_thread, zero_fill
from spmvbench.formats.registry import register
from spmvbench.formats.transposed import lanes_by_mean
from spmvbench.formats.vectors import SparseVector

BLOCK = 256
FEW = 2048  # entries of x for which a device has a warp each


class Pieces(NamedTuple):
    """The columns of x's entries, cut into pieces; kernels/spmspv/pieces.cu. Made again in every run.

    counters: (2,), int32, the pieces and what `leave` needs. begin, entries, x: of each piece its first entry,
    its entries and the factor; as much room as any x of that many entries can need.
    """

    counters: Array
    begin: Array
    entries: Array
    x: Array


def push_lanes(col_lengths: Array) -> int:
    """Threads that share a column: 1 to 32, a power of two up to the length of an entry's column on average."""
    entries = int(col_lengths.sum())
    return lanes_by_mean(int((col_lengths.astype(np.int64) ** 2).sum()), entries)


class SparseColumns(CscArrays):
    """CSC for products with a sparse x."""

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
        grid = max(cdiv(len(x), BLOCK), cdiv(rows, ZEROS_EACH * BLOCK), 1)
        kernel = f"cut_columns<{ctype(self.values)}, {ctype(self.col_ptr)}, {piece}, {BLOCK}>"
        clear = pieces.counters[:0] if clear is None else clear
        args = (np.int32(len(x)), np.int32(rows), x.index, x.value, self.col_ptr, *pieces, clear, np.int32(len(clear)))
        return Launch("spmspv/pieces.cu", kernel, grid, BLOCK, (*args, y)), pieces

    def pieces_expected(self, k: int, piece: int) -> int:
        """About as many pieces as an x of k entries has: where there are more, groups take several."""
        return k + cdiv(len(self.values) * k, max(self.shape[1], 1) * piece)


@register
class SpmspvCscAtomic(SparseColumns):
    """Columns of x's entries are scaled and added to y by atomics: plain column-wise SpMSpV.

    y is set to zero first. Threads per column: the largest power of two up to the mean column length, so a long column
    keeps its threads busy long after the others. Sums are not reproducible.
    """

    key = "spmspv-csc-atomic"
    reference = "column-wise SpMSpV (Ji et al., TileSpMSpV, ICPP 2022, Algorithm 2)"

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        lanes = lanes_by_mean(len(self.values), self.shape[1])
        kernel = f"push_columns<{ctype(self.values)}, {ctype(self.col_ptr)}, {lanes}>"
        args = (np.int32(len(x)), x.index, x.value, self.col_ptr, self.row_idx, self.values, y)
        push = Launch("spmspv/push.cu", kernel, *per_thread(len(x) * lanes), args)
        return [*in_part("zero y", [zero_fill(y)]), *in_part("push", [push])]


@register
class SpmspvCscBlock(SparseColumns):
    """Columns of x's entries are scaled and added to y by atomics; a long column is shared by a whole block.

    The push of spmspv-csc-atomic with several entries of a thread in flight. Columns of more than 16 entries per
    thread are left to all threads of their block. Threads per column: the largest power of two up to the length of the
    column in which an entry is on average, and 32 for an x of few entries. Sums are not reproducible.
    """

    key = "spmspv-csc-block"
    reference = "this project"
    project_kernel = True

    lanes: int  # of a column

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return super().convert(a, **params) | {"lanes": push_lanes(a.col_lengths)}

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        lanes = 32 if len(x) <= FEW else self.lanes
        kernel = f"push_shared<{ctype(self.values)}, {ctype(self.col_ptr)}, {lanes}, {BLOCK}>"
        args = (np.int32(len(x)), x.index, x.value, self.col_ptr, self.row_idx, self.values, y)
        push = Launch("spmspv/push.cu", kernel, *per_thread(len(x) * lanes, BLOCK), args)
        return [*in_part("zero y", [zero_fill(y)]), *in_part("push", [push])]
