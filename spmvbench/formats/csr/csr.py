"""Compressed sparse rows, with the kernels that Bell and Garland gave it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats import transposed
from spmvbench.formats.arrays import Array, Csr, aligned, cdiv, expand
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype
from spmvbench.formats.multivector import sharing
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

LANES = (1, 2, 4, 8, 16, 32)


class CsrArrays(Format):
    """Plain CSR as it comes: nothing is copied, so conversion costs nothing; 12 nnz + 4 (rows + 1) bytes in f64."""

    family = "CSR"

    row_ptr: Array  # (rows + 1,), int32, or int64 where nnz needs it
    col_idx: Array  # (nnz,), int32
    values: Array  # (nnz,)

    @classmethod
    def estimate(cls, a: Csr, *_: Any, **params: Any) -> int:
        return a.nbytes

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return expand(self.row_ptr, len(self.values)), self.col_idx, self.values

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        return [transposed.by_rows(self.row_ptr, self.col_idx, self.values, x, y)]


class CsrLoadedTogether(CsrArrays):
    """Plain CSR for kernels that load several entries at once: arrays that are not aligned are copied."""

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        return {"row_ptr": a.row_ptr, "col_idx": aligned(a.col_idx), "values": aligned(a.values)}


class CsrByLanes(CsrLoadedTogether):
    """CSR multiplied by groups of threads per row: one kernel for every rule that sizes the group.

    Subclasses give the rule: `lanes_per_row`, and optionally `entries_per_lane`,
    `rows_per_group` and `threads_per_block`. The papers' rules size the group for one entry per thread, and are
    compared with each other in blocks of one size.
    """

    wide_offsets = True
    entries_per_lane: ClassVar[int] = 1  # that a thread takes at a time: 1 or 2

    @property
    def lanes_per_row(self) -> int:
        """Threads that share a row, one of LANES."""
        raise NotImplementedError

    @property
    def rows_per_group(self) -> int:
        """Rows that a group of threads takes."""
        return 1

    @property
    def threads_per_block(self) -> int:
        """Threads per block, a multiple of 32."""
        return 128

    @property
    def row_len_mean(self) -> float:
        """Mean stored entries per row; 0 without rows."""
        return len(self.values) / max(self.shape[0], 1)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        lanes, rows, block = self.lanes_per_row, self.rows_per_group, self.threads_per_block
        kernel = f"csr_vector<{ctype(self.values)}, {ctype(self.row_ptr)}, {lanes}, {self.entries_per_lane}, {rows}>"
        nnz = self.row_ptr.dtype.type(len(self.values))
        args = (np.int32(self.shape[0]), nnz, self.row_ptr, self.col_idx, self.values, x, y)
        return [
            Launch("csr/csr.cu", kernel, cdiv(self.shape[0], rows * (block // lanes)), block, args, row_lanes=lanes)
        ]


@register
class CsrScalar(CsrByLanes):
    """CSR, one thread per row, one entry at a time. Loads are scattered, so it suits only the shortest rows."""

    key = "csr-scalar"
    survey_name = "CSR optimization [13]"
    reference = "Bell & Garland, NVR-2008-004"
    shared_implementation = "CSR by threads per row: 1"

    lanes_per_row = 1
    threads_per_block = 256


@register
class CsrVector(CsrByLanes):
    """CSR, one warp per row: loads are contiguous, and threads idle in rows of fewer than 32 entries.

    lanes=2 to 16 are the report's kernel with a part of a warp, as CUSP has it since.
    """

    key = "csr-vector"
    survey_name = "CSR optimization [13]"
    reference = "Bell & Garland, NVR-2008-004"
    shared_implementation = "CSR by threads per row: 32"

    lanes = Parameter(32, "threads per row", choices=LANES)

    @property
    def lanes_per_row(self) -> int:
        return self.lanes


# Threads for rows of up to so many entries on average, the fastest on an H200 for stencils (7 entries per row), random
# (2, 4, 12), banded (24, 200, 400) and finite element (27, 77) matrices. A thread takes two entries at a time.
LANES_BY_MEAN = ((2, 4), (4, 10), (8, 28), (16, 320))


def lanes_by_mean(mean: float) -> int:
    """Threads for rows of `mean` entries, as LANES_BY_MEAN has them; 32 beyond."""
    return next((lanes for lanes, longest in LANES_BY_MEAN if mean <= longest), 32)


def threads_by_lanes(lanes: int) -> int:
    """Threads per block for so many threads per row: wide blocks share more of x in the L1 cache.

    On an H200, 512 in place of 128 or 256 give 10 % more on banded matrices (24 and 80 entries per row) and take 1 to 2
    % of stencils' and finite elements'. Shorter rows lose more.
    """
    return 512 if lanes in (8, 16) else 128


@register
class CsrLanes(CsrByLanes):
    """CSR, threads per row by the mean row length; each thread loads two neighbouring entries at once.

    The rules for threads, pairs of entries and block sizes are the fastest on an H200.
    """

    key = "csr-lanes"
    reference = "this project, after Bell & Garland, NVR-2008-004"
    shared_implementation = "CSR by threads per row: by the mean row, measured on an H200, two entries per load"
    project_kernel = True

    entries_per_lane = 2
    lanes = Parameter(0, "threads per row; 0 chooses them by the mean row length", choices=(0, *LANES))

    @property
    def lanes_per_row(self) -> int:
        """Half as many if threads share rows of several vectors: up to 1.5 times as fast (H200, f64, eight vectors)."""
        lanes = lanes_by_mean(self.row_len_mean)
        return self.lanes or (lanes // 2 if lanes >= 8 and sharing(self.values.dtype.itemsize) >= 4 else lanes)

    @property
    def threads_per_block(self) -> int:
        return threads_by_lanes(self.lanes_per_row)
