"""CSR in equal shares of entries whose rows are found by search (rocSPARSE nnzsplit)."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.conversion import cut_rows, device_limits, runner
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "load_balanced/nnzsplit.cu"
BLOCK = constant(KERNEL, "SPLIT_BLOCK")
ROUNDS = 10  # of the device's blocks, from which on a thread has more entries


@register
class CsrNnzsplit(CsrArrays):
    """CSR in equal shares of entries per block, with the row that each share begins in; sums are added by atomics.

    A thread has 1, 4 or 8 entries, 32 apart, by the size of the matrix and the multiprocessors. Products are loaded
    first; each entry's row is then searched among those of the block. Lanes add up in registers while all have one row;
    otherwise the warp adds equal rows and one lane of each adds to y. The library can join blocks of long rows, which
    is off there and not done here.
    """

    key = "csr-nnzsplit"
    reference = "AMD rocSPARSE, csrmv nnzsplit"

    per_thread = Parameter(0, "entries per thread; 0 takes the library's rule", choices=(0, 1, 4, 8))

    start_row: Array  # (blocks + 1,), int32: the row of each block's first entry, and the last row
    items: int  # entries per thread in use

    @classmethod
    def items_for(cls, a: Csr, per_thread: int) -> int:
        """Entries per thread: the parameter, or by the library's rule."""
        blocks = 2 * device_limits(a).multiprocessors
        return per_thread or next((q for q, of in ((1, 4), (4, 8)) if a.nnz // (blocks * BLOCK * of) < ROUNDS), 8)

    @classmethod
    def estimate(cls, a: Csr, *, per_thread: int) -> int:
        return a.nbytes + 4 * (cdiv(a.nnz, BLOCK * cls.items_for(a, per_thread)) + 1)

    @classmethod
    def convert(cls, a: Csr, *, per_thread: int) -> dict[str, Any]:
        xp, items = a.xp, cls.items_for(a, per_thread)
        if (run := runner(a)) is not None:
            found = cut_rows(a, "OWNERS", cdiv(a.nnz, BLOCK * items), BLOCK * items, run)
            return super().convert(a) | {"start_row": found, "items": items}
        begins = xp.arange(0, a.nnz, BLOCK * items, dtype=np.int64)
        start_row = xp.searchsorted(a.row_ptr, begins, side="right") - 1
        last = xp.full(1, max(a.rows - 1, 0), dtype=np.int32)
        return super().convert(a) | {"start_row": xp.append(start_row.astype(np.int32), last), "items": items}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        kernel = f"nnzsplit<{ctype(self.values)}, {ctype(self.row_ptr)}, {self.items}>"
        nnz = self.row_ptr.dtype.type(len(self.values))
        args = (nnz, self.start_row, self.row_ptr, self.col_idx, self.values, x, y)
        return [zero_fill(y), Launch(KERNEL, kernel, len(self.start_row) - 1, BLOCK, args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"items": self.items}
