"""The advice on a matrix as an object: a table, a choice, and the operator that it leads to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spmvbench import formats
from spmvbench.advice import choosing, model
from spmvbench.devices import Device
from spmvbench.errors import SpmvbenchError, UsageError, counted
from spmvbench.formats.arrays import Csr
from spmvbench.formats.multivector import MOST
from spmvbench.operators import format_choice
from spmvbench.operators.format_choice import MODEL, Candidate
from spmvbench.operators.linear_operator import Operator, build, opened_for, real_csr
from spmvbench.runner import arguments

if TYPE_CHECKING:
    import pandas as pd


def advise(
    A: Any,
    spmvs: float = 10_000,
    measure: bool = False,
    *,
    device_like: str = MODEL,
    dtype: Any = None,
    deterministic: bool = False,
    vectors: int = 1,
) -> Recommendation:
    """Predicts the fastest formats for a matrix, conversion included, as the command `advise` does.

    A, dtype: as `operator` takes them. spmvs: how many products the matrix will be used for. measure: also measure the
    best few, cuSPARSE's format and the fallback on this machine's GPU. device_like: the GPU
    whose model predicts, ``auto`` for the one at hand. deterministic: only formats that are known to give the same bits
    in every product. vectors: of each product, 1 to 64, X and Y by rows.

    Raises UsageError for an unknown model and if there is no GPU to measure on, for deterministic products of several
    vectors, TypeError for anything that is not a
    real sparse matrix, SpmvbenchError for a matrix without entries, for entries that are not finite and if no format
    fits into memory.
    """
    from spmvbench.operators import measuring

    if measure:
        measuring.require_gpu()
    spmvs = arguments.number("spmvs", spmvs, 1)
    if vectors not in range(1, MOST + 1):
        raise UsageError(f"vectors is a number from 1 to {MOST}, not {vectors!r}")
    device_like = format_choice.like(device_like)
    a = real_csr(A, dtype)
    if not a.nnz:
        raise SpmvbenchError("a matrix without entries needs no advice")
    host = a.on(np)
    advice = choosing.advise(
        host, model.loaded(device_like, vectors), spmvs, deterministic=deterministic, vectors=vectors
    )
    found = Recommendation(a, advice, spmvs, device_like, deterministic=deterministic)
    if not measure:
        return found
    from scipy.sparse import csr_array

    matrix = csr_array((host.values, host.col_idx, host.row_ptr), shape=a.shape)
    rows = measuring.measured(advice, matrix, "f32" if a.dtype == np.float32 else "f64", spmvs, vectors=vectors)
    return replace(found, measured=rows)


@dataclass(frozen=True, eq=False)
class Recommendation:
    """What `advise` found. a: the matrix. advice: predictions and reasons. measured: rows, if formats were measured."""

    a: Csr
    advice: choosing.Advice
    spmvs: float
    device_like: str
    measured: pd.DataFrame | None = None
    deterministic: bool = False

    @property
    def choice(self) -> str:
        """The format to use, as `operator` takes it: the fastest measured, else the advised one."""
        return next(self._candidates()).label

    @property
    def params(self) -> dict[str, Any]:
        """The value of every parameter of the choice."""
        return dict(formats.parse(self.choice)[0][1])

    @property
    def table(self) -> pd.DataFrame:
        """A line for each ranked format, the least predicted time first; all times in seconds.

        Columns: format, total (conversion and SpMVs), spmv, low and high (the 80 % interval of spmv), conversion,
        relative to cuSPARSE, note; if formats were measured also status, measured_spmv, measured_conversion and
        measured_total, and the least measured total first.
        """
        import pandas as pd

        notes = {self.advice.fallback.label: "fallback", self.advice.vendor.label: "cuSPARSE"}
        found = pd.DataFrame(
            {
                "format": e.label,
                "total": e.total,
                "spmv": e.spmv,
                "low": e.low,
                "high": e.high,
                "conversion": e.conversion,
                "relative to cuSPARSE": e.total / self.advice.vendor.total,
                "note": notes.get(e.label, ""),
            }
            for e in self.advice.ranked
        )
        if self.measured is None:
            return found
        names = {
            "label": "format",
            "t_median": "measured_spmv",
            "made": "measured_conversion",
            "total": "measured_total",
        }
        rows = self.measured[["status", *names]].rename(columns=names)
        return found.merge(rows, on="format", how="left").sort_values("measured_total", ignore_index=True)

    def operator(self, device: str | Device | None = None, *, updatable: bool = False) -> Operator:
        """The matrix as an operator in the format of `choice`, or the next one that the device can run.

        device, updatable: as `spmvbench.operator` takes them. Raises as that does.
        """
        opened = opened_for(device, self.a)
        a, candidates = self.a.on(opened.xp), self._candidates(opened)
        return build(a, opened, candidates, self.spmvs, updatable=updatable, deterministic=self.deterministic)

    def _candidates(self, device: Device | None = None) -> Iterator[Candidate]:
        found = self._ranked(device)
        return format_choice.deterministic(found, device) if self.deterministic else found

    def _ranked(self, device: Device | None) -> Iterator[Candidate]:
        """Formats from the best on that the device can run, csr-scalar last; without a device all formats."""
        if self.measured is not None:
            for row in self.measured[self.measured["status"] == "ok"].itertuples():
                if device is None or device.kind in formats.parse(row.label)[0][0].devices:
                    reason = f"the least time measured for {self.spmvs:,.10g} products and the conversion"
                    yield Candidate(row.label, reason)
        yield from format_choice.candidates(self.advice, device, self.spmvs, self.device_like)
        yield format_choice.LAST

    def __str__(self) -> str:
        rows, cols = self.a.shape
        choice = next(self._candidates())
        with_units = self.table.to_string(index=False, float_format=lambda t: f"{t:.3g}")
        size = f"{rows:,} x {cols:,}, {counted(f'{self.a.nnz:,}', 'entry')}"
        return f"{size}: {choice.label} ({choice.reason})\n{with_units}"

    __repr__ = __str__
