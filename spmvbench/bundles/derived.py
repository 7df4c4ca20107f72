"""Checks of derived columns: those that follow from other columns or from the metadata are computed again.

Each rule yields findings. If a row of an older version lacks a column that the rule needs, the rule is OPEN for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from spmvbench import formats
from spmvbench.bundles import sources
from spmvbench.bundles.findings import FAILED, OPEN, Bundle, Finding, Flags, cases, check_rows, devices, mapping
from spmvbench.errors import UsageError
from spmvbench.formats.precision import VALUE_BYTES
from spmvbench.matrices import Matrix
from spmvbench.measure import bounds, operations
from spmvbench.measure.cases import DTYPES, Case, precision_of
from spmvbench.measure.row import NEAR_LAUNCH_OVERHEAD
from spmvbench.measure.timing import MODES
from spmvbench.rows.stored import parsed

# Limits and launch overhead are measured with an error; samples of the launch overhead vary by a few percent.
MIN_OVERHEAD_RATIO, MAX_RATIO = 0.9, 1 + bounds.ERROR
# A format may count padding that its kernels skip: the maximum of 20,000 published rows is 1.18.
MAX_PADDING_RATIO = 1.25
# The counter of joules is read 10 ms late at most, in windows of 0.15 s and more, and its own error is a few percent.
MAX_POWER_RATIO = 1.1
# An invocation with several workers stores the bounds that the first one measured; those of the others differ by 3 %.
WORKER_TOLERANCE = 0.05
TOLERANCE = 1e-6


def same(found: float, expected: float, tolerance: float = TOLERANCE) -> bool:
    """Whether two numbers are equal within the tolerance; two NaNs are equal."""
    return (math.isnan(found) and math.isnan(expected)) or math.isclose(found, expected, rel_tol=tolerance)


def where(rows: pd.DataFrame, test: Callable[[Any], bool], by: Sequence[str] = ()) -> Flags:
    """Which rows a test holds for, (rows,). by: the columns that it reads, if few rows differ in them: each once."""
    if by and len(rows):
        numbers = rows.groupby(list(by), sort=False, dropna=False).ngroup().to_numpy()
        found: Flags = where(rows[~rows.duplicated(list(by))], test)[numbers]
        return found
    return np.fromiter((bool(test(row)) for row in each(rows)), bool, len(rows))


class _Row:
    """A row of a table. Its values are attributes, read from columns that are made when a test first asks for them: a
    tuple of each row would have a hundred values of which a test reads five.
    """

    __slots__ = ("_column", "_place")

    def __init__(self, column: Callable[[str], list[Any]], place: int):
        self._column, self._place = column, place

    def __getattr__(self, name: str) -> Any:
        return self._column(name)[self._place]


def each(rows: pd.DataFrame) -> Iterator[Any]:
    """The rows of a table, one after the other, with their values as attributes."""
    column = cache(lambda name: rows[name].tolist())
    return (_Row(column, place) for place in range(len(rows)))


def kind(row: Any) -> str:
    """The operation without its parameter."""
    return operations.kind(row.op)


def streaming(row: Any) -> operations.Operation | None:
    """The operation, if it reads the whole matrix; None for others and unknown ones."""
    try:
        known = operations.get(row.op)
    except UsageError:
        return None
    return known if known.streams else None


def itemsize(dtype: str) -> int:
    """Bytes of an element of x or y; 0 for an unknown type."""
    return DTYPES[dtype].itemsize if dtype in DTYPES else 0


def value_bytes(dtype: str) -> int:
    """Bytes of a stored value; 0 for an unknown type."""
    return VALUE_BYTES[precision_of(dtype).values] if dtype in DTYPES else 0


def entries(row: Any) -> float:
    """Entries of the matrix that the format was made from, for searches the arcs of the graph; NaN if the row lacks
    them.
    """
    if not kind(row).startswith("bfs"):
        return float(row.nnz)
    arcs = parsed(row.detail).get("arcs")
    return float(arcs) if isinstance(arcs, int) else math.nan


# --- names of a row


_NAMES = (
    "format", "label", "params", "family", "experiment", "project_kernel", "alias_of", "source_hash", "op", "mode",
    "dtype", "device", "timed_by",
)  # fmt: skip


def names(bundle: Bundle) -> Iterator[Finding]:
    """Check that format, label, parameters, family, operation, type and mode agree."""
    rows = bundle.rows
    yield from check_rows(
        "names", rows, ~where(rows, _operation_fits, _NAMES), "operation, type and mode fit the format"
    )
    yield from check_rows("names", rows, ~where(rows, _label_fits, _NAMES), "label and parameters agree")
    wrong = where(rows, lambda row: _installed(row) and not _as_installed(row), _NAMES)
    missing = where(rows, lambda row: not _installed(row) and bool(sources.known(row.format, row.source_hash)), _NAMES)
    by_source = rows.groupby(["format", "source_hash"])["family"].transform("nunique") > 1
    text = "label, family and other properties are those of the format's source"
    why = "measured with other revisions of their formats"
    yield from check_rows("names", rows, wrong | by_source.to_numpy(bool), text, missing, why)


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
    """Whether a label agrees with the format and parameters of its row, as far as this is possible without the
    defaults.
    """
    params = parsed(row.params)
    if formats.params_text(params) != row.params:
        return False
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
    key, bracket, rest = row.label.partition("[")
    settings = [setting.partition("=") for setting in rest.removesuffix("]").split(",")] if bracket else []
    return key == row.format and all(texts.get(name) == value for name, _, value in settings)


def _installed(row: Any) -> bool:
    digest = sources.of_format(row.source_hash)
    return bool(digest) and sources.installed(row.format) == digest


def _as_installed(row: Any) -> bool:
    cls, params = formats.get(row.format), parsed(row.params)
    if set(params) != set(cls.parameters()):
        return False
    found = row.label, row.experiment, row.project_kernel, row.alias_of
    alias = cls.alias_of if params == cls.resolve({}) else ""
    return row.family in (cls.family, "") and found == (
        formats.label(cls, params),
        cls.experiment or (row.timed_by == "host" and row.device.startswith("cuda")),
        cls.runs_project_kernel(params),
        alias,
    )


def identities(bundle: Bundle) -> Iterator[Finding]:
    """Check that each case has one row, with the hash that follows from its columns."""
    rows = bundle.rows

    def known(row: Any) -> bool:
        hashes = {"file_sha256": row.file_sha256, "generator_hash": row.generator_hash}
        in_order = {"order": row.order or "none", "order_hash": row.order_hash}
        matrix = Matrix(row.group, row.name, row.kind, "", **hashes, **in_order)
        device = row.device.partition(":")[0]
        case = row.format, parsed(row.params), row.dtype, row.mode, device
        return any(
            Case(matrix, seed, *case, op=row.op, timing_rule=row.timing_rule).case_id == row.case_id
            for seed in bundle.seeds
        )

    yield from check_rows("cases", rows, ~where(rows, known), "the case's hash follows from the row")
    numbered = rows["sequence"] > 0
    twice = numbered & rows["sequence"].duplicated(keep=False)
    yield from check_rows(
        "cases", rows, twice.to_numpy(bool), "each row has a unique sequence number", (~numbered).to_numpy(bool)
    )
    # Not on its name: copies of a file are one matrix, as are stand-ins with the same facts, dense:1:1 and tridiag:1.
    hashed = rows[rows["matrix_sha256"] != ""]
    sizes = hashed.groupby("matrix_sha256")[["rows", "cols", "nnz"]]
    differ = sizes.transform("nunique", dropna=False).gt(1).any(axis=1)
    yield from check_rows("cases", hashed, differ.to_numpy(bool), "rows of one matrix agree on its size")


# --- conditions of status ok


def verdicts(bundle: Bundle) -> Iterator[Finding]:
    """Check that verified rows have errors within their bounds, samples, a matrix and launches."""
    rows = bundle.verified
    error = rows["error_ratio"]
    yield from check_rows(
        "verdicts", rows, ~((error >= 0) & (error <= 1)).to_numpy(bool), "every error is within its bound"
    )
    yield from check_rows("verdicts", rows, (rows["matrix_sha256"] == "").to_numpy(bool), "the matrix has a hash")
    idle = (rows["launches"] < 1) & (rows["nnz"] > 0)
    yield from check_rows("verdicts", rows, idle.to_numpy(bool), "something was launched")


def samples(bundle: Bundle) -> Iterator[Finding]:
    """Check that samples look like times, and take no more of it than their case. Statistics follow from them."""
    rows = bundle.rows[(bundle.rows["status"] == "ok") | (bundle.rows["n_samples"] > 0)]

    def wrong(row: Any) -> bool:
        taken = np.asarray(row.samples, dtype=float)
        if not len(taken) or not (taken > 0).all() or not np.isfinite(taken).all():
            return True
        return row.repeats < 1 or (
            len(taken) >= 10 and len(np.unique(taken)) < 3
        )  # measured times are never that equal

    yield from check_rows("samples", rows, where(rows, wrong), "samples look like times")
    # A program is timed once for all of its names. Of those with the same samples, the longest case has timed it.
    taken = pd.Series([np.asarray(row).tobytes() for row in rows["samples"]], rows.index, dtype=object)
    of_program = rows.assign(taken=taken)[rows["program"] != ""].sort_values("t_case", ascending=False, kind="stable")
    once = ["group", "name", "dtype", "op", "mode", "device", "gpu", "program", "taken"]
    rows = rows.drop(of_program.index[of_program.duplicated(once)])
    # Operations of one format share their time in equal parts.
    spent = [float(np.sum(row.samples, dtype=float)) * row.repeats for row in each(rows)]
    shared = rows.assign(spent=spent, kind=[kind(row) for row in each(rows)])
    sums = shared.groupby(["group", "name", "label", "dtype", "kind", "started_at"])[["spent", "t_case"]].transform(
        "sum"
    )
    longer = ~(sums["spent"] <= 2 * sums["t_case"]).to_numpy(bool)
    latest = rows.groupby(["group", "name", "dtype", "op", "mode"])["started_at"].transform("max")

    def again(row: Any) -> bool:
        """Whether a case of its matrix is of an invocation after all that may have measured this row, and ended."""
        if not row.longer or not row.program:
            return False
        ends = [str(session["ended"]) for session in bundle.sessions_of(row) if session.get("ended")]
        return bool(ends) and max(ends) < row.latest

    replaced = where(rows.assign(longer=longer, latest=latest), again)
    text, why = "samples take no more time than their cases", "the case that has timed their program was measured again"
    yield from check_rows("samples", rows, longer & ~replaced, text, replaced, why)


# --- rates and bytes


def rates(bundle: Bundle) -> Iterator[Finding]:
    """Check that work follows from the entries. Rates follow from it."""
    rows = bundle.rows[(bundle.rows["status"] == "ok") | (bundle.rows["n_samples"] > 0)]

    def wrong(row: Any) -> bool:
        if known := streaming(row):
            return bool(row.work != known.flops(int(row.rows), int(row.cols), int(row.nnz)))
        if not kind(row).startswith("bfs"):
            return bool(row.work != 2 * row.nnz)
        arcs = entries(row)
        everything = parsed(row.detail).get("reached") == row.rows  # then every arc is counted
        return math.isnan(arcs) or not 0 <= row.work <= arcs or (everything and row.work != arcs)

    yield from check_rows("rates", rows, where(rows, wrong), "work follows from the entries")


def footprints(bundle: Bundle) -> Iterator[Finding]:
    """Check that no more is read than the arrays, x and y."""
    rows = bundle.verified

    def reads(row: Any) -> bool:
        if not (known := streaming(row)):
            return bool(row.model_bytes == 0)
        whole = row.model_bytes % known.iterations == 0
        return bool(whole and 0 <= _read(row) <= row.bytes_format)

    other = where(rows, _of_other_solver, ("op", "source_hash"))
    text, why = "no more is read than the arrays, x and y", "measured with other revisions of their solvers"
    yield from check_rows("bytes", rows, ~where(rows, reads) & ~other, text, other, why)


def _of_other_solver(row: Any) -> bool:
    """Whether another released revision of a row's solver was measured, whose vectors may be more than today's."""
    solver = row.source_hash.partition("+")[2]
    return bool(solver) and solver != sources.installed(kind(row)) and sources.solver_known(row.source_hash)


def _read(row: Any) -> int:
    """Bytes of its arrays that a product of a format reads according to its row, which is of a streaming operation."""
    known = operations.get(row.op)
    vectors = known.vector_elements(int(row.rows), int(row.cols)) * itemsize(row.dtype)
    return int(row.model_bytes) // known.iterations - vectors


# --- times and the measured limits of the device


def energies(bundle: Bundle) -> Iterator[Finding]:
    """Check that the power while energy was measured is within the limit of the card."""
    rows = bundle.verified
    rows = rows[rows["energy"] > 0]

    def limit(row: Any) -> float:
        limits = (mapping(session.get("properties")).get("power_limit_w") for session in bundle.sessions_of(row))
        return max((float(watts) for watts in limits if isinstance(watts, int | float)), default=math.nan)

    share = rows["watts"].to_numpy(float) / np.fromiter((limit(row) for row in each(rows)), float, len(rows))
    yield from check_rows(
        "energy", rows, share > MAX_POWER_RATIO, "no power is above the card's limit", np.isnan(share)
    )


def launch_overheads(bundle: Bundle) -> Iterator[Finding]:
    """Check that no time is below the launch overhead of the same device, and that times near it are marked."""
    rows = bundle.verified
    known, fast, marked = np.zeros((3, len(rows)), bool)
    times, near = rows["t_median"].to_numpy(), rows["near_launch_overhead"].to_numpy(bool)
    for sessions, places in bundle.invocations(rows):
        for mode in rows["mode"].iloc[places].unique():
            of = places[(rows["mode"].iloc[places] == mode).to_numpy()]
            floors = _launch_overheads(sessions or bundle.sessions, mode)
            known[of] = bool(floors)
            fast[of] = times[of] < MIN_OVERHEAD_RATIO * min(floors, default=0.0)
            marked[of] = np.any([(times[of] < NEAR_LAUNCH_OVERHEAD * floor) == near[of] for floor in floors], axis=0)
    # Times of the host have no such bound.
    fast &= (rows["nnz"] > 0).to_numpy() & ~rows["device"].str.startswith("emulated").to_numpy(bool)
    yield from check_rows("launch overhead", rows, fast, "no time is below the launch overhead", ~known)
    yield from check_rows("launch overhead", rows, known & ~marked, "times near the launch overhead are marked", ~known)


def _launch_overheads(sessions: Iterable[dict[str, Any]], mode: str) -> list[float]:
    """Launch overheads that these invocations, or their workers, have measured."""
    found = []
    for session in sessions:
        for device in devices(session):
            floor = mapping(device.get("launch_overhead")).get(mode)
            if isinstance(floor, int | float) and floor > 0:
                found.append(float(floor))
    return found


def bounded(bundle: Bundle) -> Iterator[Finding]:
    """Check that no row is faster than the device can read, and that bounds follow from the device's measurements."""
    rows = bundle.verified
    rows = rows[(rows["op"] == "spmv") & ~rows["device"].str.startswith("emulated") & (rows["nnz"] > 0)]
    if not len(rows):
        return
    has_bound = (rows["bound_by"] != "").to_numpy(bool)
    is_measured, follows = np.zeros((2, len(rows)), bool)
    least = np.zeros((2, len(rows)))  # seconds for reading the values, and the arrays, and for writing y; 0 if unknown
    unmeasured = np.ones(len(rows), bool)
    item, values = (
        rows["dtype"].map({of: width(of) for of in rows["dtype"].unique()}) for width in (itemsize, value_bytes)
    )
    y_bytes = rows["rows"] * item
    # What compresses its values is held to its arrays alone.
    needed = (rows["nnz"] * values).mask(rows["compresses_values"].map(lambda told: told is True).astype(bool), 0)
    vectors = operations.get("spmv").vector_elements(rows["rows"], rows["cols"]) * item
    sizes = [(needed + y_bytes).to_numpy(float), (rows["model_bytes"] - vectors + y_bytes).to_numpy(float)]
    for sessions, places in bundle.invocations(rows):
        part = rows.iloc[places]
        for session in sessions or bundle.sessions:
            if valid_bounds(session):
                is_measured[places] = True
                follows[places] |= _bound_follows(session, part, item.iloc[places])
            if seconds := _fastest(session):
                for found, size in zip(least, sizes, strict=True):
                    taken = seconds(size[places])
                    found[places] = np.where(unmeasured[places], taken, np.minimum(found[places], taken))
                unmeasured[places] = False

    if (has_bound & ~is_measured).any():
        text = "rows have bounds, but the metadata lacks the measurements for them"
        yield Finding("bounds", FAILED, f"{text}: {cases(rows[has_bound & ~is_measured])}")
    wrong = has_bound & is_measured & ~follows
    yield from check_rows("bounds", rows, wrong, "the bounds follow from the device's measurements", ~has_bound)

    times = rows["t_median"].to_numpy()
    with np.errstate(all="ignore"):
        of_values, ratio = np.where(times > 0, least / times, math.inf)
    text = "no time is below that of reading the values and writing y"
    yield from check_rows("bounds", rows, of_values > MAX_RATIO, text, unmeasured)
    beyond = is_measured & (ratio > MAX_PADDING_RATIO)  # old versions, without bounds, counted all padding as read
    near = (ratio > MAX_RATIO) & ~beyond
    text = "no time is implausible, below that of reading the arrays and writing y"
    yield from check_rows("bounds", rows[~near], beyond[~near], text, unmeasured[~near])
    if near.any():
        text = "implausible: shorter than reading all arrays takes; the format may skip padding"
        yield Finding("bounds", OPEN, f"{text}: {int(near.sum())} of {len(rows)} rows: {cases(rows[near])}")


