"""How far every measurement is below the roof above it, whichever of the two that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.roofline import efficiency
from spmvbench.reports import charts, style
from spmvbench.reports.figures import LeftOut, Options

name = "bounds"
title = "Below the roof"
caption = (
    "GFLOPS over the bound of the row: the lower of two roofs that were measured on this device over sizes. Reading: "
    "the bytes of the format, of x and of y, at the rate of memory or of the cache that holds so many. Gathering: the "
    "distinct 32-byte sectors of x that an equal share of the entries names, in the order of rows, at the rate at "
    "which sectors of an x of that size come. On the line a kernel does all that is allowed, on the dotted one half."
)
papers = ""
order = 32
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.roofline.efficiency`. Raises LeftOut where no row knows its bound."""
    table = efficiency(rows)
    if table.empty:
        raise LeftOut("no row knows the roofs of its device: they are measured since rows have x_sectors")
    return table


def draw(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> Figure:
    """A panel a setting."""
    settings = list(table["setting"].unique())
    figure, axes = style.grid(len(settings), min(2, len(settings)), height=4.2)
    for ax, setting in zip(axes, settings, strict=True):
        part = table[table["setting"] == setting]
        low, high = part["bound_gflops"].min() / 1.3, part["bound_gflops"].max() * 1.3
        ends = np.array([low, high])
        ax.plot(ends, ends, color="black", linewidth=2)
        ax.plot(ends, ends / 2, color=style.INK, linewidth=1, linestyle=":")
        style.scatter(ax, part, "bound_gflops", "gflops", options.marks)
        ax.set(xscale="log", yscale="log", xlabel="bound, GFLOPS", ylabel="GFLOPS", title=setting, xlim=(low, high))
        ax.set_ylim(max(part["gflops"].min(), high / 300) / 1.3, high)
        style.plain_ticks(ax.xaxis)
        style.plain_ticks(ax.yaxis)
    style.legend(figure, options.marks, len(set(table["label"]) - set(options.marks)))
    return figure


def chart(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """A panel a setting."""
    return charts.points(charts.axis("bound", "bound, GFLOPS"), charts.GFLOPS, rises=True)
