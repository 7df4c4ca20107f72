"""Columns of a row that follow from others, or from the record of its session: all are computed again.

Every rule yields its findings. A row of an older version may lack what a rule needs: then the rule is open for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from spmvbench import formats
from spmvbench.bundles import sources
from spmvbench.bundles.findings import FAILED, OPEN, Bundle, Finding, Flags, cases, devices, held, mapping, parsed
from spmvbench.errors import UsageError
from spmvbench.matrices import Matrix
from spmvbench.measure import bounds, operations
from spmvbench.measure.cases import DTYPES, Case
from spmvbench.measure.timing import MODES

# The floor and the roofs are measured themselves, and the floor's own samples spread by some hundredths.
FLOOR, ROOF = 0.9, 1.05
# A format may count padding as read that its kernels pass over: of 20,000 published rows none is above 1.18.
CLAIMED = 1.25
# The roofs of a session with several workers are those that one of them measured first; the others' differ by 3 %.
ALIKE = 0.05
EXACT = 1e-6
SAMPLED = 1e-5  # samples are kept in single precision


def same(found: float, expected: float, tolerance: float = EXACT) -> bool:
    """Whether two numbers are one, both NaN included."""
    return (math.isnan(found) and math.isnan(expected)) or math.isclose(found, expected, rel_tol=tolerance)


def where(rows: pd.DataFrame, test: Callable[[Any], bool]) -> Flags:
    """Which rows a test holds for, (rows,)."""
    return np.fromiter((bool(test(row)) for row in rows.itertuples(index=False)), bool, len(rows))


def kind(row: Any) -> str:
    """The operation without its parameter."""
    return operations.kind(row.op)


def itemsize(row: Any) -> int:
    """Bytes of a value; 0 for a type that there is not."""
    return np.dtype(DTYPES[row.dtype]).itemsize if row.dtype in DTYPES else 0


def entries(row: Any) -> float:
    """Entries of what the format was made from: of a search the arcs of its graph; NaN where the row does not say."""
    if not kind(row).startswith("bfs"):
        return float(row.nnz)
    arcs = parsed(row.detail).get("arcs")
    return float(arcs) if isinstance(arcs, int) else math.nan


# --- what a row is called


def names(bundle: Bundle) -> Iterator[Finding]:
    """Format, label, parameters, family, operation, type and mode fit each other."""
    rows = bundle.rows
    yield from held("names", rows, ~where(rows, _operation_fits), "operation, type and mode exist and fit the format")
    yield from held("names", rows, ~where(rows, _label_fits), "label and parameters agree")
    wrong = where(rows, lambda row: _installed(row) and not _as_installed(row))
    unsaid = where(rows, lambda row: not _installed(row) and bool(sources.known(row.format, row.source_hash)))
    by_source = rows.groupby(["format", "source_hash"])["family"].transform("nunique") > 1
    text = "label, family and the like are those of the format's source"
    yield from held("names", rows, wrong | by_source.to_numpy(bool), text, unsaid)


@cache
def _keys() -> frozenset[str]:
    return frozenset(formats.keys())


def _operation_fits(row: Any) -> bool:
    try:
        known = operations.get(row.op)
    except UsageError:
        return False
    runs = row.format not in _keys() or formats.get(row.format).op == known.key
    return runs and row.mode in MODES and row.dtype in DTYPES and (row.dtype == "pattern") == known.pattern


def _label_fits(row: Any) -> bool:
    """Whether a label names the format and parameters that it has: as far as no default has to be known."""
    params = parsed(row.params)
    if formats.params_text(params) != row.params:
        return False
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
    key, bracket, rest = row.label.partition("[")
    settings = [setting.partition("=") for setting in rest.removesuffix("]").split(",")] if bracket else []
    return key == row.format and all(texts.get(name) == value for name, _, value in settings)


def _installed(row: Any) -> bool:
    return bool(sources.installed().get(row.format) == row.source_hash)


def _as_installed(row: Any) -> bool:
    cls, params = formats.get(row.format), parsed(row.params)
    if set(params) != set(cls.parameters()):
        return False
    told = row.label, row.experiment, row.project_kernel, row.alias_of
    alias = cls.alias_of if params == cls.resolve({}) else ""
    return row.family in (cls.family, "") and told == (
        formats.label(cls, params),
        cls.experiment,
        cls.runs_project_kernel(params),
        alias,
    )


def identities(bundle: Bundle) -> Iterator[Finding]:
    """Each case stands once, under the hash of what it is."""
    rows = bundle.rows

    def known(row: Any) -> bool:
        hashes = {"file_sha256": row.file_sha256, "generator_hash": row.generator_hash}
        matrix = Matrix(row.group, row.name, row.kind, "", **hashes)
        device = row.device.partition(":")[0]
        told = row.format, parsed(row.params), row.dtype, row.mode, device
        return any(Case(matrix, seed, *told, op=row.op).case_id == row.case_id for seed in bundle.seeds)

    yield from held("cases", rows, ~where(rows, known), "the case's hash is that of what the row says")
    identity = ["group", "name", "file_sha256", "format", "params", "dtype", "op", "mode"]
    kinds = rows.assign(device=rows["device"].str.partition(":")[0]) if len(rows) else rows
    often = kinds.groupby([*identity, "device"])["case_id"].transform("size") > len(bundle.seeds)
    yield from held("cases", rows, often.to_numpy(bool), "each case is there once")
    placed = rows["sequence"] > 0
    twice = placed & rows["sequence"].duplicated(keep=False)
    yield from held("cases", rows, twice.to_numpy(bool), "each row has a place of its own", (~placed).to_numpy(bool))
    matrix = [name for name in _OF_MATRIX if name in rows]
    told = rows[rows["matrix_sha256"] != ""]
    unlike = told.groupby("matrix_sha256")[matrix].transform("nunique", dropna=False).gt(1).any(axis=1)
    yield from held("cases", told, unlike.to_numpy(bool), "rows of one matrix say the same of it")


_OF_MATRIX = ["group", "name", "rows", "cols", "nnz"]


# --- what a verdict needs


def verdicts(bundle: Bundle) -> Iterator[Finding]:
    """What is right has errors within their bounds, samples, a matrix and launches."""
    rows = bundle.right
    error = rows["error_ratio"]
    yield from held("verdicts", rows, ~((error >= 0) & (error <= 1)).to_numpy(bool), "every error is within its bound")
    yield from held("verdicts", rows, (rows["matrix_sha256"] == "").to_numpy(bool), "the matrix has a hash")
    idle = (rows["launches"] < 1) & (rows["nnz"] > 0)
    yield from held("verdicts", rows, idle.to_numpy(bool), "something was launched")


def samples(bundle: Bundle) -> Iterator[Finding]:
    """Samples that look like time, and rows that are what their samples say."""
    rows = bundle.rows[(bundle.rows["status"] == "ok") | (bundle.rows["n_samples"] > 0)]

    def wrong(row: Any) -> bool:
        taken = np.asarray(row.samples, dtype=float)
        if len(taken) != row.n_samples or not len(taken) or not (taken > 0).all() or not np.isfinite(taken).all():
            return True
        alike = len(taken) >= 10 and len(np.unique(taken)) < 3  # a clock never repeats itself
        quartiles = np.quantile(taken, [0.25, 0.5, 0.75])
        told = np.array([row.t_q1, row.t_median, row.t_q3])
        return alike or row.repeats < 1 or not np.allclose(told, quartiles, rtol=SAMPLED, atol=0)

    yield from held("samples", rows, where(rows, wrong), "median and quartiles are those of the samples")
    # A program was timed once, in the time of one of its names: of those with its samples the one that took longest.
    taken = pd.Series([tuple(row) for row in rows["samples"]], rows.index, dtype=object)
    of_program = rows.assign(taken=taken)[rows["program"] != ""].sort_values("t_case", ascending=False, kind="stable")
    once = ["group", "name", "dtype", "op", "mode", "device", "gpu", "program", "taken"]
    rows = rows.drop(of_program.index[of_program.duplicated(once)])
    # Operations of one format share their time, each row an equal part of it.
    spent = [float(np.sum(row.samples, dtype=float)) * row.repeats for row in rows.itertuples(index=False)]
    shared = rows.assign(spent=spent, kind=[kind(row) for row in rows.itertuples(index=False)])
    together = shared.groupby(["group", "name", "label", "dtype", "kind", "started_at"])[["spent", "t_case"]].transform(
        "sum"
    )
    longer = ~(together["spent"] <= 2 * together["t_case"])
    yield from held("samples", rows, longer.to_numpy(bool), "samples take no more time than their cases")


# --- rates and bytes


def rates(bundle: Bundle) -> Iterator[Finding]:
    """Work follows from the entries, GFLOPS and GB/s from work, bytes and time."""
    rows = bundle.rows[(bundle.rows["status"] == "ok") | (bundle.rows["n_samples"] > 0)]

    def work(row: Any) -> float:
        """What the rate counts, where entries alone tell it."""
        return math.nan if kind(row).startswith("bfs") else 2.0 * row.nnz

    def too_much(row: Any) -> bool:
        told = parsed(row.detail)
        everything = told.get("reached") == row.rows  # then no arc is left out
        arcs = entries(row)
        return math.isnan(arcs) or not 0 <= row.work <= arcs or (everything and row.work != arcs)

    def wrong_work(row: Any) -> bool:
        if math.isnan(work(row)):
            return too_much(row)
        return bool(row.work) and row.work != work(row)

    unsaid = where(rows, lambda row: not row.work and entries(row) != 0)
    yield from held("rates", rows, ~unsaid & where(rows, wrong_work), "work is that of the entries", unsaid)

    def wrong_rate(row: Any) -> bool:
        if not row.t_median > 0:
            return True
        done = row.work or work(row)
        moved = 1e-9 * row.model_bytes / row.t_median if row.op == "spmv" else math.nan
        return not (same(row.gflops, 1e-9 * done / row.t_median) and same(row.gbps, moved))

    unsaid = where(rows, lambda row: not row.work and math.isnan(work(row)) and entries(row) != 0)
    yield from held(
        "rates", rows, ~unsaid & where(rows, wrong_rate), "GFLOPS and GB/s are work and bytes over time", unsaid
    )


def footprints(bundle: Bundle) -> Iterator[Finding]:
    """The footprint is the sum of the arrays, bytes a nonzero follow, and what is read is no more."""
    rows = bundle.right

    def sums(row: Any) -> bool:
        found = parsed(row.bytes_arrays)
        counts = all(isinstance(size, int) and size >= 0 for size in found.values())
        return counts and (bool(found) or not row.bytes_format) and sum(found.values()) == row.bytes_format

    def shares(row: Any) -> bool:
        stored = entries(row)
        return same(row.bytes_per_nnz, row.bytes_format / stored if stored else math.nan)

    def reads(row: Any) -> bool:
        if row.op != "spmv":
            return bool(row.model_bytes == 0)
        return bool(0 <= _read(row) <= row.bytes_format)

    yield from held("bytes", rows, ~where(rows, sums), "the footprint is the sum of the arrays")
    yield from held("bytes", rows, ~where(rows, shares), "bytes a nonzero are the footprint over the entries")
    yield from held("bytes", rows, ~where(rows, reads), "no more is read than the arrays, x and y")


def _read(row: Any) -> int:
    """Bytes of its arrays that a format says it reads."""
    return int(row.model_bytes) - int(row.rows + row.cols) * itemsize(row)


# --- times beside what the session has measured of its device


def floors(bundle: Bundle) -> Iterator[Finding]:
    """No time below that of an empty kernel on the same device, and the mark of those near it."""
    rows = bundle.right
    known = where(rows, lambda row: bool(_floors(bundle, row)))

    def fast(row: Any) -> bool:
        if row.device.startswith("emulated"):  # its times are the host's, and say nothing
            return False
        return bool(row.nnz > 0 and row.t_median < FLOOR * min(_floors(bundle, row), default=0.0))

    def unmarked(row: Any) -> bool:
        return not any((row.t_median < 2 * floor) == row.near_launch_overhead for floor in _floors(bundle, row))

    yield from held("floor", rows, where(rows, fast), "no time is below an empty kernel's", ~known)
    yield from held("floor", rows, known & where(rows, unmarked), "times near an empty kernel's are marked", ~known)


def _floors(bundle: Bundle, row: Any) -> list[float]:
    """The times of an empty kernel that the row's session, or its worker in it, has measured."""
    found = []
    for session in bundle.sessions_of(row):
        for device in devices(session):
            floor = mapping(device.get("launch_overhead")).get(row.mode)
            if isinstance(floor, int | float) and floor > 0:
                found.append(float(floor))
    return found


