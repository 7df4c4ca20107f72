"""Speed-up over the baseline, matrix by matrix."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.speedup import speedups
from spmvbench.reports import style
from spmvbench.reports.figures import Options, by_setting, over_nonzeros

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


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, both axes logarithmic."""
    shown = {label: mark for label, mark in options.marks.items() if label != options.baseline}
    figure, panels = by_setting(table[table["nnz"] > 0])
    for ax, setting, part in panels:
        over_nonzeros(ax, part, "speedup", shown, title=setting, ylabel=f"speed-up over {options.baseline}")
        ax.axhline(1, color="black", linewidth=1)
    style.legend(figure, shown, len(set(table["label"]) - set(shown)))
    return figure
