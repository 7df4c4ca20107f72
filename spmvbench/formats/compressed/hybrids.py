"""BRO-HYB and its successors: HYB with bit-packed parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from spmvbench.formats.arrays import Csr
from spmvbench.formats.compressed.bro import BroCoo, BroCsr, BroCsrRows, BroEll, BroEllByLength
from spmvbench.formats.conversion import BINS, longest_row, runner, taken
from spmvbench.formats.format import Format
from spmvbench.formats.hybrid.hyb import head_width
from spmvbench.formats.hybrid.split import Made, Piece, Split
from spmvbench.formats.registry import register


class BroHybrid(Split):
    """The first entries of every row in BRO-ELL, as wide as a third of the rows fill, the others in another BRO."""

    head: ClassVar[type[BroEll]] = BroEll
    rest: ClassVar[type[Format]]

    height = BroEll.height

    def __init_subclass__(cls) -> None:
        cls.formats = (cls.head, cls.rest)
        super().__init_subclass__()

    @classmethod
    def split(cls, a: Csr, *, height: int) -> Iterator[Piece]:
        run, name = runner(a), cls.rest.family.lower()
        width = head_width(a, 3.0, run=run)
        if run is None or not issubclass(cls.rest, BroCsr) or not 0 < width < min(longest_row(a), BINS - 1):
            yield Piece("ell", cls.head, taken(a, last=width), {"height": height})
            yield Piece(name, cls.rest, taken(a, first=width))
            return
        beside, fields = cls.head.started(a, height, run, width)  # each part takes its entries from the whole matrix
        rest = cls.rest.holding(a.shape, cls.rest.by_kernels(a, 0, run, width, beside))
        head = cls.head.holding(a.shape, fields(beside.sums[-1]), height=height)
        yield Piece("ell", cls.head, Made(head, a.nnz - len(rest.values)))
        yield Piece(name, cls.rest, Made(rest, len(rest.values)))


@register
class BroHyb(BroHybrid):
    """HYB with column differences in the ELLPACK part and row differences in the COO part, packed into bits.

    Split as HYB is, at the largest width that at least a third of the rows fill. Values are as they were.
    """

    key = "bro-hyb"
    survey_name = "BRO-HYB"
    reference = "Tang, Tan, Ray, Wong, Chen, Kuo, Goh, Turner & Wong, SC'13"
    rest = BroCoo


@register
class BroHybr(BroHybrid):
    """BRO-HYB with its rest stored as BRO-CSR of the rows that have one (our reading)."""

    key = "bro-hybr"
    survey_name = "BRO-HYBR"
    reference = "Tang et al., TPDS 26(9), 2015"
    rest = BroCsrRows


@register
class BroHybrS(BroHybrid):
    """BRO-HYBR with rows sorted by length, so that slices are even (our reading)."""

    key = "bro-hybr-s"
    survey_name = "BRO-HYBR(S)"
    reference = "Tang et al., TPDS 26(9), 2015"
    head = BroEllByLength
    rest = BroCsrRows
