"""Dense r x c tiles in slices of block rows: what BCSR, blocked COO and blocked sliced ELLPACK store alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, cdiv, expand, index_dtype, nonzero_mask, nothing
from spmvbench.formats.dense_blocks.blocks import (
    FoundTiles,
    Shape,
    Shapes,
    SortedTiles,
    best_shape,
    tiles_of,
    value_places,
)
from spmvbench.formats.format import Format

SMALL = (2, 3, 4)  # sides of the squares that are chosen from by their bytes


@cache
def squares(side: int) -> Shapes:
    """The squares to choose from, where 0 means any of the small ones."""
    return Shapes((b, b) for b in ((side,) if side else SMALL))


def values_together(load: int, dtype: np.dtype, r: int, c: int) -> int:
    """Values of a load of up to `load` bytes: a power of two, at most the r * c of a tile."""
    return min(max(load // dtype.itemsize, 1), 1 << (r * c).bit_length() - 1)


class Cut(NamedTuple):
    """How a matrix is cut into tiles and how they are stored."""

    choices: Shapes  # r x c, of which that with the fewest bytes is taken
    height: int = 1  # block rows of a slice; 1 is block CSR
    sort: bool = False  # block rows by their number of tiles, most first, equal ones as they are


class Tiled(Format):
    """Dense tiles of r x c in slices of block rows, in the order of blocks.py; a subclass says how they are found.

    One block column index serves the r * c values of a tile, so that an entry of a matrix of small dense blocks takes
    little more than its value. If r and c are chosen, they are the best of a sample of the rows of a matrix with more
    than a million entries. A tile is stored whole: where blocks are not dense, zeros fill it, and a stored zero cannot
    be distinguished from them.
    """

    keeps_zeros = False
    load: ClassVar[int] = 1  # bytes of a block row's values that are together in a slice, at least a value

    block_col: Array  # (steps, height), int32: column of a tile, in tiles; -1 after the last of a block row
    values: Array  # (steps, r * c * height): the values of a step's tiles; zeros where a tile has no entry
    perm: Array  # (block rows,), int32: the block row at each place where they are sorted; else (0,)
    tile: tuple[int, int]  # r and c in use
    nnz: int  # entries of the matrix

    @classmethod
    def cut(cls, *_: Any, **params: Any) -> Cut:
        """How these parameters cut and store a matrix: in squares, unless a subclass says otherwise."""
        return Cut(squares(params["block"]))

    @classmethod
    def finder_bytes(cls, slices: int, steps: int) -> int:
        """Bytes of the arrays that say to which slice a step belongs."""
        raise NotImplementedError

    @classmethod
    def finder(cls, slice_ptr: Array) -> Mapping[str, Array]:
        """Those arrays by name. slice_ptr: (slices + 1,), the first step of each slice."""
        raise NotImplementedError

    @property
    def slice_of_step(self) -> Array:
        """The slice of each step, (steps,)."""
        raise NotImplementedError

    @classmethod
    def footprint(cls, tiles: SortedTiles | FoundTiles, cut: Cut, r: int, c: int) -> int:
        """Bytes of the arrays for tiles of r x c."""
        block_rows, steps = cdiv(tiles.rows, r), tiles.steps(r, c, cut.height, sort=cut.sort)
        found = steps * cut.height * (4 + r * c * tiles.a.dtype.itemsize) + 4 * block_rows * cut.sort
        return found + cls.finder_bytes(cdiv(block_rows, cut.height), steps)

    @classmethod
    def chosen(cls, tiles: SortedTiles | FoundTiles, cut: Cut) -> Shape:
        """The r and c in use: of large matrices from a sample (`blocks.sampled`)."""

        def footprint(some: SortedTiles | FoundTiles, r: int, c: int) -> int:
            return cls.footprint(some, cut, r, c)

        return best_shape(tiles, cut.choices, footprint, height=cut.height, sort=cut.sort)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        cut, tiles = cls.cut(**params), tiles_of(a)
        return cls.footprint(tiles, cut, *cls.chosen(tiles, cut))

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, cut, tiles = a.xp, cls.cut(**params), tiles_of(a)
        r, c = cls.chosen(tiles, cut)
        if (r, c, cut.height, cut.sort) == (1, 1, 1, False):  # CSR as it is
            row_ptr = a.row_ptr.astype(index_dtype(a.nnz), copy=False)
            block_col, values = (aligned(array).reshape(-1, 1) for array in (a.col_idx, a.values))
            found = {"block_col": block_col, "values": values, "perm": nothing(xp, np.int32)}
            return {**cls.finder(row_ptr), **found, "tile": (r, c), "nnz": a.nnz}
        perm = tiles.most_first(r, c) if cut.sort else None
        slice_ptr, steps = tiles.slices(r, c, cut.height, perm)
        load = values_together(cls.load, a.dtype, r, c)
        block_col, values = tiles.store(r, c, cut.height, load, slice_ptr, steps, perm)
        none = nothing(xp, np.int32)
        found = {"block_col": block_col, "values": values, "perm": none if perm is None else perm}
        return {**cls.finder(slice_ptr), **found, "tile": (r, c), "nnz": a.nnz}

    @property
    def height(self) -> int:
        """Block rows of a slice."""
        return int(self.block_col.shape[1])

    @property
    def together(self) -> int:
        """Values of a tile that are together."""
        return values_together(self.load, self.value_dtype, *self.tile)

    @property
    def block_rows(self) -> int:
        """Block rows of the matrix, empty ones included."""
        return cdiv(self.shape[0], self.tile[0])

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, (r, c), height = self.xp, self.tile, self.height
        step, at = xp.nonzero(nonzero_mask(self.values))
        value_at = np.argsort(value_places(r, c, height, self.together).reshape(-1))
        value, lane = (xp.asarray(part)[at] for part in divmod(value_at, height))
        block_row = self.slice_of_step[step].astype(np.int64) * height + lane
        if len(self.perm):
            block_row = self.perm[block_row]
        row = block_row * r + value // c
        return row, self.block_col[step, lane] * c + value % c, self.values[step, at]

    @property
    def detail(self) -> dict[str, Any]:
        """The tile in use, and the share of the stored values that are entries: 1 if nothing is stored."""
        r, c = self.tile
        return {"r": r, "c": c, "fill": self.nnz / self.values.size if self.nnz else 1.0}


class Sliced(Tiled):
    """Tiles whose slices are found by pointers."""

    slice_ptr: Array  # (slices + 1,), int32, or int64 where the steps need it: first step of each slice

    @classmethod
    def finder_bytes(cls, slices: int, steps: int) -> int:
        return (slices + 1) * index_dtype(steps).itemsize

    @classmethod
    def finder(cls, slice_ptr: Array) -> Mapping[str, Array]:
        return {"slice_ptr": slice_ptr}

    @property
    def bytes_read(self) -> int:
        """Without the values of padding tiles, which kernels pass over."""
        r, c = self.tile
        return self.nbytes - int((self.block_col < 0).sum()) * r * c * self.values.itemsize

    @property
    def slice_of_step(self) -> Array:
        return expand(self.slice_ptr, len(self.values))
