"""Which format wins on which kind of matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.ranking import best_formats
from spmvbench.report import style
from spmvbench.report.figures import Options

name = "winners"
title = "Fastest format by row lengths"
caption = (
    "Every matrix once, in the mark of its fastest format, by the mean length of its rows and by how much they vary "
    "(coefficient of variation; 0 is every row alike). Of formats within 0.5 % of each other the one that stands "
    "first over all matrices has the mark; the file names the others."
)
papers = "Filippone et al. 2017, section 5.5"
order = 60
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, gflops, margin, tied, row_len_mean, row_len_cv."""
    lengths = rows.drop_duplicates(["setting", "matrix"])[["setting", "matrix", "row_len_mean", "row_len_cv"]]
    return best_formats(rows).merge(lengths, on=["setting", "matrix"])


def draw(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> Figure:
    """A panel a setting."""
    settings = list(table["setting"].unique())
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
