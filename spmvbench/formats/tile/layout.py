"""How the seven formats of a 16 x 16 tile pack its entries, and how they are read back (TileSpMV, section III.C)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, array_module, expand, index_dtype, nonzero_mask, offsets, round_up
from spmvbench.formats.kernels import constant
from spmvbench.formats.tile.convert import (
    COO,
    CSR,
    DNS,
    DNS_COL,
    DNS_ROW,
    ELL,
    HYB,
    NAMES,
    TILE,
    Entries,
    Tiles,
)

INDEX_ARRAYS = ("csr_col", "csr_row_ptr", "coo_idx", "ell_col", "hyb_idx", "row_id", "col_id")

ALIGNED = constant("tile/tile.cu", "ALIGNED")  # entries whose columns fill a word


def packed(halves: Array) -> Array:
    """Bytes of half bytes, (2 n,) uint8, the first of two in the high half: (n,) uint8."""
    return halves[0::2] << 4 | halves[1::2]


def halves(packed_: Array) -> Array:
    """The half bytes of packed bytes, the high half first: (2 n,) uint8."""
    return array_module(packed_).stack([packed_ >> 4, packed_ & 15], axis=1).reshape(-1)


def scattered(size: int, place: Array, value: Array) -> Array:
    """Values at their places, zeros elsewhere: (size,)."""
    array = array_module(value).zeros(size, dtype=value.dtype)
    array[place] = value
    return array


def pack_csr(e: Entries, lengths: Array) -> dict[str, Array]:
    """The arrays of CSR tiles. e: their entries. lengths: (tiles, 16), uint8.

    The values are filled up to an even number and the columns to a multiple of ALIGNED, so that every pair of values
    and every word of columns can be loaded whole. The row pointers are exclusive, at most 240: the last row ends where
    the tile does.
    """
    xp, nnz = array_module(e.value), len(e.value)
    values = xp.zeros(round_up(nnz, 2), dtype=e.value.dtype)
    values[:nnz] = e.value
    cols = xp.zeros(round_up(nnz, ALIGNED), dtype=np.uint8)
    cols[:nnz] = e.col
    before = xp.cumsum(lengths, axis=1, dtype=np.int32) - lengths
    return {"csr_val": values, "csr_col": packed(cols), "csr_row_ptr": before.astype(np.uint8).reshape(-1)}


def unpack_csr(counts: Array, val: Array, col: Array, row_ptr: Array) -> tuple[Array, Array, Array, Array]:
    """Entries of CSR tiles: (tile, row in it, column in it, value). counts: (tiles,), entries of each."""
    xp = array_module(val)
    ends = xp.append(row_ptr.reshape(-1, TILE)[:, 1:].astype(np.int64), counts.reshape(-1, 1), axis=1)
    lengths = ends.reshape(-1) - row_ptr
    ptr = offsets(lengths)
    total = int(ptr[-1])
    owner = expand(ptr, total)
    return owner // TILE, owner % TILE, halves(col)[:total], val[:total]


@dataclass(frozen=True, eq=False)
class Layout:
    """Tiles with their formats, and the room that each one takes in its format's arrays.

    fmt, width: (tiles,) uint8, from `choose`. tail: (tiles,) uint8, entries of a HYB tile beyond its ELL part.
    values: (tiles,) int64, value slots. index: (tiles,) int64, units of the array that `off2` counts in: row pointers
    of CSR, bytes of HYB, row or column numbers of DnsRow and DnsCol. members: the tiles of each format, in order.
    """

    tiles: Tiles
    fmt: Array
    width: Array
    tail: Array
    values: Array
    index: Array
    members: list[Array]

    @classmethod
    def of(cls, tiles: Tiles, fmt: Array, width: Array) -> Layout:
        """Count the room that tiles of these formats and widths take."""
        xp = tiles.xp
        members = [xp.flatnonzero(fmt == f) for f in range(7)]
        tail = xp.zeros(len(tiles), dtype=np.uint8)
        hyb = members[HYB]
        if len(hyb):
            lengths = tiles.row_lengths(hyb, tiles.runs_of(fmt == HYB))
            in_head = xp.minimum(lengths, width[hyb][:, None]).sum(axis=1, dtype=np.int32)
            tail[hyb] = (tiles.nnz[hyb] - in_head).astype(np.uint8)
        wide = width.astype(np.int64)
        padded = (fmt == ELL) | (fmt == HYB)
        values = xp.where(padded, TILE * wide + tail, xp.where(fmt == DNS, TILE * TILE, tiles.nnz))
        index = xp.where(fmt == HYB, TILE // 2 * wide + tail, xp.where(fmt >= DNS_ROW, wide, 0))
        index[members[CSR]] = TILE
        return cls(tiles, fmt, width, tail, values, index, members)

    @cached_property
    def totals(self) -> tuple[list[int], list[int]]:
        """`values` and `index` summed over the tiles of each format, (7,) each."""
        values, index = (
            [int(n[tiles].sum()) if len(tiles) else 0 for tiles in self.members] for n in (self.values, self.index)
        )
        return values, index

    @property
    def offset_dtype(self) -> np.dtype:
        """The type of tile_nnz, off1 and off2."""
        values, index = self.totals
        return index_dtype(max(*values, *index, self.tiles.a.nnz))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that `pack` makes."""
        values, index = self.totals
        slots = round_up(values[CSR], 2) + sum(values[COO:])
        packed_bytes = round_up(values[CSR], ALIGNED) // 2 + values[COO] + values[ELL] // 2 + sum(index)
        width = self.offset_dtype.itemsize
        level1 = len(self.tiles) * (4 + 1 + 1 + 3 * width) + width  # tile_col, fmt, tail; off1, off2, tile_nnz
        return level1 + slots * self.tiles.a.dtype.itemsize + packed_bytes

    def _starts(self, counts: Array) -> Array:
        """Where each tile starts among those of its format, (tiles,), from their counts."""
        found = self.tiles.xp.zeros(len(self.tiles), dtype=self.offset_dtype)
        for tiles in self.members:
            if len(tiles):
                found[tiles] = offsets(counts[tiles])[:-1].astype(self.offset_dtype)
        return found

    def pack(self) -> dict[str, Array]:
        """The arrays of the storage by name, without those of the tile rows."""
        tiles, xp = self.tiles, self.tiles.xp
        off1, off2 = self._starts(self.values), self._starts(self.index)
        values, _ = self.totals
        fmt_of_run = self.fmt[tiles.tile]
        empty = {f"{name}_val": xp.empty(0, dtype=tiles.a.dtype) for name in NAMES}
        empty |= dict.fromkeys(INDEX_ARRAYS, xp.empty(0, dtype=np.uint8))
        found = empty | {
            "tile_col": tiles.col,
            "tile_nnz": tiles.ptr.astype(self.offset_dtype),
            "fmt": self.fmt | self.width << 3,
            "tail": self.tail,
            "off1": off1,
            "off2": off2,
        }
        for f, members in enumerate(self.members):
            if not len(members):
                continue
            runs = xp.flatnonzero(fmt_of_run == f)
            e = tiles.entries(runs)
            start = off1[e.tile].astype(np.int64)
            if f == CSR:
                found |= pack_csr(e, tiles.row_lengths(members, runs))
            elif f == COO:
                found |= {"coo_val": e.value, "coo_idx": (e.row << 4 | e.col).astype(np.uint8)}
            elif f == ELL:
                slot = start + e.rank * TILE + e.row
                found["ell_val"] = scattered(values[ELL], slot, e.value)
                found["ell_col"] = packed(scattered(values[ELL], slot, e.col.astype(np.uint8)))
            elif f == HYB:
                found |= self._pack_hyb(e, start, off2[e.tile].astype(np.int64))
            elif f == DNS:
                found["dns_val"] = scattered(values[DNS], start + e.col * TILE + e.row, e.value)
            elif f == DNS_ROW:  # whole rows, in their order
                found |= {"dns_row_val": e.value, "row_id": e.row[::TILE].astype(np.uint8)}
            elif f == DNS_COL:
                found["dns_col_val"] = scattered(values[DNS_COL], start + e.rank * TILE + e.row, e.value)
                found["col_id"] = e.col[e.row == 0].astype(np.uint8)
        return found

    def _pack_hyb(self, e: Entries, start: Array, index_start: Array) -> dict[str, Array]:
        """The arrays of HYB tiles. e: their entries. start, index_start: off1 and off2 of each."""
        xp = self.tiles.xp
        values, index = self.totals
        width = self.width[e.tile].astype(np.int64)
        in_tail = e.rank >= width
        tail = self.tail[self.members[HYB]].astype(np.int64)
        before = xp.zeros(len(self.tiles), dtype=np.int64)
        before[self.members[HYB]] = xp.cumsum(tail) - tail
        rank_in_tail = xp.cumsum(in_tail, dtype=np.int64) - 1 - before[e.tile]
        slot = xp.where(in_tail, TILE * width + rank_in_tail, e.rank * TILE + e.row)
        # In half bytes an entry of the tail is its row, then its column.
        half = 2 * index_start + slot + xp.where(in_tail, rank_in_tail + 1, 0)
        places = xp.append(half, half[in_tail] - 1)
        halves_ = scattered(2 * index[HYB], places, xp.append(e.col, e.row[in_tail]).astype(np.uint8))
        return {"hyb_val": scattered(values[HYB], start + slot, e.value), "hyb_idx": packed(halves_)}


