"""Diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, round_up
from spmvbench.formats.base import Format, Launch, ctype, per_thread, register


@register
class Dia(Format):
    """One dense array a non-empty diagonal and no column indices: about 8 bytes an entry for a stencil.

    Impossible where entries scatter: a random matrix has nearly rows + cols diagonals. A stored zero cannot be told
    from padding, so decoding leaves it out.
    """

    key = "dia"
    family = "DIA"
    survey_name = "DIA"
    reference = "Saad 1989; Bell & Garland, NVR-2008-004"
    sources = ("dia.cu",)
    keeps_zeros = False

    offset: Array  # (diagonals,), int32: col - row, ascending
    values: Array  # (diagonals, pitch), the entry of row i in column i

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return len(a.diagonals) * (round_up(a.rows, 32) * a.dtype.itemsize + 4)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp = a.xp
        pitch = round_up(a.rows, 32)
        values = xp.zeros((len(a.diagonals), pitch), dtype=a.dtype)
        diagonal = xp.searchsorted(a.diagonals, a.col_idx - a.row_idx).astype(np.int64)
        values.reshape(-1)[diagonal * pitch + a.row_idx] = a.values
        return {"offset": a.diagonals, "values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        diagonal, row = self.xp.nonzero(self.values)
        return row, row + self.offset[diagonal], self.values[diagonal, row]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        (rows, cols), (diagonals, pitch) = self.shape, self.values.shape
        kernel = f"dia_spmv<{ctype(self.values)}>"
        args = (np.int32(rows), np.int32(cols), np.int32(diagonals), np.int64(pitch), self.offset, self.values, x, y)
        return [Launch("dia.cu", kernel, *per_thread(rows, 128), args)]
