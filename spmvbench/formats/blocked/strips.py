"""Small dense blocks that may begin in any column, in strips of rows; what is in no such block in ELLPACK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, index_dtype, run_starts
from spmvbench.formats.base import Format, Launch, Parameter, ctype, register, zero_fill
from spmvbench.formats.blocked.blocks import Shape
from spmvbench.formats.ellpack.ellpack import Ell
from spmvbench.formats.hybrid.split import Piece, Split

STRIP = 32  # rows; as in kernels/blocked/strips.cu
SHAPES = {"1x2": (1, 2), "2x1": (2, 1), "2x2": (2, 2), "2x4": (2, 4), "4x2": (4, 2), "4x4": (4, 4), "1x4": (1, 4)}


class Cover(NamedTuple):
    """The blocks that a sweep over each block row closes: from the first column that is not covered yet."""

    block: Array  # (nnz,): block of each entry, in order of block rows and columns
    row: Array  # (blocks,): first row of each
    col: Array  # (blocks,): first column of each

    @classmethod
    def of(cls, a: Csr, r: int, c: int) -> Cover:
        """The blocks of r x c that cover a matrix. Rows begin at multiples of r, columns anywhere."""
        xp, across = a.xp, a.cols + c  # so wide that no block reaches into the next block row
        keys = (a.row_idx // np.int32(r)).astype(np.int64) * across + a.col_idx
        columns = xp.unique(keys)  # the columns of each block row that have entries
        firsts = run_starts(columns // across)
        # From a column to the first behind the block that begins there; then twice, four times as far ...
        ahead = xp.append(xp.searchsorted(columns, columns + c), len(columns))
        begins = xp.zeros(len(columns) + 1, dtype=bool)
        begins[firsts] = True
        longest = int(xp.diff(xp.append(firsts, len(columns))).max()) if len(columns) else 0
        for _ in range(longest.bit_length()):
            begins[ahead[begins]] = True
            ahead = ahead[ahead]
        begins = begins[:-1]
        block = (xp.cumsum(begins) - 1)[xp.searchsorted(columns, keys)]
        first = columns[begins]
        return cls(block, first // across * r, first % across)


class Strips(Format):
    """Blocks of r x c in strips of 32 rows: a pointer a strip, a row in the strip and a column a block."""

    reference = "after Monakov & Avetisyan, SAMOS 2009"
    sources = ("blocked/strips.cu", "vector.cu")
    keeps_zeros = False

    r = Parameter(2, "rows of a block", choices=(1, 2, 4))
    c = Parameter(2, "columns of a block", choices=(1, 2, 4))

    strip_ptr: Array  # (strips + 1,), int32, or int64 where the blocks need it: first block of each strip
    block_row: Array  # (blocks,), uint8: first row, in the strip
    block_col: Array  # (blocks,), int32: first column
    values: Array  # (blocks * r * c,): strip by strip, in it value by value, its blocks side by side

    @staticmethod
    def size(rows: int, blocks: int, r: int, c: int, value: int) -> int:
        """Bytes of the arrays; value: those of a value."""
        return (cdiv(rows, STRIP) + 1) * index_dtype(blocks).itemsize + blocks * (5 + r * c * value)

    @classmethod
    def estimate(cls, a: Csr, *, r: int, c: int) -> int:
        return cls.size(a.rows, len(Cover.of(a, r, c).row), r, c, a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, r: int, c: int) -> dict[str, Any]:
        xp, found = a.xp, Cover.of(a, r, c)
        strip_of = found.row // STRIP
        strips = xp.searchsorted(strip_of, xp.arange(cdiv(a.rows, STRIP) + 1))
        blocks_of = strips[1:] - strips[:-1]  # of each strip
        first = strips[strip_of]  # of each block's strip
        value = (a.row_idx - found.row[found.block]) * c + a.col_idx - found.col[found.block]
        place = (first * (r * c) + xp.arange(len(first)) - first)[found.block] + value * blocks_of[strip_of][
            found.block
        ]
        values = xp.zeros(len(first) * r * c, dtype=a.dtype)
        values[place] = a.values
        return {
            "strip_ptr": strips.astype(index_dtype(len(first))),
            "block_row": (found.row % STRIP).astype(np.uint8),
            "block_col": found.col.astype(np.int32),
            "values": values,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, size = self.xp, self.r * self.c
        place = xp.flatnonzero(self.values)
        strip = expand(self.strip_ptr, len(self.block_col))[place // size]
        first = self.strip_ptr[strip].astype(np.int64)
        value, rank = xp.divmod(place - first * size, self.strip_ptr[strip + 1] - first)
        block = first + rank
        row = strip * STRIP + self.block_row[block] + value // self.c
        return row, self.block_col[block] + value % self.c, self.values[place]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), *self.accumulate(x, y)]

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        rows, cols = (np.int32(side) for side in self.shape)
        kernel = f"strips_add<{ctype(x)}, {ctype(self.strip_ptr)}, {self.r}, {self.c}>"
        args = (rows, cols, self.strip_ptr, self.block_row, self.block_col, self.values, x, y)
        return [Launch("blocked/strips.cu", kernel, len(self.strip_ptr) - 1, 64, args)]


@register
class BcooBcsr(Split):
    """Small blocks that save bytes, in strips of 32 rows, and ELLPACK for the rest, our reading.

    Blocks have a row and a column index each, as in blocked COO, and strips of them a pointer, as in block CSR. In
    every block row a sweep closes a block at the first column that is not covered, and keeps it where its entries
    alone would take more bytes. The paper was not available: the sweep in place of its dynamic programming, the shapes
    and that the one with the fewest bytes is taken are ours.
    """

    key = "bcoo-bcsr"
    survey_name = "BCOO + BCSR"
    reference = "Monakov & Avetisyan, SAMOS 2009, as Filippone et al. 2017 describe it"
    formats = (Ell, Strips)

    block = Parameter("best", "rows x columns of a block; best takes the fewest bytes", choices=("best", *SHAPES))

    @classmethod
    def split(cls, a: Csr, *, block: str) -> Iterator[Piece]:
        xp, value = a.xp, a.dtype.itemsize

        def dealt(shape: Shape) -> tuple[int, Array]:
            """Bytes in blocks of this shape, and which entries they hold."""
            r, c = shape
            found = Cover.of(a, r, c)
            kept = xp.bincount(found.block, minlength=len(found.row)) * (value + 4) >= r * c * value + 5
            held = kept[found.block]
            longest = int(a.where(~held).row_lengths.max()) if a.rows else 0
            return Strips.size(a.rows, int(kept.sum()), r, c, value) + a.rows * longest * (value + 4), held

        choices = SHAPES.values() if block == "best" else [SHAPES[block]]
        sizes = {shape: dealt(shape) for shape in choices}
        r, c = min(sizes, key=lambda shape: sizes[shape][0])
        held = sizes[r, c][1]
        yield Piece("ell", Ell, a.where(~held))
        yield Piece("blocks", Strips, a.where(held), {"r": r, "c": c})

    @property
    def detail(self) -> dict[str, Any]:
        """As every hybrid's, and the block in use."""
        blocks = self.parts.get("blocks")
        return super().detail | ({"r": blocks.r, "c": blocks.c} if isinstance(blocks, Strips) else {})
