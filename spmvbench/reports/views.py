"""Data of the page's script: the run's cases in columns, for the views that a reader filters.

templates/statistics.js computes from them what `analysis` computes from rows; tests/reports/test_statistics.py compares
both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import families
from spmvbench.analysis.programs import plainest_first
from spmvbench.analysis.ranking import SLOWDOWN_CAP, TIE
from spmvbench.analysis.roofline import roofs
from spmvbench.analysis.trend import BINS, LEAST_BINS, LEAST_POINTS
from spmvbench.reports import links, style
from spmvbench.rows.schema import STATUSES, rate_unit

INTERACTIVE = ("ratios", "profile", "gflops")  # figures that the page's script draws; their files are drawn as all are

# Fields of a case and significant digits, by column of its row.
_FIELDS = {
    "gflops": ("rate", 6),
    "t_median": ("time", 9),
    "bytes_per_nnz": ("bytes", 6),
    "error_ratio": ("error", 4),
    "bound_gflops": ("bound", 5),
    "ready": ("ready", 6),
}
_OF_MATRIX = {"rows": "rows", "nnz": "nnz", "mean": "row_len_mean", "longest": "row_len_max", "cv": "row_len_cv"}


def page_data(
    rows: pd.DataFrame, times: pd.DataFrame, environment: Mapping[str, Any], options: Any, site: str | None = None
) -> dict[str, Any]:
    """All data of the page's script, as compact JSON columns; what is not known or not shown is null.

    rows: all rows of the page; times: those whose times are shown. options: a `figures.Options`.
    site: relative path to the site that has the pages of formats and matrices, None for a page without a site.
    """
    readable = rows[rows["matrix_sha256"] != ""]
    about = readable.drop_duplicates("matrix").sort_values("matrix")
    labels = [label for label in options.marks if label in set(rows["label"])]
    labels += sorted(set(rows["label"]) - set(labels))
    columns = ["family", "project_kernel", "experiment", "alias_of"]
    of_label = rows.groupby("label")[columns].max().reindex(labels)
    place = {label: at for at, label in enumerate(labels)}
    differing = set(rows.loc[rows["same_bits"] == "no", "label"])
    same = set(rows.loc[rows["same_bits"] == "yes", "label"]) - differing
    plain = {label: at for at, label in enumerate(dict.fromkeys(plainest_first(rows)["label"]))}
    marks = options.marks_of(labels)
    settings = [str(setting) for setting in readable["setting"].cat.categories]
    return {
        "tie": TIE,
        "cap": SLOWDOWN_CAP,
        "trend": {"bins": BINS, "points": LEAST_POINTS, "least": LEAST_BINS},
        "statuses": list(STATUSES),
        "highlight": [place[label] for label in options.marks if label in place],
        "settings": settings,
        "units": [rate_unit(setting) for setting in settings],
        "bounds": [{name: _short(rate) for name, rate in roofs(s, environment).items()} for s in settings],
        "markers": {marker: style.corners(marker) for marker in sorted({mark.marker for mark in marks.values()})},
        "formats": {
            "name": labels,
            "family": list(of_label["family"]),
            "project": [int(bool(project)) for project in of_label["project_kernel"]],
            "experiment": [int(bool(experiment)) for experiment in of_label["experiment"]],
            "alias": [place.get(alias) for alias in of_label["alias_of"]],
            "bits": [int(label in same) for label in labels],
            "plain": [plain[label] for label in labels],
            "color": [marks[label].color for label in labels],
            "marker": [marks[label].marker for label in labels],
            "filled": [int(marks[label].filled) for label in labels],
        },
        "matrices": {
            "name": list(about["matrix"]),
            "kind": list(about["kind"]),
            "family": list(families(about)),
            **{key: [_short(value) for value in about[column].tolist()] for key, column in _OF_MATRIX.items()},
            "sha": list(about["matrix_sha256"].str.slice(0, 12)),
        },
        "cases": _cases(readable, times, place, list(about["matrix"]), settings),
    } | ({} if site is None else {"pages": _pages(site, labels, list(about["matrix"]))})


def _pages(site: str, labels: Sequence[str], matrices: Sequence[str]) -> dict[str, list[str]]:
    """The pages of the formats and matrices. Matrices of one name have a page that lists them."""
    return {
        "format": [site + links.format(label) for label in labels],
        "matrix": [site + links.matrix(name.partition("@")[0]) for name in matrices],
    }


def _cases(
    rows: pd.DataFrame,
    times: pd.DataFrame,
    place: Mapping[str, int],
    matrices: Sequence[str],
    settings: Sequence[str],
) -> dict[str, list[Any]]:
    """The cases, a column each. program: a number for each program of a matrix, null if it is not known."""
    timed = {column: rows[column].where(rows.index.isin(times.index)) for column in ("gflops", "t_median")}
    table = rows.assign(ready=ready(rows), **timed)
    ok = table["status"] == "ok"
    at = {matrix: place for place, matrix in enumerate(matrices)}
    programs = {program: number for number, program in enumerate(dict.fromkeys(table["program"])) if program}
    known = list(STATUSES)
    found: dict[str, list[Any]] = {
        "setting": [settings.index(str(setting)) for setting in table["setting"]],
        "format": [place[label] for label in table["label"]],
        "matrix": [at[matrix] for matrix in table["matrix"]],
        "status": [known.index(status) for status in table["status"]],
    }
    if programs:
        found["program"] = [programs.get(program) for program in table["program"]]
    for column, (name, digits) in _FIELDS.items():
        values = table[column] if column == "error_ratio" else table[column].where(ok)
        found[name] = [_short(value, digits) for value in values.tolist()]
    return found


def _short(value: float, digits: int = 5) -> float | int | None:
    """A number rounded to significant digits; None for NaN and infinity."""
    if not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(f"{value:.{digits}g}")
