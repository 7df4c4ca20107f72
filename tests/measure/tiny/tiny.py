"""The plainest formats of the other operations, right and wrong ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spmvbench.formats import Launch, Loop, cbool, ctype, in_part, per_thread, register
from spmvbench.formats.csr.csr import CsrArrays

KERNELS = str(Path(__file__).with_name("tiny.cu"))


@register
class TinySparse(CsrArrays):
    """Every row meets every entry of x."""

    key = "tiny-sparse"
    op = "spmspv"
    reference = "none"
    wrong = False

    def launches(self, x, y):
        rows = self.shape[0]
        kernel = f"rows_of_sparse_x<{ctype(self.values)}, {ctype(self.row_ptr)}, {cbool(self.wrong)}>"
        args = (np.int32(rows), self.row_ptr, self.col_idx, self.values, np.int32(len(x)), x.index, x.value, y)
        return in_part("product", [Launch(KERNELS, kernel, *per_thread(rows, 128), args)])


@register
class TinySparseWrong(TinySparse):
    """It answers for the last row what it likes."""

    key = "tiny-sparse-wrong"
    wrong = True


@register
class TinySearch(CsrArrays):
    """A thread that looks at every vertex in every level."""

    key = "tiny-search"
    op = "bfs"
    keeps_values = False
    square_only = True
    reference = "none"
    wrong = False

    @property
    def detail(self):
        return {"of": "tiny-search"}

    def launches(self, x, y):
        return self.search(x, y, self.xp.zeros((0, 2), np.int64))

    def traced(self, x, y):
        trace = self.xp.zeros((100, 2), np.int64)
        return self.search(x, y, trace), trace

    def search(self, x, y, trace):
        n, xp = self.shape[0], self.xp
        depth, more = xp.zeros(1, np.int32), xp.zeros(1, np.int32)
        kernel = f"next_level<{ctype(self.row_ptr)}, {cbool(self.wrong)}>"
        step = Launch(
            KERNELS,
            kernel,
            1,
            1,
            (np.int32(n), self.row_ptr, self.col_idx, y, depth, more, trace, np.int32(len(trace))),
        )
        begin = Launch(KERNELS, "begin_search", *per_thread(n, 128), (np.int32(n), x, y, depth, more))
        return [begin, Loop((step,), more, n + 1)]


@register
class TinySearchWrong(TinySearch):
    """It skips a level."""

    key = "tiny-search-wrong"
    wrong = True
