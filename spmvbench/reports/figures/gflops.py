"""GFLOPS against the number of nonzeros."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.ranking import ranked
from spmvbench.analysis.roofline import roofs
from spmvbench.reports import style
from spmvbench.reports.figures import Options, by_setting, over_nonzeros
from spmvbench.rows.schema import rate_unit

name = "gflops"
title = "GFLOPS over nonzeros"
caption = (
    "2 nnz over the median time; padding does not count as nonzeros. Dotted bounds, if the run measured its bandwidth: "
    "what memory allows if values alone are read, and values with 32-bit indices. Hot points may lie above them if L2 "
    "serves them. Times of small matrices are dominated by launch overhead and idle multiprocessors."
)
papers = "Niu et al. 2021; Filippone et al. 2017, Figures 5 to 12"
order = 20
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, matrix, nnz, gflops, near_launch_overhead."""
    return ranked(rows)[["setting", "label", "matrix", "nnz", "gflops", "near_launch_overhead"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, both axes logarithmic."""
    figure, panels = by_setting(table)
    for ax, setting, part in panels:
        over_nonzeros(ax, part, "gflops", options.marks, title=setting, ylabel=rate_unit(setting))
        for place, (text, rate) in enumerate(roofs(setting, options.environment).items()):
            side, away = ("top", -2) if place else ("bottom", 1)  # the second is the lower one
            ax.axhline(rate, color=style.INK, linestyle=":", linewidth=1)
            ax.annotate(
                f"{text}: {rate:,.0f}", (0.01, rate), xycoords=ax.get_yaxis_transform(), va=side, fontsize=7,
                xytext=(0, away), textcoords="offset points",
            )  # fmt: skip
    style.legend(figure, options.marks, len(set(table["label"]) - set(options.marks)))
    return figure