def bounded(bundle: Bundle) -> Iterator[Finding]:
    """No row is faster than the device reads; the bounds that rows tell are those of the device's roofs."""
    rows = bundle.right
    rows = rows[(rows["op"] == "spmv") & ~rows["device"].str.startswith("emulated") & (rows["nnz"] > 0)]
    if not len(rows):
        return
    told = where(rows, lambda row: bool(row.bound_by))
    roofed = where(rows, lambda row: bool(_roofs(bundle, row)))
    if (told & ~roofed).any():
        text = "rows have bounds, and no session of theirs has the roofs that these follow from"
        yield Finding("bounds", FAILED, f"{text}: {cases(rows[told & ~roofed])}")
    wrong = told & roofed & ~where(rows, lambda row: not row.bound_by or _bound_follows(bundle, row))
    yield from held("bounds", rows, wrong, "the bounds are those of the device's roofs", ~told)

    fastest = {id(session): _fastest(session) for session in bundle.sessions}

    def over(row: Any, size: float) -> float:
        """The time that reading takes at least, over the row's; 0 where nobody has measured it."""
        known = [seconds(size) for session in bundle.sessions_of(row) if (seconds := fastest[id(session)])]
        return min(known, default=0.0) / row.t_median if row.t_median > 0 else math.inf

    without = where(rows, lambda row: not any(fastest[id(session)] for session in bundle.sessions_of(row)))
    needed = where(rows, lambda row: over(row, (row.nnz + row.rows) * itemsize(row)) > ROOF)
    text = "no time is below that of reading the values and writing y"
    yield from held("bounds", rows, needed, text, without)
    claims = (over(row, _read(row) + row.rows * itemsize(row)) for row in rows.itertuples(index=False))
    claimed = np.fromiter(claims, float, len(rows))
    beyond = roofed & (claimed > CLAIMED)  # before there were roofs, all padding counted as read
    near = (claimed > ROOF) & ~beyond
    text = "no time is implausible, below that of reading the arrays and writing y"
    yield from held("bounds", rows[~near], beyond[~near], text, without[~near])
    if near.any():
        text = "implausible: less time than reading all that the format says it reads takes; it may pass over padding"
        yield Finding("bounds", OPEN, f"{text}: {int(near.sum())} of {len(rows)} rows: {cases(rows[near])}")


