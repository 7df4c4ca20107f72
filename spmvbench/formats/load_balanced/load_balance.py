"""Ginkgo's load-balanced kernels for COO and CSR: equal shares of the entries for every warp."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.coo.coo import Coo
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.launches import Launch, after_zeros, ctype, zero_fill, zero_rows
from spmvbench.formats.load_balanced.tiles import owners
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

PAPER = "Anzt, Cojean, Chen, Dongarra, Flegar, Nayak, Tomov, Tsai & Wang, TOPC 7(1) 2020; Ginkgo"
SOURCE = "load_balanced/load_balance.cu"
BLOCK = 128
LINES = (1, 2, 3, 4, 6, 8)
WARPS_AT_ONCE = 4  # that a multiprocessor issues: 128 cores
WARPS = Parameter(0, "warps that the device issues at once; 0: four per multiprocessor", low=0, high=2**16)


def warps_in_use(nnz: int, at_once: int, most: int = 128) -> int:
    """Warps that share `nnz` entries, in lines of 32: 8, 32 or 128 times as many as the device issues at a time.

    most: the most times as many.
    """
    times = 8 if nnz < 200_000 else 32 if nnz < 2_000_000 else 128
    return min(cdiv(nnz, 32), at_once * min(times, most))


def shares(nnz: int, warps: int) -> tuple[int, int]:
    """Lines of each warp that shares `nnz` entries, and how many warps have one more."""
    return divmod(cdiv(nnz, 32), max(warps, 1))


def at_once(a: Csr, warps: int) -> int:
    """Warps that the device issues at a time: the parameter, or those of the device at hand."""
    return warps or WARPS_AT_ONCE * device_limits(a).multiprocessors


@register
class CooLoadBalance(Coo):
    """COO sorted by row, equal shares of entries per warp: a thread keeps its sum until its row changes.

    Then the warp adds the sums of neighbouring threads with equal rows, and adds to y by one atomic per row. Sums are
    not reproducible.
    """

    key = "coo-load-balance"
    survey_name = ""
    reference = PAPER
    wide_offsets = True

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

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return after_zeros(zero_fill(y), *self.accumulate(x, y))


@register
class CsrLoadBalance(CsrArrays):
    """CSR with the row of each warp's first entry: `coo-load-balance` without row indices.

    The threads of a warp look at the ends of as many neighbouring rows at a time. Rows that are within a warp are
    stored, where Ginkgo adds every row. kernel=paper: Ginkgo's rule for the number of warps, up to 128 times as many as
    the device issues, and one line of 32 entries at a time. fast: 32 times at most, and four lines in flight: longer
    shares, of which more loads are in flight, were 19 % faster on pde:100 and 25 % on fem:40:3 (f64, H200). Sums are
    not reproducible.
    """

    key = "csr-load-balance"
    reference = PAPER

    kernel = Parameter("fast", "paper: Ginkgo's shares, a line at a time; fast: longer", choices=("fast", "paper"))
    warps = WARPS
    lines = Parameter(0, "lines of 32 entries that a warp loads at once; 0: the kernel's", choices=(0, *LINES))

    start_row: Array  # (warps in use,), int32

    @classmethod
    def _warps(cls, a: Csr, kernel: str, warps: int) -> int:
        return warps_in_use(a.nnz, at_once(a, warps), most=128 if kernel == "paper" else 32)

    @classmethod
    def estimate(cls, a: Csr, *, kernel: str, warps: int, **params: Any) -> int:
        return a.nbytes + 4 * cls._warps(a, kernel, warps)

    @classmethod
    def convert(cls, a: Csr, *, kernel: str, warps: int, **params: Any) -> dict[str, Any]:
        used = cls._warps(a, kernel, warps)
        each, longer = shares(a.nnz, used)
        warp = a.xp.arange(used, dtype=np.int64)
        first = 32 * (warp * each + a.xp.minimum(warp, longer))
        return super().convert(a) | {"start_row": owners(a.row_ptr, first)}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        nnz, warps = len(self.values), len(self.start_row)
        if not nnz:
            return [zero_fill(y)]
        value, index = ctype(self.values), ctype(self.row_ptr)
        each, longer = shares(nnz, warps)
        share = (np.int64(each), np.int32(longer), np.int32(warps), self.start_row)
        matrix = (self.row_ptr, self.col_idx, self.values, x, y)
        args = (np.int32(self.shape[0]), self.row_ptr.dtype.type(nnz), *share, *matrix)
        lines = self.lines or (1 if self.kernel == "paper" else 4)
        kernel = f"csr_load_balance<{value}, {index}, {BLOCK}, {lines}>"
        return after_zeros(
            zero_rows(self.start_row, y),
            Launch(SOURCE, kernel, cdiv(warps * 32, BLOCK), BLOCK, args),
        )
