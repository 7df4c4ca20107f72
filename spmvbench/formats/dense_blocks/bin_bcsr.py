"""BIN-BCSR: a block column for every row of a block, so that single rows can be interleaved."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, put
from spmvbench.formats.conversion import runner
from spmvbench.formats.dense_blocks.block_sell import block_sell_launch
from spmvbench.formats.dense_blocks.blocks import FoundTiles, SortedTiles, first_steps, tiles_of
from spmvbench.formats.dense_blocks.tiled import SMALL, Cut, Sliced
from spmvbench.formats.format import Adding
from spmvbench.formats.launches import Launch
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

BIN = 32  # rows


@register
class BinBcsr(Adding, Sliced):
    """Square blocks in bins of 32 rows; each row of a block repeats the block column (our reading).

    A bin is as long as its longest row, whatever block rows it cuts; a thread takes a row. In storage that is blocked
    sliced ELLPACK with tiles of 1 x `block`, see `Tiled`, whose rows all have the tiles of their block row. The paper
    was not available: the side (2, 3 or 4 by the bytes) and that the diagonal stays among the blocks are our reading.
    """

    key = "bin-bcsr"
    family = "BCSR"
    survey_name = "BIN-BCSR"
    reference = "Weber et al., Computer Graphics Forum 2013, as Filippone et al. 2017 describe it"
    shared_implementation = "blocked sliced ELLPACK: tiles of one row, C=32, each row with all tiles of its block row"
    multiplies_padding = True

    block = Parameter(0, "rows and columns of a block; 0 takes 2, 3 or 4", choices=(0, *SMALL, 6))

    @staticmethod
    def lengths(tiles: SortedTiles | FoundTiles, side: int) -> Array:
        """Of each row the tiles of its block row, (rows,)."""
        counts = tiles.counts(side, side)
        lengths: Array = counts[tiles.a.xp.arange(tiles.rows) // side]
        return lengths

    @classmethod
    def footprint(cls, tiles: SortedTiles | FoundTiles, cut: Cut, r: int, c: int) -> int:
        rows = tiles.rows
        _, steps, _ = first_steps(cls.lengths(tiles, c), BIN, runner(tiles.a))
        return steps * BIN * (4 + c * tiles.a.dtype.itemsize) + cls.finder_bytes(cdiv(rows, BIN), steps)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, run, tiles = a.xp, runner(a), tiles_of(a)
        _, c = cls.chosen(tiles, cls.cut(**params))
        block_ptr, blocks = tiles.slices(c, c, 1)
        blocks_col, of_blocks = tiles.store(c, c, 1, 1, block_ptr, blocks)

        lengths = cls.lengths(tiles, c)
        slice_ptr, steps, _ = first_steps(lengths, BIN, run)
        slice_of_step = expand(slice_ptr, steps)
        row = slice_of_step[:, None].astype(np.int64) * BIN + xp.arange(BIN)
        rank = (xp.arange(steps) - slice_ptr[slice_of_step])[:, None]
        step, lane = xp.nonzero((row < a.rows) & (rank < xp.append(lengths, 0)[xp.minimum(row, a.rows)]))
        row, rank = row[step, lane], rank[step, 0]
        block = block_ptr[row // c] + rank
        block_col = xp.full((steps, BIN), -1, dtype=np.int32)
        put(block_col, (step, lane), blocks_col[block, 0])
        rows = xp.zeros((steps * BIN, c), dtype=a.dtype)
        place = (step * BIN + lane)[:, None], xp.arange(c)
        put(rows, place, of_blocks.reshape(blocks, c, c)[block, row % c])
        values = xp.ascontiguousarray(rows.reshape(steps, BIN, c).transpose(0, 2, 1)).reshape(steps, c * BIN)
        found = {"block_col": block_col, "values": values, "perm": xp.empty(0, dtype=np.int32)}
        return {"slice_ptr": slice_ptr, **found, "tile": (1, c), "nnz": a.nnz}

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        return [block_sell_launch(self, x, y, add=add)]
