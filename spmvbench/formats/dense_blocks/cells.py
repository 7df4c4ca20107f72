"""A matrix cut into r x c blocks on a fixed grid: the blocks with entries, and shares of a block row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, offsets, run_ptr, stable_order


class Cells(NamedTuple):
    """The blocks with entries, by block row, then block column; the entries of a block row by row."""

    order: Array  # (nnz,), int64: the entry at each place
    ptr: Array  # (cells + 1,), int64: first place of each block
    row: Array  # (cells,), int64, in blocks
    col: Array  # (cells,), int64, in blocks
    row_ptr: Array  # (block rows + 1,), int32 or int64: first block of each block row

    @classmethod
    def of(cls, a: Csr, r: int, c: int) -> Cells:
        """The blocks of r rows and c columns."""
        across = max(cdiv(a.cols, c), 1)
        keys = (a.row_idx // np.int32(r)).astype(np.int64) * across + a.col_idx // np.int32(c)
        order = stable_order(keys, cdiv(a.rows, r) * across)
        keys = keys[order]
        ptr = run_ptr(keys) if a.nnz else a.xp.zeros(1, dtype=np.int64)
        keys = keys[ptr[:-1]]
        row, col = keys // across, keys % across
        row_ptr = a.xp.searchsorted(row, a.xp.arange(cdiv(a.rows, r) + 1, dtype=np.int64)).astype(np.int32)
        return cls(order, ptr, row, col, row_ptr)

    @property
    def lengths(self) -> Array:
        """Entries of each block, (cells,), int64."""
        return self.ptr[1:] - self.ptr[:-1]

    @property
    def cell(self) -> Array:
        """The block of each place, (nnz,), int32."""
        return expand(self.ptr, len(self.order))


class Shares(NamedTuple):
    """Pieces of rows of blocks, at least one of each."""

    owner: Array  # (shares,), int32: block row
    first: Array  # (shares,): first block
    end: Array  # (shares,): block after the last
    cut: Array  # (shares,), bool: the block row has others

    @classmethod
    def of(cls, ptr: Array, most: int) -> Shares:
        """Of the rows of blocks that begin at ptr, (block rows + 1,), at most so many blocks each."""
        xp = array_module(ptr)
        pieces = xp.maximum(cdiv(ptr[1:] - ptr[:-1], most), 1)
        piece_ptr = offsets(pieces)
        owner = expand(piece_ptr, int(piece_ptr[-1]))
        first = ptr[owner] + (xp.arange(len(owner)) - piece_ptr[owner]) * most
        return cls(owner, first, xp.minimum(first + most, ptr[owner + 1]), pieces[owner] > 1)
