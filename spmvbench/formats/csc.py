"""Compressed sparse columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, offsets
from spmvbench.formats.base import Format, Launch, ctype, register, zero_fill


class CscArrays(Format):
    """Plain CSC: 12 nnz + 4 (cols + 1) bytes in double precision, by a stable sort of the columns."""

    family = "CSC"

    col_ptr: Array  # (cols + 1,), int32, or int64 where nnz needs it
    row_idx: Array  # (nnz,), int32
    values: Array  # (nnz,), in column order

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nnz * (4 + a.dtype.itemsize) + (a.cols + 1) * a.row_ptr.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp = a.xp
        order = xp.argsort(a.col_idx, kind="stable")
        counts = xp.bincount(a.col_idx, minlength=a.cols)[: a.cols]
        return {
            "col_ptr": offsets(counts).astype(a.row_ptr.dtype, copy=False),
            "row_idx": a.row_idx[order],
            "values": a.values[order],
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.row_idx, expand(self.col_ptr, len(self.values)), self.values


@register
class CscAtomic(CscArrays):
    """Columns in order: x is read once and regularly, products are added to y by atomics.

    The modern way to multiply CSC; the survey's own kernels (csc-scalar, csc-vector) gather products instead. Lanes a
    column: the largest power of two up to the mean column length. Not the same bits every time.
    """

    key = "csc-atomic"
    reference = "after Hugues & Petiton, HPCC 2010"
    sources = ("csc.cu", "vector.cu")

    def launches(self, x: Array, y: Array) -> list[Launch]:
        block, cols = 256, self.shape[1]
        mean = len(self.values) // max(cols, 1)
        lanes = min(32, 1 << max(mean.bit_length() - 1, 0))
        kernel = f"csc_atomic<{ctype(self.values)}, {ctype(self.col_ptr)}, {lanes}>"
        args = (np.int32(cols), self.col_ptr, self.row_idx, self.values, x, y)
        return [zero_fill(y), Launch("csc.cu", kernel, cdiv(cols * lanes, block), block, args)]
