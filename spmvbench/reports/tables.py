"""The page's tables: text and sort key of each cell."""

from __future__ import annotations

import json
import math
import re
import shlex
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from spmvbench import errors, untrusted
from spmvbench.analysis.cases import verified_or_imported
from spmvbench.analysis.coverage import coverage
from spmvbench.analysis.products import CUPY, HOST_CALLED
from spmvbench.analysis.ranking import SLOWDOWN_CAP, TIE
from spmvbench.analysis.reasons import first_line, in_common, pattern
from spmvbench.analysis.rivals import BEST
from spmvbench.rows.schema import STATUSES, rate_unit

NONE = "-"


def number(value: Any, digits: int = 3) -> str:
    """A number as text: `digits` significant digits, thousands separators, a dash for NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NONE
    if isinstance(value, float) and math.isinf(value):
        return "never" if value > 0 else NONE
    if isinstance(value, float) and 0 < abs(value) < 10**digits - 0.5:
        return f"{value:#.{digits}g}".rstrip(".")
    return f"{value:,.0f}"


def count(value: Any) -> str:
    """An integer as text, with thousands separators; a dash for NaN."""
    return NONE if math.isnan(value) else f"{value:,.0f}"


def seconds(value: float) -> str:
    """A time as text: 411 ms, 20.3 us."""
    unit, size = next((part for part in (("s", 1.0), ("ms", 1e-3)) if value >= part[1]), ("us", 1e-6))
    return f"{number(value / size)} {unit}"


def size(value: float) -> str:
    """A count of bytes as text, in decimal units: 135 GB."""
    power = min(int(math.log10(max(value, 1)) / 3), 4)
    return f"{number(value / 1000**power)} {['B', 'kB', 'MB', 'GB', 'TB'][power]}"


def percent(value: float) -> str:
    """A share in percent, as `errors.percent`; a dash for NaN."""
    return NONE if math.isnan(value) else errors.percent(value, 1)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    show: text of a number; None for words, which are sorted as words. about: tooltip. link: the address of a word. low:
    whether the smallest number is the best, which the first click puts on top.
    """

    field: str
    heading: str
    show: Callable[[Any], str] | None = None
    about: str = ""
    link: Callable[[Any], str] | None = None
    low: bool = False


class Cell(NamedTuple):
    """A cell of a table.

    key: sort key, None for words. best: whether it is highlighted. note: mark of a note. about: tooltip. href: where it
    leads to in a site, relative to its root. mark: a sign after it.
    """

    text: str
    key: Any = None
    best: bool = False
    note: str = ""
    about: str = ""
    href: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table for the template. The first cell of each row names it.

    notes: (mark, text), shown below. anchors: of the rows, as many as rows, or none.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[tuple[str, str]] = ()
    anchors: Sequence[str] = ()


def table(caption: str, frame: pd.DataFrame, columns: Sequence[Column]) -> Table:
    """A table of these columns of a frame, rows in the frame's order."""

    def cell(column: Column, value: Any) -> Cell:
        if column.show is None:
            return Cell(str(value), str(value), href=column.link(value) if column.link else "")
        return Cell(column.show(value), _key(value))

    values = zip(*(frame[column.field] for column in columns), strict=True)
    return Table(caption, columns, [[cell(c, v) for c, v in zip(columns, row, strict=True)] for row in values])


def _key(value: Any) -> Any:
    """The sort key of a number, as JavaScript reads it."""
    value = float(value)
    return "" if math.isnan(value) else "Infinity" if math.isinf(value) else value


def by_setting(found: pd.DataFrame, columns: Sequence[Column], title: str = "") -> list[Table]:
    """A table for each setting, in the order of the rows. title: words of the caption before the setting."""
    parts = found.groupby("setting", sort=False, observed=True)
    return [table(f"{title}, {setting}" if title else str(setting), part, columns) for setting, part in parts]


