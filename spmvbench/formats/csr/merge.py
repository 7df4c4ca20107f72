"""Merge-based CSR: every thread takes the same number of entries and row ends together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, array_module, cdiv
from spmvbench.formats.carries import SUM, add_carries
from spmvbench.formats.conversion import cut_rows, runner
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.launches import Launch, after_zeros, cbool, ctype, per_thread, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

BLOCKS = (64, 128, 256, 512)


def tile_rows(row_ptr: Array, tile: int) -> Array:
    """The row in which each tile of `tile` merge steps begins, and the number of rows after the last; int32.

    Row i ends after row_ptr[i + 1] + i + 1 steps, so a tile begins in the first row that has not ended by then.
    """
    xp = array_module(row_ptr)
    rows = len(row_ptr) - 1
    ends = row_ptr[1:] + xp.arange(1, rows + 1, dtype=np.int64)
    steps = rows + int(row_ptr[-1])
    begins = xp.minimum(xp.arange(cdiv(steps, tile) + 1, dtype=np.int64) * tile, steps)
    return xp.searchsorted(ends, begins, side="right").astype(np.int32)


class Merged(CsrArrays):
    """CSR in tiles of block x items merge steps: the part that both keys share."""

    wide_offsets = True
    items: ClassVar[Parameter[int]]
    block: ClassVar[Parameter[int]]

    @classmethod
    def rule(cls, rows: int, nnz: int, dtype: np.dtype) -> tuple[int, int]:
        """Items per thread and threads per block where the parameters are 0."""
        raise NotImplementedError

    @classmethod
    def sizes(
        cls, rows: int, nnz: int, dtype: np.dtype, *, items: int, block: int, **params: Any
    ) -> tuple[int, int, int]:
        """Items per thread and threads per block in use, and the tiles that they make."""
        by_rule = cls.rule(rows, nnz, dtype)
        items, block = items or by_rule[0], block or by_rule[1]
        return items, block, cdiv(rows + nnz, items * block)

    def sizes_in_use(self) -> tuple[int, int, int]:
        """`sizes` of this matrix."""
        return self.sizes(self.shape[0], len(self.values), self.values.dtype, **self.params)


@register
class MergeCsr(Merged):
    """CSR by the merge path: equal shares of row ends plus entries, whatever the row lengths.

    A block takes a tile of block x items steps, a thread of it `items`. Every product searches the tiles' first rows,
    sums the tiles, and adds the carries of rows that tiles cut: nothing is stored beyond CSR. Sums of rows cut into
    more than two parts are not reproducible (nor are they with the paper's fix-up in single precision), unless
    sum=fixed adds the carries.
    """

    key = "merge-csr"
    reference = "Merrill & Garland, SC'16"

    items = Parameter(0, "merge steps per thread; 0 takes CUB's", low=0, high=15)
    block = Parameter(0, "threads per block; 0 takes CUB's", choices=(0, *BLOCKS))
    staged = Parameter(False, "the sums of a tile's rows go to y through shared memory, as in CUB")
    sum = SUM

    @classmethod
    def rule(cls, rows: int, nnz: int, dtype: np.dtype) -> tuple[int, int]:
        """CUB 2.8's for double and for single precision."""
        return (5, 64) if dtype == np.float64 else (7, 128)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, nnz = np.int32(self.shape[0]), self.row_ptr.dtype.type(len(self.values))
        value, index = ctype(self.values), ctype(self.row_ptr)
        items, block, tiles = self.sizes_in_use()
        tile_row = self.xp.empty(tiles + 1, dtype=np.int32)
        carry_row = self.xp.empty(tiles, dtype=np.int32)
        carry_sum = self.xp.empty(tiles, dtype=y.dtype)
        search = (rows, nnz, np.int32(items * block), np.int32(tiles), self.row_ptr, tile_row)
        matrix = (rows, nnz, tile_row, self.row_ptr, self.col_idx, self.values, x, y, carry_row, carry_sum)
        if self.sum == "fixed":
            add = add_carries(carry_row, carry_sum, y)
        else:
            carries = (np.int32(tiles), rows, carry_row, carry_sum, y)
            add = Launch("csr/merge.cu", f"carry_add<{value}>", *per_thread(tiles), carries)
        sums = f"merge_tiles<{value}, {index}, {block}, {items}, {cbool(self.staged)}>"
        return [
            Launch("csr/merge.cu", f"merge_search<{index}>", *per_thread(tiles + 1), search),
            Launch("csr/merge.cu", sums, tiles, block, matrix, items * block * y.itemsize),
            add,
        ]


@register
class CsrMergeTiles(Merged):
    """CSR with the first row of each tile of equal merge steps; tiles without long rows sum row by row.

    The tiles of `merge-csr`, searched once, at conversion (4 bytes per tile). Threads load pairs of entries, all of
    theirs at once; each row is summed by as many threads as there are, and the merge is walked only where a row is long
    compared with the others of the tile. The parts of cut rows are added to y by atomics, after y is set to zero in
    them. Sums of rows cut into more than two parts are not reproducible, unless sum=fixed.
    """

    key = "csr-merge-tiles"
    reference = "this project, after Merrill & Garland, SC'16"
    project_kernel = True

    items = Parameter(0, "merge steps per thread; 0 takes 7 to 11 by the mean row", low=0, high=15)
    block = Parameter(0, "threads per block; 0 takes 128 or 256 by the mean row", choices=(0, *BLOCKS))
    sum = SUM

    tile_row: Array  # (tiles + 1,), int32: row in which each tile begins

    @classmethod
    def rule(cls, rows: int, nnz: int, dtype: np.dtype) -> tuple[int, int]:
        """The best on an H200 for stencils (7 entries per row), banded (24) and finite element (77) matrices in f64."""
        mean = nnz / max(rows, 1)
        if mean <= 16 or rows + nnz < 2**21:  # small matrices fill the multiprocessors with narrow blocks only
            return 7, 128
        return (11, 256) if mean <= 40 else (9, 128)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        *_, tiles = cls.sizes(a.rows, a.nnz, a.dtype, **params)
        return a.nbytes + 4 * (tiles + 1)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        items, block, tiles = cls.sizes(a.rows, a.nnz, a.dtype, **params)
        run, tile = runner(a), items * block
        tile_row = tile_rows(a.row_ptr, tile) if run is None else cut_rows(a, "MERGE", tiles, tile, run)
        return {
            "row_ptr": a.row_ptr, "col_idx": aligned(a.col_idx), "values": aligned(a.values), "tile_row": tile_row,
        }  # fmt: skip

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, nnz = np.int32(self.shape[0]), self.row_ptr.dtype.type(len(self.values))
        value, index = ctype(self.values), ctype(self.row_ptr)
        items, block, tiles = self.sizes_in_use()
        fixed = self.sum == "fixed"
        carry = self.xp.empty(tiles, dtype=y.dtype) if fixed else y
        matrix = (rows, nnz, self.tile_row, self.row_ptr, self.col_idx, self.values, x, y, carry)
        sums = f"merge_pairs<{value}, {index}, {block}, {items}, {cbool(fixed)}>"
        product = Launch("csr/merge.cu", sums, tiles, block, matrix, (items * block + 2) * y.itemsize)
        if fixed:
            return [product, add_carries(self.tile_row[1:], carry, y)]
        return after_zeros(zero_rows(self.tile_row[: tiles if tiles > 1 else 0], y), product)  # one tile cuts no row
