"""Compressed sparse rows, with the kernels that Bell and Garland gave it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand
from spmvbench.formats.base import Format, Launch, Parameter, ctype, register

LANES = (1, 2, 4, 8, 16, 32)


class CsrArrays(Format):
    """Plain CSR as it comes: nothing is copied, so conversion costs nothing; 12 nnz + 4 (rows + 1) bytes in f64."""

    family = "CSR"

    row_ptr: Array  # (rows + 1,), int32, or int64 where nnz needs it
    col_idx: Array  # (nnz,), int32
    values: Array  # (nnz,)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nbytes

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return expand(self.row_ptr, len(self.values)), self.col_idx, self.values


class CsrByLanes(CsrArrays):
    """CSR multiplied by groups of lanes that share a row: one kernel for every rule that sizes the group.

    Subclasses give the rule: `lanes_for(nnz, rows)`.
    """

    sources = ("csr.cu",)

    @property
    def lanes_per_row(self) -> int:
        """Lanes that share a row."""
        raise NotImplementedError

    def launches(self, x: Array, y: Array) -> list[Launch]:
        lanes, block = self.lanes_per_row, 128
        # A lone lane walks its whole row, so it gains most from loads in flight; wide groups rarely take two steps.
        unroll = 4 if lanes < 32 else 2
        kernel = f"csr_vector<{ctype(self.values)}, {ctype(self.row_ptr)}, {lanes}, {unroll}>"
        args = (np.int32(self.shape[0]), self.row_ptr, self.col_idx, self.values, x, y)
        return [Launch("csr.cu", kernel, cdiv(self.shape[0] * lanes, block), block, args)]


@register
class CsrScalar(CsrByLanes):
    """One thread a row. Loads are scattered, so it suits only the shortest rows."""

    key = "csr-scalar"
    survey_name = "CSR"
    reference = "Bell & Garland, NVR-2008-004"

    lanes_per_row = 1


@register
class CsrVector(CsrByLanes):
    """A group of lanes a row, sized by the mean row length; the report's own kernel is lanes=32.

    The group is the largest power of two that leaves each lane about two entries, and at most 16.
    """

    key = "csr-vector"
    survey_name = "CSR"
    reference = "Bell & Garland, NVR-2008-004"

    lanes = Parameter(0, "lanes that share a row; 0 sizes them by the mean row length", choices=(0, *LANES))

    @property
    def lanes_per_row(self) -> int:
        mean = len(self.values) / max(self.shape[0], 1)
        return self.lanes or next((n for n in (2, 4, 8) if mean <= 2 * n), 16)
