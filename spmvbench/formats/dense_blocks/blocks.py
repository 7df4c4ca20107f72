"""A matrix cut into r x c tiles, those with an entry stored whole: counting them, choosing r and c, storing them.

Tiles are stored in slices of some block rows, `height`. A step of a slice is one tile of each of its block rows: first
the leftmost of each, then the next, as far as the longest block row goes. Block rows with fewer have -1 for a block
column, and zeros. Slices of height 1 are block CSR.

In a step, value e of the tile of block row l, e counting row by row, is at e * height + l: the same value of all
block rows side by side. To load several at once, `load` values of a block row can be neighbours; the remainder of
r * c by load stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np

from spmvbench.formats.arrays import (
    Array,
    Csr,
    array_module,
    cdiv,
    expand,
    index_dtype,
    inverse,
    nothing,
    offsets,
    round_up,
)
from spmvbench.formats.conversion import (
    Run,
    device_limits,
    first_on_host,
    longest_row,
    minus_ones,
    places_of,
    runner,
    summed,
    zeros,
)
from spmvbench.formats.ellpack.sell_convert import WARP, Slices, falling_order, fill
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype

SIDES = (1, 2, 3, 4, 6, 8)  # of a tile, where a format takes any
PIECE = 1 << 19  # entries that the host works on at a time: its work arrays stay in cache
CONVERT = "dense_blocks/block_convert.cu"
BLOCK = constant(CONVERT, "CONVERT_BLOCK")
PART, PARTS_BLOCK, SORT_BLOCK, BINS = (
    constant(CONVERT, name) for name in ("PART", "PARTS_BLOCK", "SORT_BLOCK", "BINS")
)
SLAB = 768  # neighbouring rows of a sample, at least: whole slices of 8 and 32 block rows of 1 to 8 rows
SAMPLE, LEAST_SLABS = 1 << 20, 16  # entries of a sample, about; slabs at least
SHARING = 8  # blocks for rows with many entries
GROUP = 96  # rows, about, in which a block counts the tiles of all shapes
FEW_BLOCKS = 8  # of a multiprocessor, which has room for as many
ADDING = 32  # blocks for the sums of a shape

Shape = tuple[int, int]


class Shapes(tuple[Shape, ...]):
    """Shapes to choose from, ascending. What conversions ask of them is computed once.

    Kernels count the tiles of all shapes with any r and any c of those, `counted`.
    """

    @cached_property
    def sides(self) -> tuple[list[int], list[int]]:
        """The rs and cs of those that are counted."""
        down, across = (sorted(set(sides)) for sides in zip(*self, strict=True))
        return down, across

    @cached_property
    def counted(self) -> dict[Shape, int]:
        """The number of each shape that is counted."""
        down, across = self.sides
        return {shape: number for number, shape in enumerate((i, j) for i in down for j in across)}

    @cached_property
    def numbers(self) -> np.ndarray:
        """Those of these shapes."""
        return np.array([self.counted[shape] for shape in self])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Values of a tile of each of these shapes."""
        return np.array([i * j for i, j in self])

    @cached_property
    def common(self) -> int:
        """The least multiple of the rs."""
        return math.lcm(*self.sides[0])

    @cached_property
    def slab(self) -> int:
        """Neighbouring rows of a sample: whole slices of all shapes."""
        return round_up(SLAB, 32 * self.common)

    def group(self, a: Csr, rows: int) -> int:
        """Of so many rows those that a block counts, which divide a slab.

        They are fewer, with an entry for a thread, where a GPU has room for more blocks.
        """
        group = self.common << (cdiv(GROUP, self.common) - 1).bit_length()
        few = rows <= group * FEW_BLOCKS * device_limits(a).multiprocessors
        while few and group > self.common and group * a.nnz > BLOCK * a.rows:
            group //= 2
        return group

    @cached_property
    def masks(self) -> str:
        """The sides, as kernels take them."""
        return ", ".join(str(sum(1 << side - 1 for side in sides)) for sides in self.sides)


