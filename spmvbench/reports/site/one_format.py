"""The page of a format: what it is, its arrays, its rows in all runs, where it is best and what is faster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from spmvbench import formats
from spmvbench.analysis.cases import emulated
from spmvbench.analysis.coverage import coverage, geometric_mean
from spmvbench.analysis.ranking import TIE, ranked
from spmvbench.analysis.speedup import logarithms, opponents
from spmvbench.formats.descriptions import describe, facts
from spmvbench.reports import links, tables
from spmvbench.reports.site import pictures
from spmvbench.reports.site.linked import heading, of_matrix, of_number
from spmvbench.reports.site.runs import Run
from spmvbench.reports.tables import Cell, Column, Table

RIVALS = 15  # formats listed that are faster
_CASE = ["device_name", "setting", "matrix"]
LEAST_BLOCKS = 5  # cases in common below which a comparison says little


@dataclass(frozen=True)
class Known:
    """What the pages of all formats are made from: computed once.

    rows: of all runs by key, with the columns run, revision and changed. history: of each run and setting, as
    `coverage`. slowdowns: by label; see `_newest`. logs: as `speedup.logarithms`, by run, device, setting and matrix.
    """

    rows: Mapping[str, pd.DataFrame]
    history: pd.DataFrame
    slowdowns: Mapping[str, pd.DataFrame]
    logs: pd.DataFrame


_NONE = pd.DataFrame(
    {name: pd.Series(dtype=object) for name in ("label", "changed", "status", "device", "device_name")}
).assign(t_median=math.nan, gflops=math.nan, bound_gflops=math.nan, run="", setting="")


def known(runs: Sequence[Run], rows: pd.DataFrame) -> Known:
    """The tables that pages of formats share. rows: those of all runs, newest run first."""
    histories, slowdowns = [], []
    for run in runs:
        timed = run.rows[~emulated(run.rows)]
        timed = timed.assign(setting=timed["setting"].cat.remove_unused_categories())
        for (device,), part in timed.groupby(["device_name"]):
            found = coverage(part.assign(device=""))
            found = found.assign(
                run=run.name, device=device, day="".join(run.days[-1:]), setting=found["setting"].astype(str)
            )
            histories.append(found)
            of_run = ranked(part)
            slowdowns.append(of_run.assign(setting=of_run["setting"].astype(str)))
    today = rows[~emulated(rows) & (rows["changed"] == "")]
    return Known(
        dict(iter(rows.groupby("format"))),
        pd.concat(histories, ignore_index=True) if histories else pd.DataFrame(columns=["label"]),
        _newest(pd.concat(slowdowns, ignore_index=True)) if slowdowns else {},
        logarithms(today, ["run", "device_name", "setting", "matrix"]) if len(today) else pd.DataFrame(),
    )


def _newest(ranked: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By label, the slowdown of today's program on each matrix, device and setting, in the newest run that has it."""
    found = ranked.loc[ranked["changed"] == "", [*_CASE, "label", "kind", "ratio", "started_at"]]
    found = found.sort_values("started_at").drop_duplicates([*_CASE, "label"], keep="last")
    return dict(iter(found.assign(first=found["ratio"] <= TIE).groupby("label")))


def page(key: str, of: Known, runs: Sequence[Run]) -> dict[str, Any]:
    """What the page of a key shows, for its template.

    about: as `descriptions.describe`, empty for a format that is not installed. drawn: its arrays on the example, or
    not_drawn, why not. label: the label that kinds and rivals are about.
    """
    rows = of.rows.get(key, _NONE)
    found: dict[str, Any] = {"about": {}, "facts": {}, "drawn": [], "not_drawn": ""}
    if key in formats.keys():  # noqa: SIM118 - a function of the module
        cls = formats.get(key)
        about = describe(cls)
        drawn, not_drawn = pictures.arrays(cls, about["arrays"])
        found = {"about": about, "facts": facts(cls), "drawn": drawn, "not_drawn": not_drawn}
    labels = _labels(key, rows)
    shown = next((label for label in labels if label in of.logs), "")
    older = rows[rows["changed"] != ""]
    said = sorted({f"{row.label} in {row.run}: {row.changed}" for row in older.itertuples()})
    return found | {
        "key": key,
        "history": _history(labels, of.history, rows, {run.name: run.link for run in runs}),
        "label": shown,
        "kinds": _kinds(of.slowdowns.get(shown)),
        "rivals": _rivals(shown, of.logs),
        "times": _times(rows, labels, [run.name for run in runs]),
        "notices": [f"Rows of an older version, marked *: {'; '.join(said)}."] if said else [],
    }


def _labels(key: str, rows: pd.DataFrame) -> list[str]:
    """The labels of a key, that with default parameters first, then those with most rows."""
    counts = rows["label"].value_counts()
    return sorted(counts.index, key=lambda label: (label != key, -counts[label], label))


