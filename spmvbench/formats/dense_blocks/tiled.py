"""Dense r x c tiles in slices of block rows: what BCSR, blocked COO and blocked sliced ELLPACK store alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    Array,
    ArrayModule,
    Csr,
    array_module,
    cdiv,
    expand,
    index_dtype,
    inverse,
    nonzero_mask,
    offsets,
)
from spmvbench.formats.conversion import Run, notes, runner
from spmvbench.formats.conversion import offsets as offsets_by
from spmvbench.formats.dense_blocks.blocks import (
    CONVERT,
    MarkedTiles,
    Shape,
    SortedTiles,
    best_shape,
    tiles_of,
    value_places,
)
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype, per_thread


def values_together(load: int, dtype: np.dtype, r: int, c: int) -> int:
    """Values of a load of up to `load` bytes: a power of two, at most the r * c of a tile."""
    return min(max(load // dtype.itemsize, 1), 1 << (r * c).bit_length() - 1)


def steps_of_slices(counts: Array, xp: ArrayModule, height: int) -> Array:
    """Steps of each slice, (slices,), from the tiles of each block row in the order of storage."""
    padded = xp.zeros((cdiv(len(counts), height), height), dtype=counts.dtype)
    padded.reshape(-1)[: len(counts)] = counts
    steps: Array = padded.max(axis=1)
    return steps


def first_steps(counts: Array, height: int, run: Run | None) -> tuple[Array, int]:
    """The first step of each slice and the end, (slices + 1,), and how many there are; counts as above."""
    xp = array_module(counts)
    if run is None:
        ptr = offsets(steps_of_slices(counts, xp, height) if height > 1 else counts)
        return ptr, int(ptr[-1])
    counts = xp.ascontiguousarray(counts)  # sorted ones may be read backwards
    if height > 1:
        slices, steps = cdiv(len(counts), height), xp.empty(cdiv(len(counts), height), dtype=counts.dtype)
        args = (np.int32(len(counts)), np.int32(slices), np.int32(height), counts, steps)
        run(Launch(CONVERT, f"slice_steps<{ctype(counts)}>", *per_thread(slices), args))
        counts = steps
    ptr, found = offsets_by(counts, notes(xp, len(counts)), run)
    return ptr, found[-1]


class Cut(NamedTuple):
    """How a matrix is cut into tiles and how they are stored."""

    choices: Sequence[Shape]  # r x c, of which that with the fewest bytes is taken
    height: int = 1  # block rows of a slice; 1 is block CSR
    sort: bool = False  # block rows by their number of tiles, most first, equal ones as they are


class Tiled(Format):
    """Dense tiles of r x c in slices of block rows, in the order of blocks.py; a subclass says how they are found.

    One block column index serves the r * c values of a tile, so that an entry of a matrix of small dense blocks takes
    little more than its value. A tile is stored whole: where blocks are not dense, zeros fill it, and a stored zero
    cannot be distinguished from them.
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
        """How these parameters cut and store a matrix."""
        raise NotImplementedError

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
    def footprint(cls, a: Csr, cut: Cut, counts: Array, r: int, c: int) -> int:
        """Bytes of the arrays for tiles of r x c. counts: (block rows,), the tiles of each."""
        if cut.sort:
            counts = a.xp.sort(counts)[::-1]
        _, steps = first_steps(counts, cut.height, runner(a))
        found = steps * cut.height * (4 + r * c * a.dtype.itemsize) + 4 * len(counts) * cut.sort
        return found + cls.finder_bytes(cdiv(len(counts), cut.height), steps)

    @classmethod
    def chosen(cls, tiles: SortedTiles | MarkedTiles, cut: Cut) -> tuple[int, int, Array]:
        """The r and c in use, and the tiles of each block row. tiles: those of `tiles_of` with the cut's choices."""
        return best_shape(tiles, cut.choices, lambda *counted: cls.footprint(tiles.a, cut, *counted))

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        cut = cls.cut(**params)
        r, c, counts = cls.chosen(tiles_of(a, cut.choices), cut)
        return cls.footprint(a, cut, counts, r, c)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, cut = a.xp, cls.cut(**params)
        tiles = tiles_of(a, cut.choices)
        r, c, counts = cls.chosen(tiles, cut)
        perm = xp.empty(0, dtype=np.int32)
        place = xp.arange(len(counts), dtype=np.int32)
        if cut.sort:
            perm = xp.argsort(-counts, kind="stable").astype(np.int32)
            counts, place = counts[perm], inverse(perm)
        slice_ptr, _ = first_steps(counts, cut.height, runner(a))
        block_col, values = tiles.store(r, c, cut.height, values_together(cls.load, a.dtype, r, c), place, slice_ptr)
        found = {"block_col": block_col, "values": values, "perm": perm}
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
