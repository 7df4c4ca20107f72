"""Fig. 11: cost of conversion, in SpMVs of one host thread and of the device."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import overheads
from spmvbench.analysis.cases import hot
from spmvbench.matrices.sets import members
from spmvbench.reports import style
from spmvbench.reports.figures import Options, verified_labels
from spmvbench.reports.figures.tilespmv import METHODS, SET, marks_in, tile_methods

name = "tilespmv-preprocessing"
title = "TileSpMV, Fig. 11: preprocessing"
caption = (
    "Conversion from CSR, on the host (and copied to the device) or on the device, over the time of one SpMV: by SciPy "
    "on one host thread, and in the same format on the device. The 16 matrices of the paper's figure have a ring. The "
    "paper, converting on a CPU: from less than one serial SpMV (ldoor) to less than 10 (mip1)."
)
papers = "Niu et al. 2021, Figure 11"
order = 260
performance = True

_AGAINST = {"host_spmvs": "in SpMVs of a host thread", "spmvs": "in SpMVs of the format"}


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.breakeven.overheads`, of the tile methods and csr5. Raises LeftOut without a tile method."""
    tile_methods(rows)
    labels = verified_labels(rows, (*METHODS, "csr5"))
    table = overheads(hot(rows), options.required_baseline)
    return table[table["label"].isin(labels) & (table["nnz"] > 0)]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting and path, two panels: against the host, and against the device."""
    order = table[["setting", "path"]].drop_duplicates().sort_values(["setting", "path"], ascending=[True, False])
    rows = list(order.itertuples(index=False))
    figure, axes = style.grid(2 * len(rows), 2, height=2.8)
    shown = marks_in(table, options)
    ringed = members(SET)
    panels = iter(axes)
    for setting, path in rows:
        for column, text in _AGAINST.items():
            ax = next(panels)
            part = table[(table["setting"] == setting) & (table["path"] == path)].dropna(subset=column)
            ax.set(
                title=f"{setting}, converted on the {path}", xlabel="nonzeros", ylabel=text, xscale="log", yscale="log"
            )
            if part.empty:
                ax.text(0.5, 0.5, "not measured", transform=ax.transAxes, ha="center")
                continue
            style.scatter(ax, part, "nnz", column, shown)
            named = part[part["matrix"].isin(ringed)]
            ax.scatter(named["nnz"], named[column], s=45, facecolors="none", edgecolors="black", linewidths=0.7)
            ax.axhline(1, color="black", linewidth=1)
            style.count_ticks(ax.xaxis)
            style.plain_ticks(ax.yaxis)
    style.legend(figure, shown)
    return figure
