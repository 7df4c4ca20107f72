"""Compressed sparse rows by a list of rows: the rest of a hybrid."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, expand
from spmvbench.formats.base import Adding, Launch, Parameter, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.csr.csr import LANES, lanes_by_mean


class CsrRows(Adding):
    """CSR of the rows that have entries, with the list of them: a part of a hybrid.

    Where rows are few, row pointers of all would be most of what is stored and read.
    """

    family = "CSR"
    reference = "after Liu, Yu, Chen, Hsieh & Shao, IJNAM-B 3(2), 2012"
    sources = ("csr/rows.cu", "vector.cu")

    lanes = Parameter(0, "lanes that share a row; 0 sizes them by the mean row length", choices=(0, *LANES))
    step = Parameter(2, "entries that a lane takes at a time", choices=(1, 2))

    rows: Array  # (stored rows,), int32, ascending
    row_ptr: Array  # (stored rows + 1,), int32, or int64 where the entries need it
    col_idx: Array  # (nnz,), int32
    values: Array  # (nnz,)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        rows = int(a.xp.count_nonzero(a.row_lengths))
        return a.nnz * (4 + a.dtype.itemsize) + 4 * rows + (rows + 1) * a.row_ptr.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        rows = a.xp.flatnonzero(a.row_lengths).astype(np.int32)
        row_ptr = a.xp.concatenate([a.row_ptr[rows], a.row_ptr[-1:]])
        return {"rows": rows, "row_ptr": row_ptr, "col_idx": aligned(a.col_idx), "values": aligned(a.values)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.rows[expand(self.row_ptr, len(self.values))], self.col_idx, self.values

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        stored, nnz = len(self.rows), len(self.values)
        lanes = self.lanes or lanes_by_mean(nnz / max(stored, 1))
        kernel = f"csr_rows<{ctype(self.values)}, {ctype(self.row_ptr)}, {lanes}, {self.step}, true, {cbool(add)}>"
        sizes = np.int32(stored), self.row_ptr.dtype.type(nnz)
        args = (*sizes, self.rows, self.row_ptr, self.col_idx, self.values, x, y)
        zero = [zero_fill(y)] if stored < len(y) and not add else []
        return [*zero, Launch("csr/rows.cu", kernel, *per_thread(stored * lanes, 128), args)]
