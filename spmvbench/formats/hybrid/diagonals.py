"""Hybrids of well-filled diagonals and something else for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, on_diagonals
from spmvbench.formats.conversion import count_filled, runner
from spmvbench.formats.csr.csr import CsrVector
from spmvbench.formats.csr.rows import CsrPieces, CsrRows
from spmvbench.formats.csr.rules import lanes_that_fill
from spmvbench.formats.dia.dia import Dia, taken, well_filled
from spmvbench.formats.ellpack.ellpack import Ell, SellCSigma, WarpedEll
from spmvbench.formats.ellpack.sell_local import long_apart
from spmvbench.formats.format import Format
from spmvbench.formats.hybrid.split import Made, Piece, Split
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Step, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

FUSED = "hybrid/hdc.cu"
BLOCK = constant(FUSED, "BLOCK")  # rows of a block, and threads
LONG_PIECE = {"per_warp": 1024, "block": 128}  # of a long row, for a block each


def beside(a: Csr, offset: Array) -> tuple[Piece, Csr]:
    """The diagonals of these offsets, ascending, and the entries on none of them."""
    if a.nnz and (run := runner(a)):
        fields, rest = taken(a, offset, run)
        return Piece("dia", Dia, Made(Dia.holding(a.shape, fields), a.nnz - rest.nnz)), rest
    on = on_diagonals(a.diagonal, offset, a.shape)
    return Piece("dia", Dia, a.where(on)), a.where(~on)


class BesideDiagonals(Split):
    """Some diagonals as dense arrays, the other entries in a format of their own.

    A stored zero cannot be distinguished from padding, so decoding leaves it out.
    """

    multiplies_padding = True

    @classmethod
    def kept(cls, a: Csr, *_: Any, **params: Any) -> Array:
        """The offsets of the diagonals that are dense arrays, ascending, int32."""
        raise NotImplementedError

    @classmethod
    def other(cls, *_: Any, **params: Any) -> tuple[str, type[Format], dict[str, Any]]:
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
    """Well-filled diagonals as dense arrays, the other entries in CSR.

    A diagonal is kept where that saves bytes, or where its fill reaches `theta`: our reading, for the survey says that
    the paper leaves the threshold open. Its length counts as half of the rows at least, since all are stored.
    kernel=paper: one launch for both, as the abstract has it, with CSR of all rows. A thread sums the diagonals of a
    row, and as many threads as the mean of the other rows fills add the rest of one: our reading. fast: two launches,
    and CSR of the rows that have other entries; long rows among these are cut into pieces for a block each, in a launch
    of their own.
    A stored zero cannot be distinguished from padding, so decoding leaves it out.
    """

    key = "hdc"
    survey_name = "HDC"
    reference = "Yang, Li et al., IJHPCA 28(2), 2014"
    formats = (Dia, CsrRows, CsrPieces, CsrVector)

    kernel = Parameter("fast", "paper: one launch for both parts; fast: one for each", choices=("fast", "paper"))
    theta = Parameter(0.0, "fill from which a diagonal is stored dense; 0: if that saves bytes", low=0, high=1)

    @classmethod
    def kept(cls, a: Csr, *, theta: float, **params: Any) -> Array:
        return well_filled(a, theta)

    @classmethod
    def split(cls, a: Csr, **params: Any) -> Iterator[Piece]:
        dia, rest = beside(a, cls.kept(a, **params))
        yield dia
        if params["kernel"] == "paper":
            held = max(int(a.xp.count_nonzero(rest.row_lengths)), 1)
            yield Piece("csr", CsrVector, rest, {"lanes": lanes_that_fill(rest.nnz / held)})
        else:
            if rest.nnz and (run := runner(rest)):
                count_filled(rest, run)  # finds the longest row, too
            short, long = long_apart(rest, 0)
            yield Piece("csr", CsrRows, short)
            if long is not None:
                yield Piece("long", CsrPieces, long, LONG_PIECE)

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        dia, csr = self.parts.get("dia"), self.parts.get("csr")
        if not (isinstance(dia, Dia) and isinstance(csr, CsrVector)):
            return super().launches(x, y)
        (rows, cols), (diagonals, pitch) = self.shape, dia.values.shape
        of_dia = np.int32(diagonals), np.int64(pitch), dia.offset, dia.values
        of_csr = csr.row_ptr.dtype.type(len(csr.values)), csr.row_ptr, csr.col_idx, csr.values
        kernel = f"hdc_spmv<{ctype(x)}, {ctype(csr.row_ptr)}, {csr.lanes}>"
        args = (np.int32(rows), np.int32(cols), *of_dia, *of_csr, x, y)
        return [Launch(FUSED, kernel, cdiv(rows, BLOCK), BLOCK, args)]

    @property
    def detail(self) -> dict[str, Any]:
        part = self.parts.get("dia")
        return {**super().detail, "diagonals": 0 if part is None else len(part.arrays()["offset"])}


@register
class EllDia(BesideDiagonals):
    """Well-filled diagonals as dense arrays, the other entries as `warped-ell`.

    Kept are the main diagonal and its two neighbours where half of their places are filled, and every diagonal whose
    dense array saves bytes: our reading, for the survey does not say which. The authors reorder the matrix first, to
    fill them; here it stays as it is. A stored zero cannot be distinguished from padding, so decoding leaves it out.
    """

    key = "ell-dia"
    survey_name = "ELLPACK + DIA"
    reference = "Maggioni, Berger-Wolf & Liang, IPDPSW 2013"
    formats = (Dia, WarpedEll, Ell)

    sigma = WarpedEll.sigma
    plain = Parameter(False, "store the rest as ell, every row padded to the longest")

    @classmethod
    def kept(cls, a: Csr, **params: Any) -> Array:
        return well_filled(a, 0.0, near=0.5)

    @classmethod
    def other(cls, *, sigma: int, plain: bool) -> tuple[str, type[Format], dict[str, Any]]:
        return ("ell", Ell, {}) if plain else ("ell", WarpedEll, {"sigma": sigma})


@register
class BinCsr(BesideDiagonals):
    """Slices of 32 rows in their order, one thread per row; the main diagonal is a separate array.

    The paper's solver needs the diagonal separately; its matrices are symmetric and in single precision, here any are:
    our reading. A stored zero on the diagonal cannot be distinguished from none, so decoding leaves zeros out.
    """

    key = "bin-csr"
    family = "CSR"
    survey_name = "BIN-CSR"
    reference = "Weber, Bender, Schnoes, Stork & Goesele, Computer Graphics Forum 32(1), 2013"
    formats = (SellCSigma, Dia)

    @classmethod
    def kept(cls, a: Csr, **params: Any) -> Array:
        return a.xp.zeros(1, dtype=np.int32)  # the main diagonal

    @classmethod
    def other(cls, **params: Any) -> tuple[str, type[Format], dict[str, Any]]:
        return "ell", SellCSigma, {"sigma": 1, "threads": 1}
