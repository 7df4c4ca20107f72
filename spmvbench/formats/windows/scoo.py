"""SCOO: coordinates in slices of rows whose y lies in shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, stable_order
from spmvbench.formats.base import Format, Launch, Parameter, ctype, register
from spmvbench.formats.conversion import device_limits

THREADS = 512  # of a block
RESIDENT = 3  # blocks of a multiprocessor at once
MOST_COPIES = 32


@register
class Scoo(Format):
    """Slices of rows, a block of threads each, their entries by column; products are added to a y in shared memory.

    Several copies of a slice's y let threads add to a row at once. The authors choose the copies for one region of rows
    after the other, from the lengths there, and sort rows where lengths differ much; here one number of copies serves
    the whole matrix, and rows keep their order: our reading. Slices are as many as run at once, three a multiprocessor,
    or a multiple of that; copies are as many as then have room. Sums have not the same bits every time.
    """

    key = "scoo"
    family = "COO"
    survey_name = "SCOO"
    reference = "Dang & Schmidt, ICCS 2012; Parallel Computing 2013"
    sources = ("windows/windows.cu",)

    copies = Parameter(0, "copies of y; 0: by the rule", choices=(0, 1, 2, 4, 8, 16, 32))
    shared_bytes = Parameter(49152, "shared memory of a block, bytes: what every GPU gives", low=1024, high=49152)

    slice_ptr: Array  # (slices + 1,), of the row pointers' type: first entry of each
    row_idx: Array  # (nnz,), uint16: row in the slice
    col_idx: Array  # (nnz,), int32
    values: Array  # (nnz,)
    height: int  # rows of a slice
    copies_used: int

    @classmethod
    def _cut(cls, a: Csr, copies: int, shared_bytes: int) -> tuple[int, int]:
        """Copies, and rows of a slice."""
        room = shared_bytes // a.dtype.itemsize
        at_once = RESIDENT * device_limits(a).multiprocessors
        rounds = max(cdiv(a.rows, at_once * (room // max(copies, 1))), 1)
        height = max(cdiv(a.rows, rounds * at_once), room // MOST_COPIES)
        number = copies or 1
        while not copies and number < MOST_COPIES and 2 * number * height <= room:
            number *= 2
        return number, min(height, room // number)

    @classmethod
    def estimate(cls, a: Csr, *, copies: int, shared_bytes: int) -> int:
        _, height = cls._cut(a, copies, shared_bytes)
        return (cdiv(a.rows, height) + 1) * a.row_ptr.itemsize + a.nnz * (6 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, copies: int, shared_bytes: int) -> dict[str, Any]:
        xp, (copies, height) = a.xp, cls._cut(a, copies, shared_bytes)
        slices = cdiv(a.rows, height)
        slice_, local = xp.divmod(a.row_idx, np.int32(height))
        order = stable_order(slice_.astype(np.int64) * max(a.cols, 1) + a.col_idx, max(slices * a.cols, 1))
        ends = xp.minimum(xp.arange(slices + 1, dtype=np.int64) * height, a.rows)
        return {
            "slice_ptr": a.row_ptr[ends],
            "row_idx": local[order].astype(np.uint16),
            "col_idx": a.col_idx[order],
            "values": a.values[order],
            "height": height,
            "copies_used": copies,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        slice_ = expand(self.slice_ptr, len(self.values))
        return slice_ * np.int32(self.height) + self.row_idx, self.col_idx, self.values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        kernel = f"scoo<{ctype(self.values)}, {ctype(self.slice_ptr)}>"
        size = np.int32(self.shape[0]), np.int32(self.height), np.int32(self.copies_used)
        args = (*size, self.slice_ptr, self.row_idx, self.col_idx, self.values, x, y)
        window = self.height * self.copies_used * self.values.dtype.itemsize
        return [Launch("windows/windows.cu", kernel, len(self.slice_ptr) - 1, THREADS, args, window)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"rows_of_slice": self.height, "copies": self.copies_used}
