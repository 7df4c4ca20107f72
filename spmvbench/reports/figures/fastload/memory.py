"""Fig. 11: peak memory on four matrices."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from spmvbench.analysis.cases import one_per_matrix
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.figures.fastload import four, marks_in, missing_formats, most_advanced, rival_labels

name = "fastload-memory"
title = "FastLoad, Fig. 11: peak memory"
caption = (
    "Peak device memory during conversion on the device, including the CSR input, on the largest matrix of each of the "
    "four kinds with the largest matrices. The paper: FastLoad takes more than the basic CSC, cuSPARSE, CSR5 and "
    "TileSpMV on all of its four matrices, because of its three auxiliary arrays."
)
papers = "Hu et al. 2024, Figure 11"
order = 480
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns dtype, matrix, nnz, label, bytes_peak, bytes_format.

    Raises LeftOut without FastLoad, without a rival, and where nothing was converted on a device.
    """
    labels = [most_advanced(rows), *rival_labels(rows).values()]
    table = one_per_matrix(rows[rows["label"].isin(labels) & (rows["bytes_peak"] > 0)])
    if table.empty:
        raise LeftOut("no conversion on a device was measured")
    table = table[table["matrix"].isin(four(table))]
    return table[["dtype", "matrix", "nnz", "label", "bytes_peak", "bytes_format"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per type, one group of bars per matrix, one bar per method."""
    types = sorted(set(table["dtype"]), reverse=True)
    matrices = list(table.sort_values("nnz")["matrix"].unique())
    shown = marks_in(table["label"], options)
    figure, axes = style.grid(len(types), 1, height=2.6)
    for ax, dtype in zip(axes, types, strict=True):
        peaks = table[table["dtype"] == dtype].pivot(index="matrix", columns="label", values="bytes_peak")
        style.bars(ax, peaks.reindex(matrices), shown)
        ax.set(title=dtype, ylabel="bytes at the peak")
        ax.yaxis.set_major_formatter(EngFormatter(unit="B"))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(shown))
    style.missing(figure, missing_formats(table["label"]))
    return figure
