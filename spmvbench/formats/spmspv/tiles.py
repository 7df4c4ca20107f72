"""A and x in tiles: TileSpMSpV."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, run_starts, stable_order
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import ZEROS_EACH, Launch, Struct, ctype, in_part, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.spmspv.columns import FEW, push_lanes
from spmvbench.formats.vectors import SparseVector

BLOCK = 256
WARP = constant("include/spmv.cuh", "WARP")
TILES = 16  # of a warp: the best on an H200
SOURCE = "spmspv/tiles.cu"


class Cut(NamedTuple):
    """A matrix cut into tiles.

    order: (nnz,), the entries by tile row, tile, list (a column of the tile, or a row), place in the list. tile, list:
    of each in that order the number of its tile and the list in it. key: (tiles,), tile row * tile columns + tile
    column. few: (tiles,), whether the tile's entries are extracted.
    """

    order: Array
    tile: Array
    list: Array
    key: Array
    few: Array

    @classmethod
    def of(cls, a: Csr, nt: int, extract: int, *, by_rows: bool) -> Cut:
        """By one sort."""
        tile_rows, tile_cols = cdiv(a.rows, nt), max(cdiv(a.cols, nt), 1)
        place = a.row_idx % nt if by_rows else a.col_idx % nt
        key = ((a.row_idx // nt).astype(np.int64) * tile_cols + a.col_idx // nt) * nt + place
        order = stable_order(key, max(tile_rows * tile_cols * nt, 1))
        key = key[order]
        starts = run_starts(key // nt)
        ptr = a.xp.append(starts, a.xp.full(1, a.nnz, dtype=starts.dtype))
        return cls(order, expand(ptr, a.nnz), key % nt, key[starts] // nt, a.xp.diff(ptr) <= extract)


@register
class TileSpmspv(Format):
    """A and x in tiles of nt x nt and nt; tiles of A that meet no entry of x are skipped by one word per tile of x.

    Of the tiles that hold entries, a word says which of their columns do, and where each of those begins; an entry is
    its row in the tile and its value. A warp takes 16 tiles, whatever row they are in: two threads per tile find the
    columns that A and x share, and these alone are multiplied and added to y by atomics. Entries of tiles of a few are
    kept separate, by columns, and pushed. Every run brings x into tiles: a word per tile with a bit for each entry, and
    the entries at their places.

    kernel=paper keeps tiles by rows, an entry of a tile of 16 x 16 with row and column in four bits each. It packs the
    tiles of x that hold entries, with x_ptr to find them, -1 for none; a warp takes a row of tiles, two threads per row
    (nt = 16; else one, and with 64 rows a thread has two), brings each tile that meets a tile of x, and that, to shared
    memory and multiplies all of it, as Algorithm 4 does. The rows of tiles that met any are the tiles of y, packed
    likewise in any order, from which the last launches make the y of all rows that is compared here; extracted entries
    are COO and added to that, a thread each. Our reading, of what the paper leaves open: the threshold of very sparse
    tiles; that the beginnings of empty rows are left out; the kernel for what is extracted. Sums are not reproducible
    if any is extracted.
    """

    key = "tile-spmspv"
    family = "SpMSpV"
    reference = "Ji et al., TileSpMSpV, ICPP 2022"
    op = "spmspv"

    kernel = Parameter("fast", "fast: this project's kernel; paper: Algorithm 4", choices=("fast", "paper"))
    nt = Parameter(32, "rows and columns of a tile", choices=(16, 32, 64))
    extract = Parameter(4, "tiles of at most this many entries are extracted", low=0, high=16)

    tile_ptr: Array  # (tile rows + 1,), int32: tiles before each row of tiles; (0,) where kernel=fast
    tile_row: Array  # (tiles,), int32; (0,) where kernel=paper
    tile_col: Array  # (tiles,), int32
    tile_mask: Array  # (tiles,), an unsigned word of nt bits: the columns (rows) that hold entries, each a list
    tile_list: Array  # (tiles,), of row_ptr's type: lists before the tile's
    list_begin: Array  # (lists + 1,), of row_ptr's type: entries before each list
    local: Array  # (entries,), uint8: the row (column; with nt = 16 the row in its upper half) in the tile
    values: Array  # (entries,)
    extracted_row: Array  # (extracted,), int32, columns rising
    extracted_col: Array  # (cols + 1,), of row_ptr's type, extracted entries before each; paper: (extracted,), int32
    extracted_values: Array  # (extracted,)
    lanes: int  # of a column of extracted entries

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        found, entry = cls._tiled(a, **params)
        pointers = (a.cols + 1) * a.row_ptr.itemsize if len(entry) and params["kernel"] != "paper" else 4 * len(entry)
        return int(sum(array.nbytes for array in found.values()) + pointers)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, (found, entry) = a.xp, cls._tiled(a, **params)
        extracted_col, lanes = a.col_idx[entry], 1
        if params["kernel"] != "paper":
            columns = a.cols + 1 if len(entry) else 0
            extracted_col = xp.searchsorted(extracted_col, xp.arange(columns, dtype=np.int32)).astype(a.row_ptr.dtype)
            lanes = push_lanes(xp.diff(extracted_col))
        return found | {"extracted_col": extracted_col, "lanes": lanes}

    @classmethod
    def _tiled(cls, a: Csr, *, kernel: str, nt: int, extract: int, **params: Any) -> tuple[dict[str, Any], Array]:
        """All fields but those of the columns of extracted entries, and the extracted entries, columns rising."""
        xp, index, by_rows = a.xp, a.row_ptr.dtype, kernel == "paper"
        tile_cols = max(cdiv(a.cols, nt), 1)
        found = Cut.of(a, nt, extract, by_rows=by_rows)
        apart = found.few[found.tile]
        entries, list_in = found.order[~apart], found.list[~apart]
        local = a.col_idx if by_rows else a.row_idx

        key = found.key[~found.few]
        tile_row = (key // tile_cols).astype(np.int32)
        number = xp.cumsum(~found.few) - 1
        tile = number[found.tile[~apart]]
        begin = run_starts(tile * nt + list_in)
        first = run_starts(tile[begin])
        # The bits of a tile are different ones: their sum is all of them, and sums may wrap.
        bits = xp.left_shift(np.uint64(1), list_in[begin].astype(np.uint64))
        sums = xp.cumsum(xp.append(xp.zeros(1, dtype=np.uint64), bits), dtype=np.uint64)
        last = xp.append(first[1:], xp.full(min(len(first), 1), len(begin), dtype=first.dtype))

        place = local[entries] % nt
        if by_rows and nt == 16:
            place += a.row_idx[entries] % nt << 4
        none = xp.empty(0, dtype=np.int32)
        entry = found.order[apart]
        entry = entry[stable_order(a.col_idx[entry].astype(np.int64), max(a.cols, 1))]
        fields = {
            "tile_ptr": xp.searchsorted(tile_row, xp.arange(cdiv(a.rows, nt) + 1)).astype(np.int32)
            if by_rows
            else none,
            "tile_row": none if by_rows else tile_row,
            "tile_col": (key % tile_cols).astype(np.int32),
            "tile_mask": (sums[last] - sums[first]).astype(f"uint{nt}"),
            "tile_list": first.astype(index),
            "list_begin": xp.append(begin, xp.full(1, len(entries), dtype=begin.dtype)).astype(index),
            "local": place.astype(np.uint8),
            "values": a.values[entries],
            "extracted_row": a.row_idx[entry],
            "extracted_values": a.values[entry],
        }
        return fields, entry

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, nt, by_rows = self.xp, self.nt, self.kernel == "paper"
        bits = self.tile_mask[:, None] >> xp.arange(nt, dtype=self.tile_mask.dtype) & self.tile_mask.dtype.type(1)
        at = xp.flatnonzero(bits.ravel())[expand(self.list_begin, len(self.values))]
        tile, inside = at // nt, (at % nt, self.local % nt) if by_rows else (self.local, at % nt)
        tile_row = expand(self.tile_ptr, len(self.tile_col)) if by_rows else self.tile_row
        row, col = (first[tile] * nt + place for first, place in zip((tile_row, self.tile_col), inside, strict=True))
        extracted_col = self.extracted_col
        if not by_rows and len(extracted_col):
            extracted_col = expand(extracted_col, len(self.extracted_values))
        apart = self.extracted_row, extracted_col, self.extracted_values
        rows, cols, values = (xp.concatenate(pair) for pair in zip((row, col, self.values), apart, strict=True))
        return rows, cols, values

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        if self.kernel == "paper":
            return self._by_rows(x, y)
        xp, (rows, cols), nt, dtype = self.xp, self.shape, self.nt, self.values.dtype
        tile_cols, tiles, extracted = cdiv(cols, nt), len(self.tile_col), len(self.extracted_values)
        x_mask, x_tile = xp.empty(tile_cols, self.tile_mask.dtype), xp.empty(tile_cols * nt, dtype)
        gap = tile_cols // max(len(x), 1)  # of empty tiles between two entries of x, and threads that set their words
        lanes = 1 if gap < 4 else 8 if gap < 32 else 32
        grid, block = per_thread(max((len(x) + 1) * lanes, cdiv(rows, ZEROS_EACH)), BLOCK)
        args: tuple[Any, ...] = (np.int32(len(x)), np.int32(rows), np.int32(cols), x.index, x.value, x_mask, x_tile, y)
        tile = Launch(SOURCE, f"tile_x<{ctype(dtype)}, {nt}, {lanes}>", grid, block, args) if tiles else zero_fill(y)
        tiled = self.tile_row, self.tile_col, self.tile_mask, self.tile_list, self.list_begin, self.local, self.values
        lanes = 32 if len(x) <= FEW else self.lanes
        apart = self.extracted_col, self.extracted_row, self.extracted_values
        blocks = cdiv(tiles, TILES * (BLOCK // WARP))
        sizes = np.int32(len(x)), np.int32(blocks), np.int32(tiles)
        grid = blocks + (cdiv(len(x) * lanes, BLOCK) if extracted else 0)
        args = (*sizes, x.index, x.value, Struct(tiled), *apart, x_mask, x_tile, y)
        types = f"{ctype(dtype)}, {ctype(self.list_begin)}, {nt}"
        multiply = Launch(SOURCE, f"tile_spmspv<{types}, {TILES}, {lanes}, {BLOCK}>", grid, BLOCK, args)
        return [*in_part("tile x", [tile]), *in_part("multiply", [multiply])]

    def _by_rows(self, x: SparseVector, y: Array) -> list[Launch]:
        """The launches of kernel=paper."""
        xp, (rows, cols), nt, dtype = self.xp, self.shape, self.nt, self.values.dtype
        k, tile_rows, tile_cols, extracted = len(x), cdiv(rows, nt), cdiv(cols, nt), len(self.extracted_values)
        blocks = cdiv(max(k, tile_cols, 1), BLOCK)
        begun, y_tiles = xp.empty(blocks, np.int32), xp.empty(1, np.int32)
        x_ptr, x_tile = xp.empty(tile_cols, np.int32), xp.empty(min(k, tile_cols) * nt, dtype)
        y_ptr, y_tile = xp.empty(tile_rows, np.int32), xp.empty(tile_rows * nt, dtype)

        def launch(kernel: str, grid: int, *args: Any) -> Launch:
            return Launch("spmspv/tile_rows.cu", kernel, grid, BLOCK, args)

        empty = launch(f"empty_tiles<{nt}>", blocks, np.int32(k), np.int32(tile_cols), x.index, x_ptr, begun)
        types = f"{ctype(dtype)}, {nt}"
        pack_x = f"pack_x<{types}, {BLOCK}>"
        pack = launch(pack_x, cdiv(k, BLOCK), np.int32(k), x.index, x.value, begun, x_ptr, x_tile)
        tiled = self.tile_ptr, self.tile_col, self.tile_mask, self.tile_list, self.list_begin, self.local, self.values
        kernel = f"tile_rows<{ctype(dtype)}, {ctype(self.list_begin)}, {nt}, {BLOCK}>"
        args = (np.int32(tile_rows), *tiled, x_ptr, x_tile, y_tiles, y_ptr, y_tile)
        multiply = launch(kernel, cdiv(tile_rows * WARP, BLOCK), *args)
        spread = launch(f"spread_y<{types}>", cdiv(rows, BLOCK), np.int32(rows), y_ptr, y_tile, y)
        apart = self.extracted_row, self.extracted_col, self.extracted_values
        grid = cdiv(extracted, BLOCK)
        add = launch(f"add_extracted<{types}>", grid, np.int64(extracted), *apart, x_ptr, x_tile, y)
        return [
            *in_part("tile x", [empty, pack]),
            *in_part("multiply", [zero_fill(y_tiles), multiply]),
            *in_part("y", [spread, add]),
        ]

    @property
    def detail(self) -> dict[str, Any]:
        share = len(self.extracted_values) / max(len(self.values) + len(self.extracted_values), 1)
        return {"tiles": len(self.tile_col), "extracted_share": share}
