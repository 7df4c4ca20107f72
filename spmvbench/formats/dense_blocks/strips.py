"""Small dense blocks that may begin in any column, in strips of rows; all other entries in ELLPACK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, index_dtype, nonzero_mask, offsets, run_ptr
from spmvbench.formats.base import Format, Launch, Parameter, cbool, ctype, per_thread, register, zero_fill
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.dense_blocks.blocks import Shape
from spmvbench.formats.ellpack.ellpack import Ell
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.kernels import constant

STRIP = constant("include/strips.cuh", "STRIP")  # rows
CONVERT = "dense_blocks/strips_convert.cu"
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
        runs = run_ptr(columns // across)
        # From a column to the first after the block that begins there; then twice, four times as far ...
        ahead = xp.append(xp.searchsorted(columns, columns + c), len(columns))
        begins = xp.zeros(len(columns) + 1, dtype=bool)
        begins[runs[:-1]] = True
        longest = int(xp.diff(runs).max()) if len(columns) else 0
        for _ in range(longest.bit_length()):
            begins[ahead[begins]] = True
            ahead = ahead[ahead]
        begins = begins[:-1]
        block = (xp.cumsum(begins) - 1)[xp.searchsorted(columns, keys)]
        first = columns[begins]
        return cls(block, first // across * r, first % across)


class Sweep:
    """The blocks of r x c that a sweep closes and that have at least `fewest` entries.

    By array operations, or by kernels if `run` is given. run: runs a launch on the arrays of the matrix.
    """

    def __init__(self, a: Csr, r: int, c: int, fewest: int, run: Run | None):
        self.a, self.r, self.c, self.fewest, self.run = a, r, c, fewest, run

    def _by_kernel(self, held: Array) -> tuple[Array, Array]:
        """The blocks of each block row, and the most entries of a row in none. held: (nnz,) to fill, or (0,)."""
        a, xp = self.a, self.a.xp
        kept, longest = xp.empty(cdiv(a.rows, self.r), dtype=np.int32), xp.zeros(1, dtype=np.int32)
        sizes = map(np.int32, (len(kept), a.rows, self.c, self.fewest))
        name = f"strips_sweep<{ctype(a.row_ptr)}, {self.r}, {cbool(len(held) > 0)}>"
        args = *sizes, a.row_ptr, a.col_idx, kept, longest, held
        assert self.run is not None
        self.run(Launch(CONVERT, name, *per_thread(len(kept)), args))
        return kept, longest

    def _by_arrays(self) -> tuple[Array, Array]:
        """Which of all blocks have enough entries, and which entries are in those."""
        found = Cover.of(self.a, self.r, self.c)
        kept = self.a.xp.bincount(found.block, minlength=len(found.row)) >= self.fewest
        return kept, kept[found.block]

    def counted(self) -> tuple[int, int]:
        """The number of blocks, and the most entries that a row has in none of them."""
        if self.run:
            kept, longest = self._by_kernel(self.a.xp.empty(0, dtype=bool))
            return int(kept.sum()), int(longest[0])
        kept, held = self._by_arrays()
        return int(kept.sum()), self.a.where(~held).row_len_max

    def held(self) -> Array:
        """Which entries are in one of the blocks, (nnz,)."""
        if self.run:
            held = self.a.xp.empty(self.a.nnz, dtype=bool)
            self._by_kernel(held)
            return held
        return self._by_arrays()[1]

    def block_ptr(self) -> Array:
        """The first block of each block row, of all blocks (fewest = 1), (block rows + 1,); by kernels only."""
        return offsets(self._by_kernel(self.a.xp.empty(0, dtype=bool))[0])


class Strips(Format):
    """Blocks of r x c in strips of 32 rows: a pointer per strip, a row in the strip and a column per block."""

    reference = "after Monakov & Avetisyan, SAMOS 2009"
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
        return cls.size(a.rows, Sweep(a, r, c, 1, runner(a)).counted()[0], r, c, a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, r: int, c: int) -> dict[str, Any]:
        run = runner(a)
        return cls.by_kernels(a, r, c, run) if run else cls.by_arrays(a, r, c)

    @classmethod
    def by_kernels(cls, a: Csr, r: int, c: int, run: Run) -> dict[str, Any]:
        """The fields. run: runs a launch on the arrays of `a`."""
        xp, block_ptr = a.xp, Sweep(a, r, c, 1, run).block_ptr()
        blocks, block_rows = int(block_ptr[-1]), len(block_ptr) - 1
        first = xp.minimum(xp.arange(cdiv(a.rows, STRIP) + 1) * (STRIP // r), block_rows)
        found = {
            "block_row": xp.empty(blocks, dtype=np.uint8),
            "block_col": xp.empty(blocks, dtype=np.int32),
            "values": xp.zeros(blocks * r * c, dtype=a.dtype),
        }
        sizes = np.int32(block_rows), np.int32(a.rows), np.int32(c)
        args = *sizes, a.row_ptr, a.col_idx, a.values, block_ptr, *found.values()
        name = f"strips_fill<{ctype(a.values)}, {ctype(a.row_ptr)}, {ctype(block_ptr)}, {r}>"
        run(Launch(CONVERT, name, *per_thread(block_rows), args))
        return {"strip_ptr": block_ptr[first], **found}

    @classmethod
    def by_arrays(cls, a: Csr, r: int, c: int) -> dict[str, Any]:
        """The fields, by array operations."""
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
        place = xp.flatnonzero(nonzero_mask(self.values))
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
        return [Launch("dense_blocks/strips.cu", kernel, len(self.strip_ptr) - 1, 64, args)]


@register
class BcooBcsr(Split):
    """Small dense blocks in strips of 32 rows where they save bytes, the rest in ELLPACK (our reading).

    Blocks have a row and a column index each, as in blocked COO, and strips of them a pointer, as in block CSR. In
    every block row a sweep closes a block at the first column that is not covered, and keeps it where its entries
    alone would take more bytes. The paper was not available: the sweep in place of its dynamic programming, the shapes
    and the choice of the fewest bytes are our reading.
    """

    key = "bcoo-bcsr"
    survey_name = "BCOO + BCSR"
    reference = "Monakov & Avetisyan, SAMOS 2009, as Filippone et al. 2017 describe it"
    formats = (Ell, Strips)

    block = Parameter("best", "rows x columns of a block; best takes the fewest bytes", choices=("best", *SHAPES))

    @classmethod
    def split(cls, a: Csr, *, block: str) -> Iterator[Piece]:
        value = a.dtype.itemsize
        choices = SHAPES.values() if block == "best" else [SHAPES[block]]
        # A block pays where its entries alone, a column and a value each, take as many bytes.
        sweeps = {(r, c): Sweep(a, r, c, cdiv(r * c * value + 5, value + 4), runner(a)) for r, c in choices}

        def size(shape: Shape) -> int:
            blocks, longest = sweeps[shape].counted()
            return Strips.size(a.rows, blocks, *shape, value) + a.rows * longest * (value + 4)

        r, c = min(sweeps, key=size)
        held = sweeps[r, c].held()
        yield Piece("ell", Ell, a.where(~held))
        yield Piece("blocks", Strips, a.where(held), {"r": r, "c": c})

    @property
    def detail(self) -> dict[str, Any]:
        """As every hybrid's, and the block in use."""
        blocks = self.parts.get("blocks")
        return super().detail | ({"r": blocks.r, "c": blocks.c} if isinstance(blocks, Strips) else {})
