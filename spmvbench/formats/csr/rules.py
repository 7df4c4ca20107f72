"""CSR with threads per row by the rules of papers after Bell and Garland's; the kernel is that of csr.py.

All take one entry per thread, for which their rules are made, in blocks of 128 threads. The rules are those that
Filippone et al. (2017, section 4.2.1) describe; thresholds and roundings that are not given there are our reading.
"""

from __future__ import annotations

from typing import Any

from spmvbench.formats.arrays import Csr
from spmvbench.formats.csr.csr import LANES, CsrByLanes
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register


def lanes_that_fill(length: float) -> int:
    """The most threads, 1 to 32 and a power of two, that a row of `length` entries gives one each."""
    return max(lanes for lanes in LANES if lanes <= max(length, 1))


def lanes_that_hold(length: float) -> int:
    """The fewest threads, a power of two, that take a row of `length` entries with one each; 32 for longer rows."""
    return next((lanes for lanes in LANES if lanes >= length), 32)


@register
class CsrGuoWang(CsrByLanes):
    """CSR, half a warp per row up to 16 entries on average, else a warp.

    The paper chooses between the two by the matrix and tunes the block; the threshold is our reading: half a warp never
    needs a second pass there.
    """

    key = "csr-guo-wang"
    survey_name = "CSR optimization [46]"
    reference = "Guo & Wang, ICCIS 2010"
    shared_implementation = "CSR by threads per row: 16 or 32 by the mean row"

    block = Parameter(128, "threads per block", choices=(64, 128, 256, 512))

    @property
    def lanes_per_row(self) -> int:
        return 16 if self.row_len_mean <= 16 else 32

    @property
    def threads_per_block(self) -> int:
        return self.block


@register
class CsrElZein(CsrByLanes):
    """CSR, one thread per row if the mean row is short, else one warp per row.

    The authors find the switch by measuring on their device; here it is a parameter, its default our reading.
    """

    key = "csr-elzein"
    survey_name = "CSR optimization [36]"
    reference = "El Zein & Rendell, CCPE 24(1) 2012"
    shared_implementation = "CSR by threads per row: 1 or 32 by the mean row"

    switch = Parameter(8.0, "mean entries per row from which a row has a whole warp", low=0)

    @property
    def lanes_per_row(self) -> int:
        return 1 if self.row_len_mean < self.switch else 32


@register
class CsrRg(CsrByLanes):
    """CSR, as many threads per row as the mean row fills; each group of threads takes several rows in sequence.

    The survey measures it, as cuSPARSE's csrmv of its time, under the name CSR. The mean is known without a pass over
    the rows. A row much longer than the mean holds its group back. Rounding the mean down to a power of two, and two
    rows per group, are our reading.
    """

    key = "csr-rg"
    survey_name = "CSR optimization [87]"
    reference = "Reguly & Giles, InPar 2012"
    shared_implementation = "CSR by threads per row: as many as the mean row fills, several rows in sequence"

    repeat = Parameter(2, "rows that a group of threads takes in sequence", choices=(1, 2, 4))

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_fill(self.row_len_mean)

    @property
    def rows_per_group(self) -> int:
        return self.repeat


@register
class CsrYt(CsrByLanes):
    """CSR, as many threads per row as the longest row has entries, up to 32.

    Finding it is a pass over the row pointers, and one long row gives every row a warp. Rounding up to a power of two
    is our reading.
    """

    key = "csr-yt"
    survey_name = "CSR optimization [112]"
    reference = "Yoshizawa & Takahashi, CSE 2012"
    shared_implementation = "CSR by threads per row: enough for the longest row"

    row_len_max: int  # entries of the longest row

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return super().convert(a) | {"row_len_max": a.row_len_max}

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_hold(self.row_len_max)


@register
class CsrJsr(CsrByLanes):
    """CSR, as many threads per row as the mean row fills; the rule for Kepler and later GPUs.

    The survey measures it under the name JSR. What Kepler brought is in the kernel of every rule here: x through the
    read-only cache, sums by shuffles, and a grid as large as the matrix in place of a loop over rows. On today's GPUs
    nothing else is left of it: one program with `csr-rg`, one row per group. The rule for the threads is our reading.
    """

    key = "csr-jsr"
    alias_of = "csr-rg[repeat=1]"
    survey_name = "CSR optimization [79]"
    reference = "Mukunoki & Takahashi, ICCSA 2013"
    shared_implementation = "CSR by threads per row: as many as the mean row fills"

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_fill(self.row_len_mean)
