"""A matrix cut into r x c tiles, those with an entry stored whole: counting them, choosing r and c, storing them.

Tiles are stored in slices of some block rows, `height`. A step of a slice is one tile of each of its block rows: first
the leftmost of each, then the next, as far as the longest block row goes. Block rows with fewer have -1 for a block
column, and zeros. Slices of height 1 are block CSR.

In a step, value e of the tile of block row l, e counting row by row, is at e * height + l: the same value of all
block rows side by side. To load several at once, `load` values of a block row can be neighbours; the remainder of
r * c by load stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, round_up
from spmvbench.formats.conversion import Run, both_offsets, notes, runner
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype

SIDES = (1, 2, 3, 4, 6, 8)  # of a tile, where a format takes any
PIECE = 1 << 19  # entries that the host works on at a time: its work arrays stay in cache
CONVERT = "dense_blocks/block_convert.cu"
BLOCK, WORDS = constant(CONVERT, "CONVERT_BLOCK"), constant(CONVERT, "WORDS")  # threads; words that a warp marks

Shape = tuple[int, int]


def shapes(r: int, c: int, down: Sequence[int] = SIDES, across: Sequence[int] = SIDES) -> list[Shape]:
    """The shapes to choose from, where a side of 0 means any of `down` or `across`."""
    return [(i, j) for i in ((r,) if r else down) for j in ((c,) if c else across)]


def tiles_of(a: Csr, choices: Sequence[Shape]) -> SortedTiles | MarkedTiles:
    """The tiles of a matrix, to be counted and stored in any shape of `choices`, r x c."""
    run = runner(a)
    return MarkedTiles(a, choices, run) if run else SortedTiles(a)


def best_shape(
    tiles: SortedTiles | MarkedTiles,
    choices: Sequence[Shape],
    footprint: Callable[[Array, int, int], int],
    index_bytes: int = 4,
) -> tuple[int, int, Array]:
    """r, c and the tiles of each block row, of that of `choices` that takes the fewest bytes.

    Of equal ones it is that with the smallest r, then c. footprint: bytes, from the tiles of each block row, r and c;
    at least those of the tiles, with `index_bytes` for the place of each.
    """
    totals, value = dict(tiles.totals), tiles.a.dtype.itemsize
    if len(choices) == 1:
        return *choices[0], tiles.counts(*choices[0])

    def least(shape: Shape) -> tuple[int, Shape]:
        """Bytes that it takes at least, and itself."""
        i, j = shape
        # A shape has no fewer values than any that divides it: most fall here, uncounted, once their parts have shown
        # that there are no such blocks.
        if (count := totals.get(shape)) is None:
            parts = (cdiv(total * p * q, i * j) for (p, q), total in totals.items() if i % p == 0 and j % q == 0)
            count = max(parts, default=0)
        return count * (index_bytes + i * j * value), shape

    best: tuple[int, Shape] | None = None
    best_counts: Array | None = None
    for shape in sorted(choices, key=least):
        if best is not None and least(shape) >= best:
            continue
        counts = tiles.counts(*shape)
        if shape not in totals:
            totals[shape] = int(counts.sum())
        found = footprint(counts, *shape), shape
        if best is None or found < best:
            best, best_counts = found, counts
    assert best is not None and best_counts is not None, "there is no shape to choose"
    return *best[1], best_counts


def value_places(r: int, c: int, height: int, load: int) -> Array:
    """Where value e of block row l is in a step: (r * c, height), NumPy."""
    size = r * c
    e, lane = np.arange(size)[:, None], np.arange(height)
    packed = (e // load * height + lane) * load + e % load
    return np.where(e < size // load * load, packed, e * height + lane)


def room(a: Csr, steps: int, r: int, c: int, height: int) -> tuple[Array, Array]:
    """block_col, (steps, height), and values, (steps, r * c * height), with no tiles in them."""
    return a.xp.full((steps, height), -1, dtype=np.int32), a.xp.zeros((steps, r * c * height), dtype=a.dtype)


class SortedTiles:
    """The tiles of a matrix by array operations. Counts are kept with the matrix."""

    def __init__(self, a: Csr):
        self.a = a
        self.totals: dict[Shape, int] = {}  # tiles of shapes, known before they are counted

    def counts(self, r: int, c: int) -> Array:
        """Tiles of each block row, (block rows,)."""
        a, kept = self.a, self.a.tile_counts
        if (r, c) == (1, 1):
            return a.row_lengths
        if (r, c) not in kept:
            kept[r, c] = np.empty(cdiv(a.rows, r), dtype=np.int64)
            for first, piece in a.row_blocks(r, PIECE):
                kept[r, c][first // r : cdiv(first + piece.rows, r)] = _Runs(piece, r, c).counts
        return kept[r, c]

    def store(self, r: int, c: int, height: int, load: int, place: Array, slice_ptr: Array) -> tuple[Array, Array]:
        """block_col, (steps, height), int32, and values, (steps, r * c * height).

        place: (block rows,), where each is in the order of storage. slice_ptr: (slices + 1,), the first step of
        each slice, as the counts demand it.
        """
        block_col, values = room(self.a, int(slice_ptr[-1]), r, c, height)
        places = value_places(r, c, height, load)
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


class MarkedTiles:
    """The tiles of a matrix by kernels: a bit of each entry and shape says whether it is the first of its tile.

    Shapes are marked with any r and any c of those in `choices`. run: runs a launch on the arrays of `a`.
    """

    def __init__(self, a: Csr, choices: Sequence[Shape], run: Run):
        xp, self.a, self.run = a.xp, a, run
        down, across = (sorted(set(sides)) for sides in zip(*choices, strict=True))
        self.shapes = shapes(0, 0, down, across)
        self.index = a.row_ptr.dtype.type
        self.words = xp.empty((a.nnz // 32 + 1, len(self.shapes)), dtype=np.uint32)
        self.threads = round_up(cdiv(len(self.words), WORDS) * 32, BLOCK)
        totals = xp.empty((len(self.shapes), self.threads // 32), dtype=np.int32)
        args = np.int32(a.rows), self.index(a.nnz), a.row_ptr, a.col_idx, self.words, totals
        masks = (sum(1 << side - 1 for side in sides) for sides in (down, across))
        self._launch(f"mark_first<{ctype(a.row_ptr)}, {', '.join(map(str, masks))}>", self.threads, *args)
        self.totals: dict[Shape, int] = {}
        if len(self.shapes) > 1:
            self.totals = dict(zip(self.shapes, totals.sum(axis=1).tolist(), strict=True))
        self.picked: dict[Shape, tuple[Array, Array]] = {}

    def _launch(self, kernel: str, threads: int, *args: Any) -> None:
        if threads:
            self.run(Launch("dense_blocks/block_convert.cu", kernel, cdiv(threads, BLOCK), BLOCK, args))

    def marks(self, shape: Shape) -> tuple[Array, Array]:
        """Of a shape, (words,) each: its bits, and how many are set up to the end of each word."""
        if shape not in self.picked:
            xp, count, number = self.a.xp, len(self.words), self.shapes.index(shape)
            words, counted = xp.empty(count, dtype=np.uint32), xp.empty(count, dtype=self.index)
            sizes = self.index(count), np.int32(len(self.shapes)), np.int32(number)
            self._launch(f"pick_shape<{ctype(counted)}>", count, *sizes, self.words, words, counted)
            narrow, wide = both_offsets(counted, notes(xp, count), self.run)
            self.picked[shape] = words, (narrow if self.index is np.int32 else wide)[1:]
        return self.picked[shape]

    def counts(self, r: int, c: int) -> Array:
        """Tiles of each block row, (block rows,)."""
        a = self.a
        counts = a.xp.empty(cdiv(a.rows, r), dtype=self.index)
        sizes = np.int32(len(counts)), np.int32(a.rows), np.int32(r)
        self._launch(f"count_tiles<{ctype(counts)}>", len(counts), *sizes, a.row_ptr, *self.marks((r, c)), counts)
        return counts

    def store(self, r: int, c: int, height: int, load: int, place: Array, slice_ptr: Array) -> tuple[Array, Array]:
        """As `SortedTiles.store`."""
        a = self.a
        found = room(a, int(slice_ptr[-1]), r, c, height)
        sizes = np.int32(a.rows), self.index(a.nnz), *(np.int32(n) for n in (r, c, height, load))
        kernel = f"store_tiles<{ctype(a.values)}, {ctype(a.row_ptr)}, {ctype(slice_ptr)}>"
        matrix = a.row_ptr, a.col_idx, a.values
        self._launch(kernel, self.threads, *sizes, *matrix, *self.marks((r, c)), place, slice_ptr, *found)
        return found
