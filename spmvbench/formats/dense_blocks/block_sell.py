"""Blocked sliced ELLPACK: one storage, for BELLPACK and BSELLPACK."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats import transposed
from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.dense_blocks.blocks import shapes
from spmvbench.formats.dense_blocks.tiled import Cut, Sliced
from spmvbench.formats.format import Adding
from spmvbench.formats.launches import STATIC_SHARED_BYTES, Launch, cbool, ctype, per_thread
from spmvbench.formats.multivector import sharing
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

ENOUGH = 3 << 12  # slices times threads of their block rows that keep a large GPU loading, if others share rows of X
SHORT = 8  # tiles of block rows, up to which a thread takes 32 bytes of a row of X, not 16, if a tile has one row


def threads_by_slices(slices: int, steps: int = 0, sharing: int = 1) -> int:
    """Threads that share a block row: more where slices are too few to keep a large GPU loading, at most 8.

    steps: tiles of the block rows of a slice, on average. sharing: threads with a part of a row of X each. If there are
    several, they keep a GPU loading with fewer slices, and a thread has three tiles or more. On an H200 (f64, eight
    vectors) fem:40:3 took 56 us in place of 68, hubbard:10 9.1 in place of 15.
    """
    enough, most = (2**14, 8) if sharing == 1 else (ENOUGH, min(steps // 3, 8))
    threads = 1
    while 2 * threads <= most and slices * threads * sharing < enough:
        threads *= 2
    return threads


def block_sell_launch(fmt: Sliced, x: Array, y: Array, threads: int = 0, *, add: bool = False) -> Launch:
    """The launch of y = A x (add: y += A x) by `threads` threads per block row; 0 goes by the number of slices."""
    (r, c), (rows, cols) = fmt.tile, fmt.shape
    slices, beside = len(fmt.slice_ptr) - 1, sharing(x.dtype.itemsize)
    steps = len(fmt.block_col) // max(slices, 1)
    threads = threads or threads_by_slices(slices, steps, beside)
    across = 32 * max(8 // threads, 1)
    tiles = max(4 // (r * c), 1)  # that a thread loads at a time
    layout = f"{r}, {c}, {fmt.height}, {fmt.together}, {cbool(len(fmt.perm) > 0)}"
    kernel = (
        f"block_sell_spmv<{ctype(x)}, {ctype(fmt.slice_ptr)}, {layout}, {across}, {threads}, {tiles}, {cbool(add)}>"
    )
    sizes = np.int32(fmt.block_rows), np.int32(rows), np.int32(cols)
    args = (*sizes, fmt.slice_ptr, fmt.block_col, fmt.values, fmt.perm, x, y)
    grid, block = cdiv(fmt.block_rows, across), (across, threads)
    alone = threads == 1 or across * threads * r * 32 <= STATIC_SHARED_BYTES
    row_bytes = 32 if alone and (r > 1 or steps <= SHORT) else 16
    return Launch("dense_blocks/block_sell.cu", kernel, grid, block, args, row_lanes=1, row_bytes=row_bytes)


def transposed_launch(fmt: Sliced, x: Array, y: Array) -> Launch:
    """The launch of y += A^T x. x: (rows,), y: (cols,)."""
    (rows, cols), (r, c), block_rows = fmt.shape, fmt.tile, fmt.block_rows
    types = f"{ctype(fmt.values)}, {ctype(fmt.slice_ptr)}, {r}, {c}"
    sizes = np.int32(block_rows), np.int32(rows), np.int32(cols)
    args = (*sizes, fmt.slice_ptr, fmt.block_col, fmt.values, fmt.perm, np.bool_(len(fmt.perm) > 0), x, y)
    if fmt.height > 1:
        kernel = f"block_sell_transposed<{types}, {fmt.height}, {fmt.together}>"
        return Launch(transposed.SOURCE, kernel, *per_thread(block_rows, transposed.BLOCK), args)
    lanes = transposed.lanes_by_mean(len(fmt.block_col) * c, block_rows)
    kernel = f"bsr_transposed<{types}, {lanes}>"
    return Launch(transposed.SOURCE, kernel, *per_thread(block_rows * lanes, transposed.BLOCK), args)


class BlockSell(Adding, Sliced):
    """Dense r x c tiles in slices of C block rows, each slice as long as its longest block row; see `Tiled`.

    Where r or c is 0, both are chosen among 1, 2, 3, 4, 6 and 8 for the fewest bytes, padding counted; with 1 x 1 it is
    sliced ELLPACK.

    A thread takes a block row, with a sum for each of the tile's rows; up to 8 threads share one where the matrix is
    small. Padding is not multiplied, zeros within a tile are.
    """

    family = "ELLPACK"
    wide_offsets = True
    multiplies_padding = True
    sort: ClassVar[bool]

    r = Parameter(0, "rows of a tile, 1 to 8; 0 takes the number with the fewest bytes", low=0, high=8)
    c = Parameter(0, "columns of a tile; 0 takes the number with the fewest bytes", low=0, high=8)
    C = Parameter(32, "block rows of a slice", choices=(8, 32))
    threads = Parameter(0, "threads per block row, up to 8; 0 chooses them by the number of slices", low=0, high=8)

    @classmethod
    def cut(cls, *, r: int, c: int, C: int, **params: Any) -> Cut:
        return Cut(shapes(r, c), height=C, sort=cls.sort)

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        return [block_sell_launch(self, x, y, self.threads, add=add)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        return [transposed_launch(self, x, y)]


@register
class Bellpack(BlockSell):
    """Dense tiles; block rows sorted by their number of tiles, and padded to the longest of each group of 32.

    See `BlockSell`. The paper chooses r and c by a model of the run time; here those with the fewest bytes are taken.
    That rule, groups of 32 block rows and one thread or more per block row are our reading.
    """

    key = "bellpack"
    shared_implementation = "blocked sliced ELLPACK: sorted, C=32"
    survey_name = "BELLPACK"
    reference = "Choi, Singh & Vuduc, PPoPP 2010"
    sort = True
    load = 4


class NaturalBlockSell(BlockSell):
    """Block rows in natural order, their values loaded 16 bytes at a time."""

    sort = False
    load = 16


@register
class Bsellpack(NaturalBlockSell):
    """Dense tiles; block rows in natural order, padded to the longest of each 32, values loaded 16 bytes at a time.

    See `BlockSell`. Tiles are those of clSpMV, the paper's program: 1, 2, 4 or 8 rows and 4 or 8 columns. It refuses
    matrices that they fill too little; here `max_bytes` is the limit.
    """

    key = "bsellpack"
    shared_implementation = "blocked sliced ELLPACK: natural order, C=32, clSpMV's eight tiles"
    survey_name = "BSELLPACK"
    reference = "Su & Keutzer, ICS 2012"

    ROWS: ClassVar[tuple[int, ...]] = (1, 2, 4, 8)
    COLUMNS: ClassVar[tuple[int, ...]] = (4, 8)

    r = Parameter(0, "rows of a tile; 0 takes the number with the fewest bytes", choices=(0, *ROWS))
    c = Parameter(0, "columns of a tile; 0 takes the number with the fewest bytes", choices=(0, *COLUMNS))

    @classmethod
    def cut(cls, *, r: int, c: int, C: int, **params: Any) -> Cut:
        return Cut(shapes(r, c, cls.ROWS, cls.COLUMNS), height=C, sort=cls.sort)


@register
class BlockSellFree(NaturalBlockSell):
    """Dense tiles of up to 8 x 8 in slices of 32 block rows, in natural order; `bsellpack` with any tile shape.

    See `BlockSell`. Blocks of 3 x 3, as finite elements in space have them, are stored without fill.
    """

    key = "block-sell"
    shared_implementation = "blocked sliced ELLPACK: natural order, C=32"
    reference = "this project, after Su & Keutzer, ICS 2012"
    project_kernel = True
