"""Compressed multi-row storage: one pointer for a strip of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "csr/cmrs.cu"
BLOCK = constant(KERNEL, "BLOCK")  # threads
HEIGHTS = (1, 2, 4, 8, 16)
COLUMN_BITS = 28  # of a packed column; the row in the strip has the others


def height_by_mean(mean: float) -> int:
    """Rows of a strip: so many, a power of two up to 16, that a strip of mean rows has 64 entries or more."""
    return next((h for h in HEIGHTS if h * mean >= 64), HEIGHTS[-1])


def marked(columns: Array, in_strip: Array, cols: int, packed: bool = True) -> tuple[Array, Array]:
    """Columns, int32, with the row in the strip, (nnz,), in their highest bits, and (0,); else both, uint8 the row.

    cols: of the matrix: too many leave no bits.
    """
    if not packed or cols > 1 << COLUMN_BITS:
        return columns, in_strip.astype(np.uint8)
    bits = in_strip.astype(np.uint32) << np.uint32(COLUMN_BITS)
    return (columns.view(np.uint32) | bits).view(np.int32), in_strip[:0].astype(np.uint8)


def unmarked(columns: Array, in_strip: Array) -> tuple[Array, Array]:
    """The columns and the row in the strip, both int32, of what `marked` gave."""
    if len(in_strip) == len(columns):
        return columns, in_strip.astype(np.int32)
    found = columns.view(np.uint32) >> np.uint32(COLUMN_BITS)
    return columns & np.int32(2**COLUMN_BITS - 1), found.astype(np.int32)


@register
class Cmrs(Format):
    """CSR with one pointer per strip of 1 to 16 rows; each entry holds its row in the strip, one warp per strip.

    Short rows fill the warp, and rows of a strip share what they need of x. The row in the strip is in 4 bits of
    the column, which leaves 28 for columns: never more bytes than CSR. Where columns are more, or with packed=false, it
    takes a byte per entry. The height by the mean row is our reading.
    """

    key = "cmrs"
    vectors_together = 2
    family = "CSR"
    survey_name = "CMRS"
    reference = "Koza, Matyka, Szkoda & Mirosław, SIAM Journal on Scientific Computing 36(2), 2014"

    h = Parameter(0, "rows of a strip; 0: about 64 entries by the mean row length", choices=(0, *HEIGHTS))
    packed = Parameter(True, "store the row in the strip in the highest bits of the column if columns are small enough")

    strip_ptr: Array  # (strips + 1,), int32, or int64 where nnz needs it
    columns: Array  # (nnz,), int32; the highest 4 bits the row in the strip where there is no `in_strip`
    in_strip: Array  # (nnz,), uint8: row in the strip; (0,) where columns hold it
    values: Array  # (nnz,)
    height: int  # h in use

    @classmethod
    def layout(cls, a: Csr, h: int, packed: bool) -> tuple[int, bool]:
        """The height in use, and whether columns hold the row in the strip."""
        return h or height_by_mean(a.row_len_mean), packed and a.cols <= 1 << COLUMN_BITS

    @classmethod
    def estimate(cls, a: Csr, *, h: int, packed: bool) -> int:
        h, packed = cls.layout(a, h, packed)
        return (cdiv(a.rows, h) + 1) * a.row_ptr.itemsize + a.nnz * (4 + a.dtype.itemsize + (not packed))

    @classmethod
    def convert(cls, a: Csr, *, h: int, packed: bool) -> dict[str, Any]:
        h, packed = cls.layout(a, h, packed)
        columns, in_strip = marked(a.col_idx, a.row_idx % np.int32(h), a.cols, packed)
        return {
            "strip_ptr": a.xp.concatenate([a.row_ptr[:-1:h], a.row_ptr[-1:]]),
            "columns": columns,
            "in_strip": in_strip,
            "values": a.values,
            "height": h,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        columns, in_strip = unmarked(self.columns, self.in_strip)
        row = expand(self.strip_ptr, len(columns)) * np.int32(self.height) + in_strip
        return row, columns, self.values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        strips = len(self.strip_ptr) - 1
        packed = cbool(len(self.in_strip) < len(self.columns))
        kernel = f"cmrs_spmv<{ctype(self.values)}, {ctype(self.strip_ptr)}, {self.height}, {packed}>"
        sizes = np.int32(self.shape[0]), np.int32(strips)
        args = (*sizes, self.strip_ptr, self.columns, self.in_strip, self.values, x, y)
        return [Launch(KERNEL, kernel, *per_thread(strips * 32, BLOCK), args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"h": self.height}
