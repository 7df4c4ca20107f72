"""Small dense blocks that may begin in any column, in strips of rows; all other entries in ELLPACK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, index_dtype, nonzero_mask, offsets, round_up, run_ptr
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.dense_blocks.blocks import Shape
from spmvbench.formats.ellpack.ellpack import Ell
from spmvbench.formats.format import Format
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

STRIP = constant("include/strips.cuh", "STRIP")  # rows
CONVERT = "dense_blocks/strips_convert.cu"
PIECE = constant(CONVERT, "PIECE")  # columns
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


class Program(Sweep):
    """The blocks of r x c with which blocks and entries in none take the fewest bytes: a dynamic program.

    Bytes of an entry in no block are those of its column and value. No block crosses a multiple of PIECE columns, so
    that the columns of a block row between two multiples are a problem of their own, however long the row is.
    """

    def __init__(self, a: Csr, r: int, c: int, run: Run | None):
        super().__init__(a, r, c, 1, run)
        self.entry_bytes, self.block_bytes = 4 + a.dtype.itemsize, 5 + r * c * a.dtype.itemsize

    def _by_kernel(self, held: Array) -> tuple[Array, Array]:
        a, xp = self.a, self.a.xp
        kept, longest = xp.empty(cdiv(a.rows, self.r), dtype=np.int32), xp.zeros(1, dtype=np.int32)
        sizes = map(np.int32, (len(kept), a.rows, self.c, self.entry_bytes, self.block_bytes))
        name = f"strips_program<{ctype(a.row_ptr)}, {self.r}, {cbool(len(held) > 0)}>"
        args = *sizes, a.row_ptr, a.col_idx, xp.empty(a.nnz, dtype=bool), kept, longest, held
        assert self.run is not None
        self.run(Launch(CONVERT, name, *per_thread(len(kept)), args))
        return kept, longest

    def _by_arrays(self) -> tuple[Array, Array]:
        a, c, xp = self.a, self.c, self.a.xp
        across = round_up(a.cols + c, PIECE)  # so wide that no block reaches into the next block row
        keys = (a.row_idx // np.int32(self.r)).astype(np.int64) * across + a.col_idx
        columns, of_entry, entries = xp.unique(keys, return_inverse=True, return_counts=True)
        runs = run_ptr(columns // PIECE)
        run_end = runs[1:][expand(runs, len(columns))]
        # To the first column after a block; where none may begin, to the next column.
        beyond = xp.minimum(xp.searchsorted(columns, columns + c), run_end)
        may_begin = columns % PIECE + c <= PIECE
        takes = xp.zeros(len(columns), dtype=bool)
        total = xp.zeros(len(columns) + 1, dtype=np.int64)  # bytes from a column to the end of its run
        by_length = xp.argsort(-xp.diff(runs), kind="stable")
        lengths, ends = xp.diff(runs)[by_length], runs[1:][by_length]
        for back in range(1, 1 + int(lengths[0]) if len(lengths) else 1):
            end = ends[: int(xp.searchsorted(-lengths, -back, side="right"))]
            at = end - back

            def bytes_from(place: Array, end: Array = end) -> Array:
                return xp.where(place < end, total[place], 0)

            without = entries[at] * self.entry_bytes + bytes_from(at + 1)
            with_block = self.block_bytes + bytes_from(beyond[at])
            takes[at] = may_begin[at] & (with_block <= without)
            total[at] = xp.where(takes[at], with_block, without)
        # From column to column that a walk looks at; then twice, four times as far ...
        ahead = xp.append(xp.where(takes, beyond, xp.arange(1, len(columns) + 1)), len(columns))
        seen = xp.zeros(len(columns) + 1, dtype=bool)
        seen[runs[:-1]] = True
        for _ in range(int(lengths[0]).bit_length() if len(lengths) else 0):
            seen[ahead[seen]] = True
            ahead = ahead[ahead]
        first = xp.flatnonzero(seen[:-1] & takes)
        change = xp.zeros(len(columns) + 1, dtype=np.int64)
        change[first] += 1
        xp.add.at(change, beyond[first], -1)  # the end of one block is the begin of the next
        held = xp.cumsum(change)[:-1] > 0
        return xp.ones(len(first), dtype=bool), held[of_entry.reshape(-1)]


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

    Blocks have a row and a column index each, as in blocked COO, and strips of them a pointer, as in block CSR. The
    paper proposes both a dynamic program and a greedy heuristic. choose=program: of all sets of blocks in a block row,
    the one that takes the fewest bytes together with the entries in none. greedy: a sweep closes a block at the first
    column that is not covered, and keeps it where its entries alone would take as many bytes. The paper was not
    available: bytes as what is minimised, the shapes, and that no block of the program crosses a multiple of 1,024
    columns are our reading.
    """

    key = "bcoo-bcsr"
    multiplies_padding = True
    survey_name = "BCOO + BCSR"
    reference = "Monakov & Avetisyan, SAMOS 2009, as Filippone et al. 2017 describe it"
    formats = (Ell, Strips)

    choose = Parameter("program", "dynamic program, or greedy sweep", choices=("program", "greedy"))
    block = Parameter("best", "rows x columns of a block; best takes the fewest bytes", choices=("best", *SHAPES))

    @classmethod
    def split(cls, a: Csr, *, choose: str, block: str) -> Iterator[Piece]:
        value = a.dtype.itemsize
        choices = SHAPES.values() if block == "best" else [SHAPES[block]]

        def sweep(r: int, c: int) -> Sweep:
            if choose == "program":
                return Program(a, r, c, runner(a))
            # A block pays where its entries alone, a column and a value each, take as many bytes.
            return Sweep(a, r, c, cdiv(r * c * value + 5, value + 4), runner(a))

        sweeps = {shape: sweep(*shape) for shape in choices}

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
