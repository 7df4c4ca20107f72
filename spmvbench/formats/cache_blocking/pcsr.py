"""PCSR: rows in blocks that prefetch x into shared memory, tile by tile of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, offsets, round_up, run_ptr, stable_order
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

ROWS = 256  # of a block, and threads
LANES = 8  # that share a row's segment
PAD = 4  # entries that a segment is a multiple of


@register
class Pcsr(Format):
    """Blocks of 256 rows and tiles of columns; a block copies the x of a tile to shared memory and sums from there.

    A row's entries in a tile are its segment, with 16-bit columns, padded to a multiple of 4 by the last column with
    the value 0. Tiles without entries are not stored. For bands and finite elements: elsewhere a block copies most of
    x. The survey has three sentences on it: sizes and layout are our reading.
    """

    key = "pcsr"
    vectors_together = 1
    family = "CSR"
    survey_name = "PCSR"
    reference = "Dehnavi, Fernández & Giannacopoulos, IEEE Transactions on Magnetics 2010"

    width = Parameter(4096, "columns of a tile", choices=(1024, 2048, 4096))

    tile_ptr: Array  # (blocks + 1,), int32: tiles before each block of rows
    tile: Array  # (tiles,), int32: which of the columns' tiles it is
    segment_ptr: Array  # (tiles * 256 + 1,), int32, or int64 where slots need it: first slot of each row's segment
    col_idx: Array  # (slots,), uint16: column in the tile
    values: Array  # (slots,)
    x_bytes: int  # of an element

    @classmethod
    def _layout(cls, a: Csr, width: int) -> tuple[Array, Array, Array, Array, Array]:
        """Tiles before each block, the tiles, slots before each segment, and by tile the entries and their segments."""
        xp, blocks, tiles = a.xp, cdiv(a.rows, ROWS), cdiv(max(a.cols, 1), width)
        key = (a.row_idx // np.int32(ROWS)).astype(np.int64) * tiles + a.col_idx // np.int32(width)
        order = stable_order(key, max(blocks * tiles, 1))
        key = key[order]
        runs = run_ptr(key)
        found = key[runs[:-1]]
        tile_ptr = xp.searchsorted(found, xp.arange(blocks + 1, dtype=np.int64) * tiles).astype(np.int32)
        which = expand(runs, a.nnz)
        segment = which.astype(np.int64) * ROWS + a.row_idx[order] % ROWS
        lengths = xp.bincount(segment, minlength=len(found) * ROWS) if a.nnz else xp.zeros(0, dtype=np.int64)
        return tile_ptr, (found % tiles).astype(np.int32), offsets(round_up(lengths, PAD)), order, segment

    @classmethod
    def estimate(cls, a: Csr, *, width: int) -> int:
        tile_ptr, tile, segment_ptr, _, _ = cls._layout(a, width)
        return tile_ptr.nbytes + tile.nbytes + segment_ptr.nbytes + int(segment_ptr[-1]) * (2 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, width: int) -> dict[str, Any]:
        xp, (tile_ptr, tile, segment_ptr, order, segment) = a.xp, cls._layout(a, width)
        slots = int(segment_ptr[-1])
        values = xp.zeros(slots, dtype=a.dtype)
        # Entries of a tile are in the order of rows: a segment's follow each other.
        runs = run_ptr(segment)
        starts = runs[:-1]
        slot = segment_ptr[segment] + (xp.arange(a.nnz) - starts[expand(runs, a.nnz)])
        local = (a.col_idx[order] % np.int32(width)).astype(np.uint16)
        last = xp.zeros(len(segment_ptr) - 1, dtype=np.uint16)
        last[segment[starts]] = local[runs[1:] - 1]
        col_idx = last[expand(segment_ptr, slots)]
        col_idx[slot], values[slot] = local, a.values[order]
        found = {"tile_ptr": tile_ptr, "tile": tile, "segment_ptr": segment_ptr}
        return found | {"col_idx": col_idx, "values": values, "x_bytes": a.vector_dtype.itemsize}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, slots = self.xp, len(self.values)
        segment = expand(self.segment_ptr, slots)
        entry = xp.ones(slots, dtype=bool)
        entry[1:] = (segment[1:] != segment[:-1]) | (self.col_idx[1:] != self.col_idx[:-1])
        slot = xp.flatnonzero(entry)
        which, row = xp.divmod(segment[slot], np.int32(ROWS))
        block = expand(self.tile_ptr, len(self.tile))[which]
        columns = self.tile[which] * np.int32(self.width) + self.col_idx[slot]
        return block * np.int32(ROWS) + row, columns, self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, cols = self.shape
        kernel = f"pcsr<{ctype(self.values)}, {ctype(self.segment_ptr)}, {ROWS}, {self.width}, {LANES}>"
        lists = (self.tile_ptr, self.tile, self.segment_ptr, self.col_idx, self.values)
        args = (np.int32(rows), np.int32(cols), *lists, x, y)
        return [Launch("cache_blocking/windows.cu", kernel, len(self.tile_ptr) - 1, ROWS, args)]

    @property
    def detail(self) -> dict[str, Any]:
        """Bytes of x that a product copies to shared memory."""
        return {"x_bytes_copied": len(self.tile) * self.width * self.x_bytes}