def _history(
    labels: Sequence[str], history: pd.DataFrame, rows: pd.DataFrame, pages: Mapping[str, str]
) -> Table | None:
    """One row for each label, run and setting: revision, coverage, slowdown, rate, share of the bound."""
    found = history[history["label"].isin(labels)]
    if found.empty:
        return None
    ok = rows[(rows["status"] == "ok") & (rows["bound_gflops"] > 0)]
    shares = (ok["gflops"] / ok["bound_gflops"]).groupby([ok["run"], ok["setting"], ok["label"]]).median()
    facts = rows.groupby(["run", "setting", "label"]).agg(revision=("revision", "max"), changed=("changed", "max"))
    case = ["run", "setting", "label"]
    found = found.join(facts, on=case).join(shares.rename("share"), on=case).fillna({"revision": "", "changed": ""})
    found = found.assign(place=found["label"].map(list(labels).index)).sort_values(
        ["day", "run", "setting", "place"], ascending=[False, True, True, True]
    )
    columns = [
        Column("run", "Run", link=pages.__getitem__),
        Column("revision", "Revision"),
        Column("device", "Device"),
        Column("setting", "Setting"),
        Column("label", "Label"),
        Column("cases", "Matrices", tables.number),
        Column("coverage", "Verified", tables.percent),
        Column(
            "mean_slowdown",
            "Mean slowdown",
            tables.number,
            "over all matrices of the run and among its formats: runs are not comparable",
        ),
        Column("wins", "Wins", tables.number),
        Column("gflops", "GFLOPS", tables.number, "geometric mean over verified matrices"),
        Column("share", "Of bound", tables.percent, "median over matrices"),
        Column("bytes_per_nnz", "Bytes/nnz", tables.number),
    ]
    made = tables.table("Rows of all runs, the newest first", found, columns)
    at = [column.field for column in columns].index("label")
    cells = [
        [*row[:at], row[at]._replace(mark="*" if older else "", about=older), *row[at + 1 :]]
        for row, older in zip(made.rows, found["changed"], strict=True)
    ]
    first = ~found["label"].duplicated()
    anchors = [links.anchor(label) if new else "" for label, new in zip(found["label"], first, strict=True)]
    return replace(made, rows=cells, anchors=anchors)


def _kinds(found: pd.DataFrame | None) -> Table | None:
    if found is None:
        return None
    table = found.groupby("kind").agg(
        matrices=("matrix", "nunique"), cases=("ratio", "size"), first=("first", "sum"), median=("ratio", "median"),
        mean=("ratio", geometric_mean),
    )  # fmt: skip
    columns = [
        Column("kind", "Kind"),
        Column("matrices", "Matrices", tables.number),
        Column("cases", "Cases", tables.number, "matrices in each device and setting"),
        Column("first", "Best on", tables.number, "cases within 0.5 % of the fastest format"),
        Column("median", "Median slowdown", tables.number),
        Column("mean", "Mean slowdown", tables.number, "geometric mean over verified cases"),
    ]
    table = table.sort_values(["median", "mean"]).reset_index().replace({"kind": {"": "unknown"}})
    return tables.table("Slowdown by kind of matrix, the lowest first", table, columns)


def _rivals(label: str, logs: pd.DataFrame) -> Table | None:
    """The formats that are faster on the largest share of the cases that both have."""
    if not label:
        return None
    found = opponents(logs, label)
    found = found[(found["blocks"] >= LEAST_BLOCKS) & (found["slower"] > 0)]
    if found.empty:
        return None
    about = f"geometric mean: time of the format over that of {label}"
    columns = [
        Column("label", "Format", link=links.format),
        Column("blocks", "Cases in common", tables.number, "of one run, device, setting and matrix"),
        Column("slower", "It is faster on", tables.number),
        Column("faster", f"{label} is faster on", tables.number),
        Column("speedup", f"Speed-up of {label}", tables.number, about),
    ]
    return tables.table(f"Formats that are faster than {label} on most cases", found.head(RIVALS), columns)


def _times(rows: pd.DataFrame, labels: Sequence[str], order: Sequence[str]) -> list[Table]:
    """For each device and setting the time on every matrix in every run."""
    timed = rows[~emulated(rows) & (rows["status"] == "ok") & (rows["t_median"] > 0)]
    found = []
    places = {label: place for place, label in enumerate(labels)}
    for (device, setting), part in timed.groupby(["device_name", "setting"]):
        times = {(row.matrix, row.label, row.run): row for row in part.itertuples()}
        runs = [run for run in order if any(run == of_run for _, _, of_run in times)]
        headings = [heading("Matrix", is_number=False), heading("Label", is_number=False), heading("Nonzeros")]
        cases = {(row.nnz, row.matrix, places[row.label]) for row in times.values()}
        cells = []
        for nnz, matrix, place in sorted(cases):
            measured = [_time(times.get((matrix, labels[place], run))) for run in runs]
            cells.append([of_matrix(matrix), Cell(labels[place]), of_number(nnz), *measured])
        found.append(Table(f"{device}, {setting}", [*headings, *map(heading, runs)], cells))
    return found


def _time(row: Any) -> Cell:
    if row is None:
        return Cell("", "")
    rate = f"{tables.number(row.gflops)} GFLOPS"
    mark = {"mark": "*", "about": f"{rate}; {row.changed}"} if row.changed else {"about": rate}
    return of_number(row.t_median, tables.seconds(row.t_median), **mark)
