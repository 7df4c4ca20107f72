"""Roofline efficiency: every measured rate over its bound."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.roofline import efficiency
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, by_setting

name = "bounds"
title = "Roofline efficiency"
caption = (
    "Measured GFLOPS (y) and their bound (x), the lower of two bounds. Reading: the bytes of the format, of x and of "
    "y, at the bandwidth of memory, or of the cache if they fit. Gathering: the distinct 32-byte sectors of x that "
    "each multiprocessor needs if it has an equal share of the entries in row order, at the gather rate of an x of "
    "that size. Both rates were measured on this device for many sizes. On the line the efficiency is 1, on the dotted "
    "line 0.5."
)
papers = ""
order = 32
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.roofline.efficiency`. Raises LeftOut if no row has a bound."""
    table = efficiency(rows)
    if table.empty:
        raise LeftOut("no row has a bound: rows of older versions have none")
    return table


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting."""
    figure, panels = by_setting(table, height=4.2)
    for ax, setting, part in panels:
        high = part["bound_gflops"].max() * 1.3
        bottom = max(part["gflops"].min(), high / 300) / 1.3
        low = max(part["bound_gflops"].min() / 1.3, bottom)  # points further left lie below the figure
        ends = np.array([low, high])
        ax.plot(ends, ends, color="black", linewidth=2)
        ax.plot(ends, ends / 2, color=style.INK, linewidth=1, linestyle=":")
        style.scatter(ax, part, "bound_gflops", "gflops", options.marks)
        ax.set(xscale="log", yscale="log", xlabel="bound, GFLOPS", ylabel="GFLOPS", title=setting, xlim=(low, high))
        ax.set_ylim(bottom, high)
        style.plain_ticks(ax.xaxis)
        style.plain_ticks(ax.yaxis)
    style.legend(figure, options.marks, len(set(table["label"]) - set(options.marks)))
    return figure
