"""Advice on one matrix: the predicted time of each format in the portfolio, the reasons, and the expected regret."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.advice import features, quick
from spmvbench.advice.model import ABOVE, LARGE, SPMVS, UP_TO, Model
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Skip
from spmvbench.formats.admission import FREE_SHARE, byte_text
from spmvbench.formats.arrays import Csr
from spmvbench.formats.determinism import repeating
from spmvbench.matrices.features import SAMPLE, quick_features, sample
from spmvbench.measure.bounds import Fetched, gather_seconds, read_seconds
from spmvbench.measure.reading import host_spmv

REASONS = 3
# Seconds that this advice takes on the host, and for each entry: 22 ms (pde:12) to 2 s (uniform:1048576:12).
ADVICE, ADVICE_ENTRY = 0.02, 1.5e-7
SAVED = 0.04  # of the time of many products, by docs/results, in comparison with `quick`
EVERY = 8  # of large matrices, fetches of x are counted for one multiprocessor in this many
# Modules of formats whose footprint is expensive to compute and is a sum over rows: a sample of the rows is scaled up.
SAMPLED = ("dense_blocks", "compressed.bro", "compressed.hybrids", "tile")


@dataclass(frozen=True)
class Expected:
    """Prediction for one format, in seconds.

    spmv: of one SpMV; low, high: its interval of 80 %. conversion: on the device. total: conversion and all SpMVs.
    """

    label: str
    spmv: float
    low: float
    high: float
    conversion: float
    total: float


def is_worth_its_time(model: Model, a: Csr, spmvs: float) -> bool:
    """Whether advice on the host saves more than it takes, by the least time of so many products in CSR."""
    size = a.nbytes + (a.rows + a.cols) * a.vector_dtype.itemsize
    least = spmvs * float(read_seconds(model.about.get("scaled_bounds", model.about["bounds"]), size))
    return SAVED * least > ADVICE + ADVICE_ENTRY * a.nnz


@dataclass(frozen=True)
class Advice:
    """Predictions for one matrix, and how reliable they are.

    ranked: the formats that can hold the matrix, the fastest first. vendor: cuSPARSE's, ranked unless it is too large.
    reasons: in words, the features that decided. out_of_range: in words, the features outside the range of the training
    matrices; if there are any, `fallback` is the advised format. regret: in per cent, on families that were left out of
    training: mean, p95 and worst. seconds: for computing the features, for computing footprints, and for one SpMV on
    the host.
    """

    ranked: list[Expected]
    vendor: Expected
    reasons: list[str]
    out_of_range: list[str]
    fallback: Expected
    regret: dict[str, float]
    seconds: tuple[float, float, float]

    @property
    def choice(self) -> Expected:
        """The advised format: the fallback for a matrix outside the range of the training, else the fastest."""
        return self.fallback if self.out_of_range else self.ranked[0]


def advise(
    a: Csr,
    model: Model,
    spmvs: float,
    max_bytes: float | None = None,
    *,
    deterministic: bool = False,
    vectors: int = 1,
) -> Advice:
    """Advice on a canonical CSR matrix on the host, for its type of values: all formats of the model that can hold it.

    vectors: of each product, X and Y by rows; the model is one for so many or for nearly so many.

    max_bytes: the largest footprint; without it, the share of the memory of the model's GPU that a format may take.
    deterministic: only formats that are known to repeat their bits, or to do so with sum=fixed, which is predicted like
    the format without. The fallback is that of the model's fallbacks, cuSPARSE's format among them, that is predicted
    to take the least time.
    Raises SpmvbenchError if no format fits.
    """
    if max_bytes is None:
        max_bytes = model.about.get("memory_bytes", np.inf) / FREE_SHARE
    formats.keys()  # imports every format, which must not count as time for this matrix
    known = predicted(a, model, spmvs, vectors)
    vendor = model.labels.index(model.about["vendor"])
    found = {k: e for k, e in known.expected.items() if known.footprints[k] <= max_bytes}
    if deterministic:
        op = "spmv" if vectors == 1 else f"spmm@{vectors}"
        labels = {k: repeating(e.label, op) for k, e in found.items()}
        found = {k: replace(e, label=label) for k, e in found.items() if (label := labels[k]) is not None}
        if not found:
            raise SpmvbenchError("no format of the advice is known to repeat its bits: see configs/determinism.csv")
    if not found:
        smallest = byte_text(float(np.nanmin(known.footprints)))
        raise SpmvbenchError(f"no format fits into {byte_text(max_bytes)}: the smallest takes {smallest}")
    order = sorted(found, key=lambda k: found[k].total)
    rival = vendor if order[0] != vendor and vendor in found else order[min(1, len(order) - 1)]
    return Advice(
        [found[k] for k in order],
        known.expected[vendor],
        _reasons(model, known, spmvs, (order[0], rival)),
        [features.words(name, known.columns) for name in model.out_of_range(known.columns)],
        next((found[k] for k in order if model.labels[k] in model.about["fallbacks"]), found[order[0]]),
        _regret(model, spmvs, a.nnz),
        (*known.seconds, host_spmv(a)),
    )


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a model says of one matrix.

    columns: of a row, what features need. footprints, sizes, bounds: (K,), bytes that a format stores, bytes that its
    SpMV reads and writes, and the lower bound of its time in seconds; NaN if it cannot hold the matrix. expected: of
    the others. seconds: for computing the features, and for computing footprints.
    """

    columns: dict[str, Any]
    footprints: np.ndarray
    sizes: np.ndarray
    bounds: np.ndarray
    expected: dict[int, Expected]
    seconds: tuple[float, float]


