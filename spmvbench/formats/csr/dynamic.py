"""CSR whose rows are distributed while the kernel runs: LightSpMV."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, cdiv
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.launches import Launch, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

BLOCK = 1024  # threads


class LightSpmv(CsrArrays):
    """CSR with a counter: a free group of threads takes the next rows, which balances rows without preprocessing.

    Threads per row by the mean row: 2 up to 2 entries, 4 up to 4, 8 up to 64, else a warp, as in the authors' program.
    There are as many blocks of 1024 threads as run at once. A launch before sets the counter to zero.
    """

    reference = "Liu & Schmidt, ASAP 2015"
    survey_name = "LightSpMV"
    by_warp: ClassVar[bool]

    blocks = Parameter(0, "most blocks of 1024 threads; 0: two per multiprocessor", low=0, high=2**20)

    counter: Array  # (1,), uint32
    most_blocks: int  # that run at once

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nbytes + 4

    @classmethod
    def convert(cls, a: Csr, *, blocks: int) -> dict[str, Any]:
        return {
            "row_ptr": a.row_ptr,
            "col_idx": aligned(a.col_idx),
            "values": aligned(a.values),
            "counter": a.xp.zeros(1, dtype=np.uint32),
            "most_blocks": blocks or 2 * device_limits(a).multiprocessors,
        }

    @property
    def lanes_per_row(self) -> int:
        """Threads that share a row."""
        mean = round(len(self.values) / max(self.shape[0], 1))
        return next((lanes for lanes, longest in ((2, 2), (4, 4), (8, 64)) if mean <= longest), 32)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, lanes = self.shape[0], self.lanes_per_row
        kernel = f"csr_dynamic<{ctype(self.values)}, {ctype(self.row_ptr)}, {lanes}, {cbool(self.by_warp)}>"
        sizes = np.int32(rows), self.row_ptr.dtype.type(len(self.values))
        args = (*sizes, self.counter, self.row_ptr, self.col_idx, self.values, x, y)
        blocks = min(cdiv(rows * lanes, BLOCK), self.most_blocks)
        return [zero_fill(self.counter), Launch("csr/dynamic.cu", kernel, blocks, BLOCK, args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"lanes": self.lanes_per_row}


@register
class LightSpmvVector(LightSpmv):
    """CSR with a global row counter: each group of threads takes the next row when it has finished one.

    See `LightSpmv`.
    """

    key = "lightspmv-vector"
    shared_implementation = "CSR with rows assigned at run time: to a group of threads"

    by_warp = False


@register
class LightSpmvWarp(LightSpmv):
    """CSR with a global row counter: each warp takes the next rows, one for each group of its threads.

    See `LightSpmv`; fewer warps meet at the counter than with `lightspmv-vector`, and the groups of a warp wait for the
    longest of their rows.
    """

    key = "lightspmv-warp"
    shared_implementation = "CSR with rows assigned at run time: to a warp"

    by_warp = True