def by_matrix(
    caption: str,
    cases: pd.DataFrame,
    value: str,
    labels: Sequence[str],
    *,
    show: Callable[[Any], str] = number,
    best: str = "",
    winner: str = "",
    tie: float = 1.0,
) -> Table:
    """One row per matrix and one column per format, as papers print their results.

    cases: columns matrix, label, `value`, status and reason, one row per pair, matrices in the order of the table.
    labels: the columns to show. A dash has a note with its reason; a cell without a case is empty. best: "max" or "min"
    highlights the best of a row and those within a factor `tie` of it; the column `winner` names them, the best first,
    including those not shown. If cases have the column same_as (`analysis.programs`), a format that is another's name
    has a note that says so, and is never the best.
    """
    labels = list(labels)
    cases = cases if "same_as" in cases else cases.assign(same_as="")
    held = cases[(cases["status"] == "ok") & cases[value].notna() & (cases["same_as"] == "")]
    top = held.groupby("matrix")[value].agg(best) if best else pd.Series(dtype=float)

    def leads(matrix: str, found: float) -> bool:
        return bool(best) and top[matrix] / tie <= found <= top[matrix] * tie

    first = [case for case in held.itertuples() if leads(case.matrix, getattr(case, value))]
    first.sort(key=lambda case: (-getattr(case, value) if best == "max" else getattr(case, value), case.label))
    winners: dict[str, str] = {}
    for case in first:
        winners[case.matrix] = f"{winners[case.matrix]}, {case.label}" if case.matrix in winners else case.label
    notes: dict[str, tuple[str, str]] = {}

    def cell(matrix: str, case: Any) -> Cell:
        if case is None:
            return Cell("", "")
        found = getattr(case, value)
        verified = case.status == "ok" and not math.isnan(found)
        if verified and not case.same_as:
            return Cell(show(found), _key(found), best=leads(matrix, found))
        reason = f"{case.status}: {first_line(case.reason)}" if case.status != "ok" else "not measured"
        reason = f"= {case.same_as} here" if verified else reason
        mark, _ = notes.setdefault(reason, (_letter(len(notes)), reason))
        text, key = (show(found), _key(found)) if verified else (NONE, "")
        return Cell(text, key, note=mark, about=reason)

    tried = {(case.matrix, case.label): case for case in cases[cases["label"].isin(labels)].itertuples()}
    rows = []
    for matrix in cases["matrix"].unique():
        fastest = winners.get(matrix, NONE)
        named = [Cell(matrix, matrix), *([Cell(fastest, fastest)] if best else [])]
        rows.append([*named, *(cell(matrix, tried.get((matrix, label))) for label in labels)])
    columns = [Column("matrix", "Matrix"), *([Column("label", winner)] if best else [])]
    return Table(caption, [*columns, *(Column(label, label, show) for label in labels)], rows, list(notes.values()))


def _letter(place: int) -> str:
    return string.ascii_lowercase[place] if place < 26 else f"{_letter(place // 26 - 1)}{_letter(place % 26)}"


