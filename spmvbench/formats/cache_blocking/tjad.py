"""TJAD and BTJAD: jagged diagonals of columns in order of length, of all rows or of blocks of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, inverse, offsets, round_up, run_ptr, stable_order
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

BLOCK = 256  # threads


def jagged_columns(a: Csr, height: int) -> dict[str, Array]:
    """The columns that blocks of `height` rows have, each block's longest first, and their entries by diagonals.

    column_ptr: (blocks + 1,), int32. column: (columns of all blocks,), int32. diagonal_ptr: (blocks + 1,), int32.
    diagonal: (diagonals of all blocks + 1,), int32, first entry of each. row_idx: (nnz,), int32, row in the block.
    values: (nnz,).
    """
    xp, blocks, wide = a.xp, cdiv(a.rows, max(height, 1)), max(a.cols, 1)
    key = (a.row_idx // np.int32(height)).astype(np.int64) * wide + a.col_idx
    order = stable_order(key, max(blocks * wide, 1))
    key = key[order]
    runs = run_ptr(key)
    begin, counts = runs[:-1], xp.diff(runs)
    block, column = xp.divmod(key[begin], wide)
    most = int(counts.max()) if len(counts) else 0
    longest = stable_order(block * (most + 1) + (most - counts), max(blocks * (most + 1), 1))
    column_ptr = offsets(xp.bincount(block, minlength=blocks)).astype(np.int32)
    # A block's diagonals are as many as its longest column has entries.
    diagonals = xp.zeros(blocks, dtype=np.int64)
    xp.maximum.at(diagonals, block, counts)
    diagonal_ptr = offsets(diagonals).astype(np.int32)
    group = expand(runs, a.nnz)
    rank = inverse(longest)[group] - column_ptr[block[group]]
    which = diagonal_ptr[block[group]] + (xp.arange(a.nnz) - begin[group])
    diagonal = offsets(xp.bincount(which, minlength=int(diagonal_ptr[-1])) if a.nnz else diagonals[:0])
    place = diagonal[which] + rank
    row_idx, values = xp.empty(a.nnz, dtype=np.int32), xp.empty(a.nnz, dtype=a.dtype)
    row_idx[place] = a.row_idx[order] % np.int32(height)
    values[place] = a.values[order]
    return {
        "column_ptr": column_ptr,
        "column": column[longest].astype(np.int32),
        "diagonal_ptr": diagonal_ptr,
        "diagonal": diagonal.astype(np.int32),
        "row_idx": row_idx,
        "values": values,
    }


class JaggedColumns(Format):
    """Columns in order of length inside blocks of rows, their entries by jagged diagonals; no padding."""

    family = "JAD"
    reference = "Abu-Sufah & Abdel-Karim, ISC 2012"

    column_ptr: Array  # (blocks + 1,), int32: columns before each block
    column: Array  # (columns of all blocks,), int32
    diagonal_ptr: Array  # (blocks + 1,), int32: diagonals before each block
    diagonal: Array  # (diagonals of all blocks + 1,), int32: first entry of each
    row_idx: Array  # (nnz,), row in the block
    values: Array  # (nnz,)
    height: int  # rows of a block

    row_dtype: ClassVar[np.dtype] = np.dtype(np.int32)

    @classmethod
    def _height(cls, a: Csr, *_: Any, **params: Any) -> int:
        """Rows of a block."""
        raise NotImplementedError

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        found = jagged_columns(a, cls._height(a, **params))
        return sum(array.nbytes for array in found.values()) - a.nnz * (4 - cls.row_dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        height = cls._height(a, **params)
        found = jagged_columns(a, height)
        return found | {"row_idx": found["row_idx"].astype(cls.row_dtype), "height": height}

    def to_coo(self) -> tuple[Array, Array, Array]:
        which = expand(self.diagonal, len(self.values))
        block = expand(self.diagonal_ptr, len(self.diagonal) - 1)[which]
        rank = self.xp.arange(len(self.values)) - self.diagonal[which]
        columns = self.column[self.column_ptr[block] + rank]
        return block * np.int32(self.height) + self.row_idx, columns, self.values

    @property
    def detail(self) -> dict[str, Any]:
        return {"rows_of_block": self.height, "columns": len(self.column)}


@register
class Tjad(JaggedColumns):
    """Jagged diagonals of columns sorted by length; one thread per column keeps its x and adds to y by atomics.

    The survey gives the idea alone: the kernel is our reading. Sums are not reproducible.
    """

    key = "tjad"
    survey_name = "TJAD"

    @classmethod
    def _height(cls, a: Csr, **params: Any) -> int:
        return max(a.rows, 1)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        columns, diagonals = np.int32(len(self.column)), np.int32(len(self.diagonal) - 1)
        args = (columns, diagonals, self.column, self.diagonal, self.row_idx, self.values, x, y)
        kernel = f"tjad<{ctype(self.values)}>"
        return [zero_fill(y), Launch("cache_blocking/windows.cu", kernel, *per_thread(len(self.column), BLOCK), args)]


@register
class Btjad(JaggedColumns):
    """TJAD in blocks of rows, with the y of a block in shared memory, written once.

    Blocking and x in registers are the paper's, y in shared memory and the layout of blocks our reading. Sums are not
    reproducible.
    """

    key = "btjad"
    survey_name = "BTJAD"
    row_dtype = np.dtype(np.uint16)

    rows = Parameter(0, "rows of a block; 0: four blocks per multiprocessor, 256 to 4096 rows", low=0, high=4096)

    @classmethod
    def _height(cls, a: Csr, *, rows: int) -> int:
        return rows or min(max(round_up(cdiv(a.rows, 4 * device_limits(a).multiprocessors), 32), 256), 4096)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        size = np.int32(self.shape[0]), np.int32(self.height)
        lists = (self.column_ptr, self.column, self.diagonal_ptr, self.diagonal)
        args = (*size, *lists, self.row_idx, self.values, x, y)
        window = self.height * y.dtype.itemsize
        kernel = f"btjad<{ctype(self.values)}>"
        return [Launch("cache_blocking/windows.cu", kernel, len(self.column_ptr) - 1, BLOCK, args, window)]
