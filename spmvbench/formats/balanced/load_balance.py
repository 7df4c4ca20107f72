"""Ginkgo's load-balanced kernels for COO and CSR: equal shares of the entries for every warp."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.balanced.tiles import owners
from spmvbench.formats.base import Launch, Parameter, ctype, register, zero_fill
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.coo.coo import Coo
from spmvbench.formats.csr.csr import CsrArrays

PAPER = "Anzt, Cojean, Chen, Dongarra, Flegar, Nayak, Tomov, Tsai & Wang, TOPC 7(1) 2020; Ginkgo"
SOURCE = "balanced/load_balance.cu"
BLOCK = 128
WARPS_AT_ONCE = 4  # that a multiprocessor issues: 128 cores
WARPS = Parameter(0, "warps that the device issues at a time; 0 takes four a multiprocessor", low=0, high=2**16)


def warps_in_use(nnz: int, at_once: int) -> int:
    """Warps that share `nnz` entries, in lines of 32: 8, 32 or 128 times as many as the device issues at a time."""
    times = 8 if nnz < 200_000 else 32 if nnz < 2_000_000 else 128
    return min(cdiv(nnz, 32), at_once * times)


def at_once(a: Csr, warps: int) -> int:
    """Warps that the device issues at a time: the parameter, or those of the device at hand."""
    return warps or WARPS_AT_ONCE * device_limits(a).multiprocessors


@register
class CooLoadBalance(Coo):
    """COO sorted by row, equal shares of the entries a warp: a lane keeps its sum until its row changes.

    Only then the warp adds neighbouring lanes of equal rows and gives y one atomic a row. Not the same bits every time.
    """

    key = "coo-load-balance"
    survey_name = ""
    reference = PAPER
    sources = (SOURCE, "vector.cu")

    warps = WARPS

    at_once: int  # warps that the device issues at a time

    @classmethod
    def convert(cls, a: Csr, *, warps: int) -> dict[str, Any]:
        return super().convert(a) | {"at_once": at_once(a, warps)}

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        nnz = self._nnz
        warps = warps_in_use(len(self.values), self.at_once)
        lines = np.int32(cdiv(len(self.values), 32 * max(warps, 1)))
        args = (nnz, lines, self.row_idx, self.col_idx, self.values, x, y)
        kernel = f"coo_load_balance<{ctype(self.values)}, {ctype(nnz)}>"
        return [Launch(SOURCE, kernel, cdiv(warps * 32, BLOCK), BLOCK, args)]


@register
class CsrLoadBalance(CsrArrays):
    """CSR and the row of each warp's first entry: `coo-load-balance` without row indices.

    A lane knows its row and where that ends, and looks at the row pointers only when it leaves it; it walks over empty
    rows one by one. Not the same bits every time.
    """

    key = "csr-load-balance"
    reference = PAPER
    sources = (SOURCE, "vector.cu")

    warps = WARPS

    start_row: Array  # (warps in use,), int32

    @classmethod
    def estimate(cls, a: Csr, *, warps: int) -> int:
        return a.nbytes + 4 * warps_in_use(a.nnz, at_once(a, warps))

    @classmethod
    def convert(cls, a: Csr, *, warps: int) -> dict[str, Any]:
        used = warps_in_use(a.nnz, at_once(a, warps))
        first = a.xp.arange(used, dtype=np.int64) * cdiv(a.nnz, 32) // max(used, 1) * 32
        return super().convert(a) | {"start_row": owners(a.row_ptr, first)}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, nnz = np.int32(self.shape[0]), self.row_ptr.dtype.type(len(self.values))
        warps, lines = len(self.start_row), np.int64(cdiv(len(self.values), 32))
        args = (rows, nnz, lines, np.int32(warps), self.start_row, self.row_ptr, self.col_idx, self.values, x, y)
        kernel = f"csr_load_balance<{ctype(self.values)}, {ctype(self.row_ptr)}>"
        return [zero_fill(y), Launch(SOURCE, kernel, cdiv(warps * 32, BLOCK), BLOCK, args)]
