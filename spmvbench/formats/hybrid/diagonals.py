"""Hybrids of well-filled diagonals and something else for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.base import Format, Launch, Parameter, cbool, ctype, register
from spmvbench.formats.conversion import runner
from spmvbench.formats.csr.rows import CsrPart, CsrRows
from spmvbench.formats.csr.rules import lanes_that_hold
from spmvbench.formats.dia.dia import Dia, diagonal_sizes, taken
from spmvbench.formats.ellpack.ellpack import Ell, SellCSigma, WarpedEll
from spmvbench.formats.hybrid.split import Made, Piece, Split

BLOCK = 128  # threads that sum diagonals, of two rows each, as in kernels/hybrid/hdc.cu
SHORT = 4  # entries of a mean rest up to which a warp more of each block takes rests


def saves_bytes(held: Array, length: Array, dtype: np.dtype) -> Array:
    """Which diagonals take fewer bytes as a dense array than as entries with a column each, bool.

    held, length: as `diagonal_sizes` gives them. In double precision more than 2/3 of its places are filled, in single
    more than 1/2.
    """
    return held.astype(np.int64) * (dtype.itemsize + 4) > length * dtype.itemsize


def beside(a: Csr, which: Array) -> tuple[Piece, Csr]:
    """The diagonals that `which`, by col - row + rows - 1, names, and the entries on none of them."""
    if a.nnz and (run := runner(a)):
        fields, rest = taken(a, which, run)
        return Piece("dia", Dia, Made(Dia.holding(a.shape, fields), a.nnz - rest.nnz)), rest
    on = which[a.col_idx - a.row_idx + np.int32(a.rows - 1)]
    return Piece("dia", Dia, a.where(on)), a.where(~on)


class BesideDiagonals(Split):
    """Some diagonals as dense arrays, the other entries in a format of their own.

    A stored zero cannot be told from padding, so decoding leaves it out.
    """

    @classmethod
    def kept(cls, a: Csr, **params: Any) -> Array:
        """Which diagonals are dense arrays, (rows + cols - 1,), bool, by col - row + rows - 1."""
        raise NotImplementedError

    @classmethod
    def other(cls, **params: Any) -> tuple[str, type[Format], dict[str, Any]]:
        """The name of the part with the other entries, its format, and parameters other than the defaults."""
        raise NotImplementedError

    @classmethod
    def split(cls, a: Csr, **params: Any) -> Iterator[Piece]:
        name, other, settings = cls.other(**params)
        dia, rest = beside(a, cls.kept(a, **params))
        yield dia
        yield Piece(name, other, rest, settings)


@register
class Hdc(BesideDiagonals):
    """Well-filled diagonals as dense arrays, the other entries in CSR, both multiplied by one launch.

    A diagonal is kept where that saves bytes, or where its fill reaches `theta`: our reading, for the survey says that
    the paper leaves the threshold open. A block sums the diagonals of its rows while a warp of it sums what they have
    besides. With fused=false two launches do it, and CSR holds the rows that have a rest alone. Where no diagonal is
    kept the format is CSR. A stored zero cannot be told from padding, so decoding leaves it out.
    """

    key = "hdc"
    survey_name = "HDC"
    reference = "Yang, Li et al., IJHPCA 28(2), 2014"
    formats = (Dia, CsrPart, CsrRows)
    sources = ("hybrid/hdc.cu",)

    theta = Parameter(0.0, "fill from which on a diagonal is kept; 0: where it saves bytes", low=0, high=1)
    fused = Parameter(True, "one launch for both parts")

    rest_rows: int  # rows that have entries off the kept diagonals

    @classmethod
    def kept(cls, a: Csr, *, theta: float, **params: Any) -> Array:
        held, length = diagonal_sizes(a, runner(a))
        return (held > 0) & (held >= theta * length) if theta else saves_bytes(held, length, a.dtype)

    @classmethod
    def other(cls, *, fused: bool, **params: Any) -> tuple[str, type[Format], dict[str, Any]]:
        return "csr", CsrPart if fused else CsrRows, {}

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        found = super().convert(a, **params)
        csr = found["parts"].get("csr")
        return found | {"rest_rows": 0 if csr is None else int(a.xp.count_nonzero(a.xp.diff(csr.row_ptr)))}

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        """The launch of y = A x, or where `add` is set of y += A x, for both parts."""
        dia, csr = self.parts["dia"], self.parts["csr"]
        (rows, cols), (diagonals, pitch) = self.shape, dia.values.shape
        mean = len(csr.values) / max(self.rest_rows, 1)
        lanes = lanes_that_hold(mean) if mean > SHORT else 1
        sizes = np.int32(rows), np.int32(cols), np.int32(diagonals), np.int64(pitch)
        rest = csr.row_ptr.dtype.type(len(csr.values)), csr.row_ptr, csr.col_idx, csr.values
        kernel = f"hdc_spmv<{ctype(dia.values)}, {ctype(csr.row_ptr)}, {lanes}, {cbool(add)}>"
        block = BLOCK + (32 if lanes == 1 else 0)
        args = (*sizes, dia.offset, dia.values, *rest, x, y)
        return [Launch("hybrid/hdc.cu", kernel, cdiv(rows, 2 * BLOCK), block, args)]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return self.product(x, y, add=False) if self.fused and len(self.parts) > 1 else super().launches(x, y)

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        return self.product(x, y, add=True) if self.fused and len(self.parts) > 1 else super().accumulate(x, y)

    @property
    def detail(self) -> dict[str, Any]:
        return {**super().detail, "diagonals": len(self.parts["dia"].offset) if "dia" in self.parts else 0}


@register
class EllDia(BesideDiagonals):
    """Well-filled diagonals as dense arrays, the other entries as `warped-ell`.

    Kept are the main diagonal and its two neighbours where half of their places are filled, and every diagonal whose
    dense array saves bytes: our reading, for the survey does not say which. The authors reorder the matrix first, to
    fill them; here it stays as it is. A stored zero cannot be told from padding, so decoding leaves it out.
    """

    key = "ell-dia"
    survey_name = "ELLPACK + DIA"
    reference = "Maggioni, Berger-Wolf & Liang, IPDPSW 2013"
    formats = (Dia, WarpedEll, Ell)

    sigma = WarpedEll.sigma
    plain = Parameter(False, "the rest as ell, every row padded to the longest")

    @classmethod
    def kept(cls, a: Csr, **params: Any) -> Array:
        held, length = diagonal_sizes(a, runner(a))
        kept = saves_bytes(held, length, a.dtype)
        near = slice(max(a.rows - 2, 0), a.rows + 1)  # the diagonals -1, 0 and 1
        kept[near] |= (held > 0)[near] & (held >= 0.5 * length)[near]
        return kept

    @classmethod
    def other(cls, *, sigma: int, plain: bool) -> tuple[str, type[Format], dict[str, Any]]:
        return ("ell", Ell, {}) if plain else ("ell", WarpedEll, {"sigma": sigma})


@register
class BinCsr(BesideDiagonals):
    """Slices of 32 rows in their order, a thread a row, and the main diagonal as an array of its own.

    The paper's solver needs the diagonal apart; its matrices are symmetric and in single precision, here any are: our
    reading. A stored zero on the diagonal cannot be told from none, so decoding leaves zeros out.
    """

    key = "bin-csr"
    family = "CSR"
    survey_name = "BIN-CSR"
    reference = "Weber, Bender, Schnoes, Stork & Goesele, Computer Graphics Forum 32(1), 2013"
    formats = (SellCSigma, Dia)

    @classmethod
    def kept(cls, a: Csr, **params: Any) -> Array:
        main = a.xp.zeros(max(a.rows + a.cols - 1, 0), dtype=bool)
        main[max(a.rows - 1, 0) : a.rows] = True
        return main

    @classmethod
    def other(cls, **params: Any) -> tuple[str, type[Format], dict[str, Any]]:
        return "ell", SellCSigma, {"sigma": 1, "threads": 1}
