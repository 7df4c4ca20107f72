"""CSR by groups of lanes, as the papers after Bell and Garland's sized the group: one kernel, the one of csr.py.

All take one entry a lane, for which their rules are made, in blocks of 128 threads. The rules are those that Filippone
et al. (2017, section 4.2.1) tell; thresholds and roundings that are not told there are our reading.
"""

from __future__ import annotations

from typing import Any

from spmvbench.formats.arrays import Csr
from spmvbench.formats.base import Parameter, register
from spmvbench.formats.csr.csr import LANES, CsrByLanes


def lanes_that_fill(length: float) -> int:
    """The most lanes, 1 to 32 and a power of two, that a row of `length` entries gives one each."""
    return max(lanes for lanes in LANES if lanes <= max(length, 1))


def lanes_that_hold(length: float) -> int:
    """The fewest lanes, a power of two, that take a row of `length` entries with one each; 32 for longer rows."""
    return next((lanes for lanes in LANES if lanes >= length), 32)


@register
class CsrGuoWang(CsrByLanes):
    """CSR, half a warp a row up to 16 entries in the mean, else a warp.

    The paper chooses between the two by the matrix and tunes the block; the threshold is our reading: half a warp never
    needs a second pass there.
    """

    key = "csr-guo-wang"
    survey_name = "CSR optimization [46]"
    reference = "Guo & Wang, ICCIS 2010"
    shared_implementation = "CSR by groups of lanes: 16 or 32 by the mean row"

    block = Parameter(128, "threads a block", choices=(64, 128, 256, 512))

    @property
    def lanes_per_row(self) -> int:
        return 16 if self.row_len_mean <= 16 else 32

    @property
    def threads_per_block(self) -> int:
        return self.block


@register
class CsrElZein(CsrByLanes):
    """CSR, one thread a row where rows are short in the mean, else a warp a row.

    The authors find the switch by measuring on their device; here it is a parameter, its default our reading.
    """

    key = "csr-elzein"
    survey_name = "CSR optimization [36]"
    reference = "El Zein & Rendell, CCPE 24(1) 2012"
    shared_implementation = "CSR by groups of lanes: 1 or 32 by the mean row"

    switch = Parameter(8.0, "mean entries a row from which on a warp takes a row", low=0)

    @property
    def lanes_per_row(self) -> int:
        return 1 if self.row_len_mean < self.switch else 32


@register
class CsrRg(CsrByLanes):
    """CSR, as many lanes a row as the mean row fills, and several rows a group, one behind the other.

    The survey measures it, as cuSPARSE's csrmv of its time, under the name CSR. The mean is known without a pass over
    the rows. A row much longer than the mean holds its group back. Rounding the mean down to a power of two, and two
    rows a group, are our reading.
    """

    key = "csr-rg"
    survey_name = "CSR optimization [87]"
    reference = "Reguly & Giles, InPar 2012"
    shared_implementation = "CSR by groups of lanes: as the mean row fills, several rows a group"

    repeat = Parameter(2, "rows that a group of lanes takes", choices=(1, 2, 4))

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_fill(self.row_len_mean)

    @property
    def rows_per_group(self) -> int:
        return self.repeat


@register
class CsrYt(CsrByLanes):
    """CSR, as many lanes a row as hold the longest row.

    Finding it is a pass over the row pointers, and one long row gives every row a warp. Rounding up to a power of two
    is our reading.
    """

    key = "csr-yt"
    survey_name = "CSR optimization [112]"
    reference = "Yoshizawa & Takahashi, CSE 2012"
    shared_implementation = "CSR by groups of lanes: as hold the longest row"

    row_len_max: int  # entries of the longest row

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return super().convert(a) | {"row_len_max": a.row_len_max}

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_hold(self.row_len_max)


@register
class CsrWang(CsrByLanes):
    """CSR, slightly more lanes a row than the mean row has entries, so that most rows need one pass.

    The paper also changes CSR to move less between host and device. The survey does not tell how, and y = A x moves
    nothing: CSR is stored here as it comes. "Slightly more" is the mean and one, up to a power of two: our reading.
    """

    key = "csr-wang"
    survey_name = "CSR optimization [100]"
    reference = "Wang et al., ICETC 2010"
    shared_implementation = "CSR by groups of lanes: more than the mean row"

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_hold(self.row_len_mean + 1)


@register
class CsrJsr(CsrByLanes):
    """CSR, as many lanes a row as the mean row fills, for GPUs from Kepler on.

    The survey measures it under the name JSR. What Kepler brought is in the kernel of every rule here: x through the
    read-only cache, sums by shuffles, and a grid as large as the matrix in place of a loop over rows. The rule for the
    lanes is our reading, that of `csr-rg`, one row a group.
    """

    key = "csr-jsr"
    survey_name = "CSR optimization [79]"
    reference = "Mukunoki & Takahashi, ICCSA 2013"
    shared_implementation = "CSR by groups of lanes: as the mean row fills"

    @property
    def lanes_per_row(self) -> int:
        return lanes_that_fill(self.row_len_mean)