@cache
def shapes(r: int, c: int, down: tuple[int, ...] = SIDES, across: tuple[int, ...] = SIDES) -> Shapes:
    """The shapes to choose from, where a side of 0 means any of `down` or `across`, ascending."""
    return Shapes((i, j) for i in ((r,) if r else down) for j in ((c,) if c else across))


def tiles_of(a: Csr) -> SortedTiles | FoundTiles:
    """The tiles of a matrix, to be counted and stored in any shape, r x c."""
    run = runner(a)
    return FoundTiles(a, run) if run else SortedTiles(a)


def best_shape(
    tiles: SortedTiles | FoundTiles,
    choices: Shapes,
    footprint: Callable[[SortedTiles | FoundTiles, int, int], int],
    index_bytes: int = 4,
    height: int = 1,
    *,
    sort: bool = False,
) -> Shape:
    """R and c of `choices` with which the matrix, or a sample of it (`sampled`), takes the fewest bytes.

    Of equal ones it is that with the smallest r, then c. footprint: bytes, from the tiles that are looked at, r and c;
    at least those of the tiles in slices of `height`, with `index_bytes` for the place of each. sort: see `steps`.
    """
    if len(choices) == 1:
        return choices[0]
    tiles = tiles.sample(choices.slab)
    value, best = tiles.a.dtype.itemsize, None
    if isinstance(tiles, FoundTiles):
        bounds = height * tiles.measure(choices, height, sort=sort) * (index_bytes + choices.sizes * value)
        for number in np.argsort(bounds, kind="stable"):
            shape = choices[number]
            if best is not None and (int(bounds[number]), shape) >= best:
                break
            found = footprint(tiles, *shape), shape
            best = found if best is None else min(best, found)
        assert best is not None, "there is no shape to choose"
        return best[1]
    totals: dict[Shape, int] = {}

    def least(shape: Shape) -> tuple[int, Shape]:
        """Bytes that it takes at least, and itself."""
        i, j = shape
        # A shape has no fewer values than any that divides it: most fall here, uncounted, once their parts have shown
        # that there are no such blocks.
        if (count := totals.get(shape)) is None:
            parts = (cdiv(total * p * q, i * j) for (p, q), total in totals.items() if i % p == 0 and j % q == 0)
            count = max(parts, default=0)
        return count * (index_bytes + i * j * value), shape

    for bound in sorted(map(least, choices)):
        shape = bound[1]
        if best is not None and (bound >= best or least(shape) >= best):
            continue
        totals[shape] = int(tiles.counts(*shape).sum())
        found = footprint(tiles, *shape), shape
        best = found if best is None else min(best, found)
    assert best is not None, "there is no shape to choose"
    return best[1]


