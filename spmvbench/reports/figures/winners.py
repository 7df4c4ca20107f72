"""The fastest format of each matrix, by row lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spmvbench.analysis.ranking import best_formats
from spmvbench.reports import charts, style
from spmvbench.reports.figures import Options
from spmvbench.rows.schema import rate_unit

name = "winners"
title = "Fastest format by row lengths"
caption = (
    "Every matrix once, with the mark of its fastest format: by name if there are at most 16 matrices, else by mean "
    "length of rows and coefficient of variation of the row lengths (0: all rows are equally long). Of formats within "
    "0.5 % of each other the one with the lowest mean slowdown is shown; the file names the others."
)
papers = "Filippone et al. 2017, section 5.5"
order = 60
performance = True
FEW = 16  # so many matrices have one line each: few points by row lengths show nothing


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, gflops, margin, tied, row_len_mean, row_len_cv."""
    lengths = rows.drop_duplicates(["setting", "matrix"])[["setting", "matrix", "row_len_mean", "row_len_cv"]]
    return best_formats(rows).merge(lengths, on=["setting", "matrix"])


def draw(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> Figure:
    """One panel per setting: few matrices line by line, many by their row lengths."""
    settings = list(table["setting"].unique())
    if table["matrix"].nunique() <= FEW:
        figure, axes = style.grid(len(settings), 1, height=0.8 + 0.21 * table["matrix"].nunique())
        for ax, setting in zip(axes, settings, strict=True):
            _by_name(ax, table[table["setting"] == setting].sort_values("gflops"), options)
            ax.set_title(setting)
        return figure
    figure, axes = style.grid(len(settings), min(2, len(settings)))
    for ax, setting in zip(axes, settings, strict=True):
        style.scatter(ax, table[table["setting"] == setting], "row_len_mean", "row_len_cv", options.marks)
        ax.set(title=setting, xlabel="mean row length, entries", ylabel="coefficient of variation", xscale="log")
        ax.set_yscale("symlog", linthresh=0.1)
        ax.set_ylim(-0.01, max(0.1, table["row_len_cv"].max()) * 1.5)  # in this order: it may be NaN
        style.plain_ticks(ax.xaxis)
        ax.yaxis.set_major_formatter("{x:g}")
    winners = set(table["label"])
    shown = {label: mark for label, mark in options.marks.items() if label in winners}
    style.legend(figure, shown, len(winners - set(shown)))
    return figure


def _by_name(ax: Axes, part: pd.DataFrame, options: Options) -> None:
    """One line per matrix: the rate of its fastest format; at the right its name and the margin to the second."""
    marks = options.marks_of(list(part["label"]))
    for y, row in enumerate(part.itertuples()):
        mark = marks[row.label]
        ax.plot(row.gflops, y, color=mark.color, marker=mark.marker, markerfacecolor=mark.face, markersize=6)
        text = row.label if pd.isna(row.margin) else f"{row.label}, the next {100 * (row.margin - 1):.1f} % slower"
        tied = row.tied.split(", ") if row.tied else []
        more = f" and {len(tied) - 3} more" if len(tied) > 3 else ""
        style.right_note(ax, y, f"{text}; as fast: {', '.join(tied[:3])}{more}" if tied else text)
    ax.set(yticks=range(len(part)), yticklabels=[matrix.rpartition("/")[2] for matrix in part["matrix"]])
    ax.set(
        xscale="log", xlabel=f"{rate_unit(str(part['setting'].iloc[0]))} of the fastest", ylim=(-0.6, len(part) - 0.4)
    )
    style.plain_ticks(ax.xaxis)


def chart(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """One panel per setting."""
    across = charts.axis("mean", "mean row length, entries")
    up = charts.axis("cv", "coefficient of variation", "symlog")
    return charts.points(across, up, winners=True, few=FEW)
