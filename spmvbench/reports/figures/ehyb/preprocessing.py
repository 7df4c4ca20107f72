"""Fig. 6: cost of partitioning and reordering, in SpMVs."""

from __future__ import annotations

import json

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot, verified
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.ehyb import methods, note_coverage

name = "ehyb-preprocessing"
title = "EHYB, Fig. 6: preprocessing"
caption = (
    "Partitioning, on one host thread, and reordering, the rest of the conversion, over the time of one SpMV in the "
    "same format, on the 16 matrices with the most nonzeros. A cached partition counts with the time that it took "
    "originally. The paper, METIS with 16 threads: partitioning 400 to 1,500 SpMVs, reordering 50 to 400."
)
papers = "Chen 2022, Figure 6"
order = 340
performance = True

MOST = 16
_STEPS = style.marks(["partitioning", "reordering"])


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, matrix, nnz, partitioning, reordering (in SpMVs), the largest matrices of each label.

    Raises LeftOut without EHYB.
    """
    labels = methods(rows)
    table = verified(hot(rows))
    table = table[table["label"].isin(labels) & (table["t_median"] > 0)]
    told = table["detail"].map(json.loads)
    table = table.assign(
        partitioning=told.map(lambda d: d["partition_s"]) / table["t_median"],
        reordering=table["t_convert_device"].fillna(table["t_convert_host"]) / table["t_median"],
    )
    order = ["setting", "label", "nnz", "matrix"]
    table = table.sort_values(order, ignore_index=True).groupby(["setting", "label"], observed=True).tail(MOST)
    return table[["setting", "label", "matrix", "nnz", *_STEPS]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting and label, two dots per matrix."""
    panels = list(table[["setting", "label"]].drop_duplicates().itertuples(index=False, name=None))
    figure, axes = style.grid(len(panels), 2, height=2.6)
    for ax, (setting, label) in zip(axes, panels, strict=True):
        part = table[(table["setting"] == setting) & (table["label"] == label)]
        style.dots(ax, part.set_index("matrix")[list(_STEPS)], _STEPS)
        ax.set(title=f"{label}, {setting}", ylabel="SpMVs", yscale="log")
        style.count_ticks(ax.yaxis)
    style.legend(figure, _STEPS)
    note_coverage(figure, table["matrix"], [])
    return figure
