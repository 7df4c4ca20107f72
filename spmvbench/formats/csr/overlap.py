"""CSR in batches of equal numbers of entries, the next one copied while one is summed."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, cdiv
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, zero_fill, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "csr/overlap.cu"
BLOCK, BATCH, ROOM = (constant(KERNEL, name) for name in ("OVERLAP_BLOCK", "BATCH", "ROOM"))
RESIDENT = 2048 // BLOCK  # blocks of a multiprocessor at once


@register
class CsrOverlap(CsrArrays):
    """CSR by batches of 1,024 entries: a block copies the next one asynchronously while it sums one.

    Columns, values and the row ends of a batch are copied from global to shared memory without registers (cp.async);
    devices before compute capability 8.0 copy them before they sum. In shared memory rows are summed by 1 to 32 lanes
    each, or by a merge of row ends and entries if one is far longer than the others. Rows that are in several batches
    are added by atomics. A block takes neighbouring batches; `batches` of 0 are as many as leave each multiprocessor
    one set of blocks.

    Of the paper a summary was read: batches, copies and their overlap are the authors', how rows of a batch are summed
    is our reading. Its CSR-Full-Overlap also overlaps the copy from the host, which is not timed here.
    """

    key = "csr-overlap"
    reference = "Zeng & Zou, CSR-Partial-Overlap, Electronics 12(17), 2023"

    batches = Parameter(0, "batches of a block; 0: as many as leave each multiprocessor one set of blocks", low=0)

    first_row: Array  # (batches + 1,), int32: the first row that ends in each batch
    per_block: int  # batches of a block in use

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nbytes + 4 * (cdiv(a.nnz, BATCH) + 1)

    @classmethod
    def convert(cls, a: Csr, *, batches: int) -> dict[str, Any]:
        xp, count = a.xp, cdiv(a.nnz, BATCH)
        begins = xp.arange(count + 1, dtype=np.int64) * BATCH
        first_row = xp.searchsorted(a.row_ptr[1:], begins, side="right").astype(np.int32)
        first_row[0] = 0  # empty rows at the beginning have no batch before
        first_row[count:] = a.rows
        blocks = RESIDENT * device_limits(a).multiprocessors
        return {
            "row_ptr": a.row_ptr,
            "col_idx": aligned(a.col_idx),
            "values": aligned(a.values),
            "first_row": first_row,
            "per_block": batches or max(cdiv(count, blocks), 1),
        }

    def launches(self, x: Array, y: Array) -> list[Launch]:
        batches = len(self.first_row) - 1
        if not batches:
            return [zero_fill(y)]
        types = f"{ctype(self.values)}, {ctype(self.row_ptr)}"
        sizes = np.int32(self.shape[0]), self.row_ptr.dtype.type(len(self.values)), np.int32(batches)
        args = (*sizes, np.int32(self.per_block), self.first_row, self.row_ptr, self.col_idx, self.values, x, y)
        shared = 2 * (BATCH * (4 + self.values.itemsize) + ROOM * self.row_ptr.itemsize)
        product = Launch(KERNEL, f"csr_overlap<{types}>", cdiv(batches, self.per_block), BLOCK, args, shared)
        return [zero_rows(self.first_row[1:batches], y), product]

    @property
    def detail(self) -> dict[str, Any]:
        return {"batches_per_block": self.per_block}
