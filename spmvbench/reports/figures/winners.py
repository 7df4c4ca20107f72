"""The fastest format of each matrix, by row lengths."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.ranking import best_formats
from spmvbench.reports import style
from spmvbench.reports.figures import Options, by_setting

name = "winners"
title = "Fastest format by row lengths"
caption = (
    "Every matrix once, with the mark of its fastest format, by mean and coefficient of variation of the row lengths "
    "(0: all rows are equally long). Of formats within 0.5 % of each other the one with the lowest mean "
    "slowdown is shown; the file names the others."
)
papers = "Filippone et al. 2017, section 5.5"
order = 60
performance = True
MOST = 40  # formats that all have their marks; of more, only those highlighted


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, gflops, margin, tied, row_len_mean, row_len_cv."""
    lengths = rows.drop_duplicates(["setting", "matrix"])[["setting", "matrix", "row_len_mean", "row_len_cv"]]
    return best_formats(rows).merge(lengths, on=["setting", "matrix"])


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting."""
    winners = table["label"].value_counts()
    shown = options.marks_of([label for label in winners.index if label in options.marks or len(winners) <= MOST])
    figure, panels = by_setting(table)
    for ax, setting, part in panels:
        style.scatter(ax, part, "row_len_mean", "row_len_cv", shown)
        ax.set(title=setting, xlabel="mean row length, entries", ylabel="coefficient of variation", xscale="log")
        ax.set_yscale("symlog", linthresh=0.1)
        ax.set_ylim(-0.01, max(0.1, table["row_len_cv"].max()) * 1.5)  # in this order: it may be NaN
        style.plain_ticks(ax.xaxis)
        ax.yaxis.set_major_formatter("{x:g}")
    style.legend(figure, shown, len(winners) - len(shown))
    return figure