def predicted(a: Csr, model: Model, spmvs: float, vectors: int = 1) -> Predicted:
    """The prediction for a canonical CSR matrix with entries, on the array module that holds it."""
    start = time.perf_counter()
    fetched = Fetched.by(a, model.about["multiprocessors"], EVERY if a.nnz > SAMPLE else 1, vectors)
    sampled = sample(a)
    columns: dict[str, Any] = quick_features(a, sampled)
    described = time.perf_counter()
    footprints = np.array([_bytes(a, sampled[0], label) for label in model.labels])
    estimated = time.perf_counter()
    item = vectors * a.dtype.itemsize
    sizes = footprints + (a.rows + a.cols) * item
    bounds = _bounds(a, model.about["bounds"], fetched, sizes, item)
    one = {name: np.array([value], dtype=float) for name, value in columns.items()}
    spmv, conversion = (part[0] for part in model.predicted(one, sizes[None], bounds[None]))
    if scaled := model.about.get("scaled_bounds"):
        spmv = spmv * _bounds(a, scaled, fetched, sizes, item) / bounds
    low, high = spmv * np.exp(model.interval).T
    total = conversion + spmvs * spmv
    expected = {
        k: Expected(label, float(spmv[k]), float(low[k]), float(high[k]), float(conversion[k]), float(total[k]))
        for k, label in enumerate(model.labels)
        if not np.isnan(sizes[k])
    }
    return Predicted(columns, footprints, sizes, bounds, expected, (described - start, estimated - described))


def _bytes(a: Csr, part: Csr, label: str) -> float:
    """Footprint of a format in bytes, from a sample of the rows if it is SAMPLED; NaN if it cannot hold the matrix."""
    cls, params = quick.parsed(label)
    if cls.square_only and a.rows != a.cols:
        return np.nan
    sampled = cls.__module__.removeprefix("spmvbench.formats.").startswith(SAMPLED) and part.nnz > 0
    try:
        size = cls.estimate(part if sampled else a, **params)
    except Skip:
        return np.nan
    return float(size) * (a.nnz / part.nnz if sampled else 1)


def _bounds(a: Csr, measured: Mapping[str, Any], fetched: Fetched, sizes: np.ndarray, item: int) -> np.ndarray:
    """Lower bounds on the seconds of SpMVs that move so many bytes, NaN where these are. measured: as `columns` of
    `measure.bounds` takes it. item: bytes of x for each column.
    """
    gathers = gather_seconds(measured, a.nnz, fetched, a.cols * item)
    found: np.ndarray = np.maximum(read_seconds(measured, sizes), gathers)
    return found


def _reasons(model: Model, known: Predicted, spmvs: float, between: tuple[int, int]) -> list[str]:
    """The features that matter most for the first of two formats being faster than the second, in words.

    Each feature in turn is set to its median over the training matrices; the predicted lead then shrinks by so much.
    If the bytes per entry of the two formats differ, they are the first reason.
    """
    columns, sizes, found = known.columns, known.sizes, known.expected
    here, there = between
    if here == there:
        return []
    changed = np.tile(features.of(columns), (1 + len(features.NAMES), 1))
    for k, middle in enumerate(model.about["ranges"]["median"], start=1):
        changed[k, k - 1] = middle
    same = (len(changed), 1)
    slower = model.slower(
        changed, [columns["nnz"]], [columns["row_len_max"]], np.tile(sizes, same), np.tile(known.bounds, same)
    )
    made = np.exp(model.conversions(changed))
    times, conversions = np.zeros_like(slower), np.zeros_like(slower)
    for k in between:
        times[:, k] = found[k].spmv * slower[:, k] / slower[0, k]
        conversions[:, k] = found[k].conversion * made[:, k] / made[0, k]
    totals = conversions + spmvs * times
    lead = np.log(totals[:, there] / totals[:, here])
    weights = lead[0] - lead[1:]
    order = [k for k in np.argsort(-weights) if weights[k] > 0.01]
    words = dict.fromkeys(text for k in order if (text := features.words(features.NAMES[k], columns)))
    reasons = list(words)[:REASONS]
    if abs(np.log(sizes[here] / sizes[there])) > 0.05:
        first, second = (f"{model.labels[k]} {sizes[k] / columns['nnz']:.3g}" for k in between)
        reasons.insert(0, f"{first} bytes per entry, {second}")
    return reasons


def _regret(model: Model, spmvs: float, nnz: int) -> dict[str, float]:
    """The regret of the model for the nearest number of SpMVs and matrices of this size: mean, p95 and worst."""
    nearest = min(SPMVS, key=lambda n: abs(np.log(n / max(spmvs, 1))))
    lines = [x for x in model.about["regret"] if x["chooser"] == "model" and x["spmvs"] == nearest]
    alike = [x for x in lines if x["of"] == (ABOVE if nnz > LARGE else UP_TO)]
    regret: dict[str, float] = (alike or lines)[0]
    return regret
