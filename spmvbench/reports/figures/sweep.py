"""Sweeps of a parameter: the time of each value relative to the best one."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.sweeps import sweeps
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options

name = "sweep"
title = "Sweeps of parameters"
caption = (
    "Time for each value of a parameter over the best time among its values on the same matrix. Thin lines are "
    "matrices, the thick one is the geometric mean. Only matrices on which every value is verified are shown."
)
papers = ""
order = 46
performance = True

MOST = 12  # panels


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.sweeps.sweeps`, of the first sweeps that fit into the panels. Raises LeftOut."""
    table = sweeps(rows)
    if table.empty:
        raise LeftOut("no format has three values of a parameter on a matrix (run --formats 'sell[height=*]')")
    return table[table.groupby(_PANEL, sort=False, observed=True).ngroup() < MOST]


_PANEL = ["setting", "format", "parameter", "fixed"]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting and sweep."""
    panels = list(table.groupby(_PANEL, sort=False, observed=True))
    figure, axes = style.grid(len(panels), min(3, len(panels)), height=3.0)
    for ax, ((setting, key, parameter, fixed), part) in zip(axes, panels, strict=True):
        values = part.drop_duplicates("place").sort_values("place")["value"].tolist()
        ratios = part.pivot_table(index="matrix", columns="place", values="ratio")
        for line in ratios.to_numpy():
            ax.plot(range(len(values)), line, color=style.GREY, linewidth=0.8)
        mean = np.exp(np.log(ratios).mean())
        ax.plot(range(len(values)), mean, color=style.COLOR, marker="o", linewidth=2)
        ax.set_xticks(range(len(values)), values)
        ax.set(title=f"{key}, {setting}", xlabel=parameter, ylabel="time over the best", yscale="log")
        if fixed:
            ax.set_xlabel(f"{parameter} ({fixed})")
        style.around_one(ax)
        ax.set_ylim(bottom=0.95)
    return figure
