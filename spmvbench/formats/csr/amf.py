"""CSR with so many rows folded into one that folded rows have about equal numbers of entries, in order of column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, chain, expand, offsets, stable_order
from spmvbench.formats.csr.cmrs import BLOCK, COLUMN_BITS, HEIGHTS, KERNEL, marked, unmarked
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

LONG = 8  # times the entries of a folded row, from which on a row is cut


class Folds(NamedTuple):
    """Which rows are folded into one."""

    first_row: Array  # (folds + 1,), int32: its first row; the same for the parts of a row that is cut
    ptr: Array  # (folds + 1,), of row_ptr's type: its first entry
    height: int  # the most rows of one, rounded up to one of HEIGHTS

    @classmethod
    def of(cls, a: Csr, entries: int) -> Folds:
        """Rows in their order, as many as have `entries` entries together, at least one and at most 16."""
        xp = a.xp
        rows = xp.arange(a.rows + 1, dtype=np.int64)
        full = xp.searchsorted(a.row_ptr, a.row_ptr + entries, side="right") - 1
        following = xp.minimum(xp.clip(full, rows + 1, rows + HEIGHTS[-1]), a.rows)
        first = chain(following)
        most = int(xp.diff(first).max()) if len(first) > 1 else 1
        first, end = first[:-1], first[1:]
        lengths = a.row_ptr[end] - a.row_ptr[first]
        parts = xp.where((end - first == 1) & (lengths > LONG * entries), cdiv(lengths, LONG * entries), 1)
        owner = expand(offsets(parts), int(parts.sum()))
        rank = xp.arange(len(owner), dtype=np.int64) - offsets(parts)[owner]
        ptr = a.row_ptr[first][owner] + (rank * (LONG * entries)).astype(a.row_ptr.dtype)
        first_row = xp.append(first[owner], xp.full(1, a.rows)).astype(np.int32)
        height = next(h for h in HEIGHTS if h >= most)
        return cls(first_row, xp.append(ptr, a.row_ptr[-1:]).astype(a.row_ptr.dtype), height)

    @property
    def cut(self) -> Array:
        """The rows that are cut, ascending, each as often as it has parts after the first."""
        found: Array = self.first_row[1:-1][self.first_row[1:-1] == self.first_row[:-2]]
        return found


@register
class CsrAmf(Format):
    """CSR with neighbouring rows folded into one of about `entries` entries, in order of column; a warp for each.

    Entries of folded rows that are in one column are neighbours, so that lanes read the same or neighbouring x. The row
    in the folded row is in the highest 4 bits of the column or, if there are more than 2^28 columns, in a byte of its
    own: at most 16 rows are folded. `cmrs` folds equal numbers of rows instead.

    Of the paper the abstract was read. Our reading: the bits, the limit of 16 rows, the number of entries, chosen on an
    H200, and that a row of more than 8 times as many is cut, its parts added by atomics.
    """

    key = "csr-amf"
    vectors_together = 2
    family = "CSR"
    reference = "Gao, Ji, Liu, Shao, Wang & Shi, AMF-CSR, ICPADS 2021"

    entries = Parameter(256, "entries of a folded row", low=32)

    first_row: Array  # (folds + 1,), int32: first row of each folded row; the same for the parts of a row that is cut
    strip_ptr: Array  # (folds + 1,), int32, or int64 where nnz needs it: first entry of each
    cut_rows: Array  # (parts of cut rows after the first,), int32, ascending
    columns: Array  # (nnz,), int32; the highest 4 bits the row in the folded row where there is no `in_strip`
    in_strip: Array  # (nnz,), uint8: row in the folded row; (0,) where columns hold it
    values: Array  # (nnz,)
    height: int  # the most rows of a folded row, rounded up to a power of two

    @classmethod
    def estimate(cls, a: Csr, *, entries: int) -> int:
        folds = Folds.of(a, entries)
        rows = folds.first_row.nbytes + folds.ptr.nbytes + folds.cut.nbytes
        return rows + a.nnz * (4 + a.dtype.itemsize + (a.cols > 1 << COLUMN_BITS))

    @classmethod
    def convert(cls, a: Csr, *, entries: int) -> dict[str, Any]:
        xp, folds = a.xp, Folds.of(a, entries)
        fold = expand(folds.ptr, a.nnz)
        step = np.int64(max(a.cols, 1))
        order = stable_order(fold * step + a.col_idx, max(len(folds.ptr) - 1, 1) * int(step))
        columns, in_strip = marked(a.col_idx[order], (a.row_idx - folds.first_row[fold])[order], a.cols)
        return {
            "first_row": folds.first_row,
            "strip_ptr": folds.ptr,
            "cut_rows": folds.cut,
            "columns": columns,
            "in_strip": in_strip,
            "values": xp.ascontiguousarray(a.values[order]),
            "height": folds.height,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        columns, in_strip = unmarked(self.columns, self.in_strip)
        return self.first_row[expand(self.strip_ptr, len(columns))] + in_strip, columns, self.values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        strips = len(self.strip_ptr) - 1
        packed = cbool(len(self.in_strip) < len(self.columns))
        kernel = f"amf_spmv<{ctype(self.values)}, {ctype(self.strip_ptr)}, {self.height}, {packed}>"
        args = (np.int32(strips), self.first_row, self.strip_ptr, self.columns, self.in_strip, self.values, x, y)
        step = Launch(KERNEL, kernel, *per_thread(strips * 32, BLOCK), args)
        return [zero_rows(self.cut_rows, y), step] if len(self.cut_rows) else [step]

    @property
    def detail(self) -> dict[str, Any]:
        return {"height": self.height, "folds": len(self.strip_ptr) - 1}
