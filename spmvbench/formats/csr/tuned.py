"""CSR by groups of lanes whose launch is tuned by timing it."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Csr
from spmvbench.formats.base import register
from spmvbench.formats.conversion import seconds
from spmvbench.formats.csr.csr import LANES, CsrByLanes
from spmvbench.formats.csr.rules import lanes_that_hold

BLOCKS = (64, 128, 256, 512)


def gridification(time: Callable[[int, int], float]) -> tuple[int, int]:
    """Lanes a row and threads a block of the least `time(lanes, block)`: first the lanes, then the block for them."""
    lanes = min(LANES, key=lambda lanes: time(lanes, 128))
    return lanes, min(BLOCKS, key=lambda block: time(lanes, block))


@register
class CsrAm(CsrByLanes):
    """CSR, lanes a row and threads a block tuned by timing, which is part of the conversion.

    Where NumPy holds the matrix nothing can be timed: lanes are as many as hold the mean row there, blocks are 128.
    What is tried, 1 to 32 lanes in blocks of 128 and then blocks of 64 to 512 for the best, is our reading.
    """

    key = "csr-am"
    survey_name = "CSR optimization [3]"
    reference = "Cheik Ahamed & Magoulès, HPCC 2012"
    core = "CSR by groups of lanes: as timed on the matrix"

    lanes: int  # that share a row
    block: int  # threads

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        arrays = super().convert(a)
        if a.xp is np or not a.nnz:
            return arrays | {"lanes": lanes_that_hold(a.row_len_mean), "block": 128}
        x, y = a.xp.zeros(a.cols, a.dtype), a.xp.empty(a.rows, a.dtype)

        def time(lanes: int, block: int) -> float:
            fmt = cls(shape=a.shape, params=MappingProxyType(params), lanes=lanes, block=block, **arrays)
            return seconds(fmt.launches(x, y))

        lanes, block = gridification(time)
        return arrays | {"lanes": lanes, "block": block}

    @property
    def lanes_per_row(self) -> int:
        return self.lanes

    @property
    def threads_per_block(self) -> int:
        return self.block

    @property
    def detail(self) -> dict[str, Any]:
        return {"lanes": self.lanes, "block": self.block}
