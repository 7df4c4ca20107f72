"""The format that is chosen for a matrix by one kernel and a forest, behind one key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spmvbench import formats
from spmvbench.advice import quick
from spmvbench.formats.admission import FREE_SHARE, LARGER, Skip
from spmvbench.formats.arrays import Array, Csr, nonzero_mask
from spmvbench.formats.csr.csr import CsrLanes
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Step
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

WIDEST = 1 << 27  # rows and columns; beyond, no matrix was measured, and formats count what does not fit into memory
SMALL = 1 << 30  # bytes that every device has free: asking it takes as long as a product


@register
class Auto(Format):
    """The matrix in the format that is predicted to be the fastest for it, choosing and converting included.

    One kernel finds ten numbers of the matrix, in its row pointers and in a sample of its rows. A forest of regression
    trees predicts each format's slowdown from them and from `spmvs`; nothing is timed. Where that takes longer than it
    saves, a tree chooses by rows, columns, entries and `spmvs` alone, and may err where few rows are much longer than
    the others. No format is near the best for every number of products: name it. Without `spmvs` the choice is the one
    that is predicted to be the least slow on average over 1 to 10^6; docs/results/auto.md has what it loses. An
    operator names 10,000 for `auto`'s forest.

    A matrix without entries, or with more than 2^27 rows and columns, is stored as `csr-lanes`. A format that the
    memory cannot hold is passed over. No candidate is a vendor's, or times products while it converts.
    """

    key = "auto"
    family = "Hybrid"
    reference = "this project: one key for the choice of its advice"
    project_kernel = True
    keeps_zeros = False
    multiplies_padding = True

    spmvs = Parameter(0, "products that the choice is made for; 0: not known", low=0)

    chosen: Format

    @classmethod
    def candidates(cls) -> list[type[Format]]:
        """The formats that it may choose."""
        return [formats.parse(label)[0][0] for label in quick.chooser().labels]

    @classmethod
    def data_digest(cls) -> str:
        """A hash of the forest and of the sources of its formats: rows of others are measured again."""
        return " ".join([quick.chooser().digest, *map(formats.source_hash, cls.candidates())])

    @classmethod
    def choices(cls, a: Csr, spmvs: float) -> Iterator[tuple[type[Format], dict[str, Any]]]:
        """The candidates from the best on, each with the value of every parameter, as far as memory can hold them."""
        if a.nnz and a.rows + a.cols <= WIDEST:
            # Where LARGER times the bytes of CSR fit, none is estimated: that takes as long as converting.
            limit = SMALL if LARGER * a.nbytes <= SMALL else a.free_bytes / FREE_SHARE
            for label in quick.ranked(a, spmvs):
                candidate, params = quick.parsed(label)
                if LARGER * a.nbytes > limit:
                    try:
                        size = candidate.estimate(a, **params)
                    except Skip:
                        continue
                    if size > limit:
                        continue
                yield candidate, params
        yield CsrLanes, CsrLanes.resolve({})

    @classmethod
    def estimate(cls, a: Csr, *, spmvs: float, **params: Any) -> int:
        """The bytes of the format that will be chosen: the first of the choices that does not refuse the matrix."""
        for candidate, values in cls.choices(a, spmvs):
            try:
                return candidate.estimate(a, **values)
            except Skip:
                continue
        raise AssertionError  # csr-lanes holds every matrix

    @classmethod
    def convert(cls, a: Csr, *, spmvs: float, **params: Any) -> dict[str, Any]:
        """The matrix in the first of the choices that can hold it."""
        for candidate, values in cls.choices(a, spmvs):
            try:
                return {"chosen": candidate.converted(a, **values)}
            except (Skip, MemoryError):
                continue
        raise AssertionError  # csr-lanes holds every matrix

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
