"""The page of a matrix: its picture and features, and the times of all formats on all devices and in all runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from spmvbench.analysis.cases import counted, emulated
from spmvbench.analysis.ranking import TIE
from spmvbench.analysis.reasons import first_line
from spmvbench.reports import advised, links, tables
from spmvbench.reports.site import pictures
from spmvbench.reports.site.linked import heading, of_format, of_number
from spmvbench.reports.site.runs import Run
from spmvbench.reports.tables import Cell, Column, Table
from spmvbench.rows.schema import COLUMNS, rate_unit

_SHOWN = (
    "kind", "matrix", "matrix_sha256", "started_at", "device", "device_name", "setting", "run", "label", "format",
    "changed", "revision", "status", "reason", "experiment", "alias_of", "t_median", "gflops", "bound_gflops",
    "bound_by", "bytes_per_nnz", "t_convert_device", "cases",
)  # fmt: skip
_FEATURES = list(COLUMNS)[list(COLUMNS).index("rows") : list(COLUMNS).index("ell_fill") + 1]


READ = (*_SHOWN, *_FEATURES)  # columns that the pages show


def page(name: str, rows: pd.DataFrame, descriptions: pd.DataFrame, runs: Sequence[Run]) -> dict[str, Any]:
    """What the page of one matrix shows, for its template.

    rows: those of the matrix in all runs, with the column run. descriptions: of all runs, as `store.matrices`. runs:
    the newest first. pattern and enlarged are data URIs, or empty; features: (column, value, meaning); times: a table
    for each device and setting; advice: of the device's model, if its evaluation has the matrix.
    """
    order = [run.name for run in runs if run.name in set(rows["run"])]
    known = rows[rows["matrix_sha256"] != ""]
    newest = (known if len(known) else rows).sort_values("started_at").iloc[-1]
    timed = known[~emulated(known)]
    groups = [(part, _ranked(part)) for _, part in timed.groupby(["device_name", "setting"])]
    groups.sort(key=lambda group: -group[0]["label"].nunique())
    held = descriptions[descriptions["matrix_sha256"].isin(set(known["matrix_sha256"]))]
    drawn: Any = held.iloc[-1] if len(held) else None
    shown = drawn is not None and _fits(drawn["density"], drawn["down"], drawn["across"])
    zoomed = drawn is not None and _fits(drawn["zoom_density"], drawn["zoom_down"], drawn["zoom_across"])
    older = known[known["changed"] != ""].groupby("run")["label"].unique()
    names = "; ".join(f"in {run} {', '.join(sorted(older[run]))}" for run in order if run in older)
    return {
        "name": name,
        "kind": str(newest["kind"]),
        "rows": int(newest["rows"]),
        "cols": int(newest["cols"]),
        "nnz": int(newest["nnz"]),
        "features": _features(newest) if len(known) else [],
        "pattern": pictures.pattern(drawn["density"], drawn["down"], drawn["across"]) if shown else "",
        "enlarged": pictures.pattern(drawn["zoom_density"], drawn["zoom_down"], drawn["zoom_across"]) if zoomed else "",
        "part": _part(drawn) if zoomed else "",
        "lengths": None if drawn is None else pictures.row_lengths(drawn["row_lengths"], drawn["row_counts"]),
        "bests": [_best(ranked) for _, ranked in groups if len(ranked)],
        "times": [_times(part, ranked, order) for part, ranked in groups],
        "advice": _advice(name, known),
        "failed": _failed(rows),
        "runs": order,
        "notices": [f"Labels or programs of an older version, marked *: {names}."] if names else [],
    }


def _fits(shares: Any, down: int, across: int) -> bool:
    """Whether these are the shares of such a grid, which a stranger's run need not have."""
    return down > 0 and across > 0 and len(shares) == down * across


def _part(drawn: Any) -> str:
    rows = f"{drawn['zoom_row']:,} to {drawn['zoom_row'] + drawn['zoom_rows'] - 1:,}"
    return f"rows {rows}, columns {drawn['zoom_col']:,} to {drawn['zoom_col'] + drawn['zoom_cols'] - 1:,}"


def _features(row: pd.Series) -> list[tuple[str, str, str]]:
    known = [(column, row[column], *COLUMNS[column]) for column in _FEATURES if not math.isnan(row[column])]
    return [
        (column, tables.number(value, 4) if kind == "float" else tables.count(value), meaning)
        for column, value, kind, meaning in known
    ]


def _heading(part: pd.DataFrame) -> str:
    return f"{part['device_name'].iloc[0]}, {part['setting'].iloc[0]}"


def _main(part: pd.DataFrame, order: Sequence[str]) -> str:
    """The run with most verified formats of one matrix, device and setting; of several the newest."""
    counts = part[part["status"] == "ok"].groupby("run")["label"].nunique()
    return max(order, key=lambda run: (counts.get(run, 0), -order.index(run)))


