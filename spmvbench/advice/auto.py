"""The format that the advice's model chooses for a matrix, behind one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.advice import choosing, model
from spmvbench.formats.admission import FREE_SHARE, Skip
from spmvbench.formats.arrays import Array, Csr, nonzero_mask
from spmvbench.formats.cache_blocking.irregular import Irregular
from spmvbench.formats.conversion import converting_for, device_limits
from spmvbench.formats.csr.aligned import CsrBb
from spmvbench.formats.csr.csr import CsrLanes, CsrScalar, CsrVector
from spmvbench.formats.csr.merge import MergeCsr
from spmvbench.formats.csr.rules import CsrElZein, CsrGuoWang, CsrJsr, CsrRg, CsrWang
from spmvbench.formats.dense_blocks.bcsr import Bsr
from spmvbench.formats.dia.dia import Dia, Hdi
from spmvbench.formats.ellpack.ellpack import EllPsblas, SlicedEllRT, WarpedEll
from spmvbench.formats.ellpack.petsc import SellPetsc
from spmvbench.formats.format import Format
from spmvbench.formats.hybrid.diagonals import Hdc
from spmvbench.formats.launches import Step
from spmvbench.formats.load_balanced.flat import CsrLineEnhance
from spmvbench.formats.load_balanced.hola import Hola
from spmvbench.formats.load_balanced.load_balance import CooLoadBalance
from spmvbench.formats.load_balanced.tiles import CsrEntryTiles
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

MODEL = "h200"
CANDIDATES: tuple[type[Format], ...] = (
    Bsr,
    CooLoadBalance,
    CsrBb,
    CsrElZein,
    CsrEntryTiles,
    CsrGuoWang,
    CsrJsr,
    CsrLanes,
    CsrLineEnhance,
    CsrRg,
    CsrScalar,
    CsrVector,
    CsrWang,
    Dia,
    EllPsblas,
    Hdc,
    Hdi,
    Hola,
    Irregular,
    MergeCsr,
    SellPetsc,
    SlicedEllRT,
    WarpedEll,
)
# Formats that were the choice of no matrix of the evaluation without so many diagonals, or such runs of columns. Their
# footprints take longest to compute.
DIAGONALS, DIAGONAL_SHARE = {Dia.key, Hdc.key, Hdi.key}, 0.3
BLOCKS, RUNS = {Bsr.key}, 2.0
WIDEST = 1 << 27  # rows and columns; beyond, features would count more diagonals than fit into memory
# Entries up to which a matrix is described on the host, in 2 to 13 ms for 8,000 to 96,000 entries on two cores. On a
# device it takes 200 operations (pde:100) and as many kinds of them, each of which CuPy compiles when it is first asked
# for.
ON_HOST = 1 << 16


def candidates(columns: Mapping[str, Any]) -> set[str]:
    """The keys of the candidates that the columns of a row do not rule out."""
    ruled_out = DIAGONALS if columns["full_diagonal_share"] < DIAGONAL_SHARE else set()
    ruled_out = ruled_out | BLOCKS if columns["contiguous_run_mean"] < RUNS else ruled_out
    return {candidate.key for candidate in CANDIDATES} - ruled_out


def _predicted(a: Csr, spmvs: float) -> choosing.Predicted:
    """The prediction for the device that holds the matrix; on the host if that is small."""
    if a.xp is np or a.nnz > ON_HOST:
        return choosing.predicted(a, model.loaded(MODEL), spmvs, candidates)
    with converting_for(device_limits(a)):
        return choosing.predicted(a.on(np), model.loaded(MODEL), spmvs, candidates)


@register
class Auto(Format):
    """The matrix in the format that is predicted to be the fastest for it, choosing and converting included.

    If `spmvs` products take less than 30 ms, as they do at least by the bandwidths of the model's device, a choice
    would take longer than it saves: the matrix stays in CSR, as `csr-lanes`, or as `hola` if it has long rows.

    Else the model of `spmvbench advise` predicts the times from features of the matrix and the bytes of each format, on
    the device that converts, or on the host for a small matrix; nothing is timed. A matrix unlike all of the training
    is stored in one of the model's fallbacks, unless they are predicted to take longer than cuSPARSE's CSR. One without
    entries, or with more than 2^27 rows and columns, is stored as `csr-lanes`. A format that the memory cannot hold is
    no candidate, nor is a vendor's, nor one whose footprint takes as long to compute as its conversion.
    """

    key = "auto"
    family = "Hybrid"
    reference = "this project: one key for the choice of its advice"
    project_kernel = True
    keeps_zeros = False
    multiplies_padding = any(candidate.multiplies_padding for candidate in CANDIDATES)

    spmvs = Parameter(1000, "products that the choice is made for", low=1)

    chosen: Format

    @classmethod
    def data_digest(cls) -> str:
        """A hash of the model: rows of another model are measured again."""
        return model.digest(MODEL)

    @classmethod
    def choices(cls, a: Csr, spmvs: float) -> Iterator[type[Format]]:
        """The candidates from the best on, as far as they can hold the matrix."""
        by_label, known = {candidate.key: candidate for candidate in CANDIDATES}, model.loaded(MODEL)
        if a.nnz and choosing.seconds_in_csr(known, a, spmvs) < choosing.WORTH_CHOOSING:
            yield by_label[choosing.plain_label(a.row_len_max, a.row_len_mean)]
        elif a.nnz and a.rows + a.cols <= WIDEST:
            found = _predicted(a, spmvs)
            limit = a.free_bytes / FREE_SHARE
            ranked = sorted((e for e in found.expected.values() if e.label in by_label), key=lambda e: e.total)
            (vendor,) = (e.total for e in found.expected.values() if e.label == known.about["vendor"])
            if known.out_of_range(found.columns):
                ranked.sort(key=lambda e: e.label not in known.about["fallbacks"] or e.total > vendor)
            sizes = dict(zip(known.labels, found.footprints, strict=True))
            yield from (by_label[e.label] for e in ranked if sizes[e.label] <= limit)
        yield CsrLanes

    @classmethod
    def estimate(cls, a: Csr, *, spmvs: float, **params: Any) -> int:
        """The bytes of the format that will be chosen."""
        for candidate in cls.choices(a, spmvs):
            try:
                return candidate.estimate(a, **candidate.resolve({}))
            except Skip:
                continue
        raise AssertionError  # csr-lanes holds every matrix

    @classmethod
    def convert(cls, a: Csr, *, spmvs: float, **params: Any) -> dict[str, Any]:
        """The matrix in the first of the choices that can hold it."""
        for candidate in cls.choices(a, spmvs):
            try:
                return {"chosen": candidate.converted(a)}
            except Skip:
                continue
        raise AssertionError

    def to_coo(self) -> tuple[Array, Array, Array]:
        """The entries that are not zero: some candidates drop zeros, so the others' go as well."""
        rows, cols, values = self.chosen.to_coo()
        stored = self.xp.flatnonzero(nonzero_mask(values))
        return rows[stored], cols[stored], values[stored]

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        """The launches of the chosen format."""
        return self.chosen.launches(x, y)

    @property
    def bytes_read(self) -> int:
        """As of the chosen format."""
        return self.chosen.bytes_read

    @property
    def setup_seconds(self) -> float:
        """As of the chosen format."""
        return self.chosen.setup_seconds

    @property
    def detail(self) -> dict[str, Any]:
        """The format that was chosen, and its `detail`. If that one chooses, too, its choice follows after a colon."""
        detail = self.chosen.detail
        label = formats.label(type(self.chosen), dict(self.chosen.params))
        return detail | {"chosen": f"{label}: {detail['chosen']}" if "chosen" in detail else label}
