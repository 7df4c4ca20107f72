"""Compressed sparse rows, with the kernels that Bell and Garland gave it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, cdiv, expand
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

    Subclasses give the rule: `lanes_per_row`, and where they do not leave it to the kernel, `rows_per_group` and
    `threads_per_block`.
    """

    sources = ("csr/csr.cu",)

    @property
    def lanes_per_row(self) -> int:
        """Lanes that share a row, one of LANES; each takes two entries at a time."""
        raise NotImplementedError

    @property
    def rows_per_group(self) -> int:
        """Rows that a group of lanes takes."""
        return 1

    @property
    def threads_per_block(self) -> int:
        """Threads a block, a multiple of 32.

        Wide blocks share more of x in the L1 cache: on an H200, 512 in place of 128 or 256 give 10 % more on banded
        matrices (24 and 80 entries a row) and take 1 to 2 % of stencils' and finite elements'. Shorter rows lose more.
        """
        return 512 if self.lanes_per_row in (8, 16) else 128

    @property
    def row_len_mean(self) -> float:
        """Mean stored entries a row; 0 without rows."""
        return len(self.values) / max(self.shape[0], 1)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return {"row_ptr": a.row_ptr, "col_idx": aligned(a.col_idx), "values": aligned(a.values)}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        lanes, rows, block = self.lanes_per_row, self.rows_per_group, self.threads_per_block
        kernel = f"csr_vector<{ctype(self.values)}, {ctype(self.row_ptr)}, {lanes}, {rows}>"
        nnz = self.row_ptr.dtype.type(len(self.values))
        args = (np.int32(self.shape[0]), nnz, self.row_ptr, self.col_idx, self.values, x, y)
        return [Launch("csr/csr.cu", kernel, cdiv(self.shape[0], rows * (block // lanes)), block, args)]


@register
class CsrScalar(CsrByLanes):
    """One thread a row. Loads are scattered, so it suits only the shortest rows."""

    key = "csr-scalar"
    survey_name = "CSR optimization [13]"
    reference = "Bell & Garland, NVR-2008-004"
    core = "CSR by groups of lanes: one a row"

    lanes_per_row = 1


# Lanes for rows of up to so many entries in the mean, the fastest on an H200 for stencils (7 entries a row), random
# (2, 4, 12), banded (24, 200, 400) and finite element (27, 77) matrices. A lane takes two entries at a time.
LANES_BY_MEAN = ((2, 4), (4, 10), (8, 28), (16, 320))


def lanes_by_mean(mean: float) -> int:
    """Lanes for rows of `mean` entries, as LANES_BY_MEAN has them; 32 beyond."""
    return next((lanes for lanes, longest in LANES_BY_MEAN if mean <= longest), 32)


@register
class CsrVector(CsrByLanes):
    """A group of lanes a row, sized by the mean row length; the report's own kernel is lanes=32."""

    key = "csr-vector"
    survey_name = "CSR optimization [13]"
    reference = "Bell & Garland, NVR-2008-004"
    core = "CSR by groups of lanes: a warp a row, or by the mean row as measured"

    lanes = Parameter(0, "lanes that share a row; 0 sizes them by the mean row length", choices=(0, *LANES))

    @property
    def lanes_per_row(self) -> int:
        return self.lanes or lanes_by_mean(self.row_len_mean)
