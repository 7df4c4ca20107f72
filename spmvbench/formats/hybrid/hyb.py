"""The first entries of every row in ELLPACK: HYB, with the rest in coordinates, and HEC, with the rest in rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Csr
from spmvbench.formats.conversion import BINS, Run, rows_by_length, runner, search_once, taken
from spmvbench.formats.coo.coo import CooFlat
from spmvbench.formats.csr.rows import CsrRows
from spmvbench.formats.ellpack.ellpack import Ell
from spmvbench.formats.hybrid.split import Made, Piece, Split
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.precision import stored_in
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import seconds

RATIO = 20.0  # of HEC where nothing can be timed


def head_width(a: Csr, ratio: float, breakeven: int = 0, run: Run | None = None) -> int:
    """The first width that fewer rows exceed than rows / ratio or than breakeven.

    Where an entry of the rest takes `ratio` times as long as a slot of the head, no width is faster: one column more
    costs a slot for every row and saves an entry of each row that is longer.
    """
    if not a.rows:
        return 0
    counts = rows_by_length(a, run)
    longer = a.rows - counts.cumsum()  # rows longer than i
    enough = ratio * longer < a.rows
    width = int((enough | (longer < breakeven) if breakeven else enough).argmax())  # none is longer than the longest
    if run is not None and width == BINS - 1:
        return head_width(a, ratio, breakeven)  # among lengths that the kernel does not distinguish
    return width


def head_and_rest(a: Csr, width: int, *, owners: bool = False) -> tuple[Piece, Csr]:
    """The first `width` entries of every row as ELLPACK, and what rows have beyond them. owners: as for `taken`."""
    rest = taken(a, first=width, owners=owners)
    if runner(a) is None or not 0 < rest.nnz < a.nnz:
        return Piece("ell", Ell, taken(a, last=width) if rest.nnz else a), rest
    return Piece("ell", Ell, Made(Ell.head(a, width), a.nnz - rest.nnz)), rest


@register
class Hyb(Split):
    """The first entries of every row in ELLPACK, the rest of longer rows in COO.

    The ELLPACK kernel stores y, the coordinates are added by the flat kernel. Padding is bounded: two thirds of a
    column's slots at most. Rule third takes the largest width that at least a third of the rows fill; cusp the first
    that fewer rows exceed than rows / relative_speed or than breakeven; max the longest row.
    """

    key = "hyb"
    survey_name = "HYB"
    reference = "Bell & Garland, NVR-2008-004 and SC 2009; CUSP"
    formats = (Ell, CooFlat)

    rule = Parameter("third", "how the width of the ELLPACK part is chosen", choices=("third", "cusp", "max"))
    relative_speed = Parameter(3.0, "how much faster than COO a full ELLPACK column is", low=1.0)
    breakeven = Parameter(4096, "rows that an ELLPACK column must fill (rule cusp)", low=0)

    @classmethod
    def width(cls, a: Csr, *, rule: str, relative_speed: float, breakeven: int) -> int:
        """Entries of a row that go to the ELLPACK part."""
        if rule == "max":
            return a.row_len_max
        return head_width(a, relative_speed, breakeven if rule == "cusp" else 0, runner(a))

    @classmethod
    def split(cls, a: Csr, **params: Any) -> Iterator[Piece]:
        ell, rest = head_and_rest(a, cls.width(a, **params), owners=True)
        yield ell
        yield Piece("coo", CooFlat, rest)


@register
class HybThird(Hyb):
    """HYB with the survey's rule: the ELLPACK part is as wide as at least a third of the rows."""

    key = "hyb-third"
    alias_of = "hyb"
    rule = Hyb.rule.defaulting("third")


@register
class HybCusp(Hyb):
    """HYB with CUSP's rule: a third of the rows must fill a column of the ELLPACK part, and at least 4096 rows."""

    key = "hyb-cusp"
    rule = Hyb.rule.defaulting("cusp")


@register
class HybMax(Hyb):
    """HYB with everything in the ELLPACK part, as old cuSPARSE's partition MAX."""

    key = "hyb-max"
    alias_of = "ell"
    rule = Hyb.rule.defaulting("max")


@register
class Hec(Split):
    """The first entries of every row in ELLPACK, the rest of longer rows in CSR.

    The width is the one of least cost where an entry of the rest takes `pr` times as long as a slot of the ELLPACK
    part. pr=0 measures that ratio where CuPy holds the matrix, as the survey's preliminary tests do, and takes 20
    elsewhere. What is measured is our reading: as many entries of every row as the mean row has in ELLPACK, and the
    whole matrix in CSR. So is that rows without a rest are not stored in CSR.
    """

    key = "hec"
    survey_name = "HEC"
    reference = "Liu, Yu, Chen, Hsieh & Shao, IJNAM-B 3(2), 2012"
    formats = (Ell, CsrRows)

    pr = Parameter(0.0, "time of an entry of the rest over that of an ELLPACK slot; 0: as measured", low=0)

    ratio: float  # pr in use

    @classmethod
    def split(cls, a: Csr, *, pr: float) -> Iterator[Piece]:
        ell, rest = head_and_rest(a, head_width(a, pr or RATIO, run=runner(a)))
        yield ell
        yield Piece("csr", CsrRows, rest)

    @classmethod
    def convert(cls, a: Csr, *, pr: float) -> dict[str, Any]:
        def measured() -> float:
            x, y = a.xp.zeros(a.cols, a.vector_dtype), a.xp.empty(a.rows, a.vector_dtype)
            ell = head_and_rest(a, max(round(a.row_len_mean), 1))[0].part
            slot, entry = (
                seconds(stored_in(a).launches(part.launches(x, y))) / len(part.arrays()["values"])
                for part in (ell, CsrRows.converted(a))
            )
            return max(entry / slot, 1.0)

        if not pr:
            pr = search_once(cls, a, measured, lambda: RATIO) if a.xp is not np and a.nnz else RATIO
        return super().convert(a, pr=pr) | {"ratio": pr}

    @property
    def in_use(self) -> dict[str, Any]:
        return {"pr": self.ratio}

    @property
    def detail(self) -> dict[str, Any]:
        return super().detail | self.in_use
