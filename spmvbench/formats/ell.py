"""ELLPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, round_up
from spmvbench.formats.base import Format, Launch, Parameter, ctype, register


@register
class Ell(Format):
    """Every row padded to the longest, stored column by column so that neighbouring threads read neighbouring slots.

    Best where the longest row is near the mean; one long row makes it impossible. Padding holds the column -1, which
    the kernel tests.
    """

    key = "ell"
    family = "ELLPACK"
    survey_name = "ELLPACK"
    reference = "Kincaid et al., ITPACKV 2D 1989; Bell & Garland, NVR-2008-004"
    sources = ("ell.cu",)

    threads = Parameter(1, "threads that share a row, each in a warp of its own", choices=(1, 2, 4, 8, 16, 32))

    columns: Array  # (width, pitch), int32; -1 is padding
    values: Array  # (width, pitch)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.row_len_max * round_up(a.rows, 32) * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp = a.xp
        shape = (a.row_len_max, round_up(a.rows, 32))
        columns = xp.full(shape, -1, dtype=np.int32)
        values = xp.zeros(shape, dtype=a.dtype)
        slot = a.rank_in_row.astype(np.int64) * shape[1] + a.row_idx
        columns.reshape(-1)[slot] = a.col_idx
        values.reshape(-1)[slot] = a.values
        return {"columns": columns, "values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        used = self.columns >= 0
        _, row = self.xp.nonzero(used)
        return row, self.columns[used], self.values[used]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        width, pitch = self.columns.shape
        # Threads that share a row sit in different warps of a block of 32 rows; lone threads fill blocks of 128 rows.
        block = (32, self.threads) if self.threads > 1 else (128, 1)
        kernel = f"ell_spmv<{ctype(self.values)}, {self.threads}>"
        args = (np.int32(self.shape[0]), np.int32(width), np.int64(pitch), self.columns, self.values, x, y)
        return [Launch("ell.cu", kernel, cdiv(self.shape[0], block[0]), block, args)]