def valid_bounds(session: dict[str, Any]) -> dict[str, Any] | None:
    """The measured bounds of an invocation if `bounds.upper` accepts them: rising sizes, with times above 0."""
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


def _bound_follows(session: dict[str, Any], rows: pd.DataFrame, item: pd.Series) -> Flags:
    """Whether the bounds of rows are those of the limits which an invocation measured. item: bytes of an element."""
    measured, entries = session["bounds"], rows["nnz"].to_numpy(float)
    fetched = bounds.Fetched(rows["x_sectors"].to_numpy(), rows["x_lines"].to_numpy())
    reading = bounds.read_seconds(measured, rows["model_bytes"].to_numpy(float))
    gathering = bounds.gather_seconds(measured, entries, fetched, (rows["cols"] * item).to_numpy(float))
    gathers = gathering > reading
    single = not isinstance(session.get("workers"), list)
    found, told = 2e-9 * entries / np.where(gathers, gathering, reading), rows["bound_gflops"].to_numpy()
    tolerance = TOLERANCE if single else WORKER_TOLERANCE
    near = np.abs(found - told) <= tolerance * np.maximum(np.abs(found), np.abs(told))
    by = np.where(gathers, "gathers", "bytes") == rows["bound_by"].to_numpy()
    return np.asarray(near & (by | (not single)), dtype=bool)


def _fastest(session: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray] | None:
    """Minimum seconds to read so many bytes on an invocation's device; None if it was not measured."""
    if found := valid_bounds(session):
        return lambda size: bounds.least_seconds(found, size, "hot")
    rate, cache = session.get("read_bandwidth_gbps"), mapping(session.get("properties")).get("l2_bytes", math.inf)
    if not isinstance(rate, int | float) or not rate > 0:
        return None
    return lambda size: np.where(size > 2 * cache, 1e-9 * size / rate, 0.0)  # a cache may hold the rest
