"""Advice on one matrix: what each format of the portfolio would take, why, and how far the model can be trusted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.advice import traits
from spmvbench.advice.model import SPMVS, Model
from spmvbench.bench.roofs import Fetched
from spmvbench.bench.roofs import columns as roofs_of
from spmvbench.collection.features import features
from spmvbench.formats import Skip
from spmvbench.formats.arrays import Csr

REASONS = 3


@dataclass(frozen=True)
class Expected:
    """Of one format: seconds of an SpMV with the ends of their interval, of the conversion and of all together."""

    label: str
    spmv: float
    low: float
    high: float
    conversion: float
    total: float


@dataclass(frozen=True)
class Advice:
    """ranked: the formats that can hold the matrix, the best first. vendor: cuSPARSE's among them.

    reasons: in words, what decided. strange: in words, what is beyond all matrices of the rows; then `safe` names the
    format that loses least where much goes wrong. loss: in per cent, of the choices for matrices whose families the
    model had not seen. seconds: what looking at the matrix took, for traits and for bytes of formats.
    """

    ranked: list[Expected]
    vendor: Expected
    reasons: list[str]
    strange: list[str]
    safe: Expected
    loss: dict[str, float]
    seconds: tuple[float, float]


def advise(a: Csr, model: Model, spmvs: float) -> Advice:
    """Advice on a matrix as canonical CSR in the type of its values, on the host."""
    start = time.perf_counter()
    fetched = Fetched.by(a, model.about["multiprocessors"])
    columns: dict[str, Any] = features(a, quick=True) | {"x_sectors": fetched.sectors, "x_lines": fetched.lines}
    looked = time.perf_counter()
    ends = (a.rows + a.cols) * a.dtype.itemsize
    model_bytes = np.array([_bytes(a, label) + ends for label in model.labels])
    bounds = np.array([_bound(a, model, fetched, size) for size in model_bytes])
    estimated = time.perf_counter()
    # The model knows 64-bit values: the bounds tell what others save, and it sees each format as it would be then.
    wide = model_bytes + a.nnz * (8 - a.dtype.itemsize) + ends * (8 / a.dtype.itemsize - 1)
    one = {name: np.array([value], dtype=float) for name, value in columns.items()}
    spmv, conversion = (part[0] for part in model.predicted(one, wide[None], bounds[None]))
    total = model.totals(spmv, conversion, spmvs)
    low, high = (spmv * np.exp(model.errors[0, :, end]) for end in (0, 1))
    numbers = zip(model.labels, spmv, low, high, conversion, total, strict=True)
    all_of = {label: Expected(label, *map(float, rest)) for label, *rest in numbers}
    ranked = sorted((e for e in all_of.values() if np.isfinite(e.total)), key=lambda e: e.total)
    best, rival = ranked[0].label, ranked[min(1, len(ranked) - 1)].label
    if best != model.about["vendor"]:
        rival = model.about["vendor"]
    return Advice(
        ranked,
        all_of[model.about["vendor"]],
        _reasons(model, one, columns, wide, bounds, spmvs, (best, rival)),
        [traits.words(name, columns) for name in model.strange(columns)],
        all_of[model.about["safe"]],
        _loss(model, spmvs, a.nnz),
        (looked - start, estimated - looked),
    )


def _bytes(a: Csr, label: str) -> float:
    """What a format would take of this matrix; NaN where it cannot hold it."""
    ((cls, params),) = formats.parse(label)
    if cls.square_only and a.rows != a.cols:
        return np.nan
    try:
        return float(cls.estimate(a, **cls.resolve(params)))
    except Skip:
        return np.nan


def _bound(a: Csr, model: Model, fetched: Fetched, model_bytes: float) -> float:
    """Seconds that an SpMV takes at least, by the roofs of the model's device."""
    if np.isnan(model_bytes):
        return np.nan
    x_bytes = a.cols * a.dtype.itemsize
    found = roofs_of(model.about["roofs"], nnz=a.nnz, fetched=fetched, model_bytes=int(model_bytes), x_bytes=x_bytes)
    return 2e-9 * a.nnz / found["bound_gflops"]


def _reasons(
    model: Model,
    one: dict[str, np.ndarray],
    columns: dict[str, Any],
    model_bytes: np.ndarray,
    bounds: np.ndarray,
    spmvs: float,
    between: tuple[str, str],
) -> list[str]:
    """Which traits speak most for the first of two formats against the second: those without which it leads by less.

    Each trait is set to the median of the rows, one at a time; the bytes that both store stand first where they differ.
    """
    here, there = (model.labels.index(label) for label in between)
    if here == there:
        return []
    size = model_bytes / columns["nnz"]
    seen = np.concatenate((traits.of(one)[0], np.nan_to_num(np.minimum(np.log2(size), 10.0), nan=10.0)))
    changed = np.tile(seen, (1 + len(traits.NAMES), 1))
    for k, middle in enumerate(model.about["ranges"]["median"], start=1):
        changed[k, k - 1] = middle
    times, conversions = (np.exp(forest(changed)) * bounds for forest in (model.times, model.conversions))
    totals = model.totals(times, conversions, spmvs)
    lead = np.log(totals[:, there] / totals[:, here])
    lost = lead[0] - lead[1:]
    order = [k for k in np.argsort(-lost) if lost[k] > 0.01]
    words = dict.fromkeys(text for k in order if (text := traits.words(traits.NAMES[k], columns)))
    reasons = list(words)[:REASONS]
    if abs(np.log(size[here] / size[there])) > 0.05:
        first, second = (
            f"{label} reads {size[k]:.3g} bytes an entry" for label, k in zip(between, (here, there), strict=True)
        )
        reasons.insert(0, f"{first}, {second}")
    return reasons


def _loss(model: Model, spmvs: float, nnz: int) -> dict[str, float]:
    """The judgement nearest to this many SpMVs, of the large matrices for a large one: mean, p95 and worst."""
    nearest = min(SPMVS, key=lambda n: abs(np.log(n / max(spmvs, 1))))
    lines = [x for x in model.about["judgement"] if x["chooser"] == "model" and x["spmvs"] == nearest]
    large = [x for x in lines if x["of"] != "all"]
    return (large if large and nnz > 1_000_000 else lines)[0]