# The table of formats, first what a reader looks for: the page shows six columns before all are asked for.
_FORMATS = [
    Column("label", "Format"),
    Column(
        "mean_slowdown",
        "Slowdown",
        lambda v: NONE if math.isnan(v) else f"{v:.2f}x",
        "geometric mean, over all matrices, of time over the best time, capped at "
        f"{SLOWDOWN_CAP:g}, which failed and skipped matrices count as; the table is ordered by it",
        low=True,
    ),
    Column("coverage", "", percent),  # by `format_columns`
    Column("bytes_per_nnz", "Bytes/nnz", number, "geometric mean of the footprint over the nonzeros", low=True),
    Column(
        "conversion",
        "Conversion",
        number,
        "in SpMVs: time of the conversion, on the device if that was measured, over that of an SpMV, geometric mean",
        low=True,
    ),
    Column("wins", "Wins", number, f"matrices on which no other program came within {100 * (TIE - 1):.1f} %"),
    Column(
        "ties",
        "Ties",
        number,
        f"matrices on which the fastest formats lie within {100 * (TIE - 1):.1f} %, this one among them",
    ),
    Column("cases", "Matrices", number, "matrices tried"),
    Column("gflops", "GFLOPS", number, "geometric mean over verified matrices: compare only at equal coverage"),
    Column(
        "worst_slowdown",
        "Worst slowdown",
        lambda v: NONE if math.isnan(v) else f"{number(v)}x",
        "largest slowdown on a verified matrix: time over the best time",
        low=True,
    ),
    Column("worst_matrix", "Worst on"),
    Column(
        "kernel",
        "Kernel",
        about="project: this project's kernel, not a paper's; = NAME: the same program as NAME on every matrix; "
        "values compressed: fewer values are stored than a matrix has, so the time depends on which repeat; "
        "other bits: products with the same x differed in some case; self-timed, started by the host, started on a "
        "stream: by no CUDA graph",
    ),
    Column("skipped", "Skipped", number),
    Column("wrong", "Wrong", number),
    Column("failed", "Failed", number, "out of memory, timeout, crash or error"),
    Column(
        "error_ratio",
        "Error, fraction of bound",
        number,
        "largest error over its rounding bound; at most 1 is verified",
        low=True,
    ),
]
_TIMED = {"mean_slowdown", "conversion", "wins", "ties", "gflops", "worst_slowdown", "worst_matrix"}


# The page's table of matrices, which its script fills; `fastest`, `rate` and `margin` as `ranking.best_formats`.
MATRICES = [
    Column("name", "Matrix"),
    Column("nnz", "Nonzeros", number),
    Column("fastest", "Fastest", None, f"and formats within {100 * (TIE - 1):.1f} % of it"),
    Column("rate", "Its rate", number),
    Column("margin", "Next", number, "time of the second format over that of the fastest"),
    Column("kind", "Kind"),
    Column("rows", "Rows", number),
    Column("mean", "Mean row", number, "entries"),
    Column("longest", "Longest row", number, "entries"),
    Column("cv", "Row CV", number, "coefficient of variation of the row lengths, 0 if all rows are equally long"),
    Column("sha", "SHA-256"),
]


def format_columns(rows: pd.DataFrame, *, speed: bool) -> list[Column]:
    """The columns of the table of formats of rows. speed: with those that depend on times."""
    columns = [column for column in _FORMATS if speed or column.field not in _TIMED]
    words = verified_or_imported(rows)
    share = Column("coverage", words.capitalize(), percent, f"share of the matrices on which the format was {words}")
    return [share if column.field == share.field else column for column in columns]


def formats(rows: pd.DataFrame, *, speed: bool) -> list[Table]:
    """One table per setting, one row per format. speed: with the columns that depend on times."""
    found = []
    for setting, part in rows.groupby("setting", observed=True):
        columns = format_columns(part, speed=speed)
        counts = coverage(part.assign(device=""))  # several GPUs of one kind share a run
        if not speed:  # the order must not depend on times either
            counts = counts.sort_values(["coverage", "label"], ascending=[False, True])
        if len(counts):
            unit = rate_unit(str(setting))
            named = [replace(column, heading=unit) if column.field == "gflops" else column for column in columns]
            found.append(table(str(setting), counts, named))
    return found


def shared_programs(found: pd.DataFrame) -> Table:
    """Labels that are another's name, with the share of matrices; found: as `programs.shared`."""
    columns = [
        Column("label", "Format"),
        Column("same_as", "Same as", about="the label that represents the program in wins and rankings"),
        Column("share", "On", percent, "share of the verified cases of the format"),
        Column("cases", "Cases", number, "matrices in each type and mode on which both are one program"),
        Column("of", "Verified", number, "verified cases of the format whose program is known"),
        Column("matrices", "Matrices", number, "different matrices of these cases"),
    ]
    return table("Formats that are one program", found, columns)


