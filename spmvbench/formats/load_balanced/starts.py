"""Tiles of equally many entries of plain CSR; every product searches their first rows."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.launches import Launch, per_thread
from spmvbench.formats.load_balanced.tiles import SOURCE, Tiled


class SearchedTiles(Tiled):
    """CSR by tiles of equally many entries, which are not stored: every product finds their first rows."""

    def _find_tiles(self, tile: int, y: Array) -> tuple[Array, Launch]:
        """The row in which each tile of `tile` entries begins, (tiles + 1,), int32, and the launch that writes it.

        The launch also sets y to zero in these rows, in empty ones and in the last.
        """
        tiles = cdiv(len(self.values), tile)
        tile_row = self.xp.empty(tiles + 1, dtype=np.int32)
        rows = self.shape[0]
        args = (np.int32(rows), np.int32(tile), np.int32(tiles), self.row_ptr, tile_row, y)
        return tile_row, Launch(SOURCE, f"tile_starts<{self._types}>", *per_thread(rows), args)
