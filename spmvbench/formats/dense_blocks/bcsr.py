"""Block CSR: one storage of dense tiles for several names with different kernels; and blocked COO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, index_dtype
from spmvbench.formats.dense_blocks.block_sell import block_sell_launch, transposed_launch
from spmvbench.formats.dense_blocks.blocks import shapes
from spmvbench.formats.dense_blocks.tiled import SMALL, Cut, Sliced, Tiled, squares
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import FASTEST, tuned

LOADS = (1, 2, 3, 4, 6, 9, 12)  # tiles of a thread in flight


def lanes_for(mean: float, c: int) -> int:
    """Threads per block row with so many values on average: 8, 16 or 32, at least c; each takes two or more."""
    lanes = 8
    while lanes < 32 and (lanes < c or 4 * lanes <= mean):
        lanes *= 2
    return lanes


def loads_for(mean: float, r: int, c: int, lanes: int, workers: int) -> int:
    """Tiles of a thread in flight: all of a block row with so many on average, as far as registers go.

    On an H200 a block row of 27 tiles of 3 x 3 by 32 threads runs at 933 GFLOPS with all 9 of a thread, 670 with 4.
    """
    at_once = max(lanes // (r * c), 1) * workers
    values = cdiv(r * c, lanes)  # a thread's of a tile
    fitting = [n for n in LOADS if n * values <= LOADS[-1]] or [1]
    return next((n for n in fitting if n * at_once >= mean), fitting[-1])


class Bcsr(Sliced):
    """Tiles one after the other, and pointers to the first of each block row; see `Tiled`.

    Threads read the tiles of a block row as one stream, one value each.
    """

    family = "BCSR"
    multiplies_padding = True

    def stream(self, x: Array, y: Array, lanes: int, workers: int, block: int) -> Launch:
        """The launch of y = A x by `workers` groups of `lanes` threads per block row, in blocks of so many threads."""
        (r, c), (rows, cols) = self.tile, self.shape
        across = block // (lanes * workers)
        loads = loads_for(len(self.values) / max(self.block_rows, 1), r, c, lanes, workers)
        cut = f"{r}, {c}, {lanes}, {workers}, {across}, {cbool(len(self.perm) > 0)}, {loads}"
        kernel = f"bcsr_spmv<{ctype(x)}, {ctype(self.slice_ptr)}, {cut}>"
        sizes = np.int32(self.block_rows), np.int32(rows), np.int32(cols)
        args = (*sizes, self.slice_ptr, self.block_col, self.values, self.perm, x, y)
        return Launch("dense_blocks/bcsr.cu", kernel, cdiv(self.block_rows, across), block, args)

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        return [transposed_launch(self, x, y)]

    @property
    def lanes(self) -> int:
        """Threads of a block row, by the values that it has on average."""
        return lanes_for(self.values.size / max(self.block_rows, 1), self.tile[1])

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [self.stream(x, y, self.lanes, 1, 128)]


@register
class Bsr(Bcsr):
    """Block CSR of square tiles, as cuSPARSE defines it; 8 to 32 threads per block row read its tiles as one stream.

    See `Tiled`. The side is that of 2, 3 and 4 with the fewest bytes unless it is given.
    """

    key = "bsr"
    survey_name = "BCSR"
    shared_implementation = "block CSR: squares, threads per block row by the mean block row"
    reference = "Im, Yelick & Vuduc, IJHPCA 2004; NVIDIA cuSPARSE's BSR"

    block = Parameter(0, "rows and columns of a tile; 0 takes 2, 3 or 4", choices=(0, 2, 3, 4, 5, 8, 16))


@register
class BcsrChoi(Bcsr):
    """Block CSR with tiles of 1 to 4 or 8 rows and columns; a warp reads the tiles of a block row as one stream.

    See `Tiled`. The paper chooses r and c by a model of the run time; here those with the fewest bytes are taken. That
    threads of a warp share tiles value by value, and that short block rows have 8 or 16 of them, is our reading.
    """

    key = "bcsr-choi"
    survey_name = "BCSR optimization [22]"
    shared_implementation = "block CSR: rectangles, threads per block row by the mean block row"
    reference = "Choi, Singh & Vuduc, PPoPP 2010"

    r = Parameter(0, "rows of a tile; 0 takes the number with the fewest bytes", choices=(0, 1, 2, 3, 4, 8))
    c = Parameter(0, "columns of a tile; 0 takes the number with the fewest bytes", choices=(0, 1, 2, 3, 4, 8))

    @classmethod
    def cut(cls, *, r: int, c: int) -> Cut:
        sides = 1, 2, 3, 4, 8
        return Cut(shapes(r, c, sides, sides))


@register
class BcsrXu(Bcsr):
    """Block CSR with two warps per block row, which share x in the L1 cache (our reading).

    See `Tiled`. The paper was not available; small square tiles, chosen by bytes, are our reading.
    """

    key = "bcsr-xu"
    survey_name = "BCSR optimization [106]"
    shared_implementation = "block CSR: squares, two warps per block row"
    reference = "Xu et al. 2012, as Filippone et al. 2017 describe it"

    block = Parameter(0, "rows and columns of a tile; 0 takes 2, 3 or 4", choices=(0, *SMALL))

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [self.stream(x, y, 32, 2, 64)]


@register
class BcsrVerschoor(Bcsr):
    """Block CSR with several block rows per thread block, sorted by length or interleaved (our reading).

    See `Tiled`. order=interleaved stores the block rows of a thread block side by side, tile by tile, padded to the
    longest of them, as blocked sliced ELLPACK with slices of `rows`. What is fastest on the matrix is found by timing,
    as part of the conversion: the order of blocks, sorting, and then the number of block rows. If NumPy holds the
    matrix nothing can be timed: 4 block rows are sorted and interleaved there. The paper was not available: `rows`,
    `sort`, `order` and their tuning are our reading of the survey's "mappings" and "block reordering".
    """

    key = "bcsr-verschoor"
    survey_name = "BCSR optimization [98]"
    shared_implementation = "block CSR: squares, block rows of a thread block and their order"
    reference = "Verschoor & Jalba, Parallel Computing 2012, as Filippone et al. 2017 describe it"

    block = Parameter(0, "rows and columns of a tile; 0 takes 2, 3 or 4", choices=(0, *SMALL))
    rows = Parameter(0, "block rows per thread block of 128; 0: the fastest", choices=(0, 1, 2, 4, 8))
    sort = Parameter(FASTEST, "length: block rows with the most tiles first", choices=(FASTEST, "none", "length"))
    order = Parameter(
        FASTEST,
        "interleaved: tiles of a thread block's block rows are interleaved",
        choices=(FASTEST, "rows", "interleaved"),
    )

    rows_in_use: int
    sort_in_use: str
    order_in_use: str

    @classmethod
    def cut(cls, *, block: int, rows: int, sort: str, order: str) -> Cut:
        return Cut(squares(block), height=1 if order == "rows" else rows or 4, sort=sort != "none")

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        kept: dict[Any, dict[str, Any]] = {}  # what was tried last: others like it are often next

        def stored(**given: Any) -> dict[str, Any]:
            if (which := tuple(given.items())) not in kept:
                kept.clear()  # its memory is wanted
                kept[which] = super(BcsrVerschoor, cls).convert(a, **given)
            return kept[which]

        def fields(*, block: int, rows: int, sort: str, order: str) -> dict[str, Any]:
            rows, sort = rows or 4, "length" if sort == FASTEST else sort
            order = "interleaved" if order == FASTEST else order
            high = rows if order == "interleaved" else 1  # else the storage is the same
            found = stored(block=block, rows=high, sort=sort, order=order)
            return found | {"rows_in_use": rows, "sort_in_use": sort, "order_in_use": order}

        choices = {name: cls.parameters()[name].choices[1:] for name in ("order", "sort", "rows")}
        return tuned(cls, a, params, choices, fields)

    @property
    def in_use(self) -> dict[str, Any]:
        return {"rows": self.rows_in_use, "sort": self.sort_in_use, "order": self.order_in_use}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        if self.order_in_use == "interleaved":
            return [block_sell_launch(self, x, y)]
        threads = 128 // self.rows_in_use
        return [self.stream(x, y, min(threads, 32), max(threads // 32, 1), 128)]

    @property
    def detail(self) -> dict[str, Any]:
        return super().detail | self.in_use


@register
class BcsrEberhardt(Bcsr):
    """Block CSR, a warp per block row: its lanes read the tiles value by value, column after column.

    See `Tiled`. For tiles of 2 to 32 rows and columns. Of the paper the abstract was read: that lanes go through the
    tiles as one stream is our reading of its kernel by columns.
    """

    key = "bcsr-eberhardt"
    alias_of = "bcsr-verschoor[order=rows,rows=4,sort=none]"
    shared_implementation = "block CSR: squares of up to 32, a warp per block row"
    reference = "Eberhardt & Hoemmen, IA3 2016"

    block = Parameter(0, "rows and columns of a tile; 0 takes 2, 3 or 4", choices=(0, 2, 3, 4, 5, 8, 16, 32))

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [self.stream(x, y, 32, 1, 128)]


@register
class BcsrKblas(Bcsr):
    """Block CSR with large tiles: a thread block per block row, whose warps share its tiles as a dense product.

    See `Tiled`. As many warps as have 4 values each of a mean block row, at most 8. Of the papers the abstracts were
    read: the number of warps is our reading of their balance over rows.
    """

    key = "bcsr-kblas"
    shared_implementation = "block CSR: squares of up to 32, a thread block per block row"
    reference = "Abdelfattah, Ltaief & Keyes, Euro-Par 2015; with Dongarra, CCPE 2016"

    block = Parameter(0, "rows and columns of a tile; 0 takes 2, 3 or 4", choices=(0, 2, 3, 4, 5, 8, 16, 32))

    def launches(self, x: Array, y: Array) -> list[Launch]:
        mean = self.values.size / max(self.block_rows, 1)
        warps = next((n for n in (1, 2, 4) if mean <= 128 * n), 8)
        return [self.stream(x, y, 32, warps, 32 * warps)]


@register
class BcsrBuatois(Tiled):
    """Block CSR, one thread per block row: tiles of 2 x 2 or 4 x 4 and their x are loaded as vectors.

    See `Tiled`. Begin and end of a block row are adjacent, so that one load reads both.
    """

    key = "bcsr-buatois"
    family = "BCSR"
    survey_name = "BCSR optimization [16]"
    shared_implementation = "block CSR: squares, one thread per block row"
    reference = "Buatois, Caumon & Lévy, Concurrent Number Cruncher, 2009"
    multiplies_padding = True

    block = Parameter(2, "rows and columns of a tile", choices=(2, 4))

    block_range: Array  # (block rows, 2), int32, or int64 where the tiles need it: first tile, and after the last

    @classmethod
    def finder_bytes(cls, slices: int, steps: int) -> int:
        return 2 * slices * index_dtype(steps).itemsize

    @classmethod
    def finder(cls, slice_ptr: Array) -> Mapping[str, Array]:
        return {"block_range": array_module(slice_ptr).stack((slice_ptr[:-1], slice_ptr[1:]), axis=1)}

    @property
    def slice_of_step(self) -> Array:
        xp = self.xp
        ends = xp.full(1, len(self.values), dtype=self.block_range.dtype)
        return expand(xp.concatenate((self.block_range[:, 0], ends)), len(self.values))

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, cols = self.shape
        sizes = np.int32(self.block_rows), np.int32(rows), np.int32(cols)
        kernel = f"bcsr_thread<{ctype(x)}, {ctype(self.block_range)}, {self.block}>"
        args = (*sizes, self.block_range, self.block_col, self.values, x, y)
        return [Launch("dense_blocks/bcsr.cu", kernel, *per_thread(self.block_rows), args)]


@register
class Bcoo(Tiled):
    """Blocked COO: dense tiles with a row and a column index each; tiles of one row are added by atomics (our reading).

    See `Tiled`. The survey gives only the name: the storage is that of textbooks, the kernel this project's. Where r or
    c is 0, both are chosen among 1, 2, 3, 4, 6 and 8 for the fewest bytes.
    """

    key = "bcoo"
    multiplies_padding = True
    family = "COO"
    survey_name = "BCOO"
    reference = "Filippone et al. 2017, section 4.6"
    rounds: ClassVar[int] = 4  # of a warp

    r = Parameter(0, "rows of a tile; 0 takes the number with the fewest bytes", choices=(0, 1, 2, 3, 4, 6, 8))
    c = Parameter(0, "columns of a tile; 0 takes the number with the fewest bytes", choices=(0, 1, 2, 3, 4, 6, 8))

    block_row: Array  # (tiles,), int32: row of a tile, in tiles

    @classmethod
    def cut(cls, *, r: int, c: int) -> Cut:
        return Cut(shapes(r, c))

    @classmethod
    def finder_bytes(cls, slices: int, steps: int) -> int:
        return 4 * steps

    @classmethod
    def finder(cls, slice_ptr: Array) -> Mapping[str, Array]:
        return {"block_row": expand(slice_ptr, int(slice_ptr[-1]))}

    @property
    def slice_of_step(self) -> Array:
        return self.block_row

    def launches(self, x: Array, y: Array) -> list[Launch]:
        (r, c), (rows, cols), block = self.tile, self.shape, 256
        tiles = index_dtype(len(self.values)).type(len(self.values))
        warps = cdiv(len(self.values), 32 // r * self.rounds)
        kernel = f"bcoo_spmv<{ctype(x)}, {ctype(tiles)}, {r}, {c}, {self.rounds}>"
        args = (tiles, np.int32(rows), np.int32(cols), self.block_row, self.block_col, self.values, x, y)
        return [zero_fill(y), Launch("dense_blocks/bcsr.cu", kernel, cdiv(warps * 32, block), block, args)]
