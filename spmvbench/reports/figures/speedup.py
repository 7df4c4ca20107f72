"""Speed-up over the baseline, matrix by matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.speedup import speedups
from spmvbench.reports import style
from spmvbench.reports.figures import Options

name = "speedup"
title = "Speed-up, matrix by matrix"
caption = (
    "Time of {baseline} over time of the format, for every matrix on which both are verified; above the line the "
    "format is faster."
)
papers = "Niu et al. 2021; Ji et al. 2022"
order = 40
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, nnz, speedup."""
    return speedups(rows, options.required_baseline).drop(columns=["t_base", "t_median"])


def draw(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> Figure:
    """One panel per setting, both axes logarithmic."""
    settings = list(table["setting"].unique())
    shown = {label: mark for label, mark in options.marks.items() if label != options.baseline}
    figure, axes = style.grid(len(settings), min(2, len(settings)))
    for ax, setting in zip(axes, settings, strict=True):
        part = table[(table["setting"] == setting) & (table["nnz"] > 0)]
        style.scatter(ax, part, "nnz", "speedup", shown)
        style.trend(ax, part, "nnz", "speedup", shown)
        ax.axhline(1, color="black", linewidth=1)
        ax.set(title=setting, xscale="log", yscale="log", xlabel="nonzeros", ylabel=f"speed-up over {options.baseline}")
        style.count_ticks(ax.xaxis)
        style.plain_ticks(ax.yaxis)
    style.legend(figure, shown, len(set(table["label"]) - set(shown)))
    return figure
