"""Data of the page's script: the run's cases in columns, for the views that a reader filters.

templates/statistics.js computes from them what `analysis` computes from rows; tests/reports/test_statistics.py compares
both.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
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

# Fields of a case by column of its row: times and rates in float32, the others within 2e-4.
_TIMES = {"gflops": "rate", "t_median": "time"}
_FIELDS = {"bytes_per_nnz": "bytes", "error_ratio": "error", "bound_gflops": "bound", "ready": "ready"}
_OF_MATRIX = {"rows": "rows", "nnz": "nnz", "mean": "row_len_mean", "longest": "row_len_max", "cv": "row_len_cv"}


def page_data(
    rows: pd.DataFrame, times: pd.DataFrame, environment: Mapping[str, Any], options: Any, site: str | None = None
) -> dict[str, Any]:
    """All data of the page's script, in columns; what is not known or not shown is null.

    rows: all rows of the page; times: those whose times are shown. options: a `figures.Options`.
    site: relative path to the site that has the pages of formats and matrices, None for a page without a site.
    """
    readable = rows[rows["matrix_sha256"] != ""]
    about = readable.drop_duplicates("matrix").sort_values("matrix")
    held = set(rows["label"].unique())
    labels = [label for label in options.marks if label in held]
    labels += sorted(held - set(labels))
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
        "cases": _cases(readable, times, place, list(about["matrix"])),
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
) -> dict[str, list[Any]]:
    """The cases, a packed column each: as JSON, half a million would be 57 MB, which a browser takes long to read.

    program: numbers the programs of a matrix from 1, 0 if it is not known.
    """
    timed = {column: rows[column].where(rows.index.isin(times.index)) for column in _TIMES}
    table = rows.assign(ready=ready(rows), **timed)
    ok = table["status"] == "ok"
    at = {matrix: place for place, matrix in enumerate(matrices)}
    ordered = table.sort_values("matrix", kind="stable")
    programs = pd.Series(pd.factorize(ordered["program"].replace("", None))[0], ordered.index).reindex(table.index)
    first = programs.where(programs >= 0).groupby(table["matrix"]).transform("min")
    known = list(STATUSES)
    found = {
        "setting": _numbers(table["setting"].cat.codes),
        "format": _numbers(table["label"].map(place)),
        "matrix": _numbers(table["matrix"].map(at)),
        "status": _numbers(table["status"].map(known.index)),
        "program": _numbers((programs - first + 1).where(programs >= 0).fillna(0)),
    }
    for column, name in _TIMES.items():
        found[name] = ["Float32Array", _base64(table[column].where(ok).to_numpy("<f4"))]
    for column, name in _FIELDS.items():
        found[name] = _logarithms(
            (table[column] if column == "error_ratio" else table[column].where(ok)).to_numpy(float)
        )
    return found


def _numbers(values: pd.Series) -> list[Any]:
    """Whole numbers from 0 in the smallest type that holds them: its name in JavaScript, and base64 of its bytes."""
    bits = next(bits for bits in (8, 16, 32) if not values.size or values.max() < 2**bits)
    return [f"Uint{bits}Array", _base64(values.to_numpy(f"<u{bits // 8}"))]


def _logarithms(values: np.ndarray) -> list[Any]:
    """Numbers as 16 bits: 0 is none or infinite, 1 is zero, n is exp(low + (n - 2) step)."""
    known = np.isfinite(values) & (values > 0)
    logs = np.log(values, where=known, out=np.zeros(len(values)))
    low, high = (float(logs[known].min()), float(logs[known].max())) if known.any() else (0.0, 0.0)
    step = (high - low) / (2**16 - 3)
    found = np.where(known, 2 + np.rint((logs - low) / (step or 1.0)), values == 0)
    return ["Uint16Array", _base64(found.astype("<u2")), low, step]


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _short(value: float, digits: int = 5) -> float | int | None:
    """A number rounded to significant digits; None for NaN and infinity."""
    if not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(f"{value:.{digits}g}")
