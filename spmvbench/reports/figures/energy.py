"""Energy: GFLOPS a watt."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.energy import gflops_per_watt
from spmvbench.reports import style
from spmvbench.reports.figures import Options

name = "energy"
title = "GFLOPS a watt"
caption = (
    "Flops of an SpMV over its energy, hot: median, middle half, and 5 to 95 % of the matrices whose energy was "
    "measured (`run --energy`), whose number is at the right. The energy is that of the whole device, what it uses "
    "idle included. The last format needs least."
)
papers = ""
order = 85
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.energy.gflops_per_watt`."""
    return gflops_per_watt(rows)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per format, one panel per setting, least first."""
    return style.ranges(
        table, "gflops_per_watt", "setting", options.marks, "GFLOPS a watt",
        note=lambda rows: f"{len(rows):,}", note_title="matrices",
    )  # fmt: skip