def slabs_of(a: Csr, slab: int) -> int:
    """Slabs of so many neighbouring rows, evenly spread, of a sample of some SAMPLE entries or rows; 0: all rows.

    Im, Yelick & Vuduc (IJHPCA 2004) estimate the fill of a block size from a sample of rows, too. Of a matrix of no
    more entries and rows than SAMPLE all are looked at.
    """
    size = max(a.nnz, a.rows)
    slabs = max(SAMPLE * a.rows // (size * slab), LEAST_SLABS) if size > SAMPLE else 0
    return slabs if slabs < cdiv(a.rows, slab) else 0


def sampled(a: Csr, slab: int) -> Csr:
    """The sample as a matrix, whose values say nothing; all of the matrix if that is looked at."""
    if not (slabs := slabs_of(a, slab)):
        return a
    begin = (2 * np.arange(slabs) + 1) * cdiv(a.rows, slab) // (2 * slabs) * slab
    row = (begin[:, None] + np.arange(slab)).reshape(-1)
    ends = np.minimum(np.stack((row, row + 1)), a.rows)
    first, last = a.row_ptr[ends]
    row_ptr = offsets(last - first)
    total = int(row_ptr[-1])
    col_idx = a.col_idx[np.arange(total) + (first - row_ptr[:-1])[expand(row_ptr, total)]]
    return Csr((slabs * slab, a.cols), row_ptr, col_idx, a.values[:total], a.vectors)


def first_steps(
    counts: Array,
    height: int,
    run: Run | None,
    known: int | None = None,
    perm: Array | None = None,
    *,
    differences: bool = False,
) -> tuple[Array, int, int]:
    """The first step of each slice and the end, (slices + 1,), how many there are, and the most; 0: not looked for.

    counts: (block rows,), the tiles of each, or for kernels (block rows + 1,), of which they are the differences. perm:
    the block row at each place where they are sorted by their tiles. known: how many, if it is known.
    """
    xp = array_module(counts)
    if run is None:
        padded = np.zeros(round_up(len(counts), height), dtype=counts.dtype)
        padded[: len(counts)] = counts if perm is None else counts[perm]
        ptr = offsets(padded.reshape(-1, height).max(axis=1))
        return ptr, int(ptr[-1]), 0
    block_rows, types = len(counts) - differences, f"{ctype(counts)}, {cbool(differences)}"
    slices = cdiv(block_rows, height)
    args: tuple[Any, ...] = (np.int32(block_rows), np.int32(slices), np.int32(height), counts)
    if by_warps := perm is None and 8 <= height <= WARP:
        kernel = f"high_slice_steps<{types}"
    else:
        args = (*args, nothing(xp, np.int32) if perm is None else perm)
        kernel = f"slice_steps<{types}, {cbool(perm is not None)}"
    ptr, found = summed(xp, slices, CONVERT, kernel, args, run, total=known, by_warps=by_warps)
    return ptr, found[-1], found[0] if known is None else 0


def value_places(r: int, c: int, height: int, load: int) -> Array:
    """Where value e of block row l is in a step: (r * c, height), NumPy."""
    size = r * c
    e, lane = np.arange(size)[:, None], np.arange(height)
    packed = (e // load * height + lane) * load + e % load
    return np.where(e < size // load * load, packed, e * height + lane)


class SortedTiles:
    """The tiles of a matrix by array operations.

    rows: of the matrix, or of the sample that is looked at.
    """

    def __init__(self, a: Csr):
        self.a, self.rows = a, a.rows

    def sample(self, slab: int) -> SortedTiles:
        """Those of a sample of the matrix, of slabs of so many rows."""
        a = sampled(self.a, slab)
        return self if a is self.a else SortedTiles(a)

    def steps(self, r: int, c: int, height: int, *, sort: bool = False) -> int:
        """Steps of all slices of so many block rows. sort: block rows with the most tiles first."""
        return self.slices(r, c, height, self.most_first(r, c) if sort else None)[1]

    def slices(self, r: int, c: int, height: int, perm: Array | None = None) -> tuple[Array, int]:
        """The first step of each slice and the end, and how many there are. perm: as for `first_steps`."""
        return first_steps(self.counts(r, c), height, None, perm=perm)[:2]

    def most_first(self, r: int, c: int) -> Array:
        """The block rows in the order of their tiles, most first, equal ones in place: (block rows,), int32."""
        return np.argsort(-self.counts(r, c), kind="stable").astype(np.int32)

    def counts(self, r: int, c: int) -> Array:
        """Tiles of each block row, (block rows,), kept with the matrix by the shape of the tiles."""
        a = self.a
        kept: dict[Shape, Array] = a.__dict__.setdefault("tile_counts", {})
        if (r, c) == (1, 1):
            return a.row_lengths
        if (r, c) not in kept:
            kept[r, c] = np.empty(cdiv(a.rows, r), dtype=np.int64)
            for first, piece in a.row_blocks(r, PIECE):
                kept[r, c][first // r : cdiv(first + piece.rows, r)] = _Runs(piece, r, c).counts
        return kept[r, c]

    def store(
        self, r: int, c: int, height: int, load: int, slice_ptr: Array, steps: int, perm: Array | None = None
    ) -> tuple[Array, Array]:
        """block_col, (steps, height), int32, and values, (steps, r * c * height).

        slice_ptr: (slices + 1,), the first step of each slice, as the counts demand it, and `steps`. perm: (block
        rows,), the block row at each place in the order of storage; all as they are where it is not given.
        """
        block_col = np.full((steps, height), -1, dtype=np.int32)
        values = np.zeros((steps, r * c * height), dtype=self.a.dtype)
        places = value_places(r, c, height, load)
        block_rows = cdiv(self.a.rows, r)
        place = np.arange(block_rows, dtype=np.int32) if perm is None else inverse(perm)
        for first, piece in self.a.row_blocks(r, PIECE):
            runs = _Runs(piece, r, c)
            block_row = place[first // r + runs.row // r]
            step = slice_ptr[block_row // height] + runs.rank
            lane = block_row % height
            block_col[step, lane] = runs.block
            run = expand(np.append(runs.begin, piece.nnz), piece.nnz)
            value = (runs.row % r * c - runs.block * c)[run] + piece.col_idx
            values[step[run], places[value, lane[run]]] = piece.values
        return block_col, values


class _Runs:
    """The runs of a matrix, the entries that a row has in a tile. begin, row, block: see `Csr.runs`."""

    def __init__(self, a: Csr, r: int, c: int):
        self.begin, self.row, self.block = a.runs(c)
        first = np.searchsorted(self.begin, np.append(a.row_ptr[:-1:r], a.nnz))  # of each block row, and the end
        tiles = np.arange(len(self.begin) + 1)  # before each run in the order of tiles, where every run is one
        if r > 1:
            # The order is by block row, then block column, then row in the tile: that shows which run it is.
            across, digits = max(cdiv(a.cols, c), 1), (r - 1).bit_length()
            row = np.arange(a.rows, dtype=np.int64)
            keys = (row // r * across << digits | row % r)[self.row] + (self.block.astype(np.int64) << digits)
            keys.sort()
            row_in_tile = keys & (1 << digits) - 1
            keys >>= digits
            tiles[1:] = 1
            np.cumsum(keys[1:] != keys[:-1], out=tiles[2:])
            tiles[2:] += 1
        self.counts = np.diff(tiles[first])  # (block rows,)
        self.rank = tiles[1:] - 1 - tiles[first][self.row // r]  # (runs,), of its tile among those of the block row
        if r > 1:
            ranks = self.rank.copy()
            for p in range(r):
                self.rank[self.row % r == p] = ranks[row_in_tile == p]


class FoundTiles:
    """The tiles of a matrix by kernels, of block rows of at most 32 rows; see `SortedTiles`.

    run: runs a launch on the arrays of `a`. slab, slabs: of a sample, which is for measuring alone; 0: all rows.
    """

    def __init__(self, a: Csr, run: Run, slab: int = 0, slabs: int = 0):
        self.a, self.run, self.slab, self.slabs = a, run, slab, slabs
        self.rows = slab * slabs or a.rows
        self._found: dict[Shape, tuple[Array, Array, int, int]] = {}
        # What `measure` has found of all shapes: counts, one after the other, tiles, steps in slices of `height`, and
        # the most tiles of a block row.
        self._measured: Shapes | None = None
        self._counts, self._sliced = nothing(a.xp, np.int32), (0, False)  # height, and whether they are sorted
        self._totals = self._steps = self._most = np.zeros(0, np.int64)
        # Of the last shape that was sorted: its order, and by height the slices. Choosing asks before storing does.
        self._sorted: tuple[Shape, Array, dict[int, tuple[Array, int]]] | None = None

    def sample(self, slab: int) -> FoundTiles:
        """As that of `SortedTiles`."""
        slabs = slabs_of(self.a, slab)
        return FoundTiles(self.a, self.run, slab, slabs) if slabs else self

    def measure(self, choices: Shapes, height: int, *, sort: bool = False) -> np.ndarray:
        """The steps of each of these shapes in slices of `height`, by one wait; at least so many if some exceed BINS.

        It also counts their tiles and finds the longest row. sort: as for `steps`.
        """
        a, xp, (down, across), all_ = self.a, self.a.xp, choices.sides, len(choices.counted)
        self._measured, self._sliced = choices, (height, sort)
        self._counts = zeros(xp, len(across) * sum(cdiv(self.rows, r) for r in down), np.int32)
        totals = zeros(xp, 3 * all_ + 1, np.uint64)
        group, slab = choices.group(a, self.rows), self.slab or choices.slab
        every = cdiv(a.rows, slab)
        sizes = (*map(np.int32, (a.rows, self.rows, group, slab, self.slabs or every, every)),)
        shared = 4 * len(across) * sum(group // r for r in down)
        kernel, grid = f"count_shapes<{ctype(a.row_ptr)}, {choices.masks}>", (cdiv(self.rows, group), SHARING)
        args = (*sizes, a.row_ptr, a.col_idx, self._counts, totals)
        self.run(Launch(CONVERT, kernel, grid, BLOCK, args, shared))
        adding = np.int32(self.rows), np.int32(height), self._counts, totals
        if sort:
            self.run(Launch(CONVERT, f"sort_shapes<{choices.masks}>", all_, SORT_BLOCK, adding))
        else:
            grid = min(cdiv(cdiv(self.rows, down[0]), BLOCK), ADDING), all_
            self.run(Launch(CONVERT, f"add_shapes<{choices.masks}>", grid, BLOCK, adding))
        sums = first_on_host(totals, 3 * all_ + 1).astype(np.int64)
        self._totals, self._steps, self._most = sums[:-1].reshape(3, all_)
        if not self.slabs:
            a.__dict__["row_len_max"] = int(sums[-1])
        found: np.ndarray = self._steps[choices.numbers]
        return found

    def _number(self, r: int, c: int) -> int | None:
        """That of a shape that was measured."""
        return None if self._measured is None else self._measured.counted.get((r, c))

    def _known(self, r: int, c: int, height: int, *, sort: bool = False) -> int | None:
        """Its steps in slices of `height`, or with 1 its tiles, if they were counted."""
        if (number := self._number(r, c)) is None:
            return None
        if height == 1:
            return int(self._totals[number])
        known = (height, sort) == self._sliced and (not sort or self._most[number] < BINS)
        return int(self._steps[number]) if known else None

    def steps(self, r: int, c: int, height: int, *, sort: bool = False) -> int:
        """As that of `SortedTiles`."""
        if (known := self._known(r, c, height, sort=sort)) is None:
            known = self.slices(r, c, height, self.most_first(r, c) if sort else None)[1]
        return known

    def most_first(self, r: int, c: int) -> Array:
        """As that of `SortedTiles`."""
        if self._sorted is None or self._sorted[0] != (r, c):
            (counts, differences), number = self._numbers(r, c), self._number(r, c)
            block_rows = len(counts) - differences
            if number is not None:
                most = int(self._most[number])
            else:
                most = longest_row(self.a) if r * c == 1 else self.found(r, c)[-1]
            perm = falling_order(counts, block_rows, max(block_rows, 1), most, self.run, differences=differences)
            self._sorted = (r, c), perm, {}
        return self._sorted[1]

    def found(self, r: int, c: int) -> tuple[Array, Array, int, int]:
        """The first tile of each block row, of each part of one, each with the end; all tiles; no block row has more.

        The last is 0 if the tiles were known.
        """
        if (r, c) not in self._found:
            a, parts = self.a, self.parts(r)
            ptr = (a.xp.empty if parts else a.xp.zeros)(cdiv(a.rows, r) + 1, dtype=a.row_ptr.dtype)
            args = np.int32(a.rows), np.int32(c), np.int64(parts), a.row_ptr, a.col_idx, ptr
            kernel, known = f"count_parts<{r}, {ctype(a.row_ptr)}", self._known(r, c, 1)
            part_ptr, noted = summed(a.xp, parts, CONVERT, kernel, args, self.run, 1, known)
            self._found[r, c] = ptr, part_ptr, noted[-1], noted[0] if known is None else 0
        return self._found[r, c]

    def parts(self, r: int) -> int:
        """Parts of all block rows of r rows, of PART entries, about."""
        return cdiv(self.a.rows, r) + self.a.nnz // PART

    def _numbers(self, r: int, c: int) -> tuple[Array, bool]:
        """Tiles of each block row; or numbers of which these are the differences."""
        if (r, c) == (1, 1) and not self.slabs:
            return self.a.row_ptr, True
        if (number := self._number(r, c)) is None or self._measured is None:
            return self.found(r, c)[0], True
        down, across = self._measured.sides
        block_rows, (above, beside) = cdiv(self.rows, r), divmod(number, len(across))
        begin = len(across) * sum(cdiv(self.rows, height) for height in down[:above]) + beside * block_rows
        return self._counts[begin : begin + block_rows], False

    def counts(self, r: int, c: int) -> Array:
        """Tiles of each block row, (block rows,)."""
        numbers, differences = self._numbers(r, c)
        return self.a.xp.diff(numbers) if differences else numbers

    def slices(self, r: int, c: int, height: int, perm: Array | None = None) -> tuple[Array, int]:
        """As that of `SortedTiles`."""
        if height == 1 < r * c and perm is None:
            ptr, _, tiles, _ = self.found(r, c)
            return ptr.astype(index_dtype(tiles), copy=False), tiles
        by_height = self._sorted[2] if self._sorted is not None and perm is self._sorted[1] else {}
        if height not in by_height:
            (numbers, differences), known = self._numbers(r, c), self._known(r, c, height, sort=perm is not None)
            ptr, steps, most = first_steps(numbers, height, self.run, known, perm, differences=differences)
            if differences and r * c == 1 and known is None:
                self.a.__dict__["row_len_max"] = most
            by_height[height] = ptr, steps
        return by_height[height]

    def store(
        self, r: int, c: int, height: int, load: int, slice_ptr: Array, steps: int, perm: Array | None = None
    ) -> tuple[Array, Array]:
        """As that of `SortedTiles`."""
        a, xp, none, ordered = self.a, self.a.xp, nothing(self.a.xp, np.int32), cbool(perm is not None)
        if r * c == 1 and height > 1:
            s = Slices(a.rows, steps * height, height, 1, slice_ptr, none if perm is None else perm, none)
            filled = fill(a, s, self.run, height)
            return filled["columns"].reshape(steps, height), filled["values"].reshape(steps, height)
        ptr, part_ptr, tiles, _ = self.found(r, c)
        gaps = perm is not None or height > 1 or steps > tiles
        block_col = minus_ones(xp, (steps, height)) if gaps else xp.empty((steps, height), np.int32)
        values = (xp.zeros if gaps else xp.empty)((steps, r * c * height), dtype=a.dtype)
        places = none if perm is None else places_of(perm, self.run)
        columns = "unsigned char" if c <= 8 else "unsigned int"
        types = ", ".join(map(ctype, (values, ptr, part_ptr, slice_ptr)))
        kernel = f"fill_parts<{r}, {types}, {columns}, {cbool(gaps)}, {ordered}>"
        sizes = (*map(np.int32, (a.rows, c, height, load)), np.int64(self.parts(r)))
        matrix = a.row_ptr, a.col_idx, a.values
        args = (*sizes, *matrix, ptr, part_ptr, places, slice_ptr, block_col, values)
        self.run(Launch(CONVERT, kernel, cdiv(self.parts(r), PARTS_BLOCK), PARTS_BLOCK, args))
        return block_col, values
