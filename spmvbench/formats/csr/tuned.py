"""CSR by groups of threads whose launch is tuned by timing it."""

from __future__ import annotations

from typing import Any

from spmvbench.formats.arrays import Csr
from spmvbench.formats.csr.csr import LANES, CsrByLanes
from spmvbench.formats.csr.rules import lanes_that_hold
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import tuned

BLOCKS = (64, 128, 256, 512)


@register
class CsrAm(CsrByLanes):
    """CSR, threads per row and threads per block tuned by timing, which is part of the conversion.

    If NumPy holds the matrix nothing can be timed: threads are as many as hold the mean row there, blocks are 128.
    What is tried, 1 to 32 threads in blocks of 128 and then blocks of 64 to 512 for the best, is our reading.
    """

    key = "csr-am"
    survey_name = "CSR optimization [3]"
    reference = "Cheik Ahamed & Magoulès, HPCC 2012"
    shared_implementation = "CSR by threads per row: the fastest on the matrix"

    lanes = Parameter(0, "threads per row; 0: the fastest", choices=(0, *LANES))
    block = Parameter(0, "threads per block; 0: the fastest", choices=(0, *BLOCKS))

    lanes_in_use: int
    block_in_use: int

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        arrays = super().convert(a)

        def fields(lanes: int, block: int) -> dict[str, Any]:
            return arrays | {"lanes_in_use": lanes or lanes_that_hold(a.row_len_mean), "block_in_use": block or 128}

        return tuned(cls, a, params, {"lanes": LANES, "block": BLOCKS}, fields)

    @property
    def lanes_per_row(self) -> int:
        return self.lanes_in_use

    @property
    def threads_per_block(self) -> int:
        return self.block_in_use

    @property
    def in_use(self) -> dict[str, Any]:
        return {"lanes": self.lanes_in_use, "block": self.block_in_use}

    @property
    def detail(self) -> dict[str, Any]:
        return self.in_use
