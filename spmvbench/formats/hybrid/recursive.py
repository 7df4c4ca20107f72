"""HYB with other rules: Ginkgo's for the width of the ELLPACK part, and the rest split again and again (RHC)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spmvbench.formats.arrays import Csr, cdiv
from spmvbench.formats.conversion import taken
from spmvbench.formats.coo.coo import CooFlat
from spmvbench.formats.ellpack.ellpack import Ell, EllRows
from spmvbench.formats.hybrid.hyb import head_and_rest
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.load_balanced.load_balance import CooLoadBalance
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register


def length_at(a: Csr, share: float) -> int:
    """The length of the row that `share` of the rows are before, by length; of the longest for 1."""
    if not a.rows:
        return 0
    place = int(np.float32(a.rows) * np.float32(share)) if share < 1 else a.rows - 1
    return int(a.xp.sort(a.row_lengths)[min(place, a.rows - 1)])


@register
class HybGinkgo(Split):
    """HYB with Ginkgo's rules for its width; the rest goes to `coo-load-balance`.

    Rule imbalance takes the length that the share `share` of the rows do not exceed. bounded is the same, at most
    `ratio` times the rows. storage is imbalance with the share that gives the fewest bytes, a quarter in double and a
    third in single precision. automatic, the library's default, is bounded with a third of the rows and 0.001.
    """

    key = "hyb-ginkgo"
    reference = "Anzt et al., TOPC 2020; Ginkgo (hybrid.hpp)"
    formats = (Ell, CooLoadBalance)

    rule = Parameter("automatic", "how the width is chosen", choices=("automatic", "imbalance", "bounded", "storage"))
    share = Parameter(0.8, "rows that the width is enough for (rules imbalance and bounded)", low=0.0, high=1.0)
    ratio = Parameter(0.0001, "most positions for each row of the matrix (rule bounded)", low=0.0)

    @classmethod
    def width(cls, a: Csr, *, rule: str, share: float, ratio: float) -> int:
        """Entries of a row that go to the ELLPACK part."""
        if rule == "storage":
            return length_at(a, 4 / (a.dtype.itemsize + 8))
        if rule == "automatic":
            share, ratio = 1 / 3, 0.001
        width = length_at(a, share)
        return width if rule == "imbalance" else min(width, int(a.rows * ratio))

    @classmethod
    def split(cls, a: Csr, *, rule: str, share: float, ratio: float) -> Iterator[Piece]:
        ell, rest = head_and_rest(a, cls.width(a, rule=rule, share=share, ratio=ratio))
        yield ell
        yield Piece("coo", CooLoadBalance, rest)


@register
class Rhc(Split):
    """HYB whose rest is split into ELLPACK and a rest again, until little is left for COO.

    Each ELLPACK part is as wide as at least a third of the rows that it stores. The first stores all rows, the others
    the rows that have a rest, and add to y. What is left after `levels` parts, or is at most the share `rest` of all
    entries, is stored in COO. Of the paper the abstract was read: the rule for the width and both limits are our
    reading.
    """

    key = "rhc"
    reference = "Zhao, Wu, Zhang, Yang et al., Recursive hybrid compression, CCPE 2025"
    formats = (Ell, EllRows, CooFlat)

    levels = Parameter(4, "ELLPACK parts", low=1, high=16)
    rest = Parameter(0.02, "share of the entries that may stay in COO", low=0.0, high=1.0)

    @classmethod
    def split(cls, a: Csr, *, levels: int, rest: float) -> Iterator[Piece]:
        left, few = a, int(rest * a.nnz)
        for level in range(levels):
            rows = int(a.xp.count_nonzero(left.row_lengths)) if level else a.rows
            if (level and left.nnz <= few) or not rows:
                break
            lengths = a.xp.sort(left.row_lengths)
            width = int(lengths[a.rows - cdiv(rows, 3)])  # fewer than a third of the rows are longer
            if level:
                yield Piece(f"ell{level}", EllRows, taken(left, last=width))
                left = taken(left, first=width)
            else:
                head, left = head_and_rest(a, width)
                yield head
        yield Piece("coo", CooFlat, left)
