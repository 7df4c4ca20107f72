"""CSR with the lengths of rows in place of where they begin."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats import transposed
from spmvbench.formats.arrays import Array, Csr, expand, offsets
from spmvbench.formats.csr.csr import CsrByLanes
from spmvbench.formats.csr.rules import lanes_that_hold
from spmvbench.formats.launches import Launch, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

THREADS = 128  # threads


def lengths_dtype(longest: int) -> np.dtype:
    """The narrowest type of the lengths of rows up to the longest: one byte, two or four."""
    return np.dtype(np.uint8 if longest < 2**8 else np.uint16 if longest < 2**16 else np.int32)


@register
class CsrWang(CsrByLanes):
    """CSR, slightly more threads per row than the mean row has entries, so that most rows need one pass.

    "Slightly more" is the mean and one, up to a power of two: our reading. The authors change CSR to move less between
    host and device, and the survey does not say how. kernel=paper is our reading of that: a row has its length, in one,
    two or four bytes by the longest, in place of a pointer; the pointers left are those to the first rows of thread
    blocks, and a block finds where its others begin by a sum over their lengths. fast: CSR is stored as it comes.
    """

    key = "csr-wang"
    survey_name = "CSR optimization [100]"
    reference = "Wang et al., ICETC 2010"
    shared_implementation = "CSR by threads per row: more than the mean row has entries"

    kernel = Parameter(
        "fast", "paper: short lengths in place of pointers; fast: CSR as it comes", choices=("fast", "paper")
    )

    row_ptr: Array  # (rows + 1,); paper: (blocks + 1,), the entries before the rows of each block
    lengths: Array  # (rows,), uint8, uint16 or int32: entries; (0,) where kernel=fast

    @classmethod
    def _firsts(cls, a: Csr) -> Array:
        """The pointers to the first rows of blocks, and the last."""
        each = THREADS // lanes_that_hold(a.row_len_mean + 1)
        return a.xp.append(a.row_ptr[: a.rows : each], a.row_ptr[-1:])

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        if params["kernel"] != "paper":
            return a.nbytes
        lengths = a.rows * lengths_dtype(a.row_len_max).itemsize
        return a.nbytes - a.row_ptr.nbytes + cls._firsts(a).nbytes + lengths

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        found = super().convert(a)
        if params["kernel"] != "paper":
            return found | {"lengths": a.xp.empty(0, dtype=np.uint8)}
        return found | {"row_ptr": cls._firsts(a), "lengths": a.row_lengths.astype(lengths_dtype(a.row_len_max))}

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_hold(self.row_len_mean + 1)

    def to_coo(self) -> tuple[Array, Array, Array]:
        if self.kernel != "paper":
            return super().to_coo()
        return expand(offsets(self.lengths), len(self.values)), self.col_idx, self.values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        if self.kernel != "paper":
            return super().launches(x, y)
        types = ", ".join(map(ctype, (self.values, self.row_ptr, self.lengths)))
        sizes = np.int32(self.shape[0]), self.row_ptr.dtype.type(len(self.values))
        args = (*sizes, self.row_ptr, self.lengths, self.col_idx, self.values, x, y)
        kernel = f"csr_lengths<{types}, {self.lanes_per_row}, {THREADS}>"
        return [Launch("csr/lengths.cu", kernel, len(self.row_ptr) - 1, THREADS, args)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        row_ptr = self.row_ptr if self.kernel != "paper" else offsets(self.lengths).astype(self.row_ptr.dtype)
        return [transposed.by_rows(row_ptr, self.col_idx, self.values, x, y)]
