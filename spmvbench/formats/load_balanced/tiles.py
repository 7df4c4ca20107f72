"""Tiles of consecutive entries of plain CSR: where they begin, and the kernel that sums any of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, ArrayModule, Csr, array_module, cdiv
from spmvbench.formats.carries import SUM, add_carries
from spmvbench.formats.conversion import cut_rows, runner
from spmvbench.formats.csr.csr import CsrLoadedTogether
from spmvbench.formats.launches import Launch, after_zeros, cbool, ctype, zero_fill, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "load_balanced/tiles.cu"
BLOCKS = (64, 128, 256, 512)


def owners(row_ptr: Array, entries: Array) -> Array:
    """The row that owns each of these entries, int32; the number of rows for nnz."""
    xp = array_module(row_ptr)
    return (xp.searchsorted(row_ptr, entries.astype(row_ptr.dtype), side="right") - 1).astype(np.int32)


def tile_rows(row_ptr: Array, tile_entry: Array) -> Array:
    """The row in which each tile begins, (tiles + 1,), int32, by its first entry; tile_entry ends with nnz.

    Every row ends in one tile: empty ones in the tile of the entry before them, those in front in the first.
    """
    rows = owners(row_ptr, tile_entry)
    rows[:1] = 0
    return rows


def equal_cuts(nnz: int, tile: int, xp: ArrayModule) -> Array:
    """The first entry of each tile of `tile` entries, and nnz after the last; (tiles + 1,), int64."""
    return xp.minimum(xp.arange(cdiv(nnz, tile) + 1, dtype=np.int64) * tile, nnz)


class Tiled(CsrLoadedTogether):
    """CSR that blocks of threads take in tiles of consecutive entries."""

    @property
    def _types(self) -> str:
        return f"{ctype(self.values)}, {ctype(self.row_ptr)}"

    @property
    def _nnz(self) -> np.integer:
        """The number of entries in the type that counts them in the kernels."""
        nnz: np.integer = self.row_ptr.dtype.type(len(self.values))
        return nnz

    def _launch(self, kernel: str, grid: int, block: int, items: int, *args: Any, row_ends: int = 0) -> Launch:
        """A launch of a kernel, named without types; shared memory holds `items` products per thread, and row ends."""
        name, _, options = kernel.partition("<")
        shared = block * items * args[-1].dtype.itemsize + 4 * row_ends  # products are of the type of y
        return Launch(SOURCE, f"{name}<{self._types}, {options}", grid, block, args, shared)

    def _sum_tiles(
        self,
        tile_row: Array,
        tile_entry: Array | None,
        block: int,
        items: int,
        x: Array,
        y: Array,
        carry: Array | None = None,
    ) -> Launch:
        """The launch that sums tiles and adds the parts of rows that they share, in which y is zero, by atomics.

        tile_row: as `tile_rows` gives it. tile_entry: (tiles + 1,), of row_ptr's type, for tiles of at most
        block x items - 1 entries; None for tiles of block x items. carry: (tiles,), takes what
        each tile leaves open, in place of atomics.
        """
        equal = tile_entry is None
        matrix = (self.row_ptr, self.col_idx, self.values, x, y, y if carry is None else carry)
        cuts = (tile_row, self.row_ptr if tile_entry is None else tile_entry)  # not read where tiles are equal
        kernel = f"sum_tiles<{block}, {items}, {cbool(equal)}, {cbool(carry is not None)}>"
        args = (np.int32(self.shape[0]), self._nnz, *cuts, *matrix)
        return self._launch(kernel, len(tile_row) - 1, block, items, *args, row_ends=block * items // 2)


@register
class CsrEntryTiles(Tiled):
    """CSR with the first row of each tile of equally many entries; rows of similar length are summed one by one.

    As `csr-merge-tiles`, with `csr-flat`'s tiles, searched once, at conversion (4 bytes per tile). Row ends count
    nothing in a tile, so that it begins at an even entry, and may have any number of them.
    """

    key = "csr-entry-tiles"
    reference = "this project, after Chu et al., HPDC 2023"
    project_kernel = True

    block = Parameter(128, "threads per block", choices=BLOCKS)
    items = Parameter(8, "entries per thread", choices=(4, 6, 8, 10, 12))
    sum = SUM

    tile_row: Array  # (tiles + 1,), int32: row in which each tile begins

    @classmethod
    def estimate(cls, a: Csr, *, block: int, items: int, **params: Any) -> int:
        return a.nbytes + 4 * (cdiv(a.nnz, block * items) + 1)

    @classmethod
    def convert(cls, a: Csr, *, block: int, items: int, **params: Any) -> dict[str, Any]:
        tile, run = block * items, runner(a)
        if run is None:
            cuts = tile_rows(a.row_ptr, equal_cuts(a.nnz, tile, a.xp))
        else:
            cuts = cut_rows(a, "ENTRIES", cdiv(a.nnz, tile), tile, run)
        return super().convert(a) | {"tile_row": cuts}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        tiles = len(self.tile_row) - 1
        if not tiles:
            return [zero_fill(y)]
        if self.sum == "fixed":
            carry = self.xp.empty(tiles, dtype=y.dtype)
            product = self._sum_tiles(self.tile_row, None, self.block, self.items, x, y, carry)
            return [product, add_carries(self.tile_row[1:], carry, y)]
        cut = self.tile_row[:-1] if tiles > 1 else self.tile_row[:0]  # a single tile cuts no row
        product = self._sum_tiles(self.tile_row, None, self.block, self.items, x, y)
        return after_zeros(zero_rows(cut, y), product)
