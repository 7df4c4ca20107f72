"""A and x in tiles: TileSpMSpV."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, run_starts, stable_order
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import ZEROS_EACH, Launch, Struct, cbool, ctype, in_part, per_thread, zero_fill
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

    kernel=paper keeps tiles by rows and multiplies all of a tile that meets any entry of x, a warp a row of tiles, two
    threads per row (nt = 16; else one, and with 64 rows a thread has two), as Algorithm 4 does; extracted entries as
    COO, a thread per entry. Our reading, of what the paper leaves open: the threshold of very sparse tiles; that the
    beginnings of empty rows are left out; the kernel for what is extracted; that a tile of x stays at its place and its
    word means x_ptr, where the paper packs tiles and marks empty ones with -1; that rows of over 32 tiles are cut. Sums
    are not reproducible.
    """

    key = "tile-spmspv"
    family = "SpMSpV"
    reference = "Ji et al., TileSpMSpV, ICPP 2022"
    op = "spmspv"

    kernel = Parameter("fast", "fast: this project's kernel; paper: Algorithm 4", choices=("fast", "paper"))
    nt = Parameter(32, "rows and columns of a tile", choices=(16, 32, 64))
    extract = Parameter(4, "tiles of at most this many entries are extracted", low=0, high=16)

    chunk_ptr: Array  # (chunks + 1,), int32: tiles before each run of up to 32 in a tile row; none where kernel=fast
    tile_row: Array  # (tiles,), int32
    tile_col: Array  # (tiles,), int32
    tile_mask: Array  # (tiles,), an unsigned word of nt bits: the columns (rows) that hold entries, each a list
    tile_list: Array  # (tiles,), of row_ptr's type: lists before the tile's
    list_begin: Array  # (lists + 1,), of row_ptr's type: entries before each list
    local: Array  # (entries,), uint8: the row (column) in the tile
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

        entry = found.order[apart]
        entry = entry[stable_order(a.col_idx[entry].astype(np.int64), max(a.cols, 1))]
        fields = {
            "chunk_ptr": _chunks(tile_row) if by_rows else xp.empty(0, dtype=np.int32),
            "tile_row": tile_row,
            "tile_col": (key % tile_cols).astype(np.int32),
            "tile_mask": (sums[last] - sums[first]).astype(f"uint{nt}"),
            "tile_list": first.astype(index),
            "list_begin": xp.append(begin, xp.full(1, len(entries), dtype=begin.dtype)).astype(index),
            "local": (local[entries] % nt).astype(np.uint8),
            "values": a.values[entries],
            "extracted_row": a.row_idx[entry],
            "extracted_values": a.values[entry],
        }
        return fields, entry

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, nt, by_rows = self.xp, self.nt, self.kernel == "paper"
        bits = self.tile_mask[:, None] >> xp.arange(nt, dtype=self.tile_mask.dtype) & self.tile_mask.dtype.type(1)
        at = xp.flatnonzero(bits.ravel())[expand(self.list_begin, len(self.values))]
        tile, inside = at // nt, (at % nt, self.local) if by_rows else (self.local, at % nt)
        row, col = (
            first[tile] * nt + place for first, place in zip((self.tile_row, self.tile_col), inside, strict=True)
        )
        extracted_col = self.extracted_col
        if not by_rows and len(extracted_col):
            extracted_col = expand(extracted_col, len(self.extracted_values))
        apart = self.extracted_row, extracted_col, self.extracted_values
        rows, cols, values = (xp.concatenate(pair) for pair in zip((row, col, self.values), apart, strict=True))
        return rows, cols, values

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        xp, (rows, cols), nt, dtype = self.xp, self.shape, self.nt, self.values.dtype
        tile_cols, tiles, extracted = cdiv(cols, nt), len(self.tile_col), len(self.extracted_values)
        x_mask, x_tile = xp.empty(tile_cols, self.tile_mask.dtype), xp.empty(tile_cols * nt, dtype)
        by_rows = self.kernel == "paper"
        gap = tile_cols // max(len(x), 1)  # of empty tiles between two entries of x, and threads that set their words
        lanes = 1 if gap < 4 else 8 if gap < 32 else 32
        grid, block = per_thread(max((len(x) + 1) * lanes, cdiv(rows, ZEROS_EACH)), BLOCK)
        args: tuple[Any, ...] = (np.int32(len(x)), np.int32(rows), np.int32(cols), x.index, x.value, x_mask, x_tile, y)
        tile = Launch(SOURCE, f"tile_x<{ctype(dtype)}, {nt}, {lanes}, {cbool(by_rows)}>", grid, block, args)
        tiled = self.tile_row, self.tile_col, self.tile_mask, self.tile_list, self.list_begin, self.local, self.values
        types = f"{ctype(dtype)}, {ctype(self.list_begin)}, {nt}"
        if by_rows:
            chunks = len(self.chunk_ptr) - 1
            apart = self.extracted_row, self.extracted_col, self.extracted_values
            args = (np.int32(chunks), np.int64(extracted), self.chunk_ptr, *tiled, *apart, x_mask, x_tile, y)
            grid, block = per_thread(chunks * WARP + extracted, BLOCK)
            multiply = Launch(SOURCE, f"tile_rows<{types}>", grid, block, args)
        else:
            if not tiles:
                tile = zero_fill(y)
            lanes = 32 if len(x) <= FEW else self.lanes
            apart = self.extracted_col, self.extracted_row, self.extracted_values
            blocks = cdiv(tiles, TILES * (BLOCK // WARP))
            sizes = np.int32(len(x)), np.int32(blocks), np.int32(tiles)
            grid = blocks + (cdiv(len(x) * lanes, BLOCK) if extracted else 0)
            args = (*sizes, x.index, x.value, Struct(tiled), *apart, x_mask, x_tile, y)
            multiply = Launch(SOURCE, f"tile_spmspv<{types}, {TILES}, {lanes}, {BLOCK}>", grid, BLOCK, args)
        return [*in_part("tile x", [tile]), *in_part("multiply", [multiply])]

    @property
    def detail(self) -> dict[str, Any]:
        share = len(self.extracted_values) / max(len(self.values) + len(self.extracted_values), 1)
        return {"tiles": len(self.tile_col), "extracted_share": share}


def _chunks(tile_row: Array) -> Array:
    """Where runs of up to 32 tiles of one row begin, and the number of tiles: (chunks + 1,), int32."""
    xp, tiles = array_module(tile_row), len(tile_row)
    ptr = xp.append(run_starts(tile_row), xp.full(1, tiles, dtype=np.int64))
    place = xp.arange(tiles) - ptr[expand(ptr, tiles)]
    return xp.append(xp.flatnonzero(place % WARP == 0), ptr[-1:]).astype(np.int32)
