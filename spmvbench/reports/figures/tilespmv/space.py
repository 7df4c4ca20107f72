"""Fig. 10: bytes of CSR and of the matrix in tiles."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import largest_footprints
from spmvbench.analysis.ranking import BASELINES
from spmvbench.reports import style
from spmvbench.reports.figures import Options, missing_formats, verified_labels
from spmvbench.reports.figures.tilespmv import METHODS, marks_in, tile_methods

name = "tilespmv-space"
title = "TileSpMV, Fig. 10: space"
caption = (
    "Bytes allocated for CSR, for tiles in CSR and for tiles in the best format, on the 150 matrices with the most "
    "nonzeros: in all, and over those of CSR. The paper: tile-csr takes as much as CSR or less on most matrices and "
    "far more if tiles are very sparse; tile takes less than tile-csr, on some still more than CSR."
)
papers = "Niu et al. 2021, Figure 10"
order = 250
performance = False

MOST = 150


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.breakeven.largest_footprints`, over the first plain CSR that the run holds. Raises LeftOut."""
    tile_methods(rows)
    labels = [verified_labels(rows, BASELINES)[0], *verified_labels(rows, METHODS[:2])]
    types = rows.loc[rows["label"].isin(labels[1:]), "dtype"].unique()  # a run may hold tiles in one type only
    return largest_footprints(rows[rows["label"].isin(labels) & rows["dtype"].isin(types)], labels[0], MOST)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per type: bytes, and bytes over CSR's; matrices from left to right."""
    shown = dict(marks_in(table, options))
    types = list(table["dtype"].unique())
    figure, axes = style.grid(2 * len(types), 2, height=2.8)
    for row, dtype in enumerate(types):
        part = table[table["dtype"] == dtype]
        matrices = list(part["matrix"].unique())
        values = {"bytes_format": "bytes", "ratio": "bytes over those of CSR"}
        for ax, (column, text) in zip(axes[2 * row :], values.items(), strict=False):
            by_matrix = part.pivot(index="matrix", columns="label", values=column)
            style.dots(ax, by_matrix.reindex(matrices), shown)
            ax.set(title=f"{dtype}, {text}", ylabel=text, yscale="log")
            if column == "ratio":
                style.around_one(ax)
            else:
                style.byte_ticks(ax.yaxis)
    style.legend(figure, shown)
    style.missing(figure, missing_formats(METHODS[:2], shown))
    return figure