def sound_roofs(session: dict[str, Any]) -> dict[str, Any] | None:
    """The roofs of a session where they are what `roofs.columns` takes: rising sizes with times above 0."""
    found = mapping(session.get("bounds"))
    try:
        for name in ("read", "sectors", "lines"):
            sizes, seconds = np.asarray(found[name], dtype=np.float64).T
            if not (len(sizes) and (sizes > 0).all() and (np.diff(sizes) > 0).all() and (seconds > 0).all()):
                return None
            if not np.isfinite(seconds).all():
                return None
    except (KeyError, TypeError, ValueError):
        return None
    return found


def _roofs(bundle: Bundle, row: Any) -> list[dict[str, Any]]:
    return [session for session in bundle.sessions_of(row) if sound_roofs(session)]


def _bound_follows(bundle: Bundle, row: Any) -> bool:
    fetched = bounds.Fetched(row.x_sectors, row.x_lines)
    sizes = {"nnz": row.nnz, "model_bytes": row.model_bytes, "x_bytes": row.cols * itemsize(row)}
    for session in _roofs(bundle, row):
        found = bounds.columns(session["bounds"], fetched=fetched, **sizes)
        alone = not isinstance(session.get("workers"), list)
        near = same(found["bound_gflops"], row.bound_gflops, EXACT if alone else ALIKE)
        if near and (found["bound_by"] == row.bound_by or not alone):
            return True
    return False


def _fastest(session: dict[str, Any]) -> Callable[[float], float] | None:
    """Seconds that reading so many bytes takes at least on a session's device; None where it was not measured."""
    if found := sound_roofs(session):
        return lambda size: bounds.reading(found, size)
    rate, cache = session.get("read_bandwidth_gbps"), mapping(session.get("properties")).get("l2_bytes", math.inf)
    if not isinstance(rate, int | float) or not rate > 0:
        return None
    return lambda size: 1e-9 * size / rate if size > 2 * cache else 0.0  # a cache may hold the rest
