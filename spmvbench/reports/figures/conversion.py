"""Conversion in seconds."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import setups
from spmvbench.analysis.cases import one_per_matrix
from spmvbench.reports import style
from spmvbench.reports.figures import Options

name = "conversion"
title = "Conversion from CSR"
caption = (
    "Time per million nonzeros from canonical CSR to the format, ready to multiply: converted on the host and copied "
    "to the device, or converted on the device. Median, middle half, and 5 to 95 % of the matrices."
)
papers = "Filippone et al. 2017, Table 10"
order = 80
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, label, dtype, path, nnz, setup (seconds), setup_per_million (seconds for 1e6 nonzeros)."""
    table = setups(one_per_matrix(rows))
    table = table[table["nnz"] > 0]
    table = table.assign(setup_per_million=table["setup"] / table["nnz"] * 1e6)
    return table[["matrix", "label", "dtype", "path", "nnz", "setup", "setup_per_million"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per format, one panel per type and path, quickest first."""
    table = table.assign(panel=table["dtype"] + ", on the " + table["path"])
    table = table[table["setup_per_million"] > 0]
    figure = style.ranges(table, "setup_per_million", "panel", options.marks, "time for a million nonzeros")
    for ax in figure.axes:
        style.time_ticks(ax.xaxis)
        style.keep_apart(ax)
    return figure
