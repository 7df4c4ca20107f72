"""CSR in two kernels with the products between them (perfect CSR, He & Gao)."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, in_part, per_thread
from spmvbench.formats.registry import register

KERNEL = "csr/perfect.cu"
BLOCK = constant(KERNEL, "BLOCK")


@register
class PerfectCsr(CsrArrays):
    """CSR in two kernels: all products to an array of their own, then a thread per row adds them up.

    The second kernel loads the products of a block's rows to shared memory piece by piece, so both read neighbouring
    addresses. The array of products is written and read: 8 bytes per entry and pass in double precision. Its size is
    workspace, not footprint. 1,024 products at a time are our reading.
    """

    key = "perfect-csr"
    vectors_together = 4
    reference = "He & Gao, Mathematical Problems in Engineering, 2016"

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, nnz = self.shape[0], self.row_ptr.dtype.type(len(self.values))
        products = self.xp.empty(len(self.values), dtype=y.dtype)
        types = f"{ctype(products)}, {ctype(self.row_ptr)}"
        multiply = (nnz, self.col_idx, self.values, x, products)
        add = (np.int32(rows), self.row_ptr, products, y)
        first = Launch(KERNEL, f"perfect_products<{types}>", *per_thread(len(products)), multiply)
        second = Launch(KERNEL, f"perfect_sums<{types}>", cdiv(rows, BLOCK), BLOCK, add)
        return [*in_part("products", [first]), *in_part("sums", [second])]
