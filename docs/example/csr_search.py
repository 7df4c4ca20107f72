"""CSR for a sparse x: every entry searches its column among the indices of x."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spmvbench.formats import Launch, ctype, per_thread, register
from spmvbench.formats.arrays import Array
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.vectors import SparseVector

KERNEL = str(Path(__file__).with_name("csr_search.cu"))


@register
class CsrSearch(CsrArrays):
    """Plain CSR, one thread per row; each entry searches its column among the indices of x by bisection."""

    key = "csr-search"
    op = "spmspv"
    reference = "worked example of docs/new-format.md"

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        rows = self.shape[0]
        kernel = f"csr_search<{ctype(self.values)}, {ctype(self.row_ptr)}>"
        args = (np.int32(rows), self.row_ptr, self.col_idx, self.values, np.int32(len(x)), x.index, x.value, y)
        return [Launch(KERNEL, kernel, *per_thread(rows, 128), args)]
