"""Merge-based CSR: every thread takes the same number of entries and row ends together."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, array_module, cdiv
from spmvbench.formats.base import Launch, Parameter, ctype, per_thread, register
from spmvbench.formats.csr.csr import CsrArrays


def tile_rows(row_ptr: Array, tile: int) -> Array:
    """The row in which each tile of `tile` merge steps begins, and the number of rows behind the last; int32.

    Row i ends after row_ptr[i + 1] + i + 1 steps, so a tile begins in the first row that has not ended by then.
    """
    xp = array_module(row_ptr)
    rows = len(row_ptr) - 1
    ends = row_ptr[1:] + xp.arange(1, rows + 1, dtype=np.int64)
    steps = rows + int(row_ptr[-1])
    begins = xp.minimum(xp.arange(cdiv(steps, tile) + 1, dtype=np.int64) * tile, steps)
    return xp.searchsorted(ends, begins, side="right").astype(np.int32)


@register
class MergeCsr(CsrArrays):
    """CSR merged: the lists of row ends and of entries are walked together, in equal shares whatever rows look like.

    A block takes a tile of block x items steps, a thread of it `items`. kernel=paper searches the tiles' first rows in
    every product, then sums the tiles, then adds the carries of rows that tiles cut apart: nothing is stored beyond
    CSR. kernel=fast stores the first rows (4 bytes a tile), loads pairs of entries, all of a thread's at once, sums
    the rows of a tile one by one where none is long beside the others, and adds the parts of cut rows to y by atomics,
    after y is set to zero in them. Rows cut into more than two parts may get
    different last bits every time, in either kernel (the paper's own fix-up for single precision has that too).
    """

    key = "merge-csr"
    reference = "Merrill & Garland, SC'16"
    survey_name = ""
    sources = ("csr/merge.cu",)

    kernel = Parameter("fast", "paper: the paper's launches; fast: two, with more in flight", choices=("fast", "paper"))
    items = Parameter(
        0, "merge steps a thread; 0 takes CUB's for paper, 7 to 11 by the mean row for fast", low=0, high=15
    )
    block = Parameter(
        0,
        "threads a block; 0 takes CUB's for paper, 128 or 256 by the mean row for fast",
        choices=(0, 64, 128, 256, 512),
    )

    tile_row: Array  # (tiles + 1,), int32: row in which each tile begins; empty with kernel=paper

    @classmethod
    def _sizes(cls, rows: int, nnz: int, dtype: Any, kernel: str, items: int, block: int) -> tuple[int, int]:
        """Items a thread and threads a block.

        CUB 2.8 takes 5 and 64 in double precision, 7 and 128 in single. For the fast kernel, the best on an H200 for
        stencils (7 entries a row), banded (24) and finite element (77) matrices in double precision.
        """
        double = np.dtype(dtype) == np.float64
        if kernel == "paper":
            return items or (5 if double else 7), block or (64 if double else 128)
        mean = nnz / max(rows, 1)
        best = (7, 128) if mean <= 16 else (11, 256) if mean <= 40 else (9, 128)
        if rows + nnz < 2**21:  # small matrices fill the multiprocessors with narrow blocks only
            best = (7, 128)
        return items or best[0], block or best[1]

    @classmethod
    def estimate(cls, a: Csr, *, kernel: str, items: int, block: int) -> int:
        items, block = cls._sizes(a.rows, a.nnz, a.dtype, kernel, items, block)
        return a.nbytes + (4 * (cdiv(a.rows + a.nnz, items * block) + 1) if kernel == "fast" else 0)

    @classmethod
    def convert(cls, a: Csr, *, kernel: str, items: int, block: int) -> dict[str, Any]:
        items, block = cls._sizes(a.rows, a.nnz, a.dtype, kernel, items, block)
        if kernel == "paper":
            return super().convert(a) | {"tile_row": a.xp.empty(0, dtype=np.int32)}
        return {
            "row_ptr": a.row_ptr,
            "col_idx": aligned(a.col_idx),
            "values": aligned(a.values),
            "tile_row": tile_rows(a.row_ptr, items * block),
        }

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, nnz = np.int32(self.shape[0]), self.row_ptr.dtype.type(len(self.values))
        value, index = ctype(self.values), ctype(self.row_ptr)
        steps = self.shape[0] + len(self.values)
        items, block = self._sizes(self.shape[0], len(self.values), self.values.dtype, **self.params)
        tiles = cdiv(steps, items * block)
        shared = (items * block + 2) * self.values.dtype.itemsize
        if self.kernel == "fast":
            cuts = (np.int32(tiles), self.tile_row, y)
            matrix = (rows, nnz, self.tile_row, self.row_ptr, self.col_idx, self.values, x, y)
            # With a single tile no row is cut.
            zero_grid = per_thread(tiles)[0] if tiles > 1 else 0
            return [
                Launch("csr/merge.cu", f"zero_cut_rows<{value}, int>", zero_grid, 256, cuts),
                Launch(
                    "csr/merge.cu", f"merge_pairs<{value}, {index}, {block}, {items}>", tiles, block, matrix, shared
                ),
            ]
        tile_row = self.xp.empty(tiles + 1, dtype=np.int32)
        carry_row = self.xp.empty(tiles, dtype=np.int32)
        carry_sum = self.xp.empty(tiles, dtype=self.values.dtype)
        search = (rows, nnz, np.int32(items * block), np.int32(tiles), self.row_ptr, tile_row)
        matrix = (rows, nnz, tile_row, self.row_ptr, self.col_idx, self.values, x, y, carry_row, carry_sum)
        carries = (np.int32(tiles), rows, carry_row, carry_sum, y)
        return [
            Launch("csr/merge.cu", f"merge_search<{index}>", *per_thread(tiles + 1), search),
            Launch("csr/merge.cu", f"merge_tiles<{value}, {index}, {block}, {items}>", tiles, block, matrix, shared),
            Launch("csr/merge.cu", f"carry_add<{value}>", *per_thread(tiles), carries),
        ]
