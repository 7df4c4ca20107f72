"""CSR whose rows are padded to a multiple of a few entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.formats import Format, Launch, Parameter, ctype, per_thread, register
from spmvbench.formats.arrays import Array, Csr, index_dtype, offsets, round_up

KERNEL = str(Path(__file__).with_name("csr_padded.cu"))  # in kernels/csr/ the name "csr/csr_padded.cu" is enough


@register
class CsrPadded(Format):
    """CSR, every row padded to a multiple of `step` entries, so that the loop of a thread has no remainder.

    One thread per row. Padding holds the column -1, which no entry has: a stored zero stays an entry.
    """

    key = "csr-padded"
    family = "CSR"
    reference = "worked example of docs/new-format.md"

    step = Parameter(4, "entries that a thread loads before it adds", choices=(1, 2, 4, 8))

    row_ptr: Array  # (rows + 1,), int32, or int64 if the padded length needs it
    columns: Array  # (padded length,), int32; -1 is padding
    values: Array  # (padded length,)

    @classmethod
    def estimate(cls, a: Csr, *, step: int, **params: Any) -> int:
        slots = int(round_up(a.row_lengths, step).sum(dtype=np.int64))
        return (a.rows + 1) * index_dtype(slots).itemsize + slots * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, step: int, **params: Any) -> dict[str, Any]:
        xp = a.xp  # NumPy or CuPy: the same lines convert on the host and on the device
        row_ptr = offsets(round_up(a.row_lengths, step))
        slots = int(row_ptr[-1])
        columns = xp.full(slots, -1, dtype=np.int32)
        values = xp.zeros(slots, dtype=a.dtype)
        slot = row_ptr[a.row_idx] + a.rank_in_row
        columns[slot] = a.col_idx
        values[slot] = a.values
        return {"row_ptr": row_ptr, "columns": columns, "values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.columns >= 0)
        row = self.xp.searchsorted(self.row_ptr, slot, side="right") - 1
        return row, self.columns[slot], self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows = self.shape[0]
        kernel = f"csr_padded<{ctype(self.values)}, {ctype(self.row_ptr)}, {self.step}>"
        args = (np.int32(rows), self.row_ptr, self.columns, self.values, x, y)
        return [Launch(KERNEL, kernel, *per_thread(rows, 128), args, row_lanes=1)]
