"""Hybrid: the first entries of every row in ELLPACK, the rest in coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, offsets, on_host
from spmvbench.formats.base import Format, Launch, Parameter, ctype, in_part, per_thread, register
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.coo.coo import CooFlat
from spmvbench.formats.ellpack.ellpack import Ell
from spmvbench.formats.ellpack.sell_convert import Slices

BINS = 4096  # row lengths that the kernel tells apart


def rows_by_length(a: Csr, run: Run | None) -> Array:
    """How many rows have each length from 0 on, (longest + 1,); by the kernel (BINS,), the last for all longer too."""
    xp = a.xp
    if run is None:
        return xp.bincount(a.row_lengths, minlength=1)
    counts = xp.zeros(BINS, dtype=np.int32)
    grid, block = per_thread(a.rows)
    args = (np.int32(a.rows), a.row_ptr, counts)
    run(Launch("hybrid/hyb_convert.cu", f"rows_by_length<{ctype(a.row_ptr)}, {BINS}>", min(grid, 512), block, args))
    return on_host(counts)


def split_width(a: Csr, rule: str, relative_speed: float, breakeven: int, run: Run | None = None) -> int:
    """Entries of a row that go to the ELLPACK part.

    third: the largest width that at least a third of the rows fill. cusp: the first width that fewer rows exceed than
    rows / relative_speed or than breakeven (CUSP's defaults are 3 and 4096). max: the longest row.
    """
    if rule == "max" or not a.rows:
        return a.row_len_max
    counts = rows_by_length(a, run)
    longer = a.rows - counts.cumsum()  # rows longer than i
    stop = relative_speed * longer < a.rows
    if rule == "cusp":
        stop |= longer < breakeven
    width = int(stop.argmax())  # no row is longer than the longest, so one stops
    if run is not None and width == BINS - 1:
        return split_width(a, rule, relative_speed, breakeven)  # among lengths that the kernel does not tell apart
    return width


def tails(a: Csr, width: int, run: Run | None) -> dict[str, Array]:
    """What every row has beyond its first `width` entries, in coordinates, in order."""
    xp = a.xp
    if run is None:
        beyond = a.rank_in_row >= width
        return {"row_idx": a.row_idx[beyond], "col_idx": a.col_idx[beyond], "values": a.values[beyond]}
    if width >= a.row_len_max:
        none = xp.empty(0, dtype=np.int32)
        return {"row_idx": none, "col_idx": none, "values": xp.empty(0, dtype=a.dtype)}
    tail_ptr = offsets(xp.maximum(a.row_lengths - a.row_lengths.dtype.type(width), 0))
    entries = int(tail_ptr[-1])
    row_idx, col_idx = xp.empty(entries, dtype=np.int32), xp.empty(entries, dtype=np.int32)
    values = xp.empty(entries, dtype=a.dtype)
    kernel = f"row_tails<{ctype(values)}, {ctype(a.row_ptr)}, {ctype(tail_ptr)}>"
    size = np.int32(a.rows), tail_ptr.dtype.type(entries)
    args = (*size, tail_ptr, a.row_ptr, a.col_idx, a.values, row_idx, col_idx, values)
    run(Launch("hybrid/hyb_convert.cu", kernel, *per_thread(entries), args))
    return {"row_idx": row_idx, "col_idx": col_idx, "values": values}


@register
class Hyb(Format):
    """The first entries of every row in ELLPACK, what longer rows have beyond them in coordinates.

    The ELLPACK kernel stores y, the coordinates are added by the flat kernel. Padding is bounded: two thirds of a
    column's slots at most.
    """

    key = "hyb"
    family = "Hybrid"
    survey_name = "HYB"
    reference = "Bell & Garland, NVR-2008-004 and SC 2009; CUSP"
    sources = (*Ell.sources, *CooFlat.sources, "hybrid/hyb_convert.cu")

    rule = Parameter("third", "how the width of the ELLPACK part is chosen", choices=("third", "cusp", "max"))
    relative_speed = Parameter(3.0, "how much faster than COO a full ELLPACK column is", low=1.0)
    breakeven = Parameter(4096, "rows that an ELLPACK column must fill (rule cusp)", low=0)

    ell: Ell
    coo: CooFlat

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        width = split_width(a, **params, run=runner(a))
        value = a.dtype.itemsize
        tail = int(a.xp.maximum(a.row_lengths - width, 0).sum())
        return Slices.whole(a, width=width).slots * (4 + value) + tail * (8 + value)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        width = split_width(a, **params, run=runner(a))
        return {"ell": Ell.head(a, width), "coo": CooFlat.holding(a.shape, tails(a, width, runner(a)))}

    def to_coo(self) -> tuple[Array, Array, Array]:
        parts = zip(self.ell.to_coo(), self.coo.to_coo(), strict=True)
        rows, cols, values = (self.xp.concatenate(pair) for pair in parts)
        return rows, cols, values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [*in_part("ell", self.ell.launches(x, y)), *in_part("coo", self.coo.accumulate(x, y))]

    @property
    def detail(self) -> dict[str, Any]:
        nnz = len(self.coo.values) + int((self.ell.columns >= 0).sum())
        return {"ell_width": self.ell.width, "coo_share": len(self.coo.values) / max(nnz, 1)}


@register
class HybThird(Hyb):
    """HYB with the survey's rule: the largest width that at least a third of the rows fill."""

    key = "hyb-third"
    rule = Hyb.rule.defaulting("third")


@register
class HybCusp(Hyb):
    """HYB with CUSP's rule: as a third of the rows, and a column must also fill 4096 rows."""

    key = "hyb-cusp"
    rule = Hyb.rule.defaulting("cusp")


@register
class HybMax(Hyb):
    """HYB with everything in the ELLPACK part, as old cuSPARSE's partition MAX."""

    key = "hyb-max"
    rule = Hyb.rule.defaulting("max")
