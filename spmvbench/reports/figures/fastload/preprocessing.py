"""Fig. 10: seconds of conversion, by workload."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import setups
from spmvbench.analysis.cases import one_per_matrix
from spmvbench.reports import style
from spmvbench.reports.figures import Options, over_nonzeros
from spmvbench.reports.figures.fastload import (
    collected,
    marks_in,
    missing_formats,
    most_advanced,
    note_coverage,
    rival_labels,
)

name = "fastload-preprocessing"
title = "FastLoad, Fig. 10: preprocessing"
caption = (
    "Seconds from CSR to FastLoad, CSR5 and TileSpMV, converted on the host (and copied to the device) or on the "
    "device. The paper converts to FastLoad and CSR5 on the GPU and to TileSpMV on the CPU: FastLoad takes less than "
    "TileSpMV on most matrices, about as much as CSR5 below 10,000 nonzeros, and more above."
)
papers = "Hu et al. 2024, Figure 10"
order = 470
performance = True

AGAINST = ("CSR5", "TileSpMV")


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, label, dtype, path, nnz, setup (seconds). Raises LeftOut without FastLoad or without a rival."""
    labels = [most_advanced(rows), *rival_labels(rows, AGAINST).values()]
    table = setups(one_per_matrix(rows[rows["label"].isin(labels)]))
    table = table[(table["nnz"] > 0) & (table["setup"] > 0)]
    return table[["matrix", "label", "dtype", "path", "nnz", "setup"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per type and path."""
    panels = table[["dtype", "path"]].drop_duplicates().sort_values(["dtype", "path"], ascending=[False, True])
    shown = marks_in(table["label"], options)
    figure, axes = style.grid(len(panels), min(2, len(panels)), height=3.0)
    for ax, (dtype, path) in zip(axes, panels.itertuples(index=False), strict=True):
        part = table[(table["dtype"] == dtype) & (table["path"] == path)]
        over_nonzeros(ax, part, "setup", shown, title=f"{dtype}, converted on the {path}", ylabel="time")
        style.time_ticks(ax.yaxis)
    style.legend(figure, shown)
    note_coverage(figure, collected(table["matrix"]), missing_formats(table["label"], AGAINST))
    return figure
