"""Data of the page's script: the run's cases in columns, and the chart of each figure.

If a figure is interactive on the page, its module has a function `chart(table, environment, options)`. It returns one
of the kinds of chart in this module: `points`, `curves`, `spans`, `shares` or `cells`. templates/charts.js draws them
from the page's cases or from a table of the chart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from spmvbench.analysis.breakeven import setups
from spmvbench.analysis.cases import counted, of_one_operation
from spmvbench.analysis.programs import same_as
from spmvbench.analysis.ranking import SLOWDOWN_CAP, TIE
from spmvbench.reports import style
from spmvbench.rows.schema import STATUSES, rate_unit

# Fields of a case in charts.js, by column of its row. The script adds those of the matrix (nnz, mean, cv), ratio (time
# over the best time of the formats shown) and speedup (over the selected baseline).
_FIELDS = {
    "gflops": "gflops",
    "time": "t_median",
    "bytes": "bytes_per_nnz",
    "model": "model_bytes",
    "bound": "bound_gflops",
}
MATRIX = {"scale": "matrix", "label": "matrices, most nonzeros last"}


def axis(field: str, label: str, scale: str = "log", ticks: str = "plain") -> dict[str, Any]:
    """An axis. scale: log, linear, symlog (from 0 on) or matrix. ticks: plain, count, time, byte or share."""
    return {"field": field, "label": label, "scale": scale, "ticks": ticks}


NNZ = axis("nnz", "nonzeros", ticks="count")
GFLOPS = axis("gflops", "GFLOPS")
INTENSITY = axis("intensity", "arithmetic intensity, flop/byte")


def points(
    x: Mapping[str, Any], y: Mapping[str, Any], table: pd.DataFrame | None = None, **more: Any
) -> dict[str, Any]:
    """One point per case.

    more: one (a line at y = 1), trend (lines of medians), rises (lines y = x and y = x / 2), roof (rooflines by panel),
    winners (only the fastest of each matrix), few (below so many matrices, one line per matrix), ups (axes y by panel).
    """
    return {"kind": "points", "x": x, "y": y, "table": table, **more}


def rates(table: pd.DataFrame) -> dict[str, Any]:
    """The column gflops of a table, matrix by matrix, one panel per setting."""
    return points(MATRIX, GFLOPS, panels(table, "setting")[["panel", "label", "matrix", "gflops"]])


def curves(x: Mapping[str, Any], y: Mapping[str, Any], table: pd.DataFrame | None = None) -> dict[str, Any]:
    """Step functions, one per format; without a table, performance profiles of the page's cases."""
    return {"kind": "curves", "x": x, "y": y, "table": table}


def spans(x: Mapping[str, Any], table: pd.DataFrame | None = None, **more: Any) -> dict[str, Any]:
    """Distribution of a value over matrices, one row per format.

    more: of (the field), mean (geometric mean with coverage), low and high (ends of the axis; high means never).
    """
    return {"kind": "spans", "x": x, "table": table, **more}


def shares(
    table: pd.DataFrame | None, parts: Mapping[str, str], *, lacking: bool = False, note: str = ""
) -> dict[str, Any]:
    """Parts of a whole, one row per format; columns of the table: panel, label, part, value, count.

    Without a table: the statuses of the page's cases, one panel per type. parts: colours by part, in order. lacking:
    show only formats that have any of the parts, those with most first.
    """
    return {"kind": "shares", "table": table, "parts": dict(parts), "lacking": lacking, "note": note}


def cells() -> dict[str, Any]:
    """Every format on every matrix."""
    return {"kind": "cells"}


def panels(table: pd.DataFrame, panel: pd.Series | str) -> pd.DataFrame:
    """A table with the column panel, as text; panel: its values, or the column that holds them."""
    return table.assign(panel=(table[panel] if isinstance(panel, str) else panel).astype(str))


