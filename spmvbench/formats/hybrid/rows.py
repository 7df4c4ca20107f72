"""Hybrids that deal whole rows: short ones to ELLPACK, long ones to CSR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spmvbench.formats.arrays import Csr
from spmvbench.formats.base import register
from spmvbench.formats.csr.rows import CsrRows
from spmvbench.formats.ellpack.ellpack import EllRows
from spmvbench.formats.ellpack.sell_convert import WARP
from spmvbench.formats.hybrid.split import Piece, Split


@register
class CsrEllWarp(Split):
    """Rows of up to 32 entries in ELLPACK, one thread a row; longer rows in CSR, a warp a row.

    Each part holds its own rows alone, with the list of them: our reading, for the survey does not say whether ELLPACK
    keeps places for the long rows.
    """

    key = "csr-ell-warp"
    survey_name = "CSR + ELL [75]"
    reference = "Maringanti, Athavale & Patkar, HiPC 2009"
    formats = (EllRows, CsrRows)

    @classmethod
    def split(cls, a: Csr, **params: Any) -> Iterator[Piece]:
        short = a.row_lengths <= WARP
        yield Piece("ell", EllRows, a.in_rows(short))
        yield Piece("csr", CsrRows, a.in_rows(~short), {"lanes": WARP, "step": 1})