def unpack(f: Any) -> tuple[Array, Array, Array, Array]:
    """Tile, row in it, column in it and value of every slot that holds a value other than zero.

    f: anything with the arrays of `Layout.pack` as attributes.
    """
    xp = f.xp
    fmt, width = f.fmt & 7, f.fmt >> 3
    counts = f.tile_nnz[1:] - f.tile_nnz[:-1]
    parts = []
    for number, name in enumerate(NAMES):
        tiles = xp.flatnonzero(fmt == number)
        if number == CSR:
            own, row, col, value = unpack_csr(counts[tiles], f.csr_val, f.csr_col, f.csr_row_ptr)
        else:
            value = getattr(f, f"{name}_val")
            starts = f.off1[tiles].astype(np.int64)
            own = expand(xp.append(starts, xp.full(1, len(value), dtype=np.int64)), len(value))
            slot = xp.arange(len(value)) - starts[own]
            index = f.off2[tiles][own].astype(np.int64)
            row, col = slot % TILE, slot // TILE
            if number == COO:
                row, col = f.coo_idx >> 4, f.coo_idx & 15
            elif number == ELL:
                col = halves(f.ell_col)
            elif number == HYB:
                head = TILE * width[tiles][own].astype(np.int64)
                half = 2 * index + slot + xp.maximum(slot - head + 1, 0)
                nibble = halves(f.hyb_idx)
                row, col = xp.where(slot < head, row, nibble[half - 1]), nibble[half]
            elif number == DNS_ROW:
                row, col = f.row_id[index + slot // TILE], slot % TILE
            elif number == DNS_COL:
                col = f.col_id[index + slot // TILE]
        parts.append((tiles[own], row.astype(np.int32), col.astype(np.int32), value))
    tile, row, col, value = (xp.concatenate(arrays) for arrays in zip(*parts, strict=True))
    stored = nonzero_mask(value)
    return tile[stored], row[stored], col[stored], value[stored]