def _ranked(part: pd.DataFrame) -> pd.DataFrame:
    """The verified rows that count, with a positive rate, the fastest first, and their slowdown within the run."""
    found = counted(part[part["status"] == "ok"])
    found = found[found["gflops"] > 0]
    found = found.assign(ratio=found["t_median"] / found.groupby("run")["t_median"].transform("min"))
    return found.sort_values(["t_median", "label"])


def _best(ranked: pd.DataFrame) -> str:
    best = ranked.iloc[0]
    unit = rate_unit(str(best["setting"]))
    bound = ""
    if best["bound_gflops"] > 0:
        share = tables.percent(best["gflops"] / best["bound_gflops"])
        bound = f", {share} of its bound of {tables.number(best['bound_gflops'])} ({best['bound_by']})"
    return f"{_heading(ranked)}: {best['label']} with {tables.number(best['gflops'])} {unit}{bound}, in {best['run']}."


def _times(part: pd.DataFrame, ranked: pd.DataFrame, order: Sequence[str]) -> Table:
    """One row for each label: rate, slowdown, bound, bytes and conversion in one run, and the time in every run."""
    runs = [run for run in order if run in set(part["run"])]
    main = _main(part, runs)
    runs = [main, *(run for run in runs if run != main)]
    ratios = {(row.run, row.label): row.ratio for row in ranked.itertuples()}
    cases = {(row.run, row.label): row for row in part.itertuples()}
    fastest = ranked.drop_duplicates("label")["label"].tolist()
    in_main = ranked.loc[ranked["run"] == main, "label"].tolist()
    labels = list(dict.fromkeys([*in_main, *fastest, *sorted(part["label"].unique())]))
    unit = rate_unit(str(part["setting"].iloc[0]))
    headings = [
        heading("Format", is_number=False),
        heading(unit, about=f"in {main}"),
        heading("Slowdown", about=f"time over the best time on this matrix in {main}"),
        heading("Of bound", about=COLUMNS["bound_gflops"][1]),
        heading("Bound by", is_number=False, about=COLUMNS["bound_by"][1]),
        heading("Bytes/nnz", about=COLUMNS["bytes_per_nnz"][1]),
        heading("Conversion", about=COLUMNS["t_convert_device"][1]),
        *(heading(f"Time, {run}") for run in runs),
    ]
    rows = [
        [
            of_format(label),
            *_facts(cases.get((main, label)), ratios.get((main, label), math.nan)),
            *(_time(cases.get((run, label)), ratios.get((run, label), math.nan)) for run in runs),
        ]
        for label in labels
    ]
    return Table(_heading(part), headings, rows)


def _facts(case: Any, ratio: float) -> list[Cell]:
    """The cells between a label and its times."""
    if case is None or case.status != "ok":
        return [Cell("", "")] * 6
    share = case.gflops / case.bound_gflops if case.bound_gflops > 0 else math.nan
    convert = case.t_convert_device
    return [
        of_number(case.gflops),
        of_number(ratio),
        of_number(share, tables.percent(share)),
        Cell(case.bound_by),
        of_number(case.bytes_per_nnz),
        of_number(convert, tables.seconds(convert) if convert > 0 else None),
    ]


def _time(case: Any, ratio: float) -> Cell:
    if case is None:
        return Cell("", "")
    if case.status != "ok":
        return Cell(case.status, "", about=first_line(case.reason))
    if not case.t_median > 0:
        return Cell(tables.NONE, "")
    mark = "*" if case.changed else ""
    return of_number(case.t_median, tables.seconds(case.t_median), best=ratio <= TIE, mark=mark, about=case.changed)


def _advice(name: str, rows: pd.DataFrame) -> Table | None:
    """What the advice chooses for this matrix by number of SpMVs, from a model that was not trained on its family."""
    found = advised.choices(rows[~emulated(rows)]) if len(rows) else None
    found = None if found is None else found[found["matrix"] == name].sort_values(["dtype", "spmvs"])
    if found is None or found.empty:
        return None
    columns = [
        Column("dtype", "Type"),
        Column("spmvs", "SpMVs", tables.number),
        Column("label", "Format", link=links.format),
    ]
    return tables.table("Advised, conversion included", found, columns)


def _failed(rows: pd.DataFrame) -> Table | None:
    found = rows[rows["status"] != "ok"].sort_values(["label", "run"])
    if found.empty:
        return None
    names = {"run": "Run", "setting": "Setting", "status": "Status", "reason": "Reason"}
    columns = [Column("label", "Format", link=links.format), *(Column(*name) for name in names.items())]
    return tables.table("Failed and skipped", found.assign(reason=found["reason"].map(first_line)), columns)
