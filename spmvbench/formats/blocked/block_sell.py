"""Blocked sliced ELLPACK: one storage, for BELLPACK and BSELLPACK."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, index_dtype, inverse, offsets
from spmvbench.formats.base import Adding, Launch, Parameter, cbool, ctype, register
from spmvbench.formats.blocked.blocks import MarkedTiles, SortedTiles, best_shape, tiles_of, value_places


def steps_of_slices(counts: Array, xp: Any, height: int) -> Array:
    """Steps of each slice, (slices,), from the tiles of each block row in the order of storage."""
    padded = xp.zeros((cdiv(len(counts), height), height), dtype=counts.dtype)
    padded.reshape(-1)[: len(counts)] = counts
    return padded.max(axis=1)


def values_together(load: int, dtype: np.dtype, r: int, c: int) -> int:
    """Values of a load of up to `load` bytes: a power of two, at most the r * c of a tile."""
    return min(max(load // dtype.itemsize, 1), 1 << (r * c).bit_length() - 1)


def threads_by_slices(slices: int) -> int:
    """Threads that share a block row: more where slices are too few to keep a large GPU loading, at most 8."""
    threads = 1
    while threads < 8 and slices * threads < 2**14:
        threads *= 2
    return threads


class BlockSell(Adding):
    """Dense r x c tiles in slices of C block rows, each slice as long as its longest block row.

    One block column stands for the r * c values of a tile, so that a value of a matrix of small dense blocks takes
    little more than itself. A tile is stored whole: where blocks are not dense, zeros fill it, and a stored zero cannot
    be told from them. blocks.py has the order of the values. Where r or c is 0, both are chosen among 1, 2, 3,
    4, 6 and 8 for the fewest bytes, padding counted; with 1 x 1 it is sliced ELLPACK.

    A thread takes a block row, with a sum for each of the tile's rows; up to 8 threads share one where the matrix is
    small. Padding is not multiplied, zeros within a tile are.
    """

    family = "ELLPACK"
    sources = ("blocked/block_sell.cu", "blocked/block_convert.cu")
    keeps_zeros = False
    sort: ClassVar[bool]  # block rows by their number of tiles, most first, equal ones as they are
    load: ClassVar[int]  # bytes that a thread loads at a time, at least a value

    r = Parameter(0, "rows of a tile, 1 to 8; 0 takes what gives the fewest bytes", low=0, high=8)
    c = Parameter(0, "columns of a tile, likewise", low=0, high=8)
    C = Parameter(32, "block rows of a slice", choices=(8, 32))
    threads = Parameter(0, "threads that share a block row, up to 8; 0 goes by the number of slices", low=0, high=8)

    slice_ptr: Array  # (slices + 1,), int32: first step of each slice
    block_col: Array  # (steps, C), int32: column of a tile, in tiles; -1 behind the last of a block row
    values: Array  # (steps, r * c * C): the values of a step's tiles; zeros where a tile has no entry
    perm: Array  # (block rows,), int32: the block row at each place where they are sorted; else (0,)
    tile: tuple[int, int]  # r and c in use
    nnz: int  # entries of the matrix

    @classmethod
    def footprint(cls, a: Csr, C: int, counts: Array, r: int, c: int) -> int:
        """Bytes of the arrays for tiles of r x c. counts: (block rows,), the tiles of each."""
        if cls.sort:
            counts = a.xp.sort(counts)[::-1]
        steps = int(steps_of_slices(counts, a.xp, C).sum())
        pointers = (cdiv(len(counts), C) + 1) * index_dtype(steps).itemsize
        return steps * C * (4 + r * c * a.dtype.itemsize) + pointers + 4 * len(counts) * cls.sort

    @classmethod
    def chosen(cls, tiles: SortedTiles | MarkedTiles, r: int, c: int, C: int) -> tuple[int, int, Array]:
        """The r and c in use, and the tiles of each block row. tiles: those of `tiles_of(a, r, c)`."""
        return best_shape(tiles, r, c, lambda *counted: cls.footprint(tiles.a, C, *counted))

    @classmethod
    def estimate(cls, a: Csr, *, r: int, c: int, C: int, **params: Any) -> int:
        r, c, counts = cls.chosen(tiles_of(a, r, c), r, c, C)
        return cls.footprint(a, C, counts, r, c)

    @classmethod
    def convert(cls, a: Csr, *, r: int, c: int, C: int, **params: Any) -> dict[str, Any]:
        xp, tiles = a.xp, tiles_of(a, r, c)
        r, c, counts = cls.chosen(tiles, r, c, C)
        perm = xp.empty(0, dtype=np.int32)
        place = xp.arange(len(counts), dtype=np.int32)
        if cls.sort:
            perm = xp.argsort(-counts, kind="stable").astype(np.int32)
            counts, place = counts[perm], inverse(perm)
        slice_ptr = offsets(steps_of_slices(counts, xp, C))
        block_col, values = tiles.store(r, c, C, values_together(cls.load, a.dtype, r, c), place, slice_ptr)
        found = {"slice_ptr": slice_ptr, "block_col": block_col, "values": values, "perm": perm}
        return {**found, "tile": (r, c), "nnz": a.nnz}

    @property
    def together(self) -> int:
        """Values that a thread loads at a time."""
        return values_together(self.load, self.value_dtype, *self.tile)

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, (r, c), height = self.xp, self.tile, self.C
        step, at = xp.nonzero(self.values)
        value_at = np.argsort(value_places(r, c, height, self.together).reshape(-1))
        value, lane = (xp.asarray(part)[at] for part in divmod(value_at, height))
        block_row = expand(self.slice_ptr, len(self.values))[step].astype(np.int64) * height + lane
        if self.sort:
            block_row = self.perm[block_row]
        row = block_row * r + value // c
        return row, self.block_col[step, lane] * c + value % c, self.values[step, at]

    @property
    def detail(self) -> dict[str, Any]:
        """The tile in use, and the share of the stored values that are entries: 1 where nothing is stored."""
        r, c = self.tile
        return {"r": r, "c": c, "fill": self.nnz / self.values.size if self.nnz else 1.0}

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        (r, c), (rows, cols) = self.tile, self.shape
        block_rows = cdiv(rows, r)
        threads = self.threads or threads_by_slices(len(self.slice_ptr) - 1)
        across = 32 * max(8 // threads, 1)
        tiles = max(4 // (r * c), 1)  # that a thread loads at a time
        layout = f"{r}, {c}, {self.C}, {self.together}, {cbool(self.sort)}"
        shape = f"{layout}, {across}, {threads}, {tiles}"
        kernel = f"block_sell_spmv<{ctype(x)}, {ctype(self.slice_ptr)}, {shape}, {cbool(add)}>"
        sizes = np.int32(block_rows), np.int32(rows), np.int32(cols)
        args = (*sizes, self.slice_ptr, self.block_col, self.values, self.perm, x, y)
        return [Launch("blocked/block_sell.cu", kernel, cdiv(block_rows, across), (across, threads), args)]


@register
class Bellpack(BlockSell):
    """Dense tiles; block rows sorted by their number of tiles, and padded to the longest of each group of 32.

    See `BlockSell`. The paper chooses r and c by a model of the run time.
    """

    key = "bellpack"
    core = "blocked sliced ELLPACK: sorted, C=32"
    survey_name = "BELLPACK"
    reference = "Choi, Singh & Vuduc, PPoPP 2010"
    sort = True
    load = 4


@register
class Bsellpack(BlockSell):
    """Dense tiles; block rows in natural order, padded to the longest of each 32, values loaded 16 bytes at a time.

    See `BlockSell`. The paper has tiles of 1, 2, 4 or 8 rows and 4 or 8 columns.
    """

    key = "bsellpack"
    core = "blocked sliced ELLPACK: natural order, C=32"
    survey_name = "BSELLPACK"
    reference = "Su & Keutzer, ICS 2012"
    sort = False
    load = 16