def page_data(
    rows: pd.DataFrame, times: pd.DataFrame, options: Any, charts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """All data of the page's script, as compact JSON columns.

    rows: all rows of the page; times: those whose times are shown. options: a `figures.Options`. charts: by figure.
    """
    readable = rows[rows["matrix_sha256"] != ""]
    about = readable.drop_duplicates("matrix").sort_values("matrix")
    labels = [label for label in options.marks if label in set(rows["label"])]
    labels += sorted(set(rows["label"]) - set(labels))
    of_label = rows.groupby("label")[["family", "project_kernel"]].max().reindex(labels)
    ranked = set(counted(rows)["label"])
    marks = options.marks_of(labels)
    settings = [str(setting) for setting in readable["setting"].cat.categories]
    charted = set(of_one_operation(readable)["setting"].astype(str))
    place = {
        "matrix": {name: at for at, name in enumerate(about["matrix"])},
        "label": {label: at for at, label in enumerate(labels)},
    }
    return {
        "tie": TIE,
        "slowdownCap": SLOWDOWN_CAP,
        "statuses": list(STATUSES),
        "baseline": place["label"].get(options.baseline),
        "highlight": [place["label"][label] for label in options.marks if label in place["label"]],
        "settings": settings,
        "drawn": [int(setting in charted) for setting in settings],
        "units": {setting: rate_unit(setting) for setting in settings},
        "types": [setting.split()[0] for setting in settings],
        "formats": {
            "name": labels,
            "family": list(of_label["family"]),
            "projectKernel": [int(bool(project)) for project in of_label["project_kernel"]],
            "ranked": [int(label in ranked) for label in labels],
            "color": [marks[label].color for label in labels],
            "marker": [marks[label].marker for label in labels],
            "filled": [int(marks[label].filled) for label in labels],
        },
        "matrices": {
            "name": list(about["matrix"]),
            "group": list(about["group"]),
            "kind": list(about["kind"]),
            **{key: _numbers(about[column]) for key, column in _OF_MATRIX.items()},
            "sha": list(about["matrix_sha256"].str.slice(0, 12)),
        },
        "cases": _cases(readable, times, place, settings),
        "charts": {name: _encoded(chart, place) for name, chart in charts.items()},
    }


_OF_MATRIX = {"rows": "rows", "nnz": "nnz", "mean": "row_len_mean", "longest": "row_len_max", "cv": "row_len_cv"}


def _cases(
    readable: pd.DataFrame, times: pd.DataFrame, place: Mapping[str, Mapping[str, int]], settings: Sequence[str]
) -> dict[str, list[Any]]:
    """The cases, a column each; what is not known, or not shown, or of an experiment, is null.

    same: the format that represents the case's program (`programs.same_as`), if it is another one.
    """
    keys = ["setting", "matrix", "label"]
    costs = setups(readable).pivot_table(index=keys, columns="path", values="setup", observed=True)
    table = readable.join(costs.reindex(columns=["host", "device"]).add_prefix("setup_"), on=keys)
    timed = {column: table[column].where(table.index.isin(times.index)) for column in ("gflops", "t_median")}
    table = table.assign(**timed)
    ok = (table["status"] == "ok") & table["label"].isin(counted(readable)["label"])
    known = list(STATUSES)
    same = same_as(table[ok]).reindex(table.index, fill_value="")
    fields = {**_FIELDS, "host": "setup_host", "device": "setup_device"}
    return {
        "setting": [settings.index(str(setting)) for setting in table["setting"]],
        "format": [place["label"][label] for label in table["label"]],
        "matrix": [place["matrix"][matrix] for matrix in table["matrix"]],
        "status": [known.index(status) for status in table["status"]],
        **({"same": [place["label"].get(label) for label in same]} if same.any() else {}),
        **{field: _numbers(table[column].where(ok), 6) for field, column in fields.items()},
    }


def _encoded(chart: Mapping[str, Any], place: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """A chart with its table in columns: formats and matrices by index, other words by their index in a list."""
    found = {key: value for key, value in chart.items() if key != "table" and value is not None}
    table = chart.get("table")
    if table is None:
        return found
    columns: dict[str, Any] = {}
    for name in table.columns:
        values = table[name]
        if name in place:
            columns[name] = [place[name].get(value, -1) for value in values]
        elif pd.api.types.is_numeric_dtype(values):
            columns[name] = _numbers(values)
        else:
            words = list(dict.fromkeys(values.astype(str)))
            at = {word: number for number, word in enumerate(words)}
            columns[name] = {"of": words, "at": [at[str(value)] for value in values]}
    return found | {"columns": columns}


def _numbers(values: pd.Series, digits: int = 4) -> list[float | int | str | None]:
    """Values rounded to significant digits, for small JSON: null for NaN, ``never`` for infinity."""
    return [_short(value, digits) for value in values.tolist()]


def _short(value: Any, digits: int) -> float | int | str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int) or float(value).is_integer():
        return int(value)
    return "never" if math.isinf(value) else float(f"{value:.{digits}g}")


def part_colors(parts: Sequence[str]) -> dict[str, str]:
    """A colour for each part: those of formats, then the same in lighter shades."""
    full = [mark.color for mark in style.marks([str(i) for i in range(len(parts))]).values()]
    light = [_lighter(color) for color in full]
    return dict(zip(parts, itertools.cycle([*full, *light]), strict=False))


def _lighter(color: str) -> str:
    red, green, blue = to_rgb(color)
    return str(to_hex(((1 + red) / 2, (1 + green) / 2, (1 + blue) / 2)))