def products(found: pd.DataFrame) -> Table:
    """Time to N products; found: as `analysis.products.products`."""
    columns = [
        Column("setting", "Setting"),
        Column("chooser", "Format"),
        Column("spmvs", "SpMVs", number, "N"),
        Column("label", "Label", about="if it is the same on every matrix"),
        Column("slowdown", "Slowdown", number, "geometric mean of the time over the oracle's"),
        Column("within", "Within", percent, "share of the matrices within 1.05 times the time of cuSPARSE's CSR"),
        Column("always", "Within, every N", percent, "share of the matrices for which this is so at every N"),
        Column("speedup", "Speed-up", number, "geometric mean of the time of cuSPARSE's CSR over the time"),
        Column("matrices", "Matrices", number),
    ]
    made = table("Time to N products", found, columns)
    if CUPY in set(found["chooser"]):
        return replace(made, notes=[("CuPy", "calls from the host; SpMVs of formats are timed in a CUDA graph")])
    return replace(made, notes=[("CuPy", f"its default is not in this table: the run has no rows of {HOST_CALLED}")])


def rivals(setting: str, found: pd.DataFrame) -> Table:
    """Formats beside the authors' programs: GFLOPS of both and their ratio, as "659 / 629 = 1.05".

    found: as `analysis.rivals.beside`, of one setting; one row for each program, one column for each matrix. Of the
    fastest of all, cells name the format.
    """
    matrices = sorted(found["matrix"].unique())

    def cell(case: Any) -> Cell:
        text = f"{case.ours:.0f} / {case.theirs:.0f} = {case.ratio:.2f}"
        return Cell(f"{text} {case.label}" if case.program == BEST else text, _key(case.ratio), best=case.ratio >= 1)

    rows = []
    for title, part in found.groupby("title", sort=False):
        held = {case.matrix: cell(case) for case in part.itertuples()}
        label = part["label"].iloc[0] if part["label"].nunique() == 1 else NONE
        rows.append([Cell(title, title), Cell(label, label), *(held.get(matrix, Cell("", "")) for matrix in matrices)])
    columns = [Column("title", "Program"), Column("label", "Format"), *(Column(m, m, number) for m in matrices)]
    return Table(f"GFLOPS of formats / of their authors' programs, {setting}", columns, rows)


def programs_on_a_matrix(found: pd.DataFrame) -> Table:
    """Distinct programs per matrix; found: as `programs.counts`."""
    columns = [
        Column("setting", "Setting"),
        Column("matrices", "Matrices", number),
        Column("names", "Formats", number, "median over the matrices of the number of verified formats"),
        Column("fewest", "Fewest programs", number, "on a matrix"),
        Column("median", "Median", number),
        Column("most", "Most", number),
    ]
    return table("Programs on a matrix", found, columns)


def reasons(rows: pd.DataFrame) -> Table:
    """Failed and skipped cases: one row for each format, status and kind of reason, most frequent first.

    Numbers that differ between reasons of one kind are left out.
    """
    failed = rows[(rows["status"] != "ok") & (rows["matrix_sha256"] != "")]
    failed = failed.assign(reason=failed["reason"].map(first_line))
    groups = failed.assign(pattern=failed["reason"].map(pattern)).groupby(
        ["label", "status", "pattern"], as_index=False
    )
    found = groups.agg(
        cases=("reason", "size"), matrices=("matrix", "nunique"), on=("matrix", "first"), reason=("reason", in_common)
    )
    urgency = {
        status: place
        for place, status in enumerate(["wrong", "implausible", "crashed", "error", "oom", "timeout", "skipped"])
    }
    found = found.assign(urgency=found["status"].map(urgency)).sort_values(
        ["urgency", "cases", "label"], ascending=[True, False, True], kind="stable"
    )
    columns = [
        Column("label", "Format"),
        Column("status", "Status"),
        Column("cases", "Cases", number),
        Column("matrices", "Matrices", number),
        Column("reason", "Reason"),
        Column("on", "First"),
    ]
    return table("Failed and skipped cases, with reasons", found, columns)


def unread(rows: pd.DataFrame) -> Table | None:
    """Matrices that could not be read; they count for no format."""
    found = rows[rows["matrix_sha256"] == ""].drop_duplicates("matrix")
    if found.empty:
        return None
    columns = [Column("matrix", "Matrix"), Column("status", "Status"), Column("reason", "Reason")]
    return table("Matrices that could not be read", found, columns)


