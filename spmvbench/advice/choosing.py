"""Advice on one matrix: what each format of the portfolio would take, why, and how far the model can be trusted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.advice import traits
from spmvbench.advice.model import ABOVE, LARGE, SPMVS, UP_TO, Model
from spmvbench.formats import Skip
from spmvbench.formats.arrays import Csr
from spmvbench.matrices.features import SAMPLE, quick_features, sample
from spmvbench.measure.bounds import Fetched
from spmvbench.measure.bounds import columns as roofs_of

REASONS = 3
EVERY = 8  # one multiprocessor in so many stands for all in what is fetched of x
# Modules of formats whose bytes, dear to count, are those of their rows added up.
LOCAL = ("blocked", "packed.bro", "packed.hybrids", "tile")


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
    model had not seen. seconds: what looking at the matrix took, for traits and for bytes of formats, and one SpMV on
    the host beside them.
    """

    ranked: list[Expected]
    vendor: Expected
    reasons: list[str]
    strange: list[str]
    safe: Expected
    loss: dict[str, float]
    seconds: tuple[float, float, float]


def advise(a: Csr, model: Model, spmvs: float, top: int = 5) -> Advice:
    """Advice on a matrix as canonical CSR in the type of its values, on the host: at least the best `top` formats.

    What a format stores is found only of those that could be among them, were values all that they read.
    """
    formats.keys()  # imports every format: none of the time that a matrix takes
    start = time.perf_counter()
    fetched = Fetched.by(a, model.about["multiprocessors"], EVERY if a.nnz > SAMPLE else 1)
    sampled = sample(a)
    columns: dict[str, Any] = quick_features(a, sampled) | {"x_sectors": fetched.sectors, "x_lines": fetched.lines}
    one = {name: np.array([value], dtype=float) for name, value in columns.items()}
    slower, conversion = (part[0] for part in model.predicted(one))
    looked = time.perf_counter()
    ends = (a.rows + a.cols) * a.dtype.itemsize
    least = conversion + spmvs * slower * _bound(a, model, fetched, a.nnz * a.dtype.itemsize + ends)
    vendor, safe = (model.labels.index(model.about[name]) for name in ("vendor", "safe"))
    sizes = np.full(len(slower), np.nan)
    found: dict[int, Expected] = {}
    for k in [*dict.fromkeys((vendor, safe)), *(k for k in np.argsort(least) if k not in (vendor, safe))]:
        if k not in (vendor, safe) and sum(e.total <= least[k] for e in found.values()) >= top:
            break
        sizes[k] = _bytes(a, sampled[0], model.labels[k])
        if np.isnan(sizes[k]):
            continue
        spmv = slower * _bound(a, model, fetched, sizes[k] + ends)
        low, high = (spmv[k] * np.exp(model.errors[0, k, end]) for end in (0, 1))
        seconds = spmv[k], low, high, conversion[k], conversion[k] + spmvs * spmv[k]
        found[k] = Expected(model.labels[k], *map(float, seconds))
    estimated = time.perf_counter()
    ranked = sorted(found.values(), key=lambda e: e.total)
    best = model.labels.index(ranked[0].label)
    rival = vendor if best != vendor else model.labels.index(ranked[min(1, len(ranked) - 1)].label)
    return Advice(
        ranked,
        found[vendor],
        _reasons(model, columns, spmvs, sizes / a.nnz, (best, rival), found),
        [traits.words(name, columns) for name in model.strange(columns)],
        found.get(safe, found[vendor]),
        _loss(model, spmvs, a.nnz),
        (looked - start, estimated - looked, _host_spmv(a)),
    )


def _bytes(a: Csr, part: Csr, label: str) -> float:
    """What a format would take of this matrix, judged by a part of its rows where it is LOCAL; NaN where it cannot hold
    it.
    """
    ((cls, params),) = formats.parse(label)
    if cls.square_only and a.rows != a.cols:
        return np.nan
    local = cls.__module__.removeprefix("spmvbench.formats.").startswith(LOCAL) and part.nnz
    try:
        size = cls.estimate(part if local else a, **cls.resolve(params))
    except Skip:
        return np.nan
    return float(size) * (a.nnz / part.nnz if local else 1)


def _host_spmv(a: Csr) -> float:
    """Seconds of one y = A x on a thread of the host, SciPy's."""
    from scipy import sparse

    matrix, x = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape), np.ones(a.cols, a.dtype)
    start = time.perf_counter()
    matrix @ x
    return time.perf_counter() - start


def _bound(a: Csr, model: Model, fetched: Fetched, model_bytes: float) -> float:
    """Seconds that an SpMV takes at least, by the roofs of the model's device."""
    if np.isnan(model_bytes):
        return np.nan
    x_bytes = a.cols * a.dtype.itemsize
    found = roofs_of(model.about["bounds"], nnz=a.nnz, fetched=fetched, model_bytes=int(model_bytes), x_bytes=x_bytes)
    return 2e-9 * a.nnz / found["bound_gflops"]


def _reasons(
    model: Model,
    columns: dict[str, Any],
    spmvs: float,
    sizes: np.ndarray,
    between: tuple[int, int],
    found: dict[int, Expected],
) -> list[str]:
    """Which traits speak most for the first of two formats against the second: those without which it leads by less.

    Each trait is set to the median of the rows, one at a time; the bytes an entry that both store stand first where
    they differ.
    """
    here, there = between
    if here == there:
        return []
    changed = np.tile(traits.of(columns), (1 + len(traits.NAMES), 1))
    for k, middle in enumerate(model.about["ranges"]["median"], start=1):
        changed[k, k - 1] = middle
    slower, made = np.exp(model.times(changed)), np.exp(model.conversions(changed))
    times, conversions = np.zeros_like(slower), np.zeros_like(slower)
    for k in between:
        times[:, k] = found[k].spmv * slower[:, k] / slower[0, k]
        conversions[:, k] = found[k].conversion * made[:, k] / made[0, k]
    totals = conversions + spmvs * times
    lead = np.log(totals[:, there] / totals[:, here])
    lost = lead[0] - lead[1:]
    order = [k for k in np.argsort(-lost) if lost[k] > 0.01]
    words = dict.fromkeys(text for k in order if (text := traits.words(traits.NAMES[k], columns)))
    reasons = list(words)[:REASONS]
    if abs(np.log(sizes[here] / sizes[there])) > 0.05:
        first, second = (f"{model.labels[k]} {sizes[k]:.3g}" for k in between)
        reasons.insert(0, f"{first} bytes an entry, {second}")
    return reasons


def _loss(model: Model, spmvs: float, nnz: int) -> dict[str, float]:
    """The judgement nearest to this many SpMVs, of the large matrices for a large one: mean, p95 and worst."""
    nearest = min(SPMVS, key=lambda n: abs(np.log(n / max(spmvs, 1))))
    lines = [x for x in model.about["judgement"] if x["chooser"] == "model" and x["spmvs"] == nearest]
    alike = [x for x in lines if x["of"] == (ABOVE if nnz > LARGE else UP_TO)]
    return (alike or lines)[0]