def statuses(rows: pd.DataFrame) -> list[tuple[str, int, str]]:
    """(status, cases, meaning) of every status that occurs."""
    counts = rows.groupby("status")["cases"].sum()
    return [(status, int(counts[status]), meaning) for status, meaning in STATUSES.items() if status in counts]


def sources(rows: pd.DataFrame) -> Table:
    """Source hash, parameters and clocks of each format."""
    found = rows.groupby(["label", "source_hash", "params"], as_index=False).agg(
        cases=("label", "size"),
        low=("sm_clock_mhz", "min"),
        high=("sm_clock_mhz", "max"),
        discarded=("n_throttled", "sum"),
        first=("started_at", "min"),
        last=("started_at", "max"),
    )
    columns = [
        Column("label", "Format"),
        Column("source_hash", "Sources"),
        Column("params", "Parameters"),
        Column("cases", "Cases", number),
        Column("low", "Lowest clock, MHz", number),
        Column("high", "Highest clock, MHz", number),
        Column("discarded", "Samples discarded", number, "taken while the GPU throttled"),
        Column("first", "First"),
        Column("last", "Last"),
    ]
    day = {name: found[name].str.slice(0, 19).str.replace("T", " ") for name in ("first", "last")}
    return table("Sources, clocks and time", found.assign(**day), columns)


def facts(record: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Nested metadata as (name, text), without empty values, tables and the folders of paths in commands."""
    found: list[tuple[str, str]] = []
    for name, value in record.items():
        key = f"{above}{name}".replace("_", " ")
        if name.endswith("_bytes") and value:
            found.append((key.removesuffix(" bytes"), size(value)))
        elif name == "command" and value:
            words = [word.rpartition("/")[2] if word.startswith("/") else word for word in value[1:]]
            found.append((key, shlex.join(["spmvbench", *words])))
        elif isinstance(value, Mapping):
            found += facts(value, f"{key}: ")
        elif isinstance(value, float):
            found.append((key, f"{value:.6g}"))
        elif isinstance(value, list) and any(isinstance(part, list | Mapping) for part in value):
            continue  # curves and workers, which run.json has
        elif value not in (None, "", []):
            found.append((key, " ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return found


def csv(table: pd.DataFrame, digits: int | None = None) -> str:
    """A table as CSV, with texts that spreadsheets would compute escaped, see `untrusted.cell`.

    digits: significant ones of floats, None for all. Columns are made into text one by one: pandas takes 1 us a cell,
    and the figures of half a million rows have 15 million cells.
    """
    head = ",".join(_cell(name) for name in table)
    return "\n".join([head, *map(",".join, zip(*(_cells(table[name], digits) for name in table), strict=True)), ""])


def _cells(values: pd.Series, digits: int | None) -> Sequence[str]:
    import pyarrow as pa

    if pd.api.types.is_float_dtype(values):
        numbers = values.to_numpy(float)
        numbers = numbers if digits is None else significant(numbers, digits)
        found: list[str] = pa.array(numbers, from_pandas=True).cast(pa.string()).fill_null("").to_pylist()
        return found
    numbers, every = pd.factorize(values)
    texts = [*map(_cell, every), ""]  # the last one is of what is missing, number -1
    return [texts[number] for number in numbers]


def _cell(value: Any) -> str:
    text = str(untrusted.cell(value))
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text


def significant(values: np.ndarray, digits: int) -> np.ndarray:
    """Floats rounded to so many significant decimal digits."""
    with np.errstate(all="ignore"):
        power = digits - 1 - np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.abs(power)
        found = np.where(power < 0, np.rint(values / scale) * scale, np.rint(values * scale) / scale)
    return np.where(np.isfinite(found), found, values)  # of the smallest numbers the scale is too large


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element, whatever its texts contain."""
    text: str = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda m: f"\\u{ord(m[0]):04x}", text)
