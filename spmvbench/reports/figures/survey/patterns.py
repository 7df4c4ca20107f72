"""Fig. 10 and 12: sparsity patterns, whole and enlarged."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from spmvbench.matrices.sets import short_name
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.survey import described

name = "survey-patterns"
title = "Survey, Fig. 10 and 12: sparsity patterns"
caption = (
    "Share of places with an entry, in the cells of a grid over the whole matrix (left) and over the part around its "
    "fullest cell (right; a red square marks its position), which is as wide as a cell of the left grid, or 128 "
    "places. The matrices of the survey's figures that the run has, and others at equal steps from even to uneven "
    "rows."
)
papers = "Filippone et al. 2017, Figures 10 and 12"
order = 150
performance = False
any_matrix = True  # matrices of their own worth

WANTED = ("Botonakis/FEM_3D_thermal2", "SNAP/roadNet-CA", "Williams/webbase-1M")
MOST = 6


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Two rows per matrix: columns matrix, part (whole or enlarged), first_row, first_col, rows, cols (of the part),
    down, across (cells) and density, the share of each cell, row by row, with spaces between.

    A matrix without a description has NaN, one that is shown whole place by place no second row. Raises LeftOut.
    """
    found, missing = described(rows, options, WANTED, MOST)
    shapes = rows.drop_duplicates("matrix").set_index("matrix")[["rows", "cols"]]
    columns = ["matrix", "part", "first_row", "first_col", "rows", "cols", "down", "across", "density"]
    table = []
    for m in found.itertuples():
        table.append((m.matrix, "whole", 0, 0, *shapes.loc[m.matrix], m.down, m.across, _text(m.density)))
        place = (m.zoom_row, m.zoom_col, m.zoom_rows, m.zoom_cols, m.zoom_down, m.zoom_across)
        if m.zoom_rows:
            table.append((m.matrix, "enlarged", *place, _text(m.zoom_density)))
    return pd.concat([pd.DataFrame(table, columns=columns), pd.DataFrame({"matrix": missing})], ignore_index=True)


def _text(shares: np.ndarray) -> str:
    return " ".join(f"{share:.3g}" for share in shares)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """Two matrices side by side, each as a whole and enlarged."""
    known = table.dropna(subset="part")
    shares = known["density"].map(lambda text: np.array(text.split(), dtype=float))
    known = known.assign(density=shares).astype(dict.fromkeys(known.columns[2:-1], int))
    every = np.concatenate(list(known["density"]))
    norm = LogNorm(every[every > 0].min(), 1)
    matrices = list(known["matrix"].unique())
    figure, axes = style.grid(4 * -(-len(matrices) // 2), 4, height=2.6)
    for place, matrix in enumerate(matrices):
        pair = axes[2 * place : 2 * place + 2]
        for ax, part in zip(pair, known[known["matrix"] == matrix].itertuples(), strict=False):
            cells = part.density.reshape(part.down, part.across)
            style.density(ax, cells, norm, (part.first_row, part.first_col), (part.rows, part.cols))
            ax.set_title(short_name(matrix) if part.part == "whole" else "enlarged", fontsize=9)
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_major_locator(MaxNLocator(3, integer=True))
                axis.set_major_formatter(style.COUNTS)
            if part.part == "enlarged":
                middle = (part.first_col + part.cols / 2, part.first_row + part.rows / 2)
                pair[0].plot(*middle, "s", markersize=9, markerfacecolor="none", markeredgecolor="#c00000")
    for ax in axes:
        ax.set_visible(bool(ax.images))
    bar = figure.colorbar(
        ScalarMappable(norm, "viridis_r"),
        ax=axes,
        label="share of places with an entry",
        location="bottom",
        shrink=0.4,
        aspect=40,
    )
    style.plain_ticks(bar.ax.xaxis)
    style.missing(figure, list(table.loc[table["part"].isna(), "matrix"]), "Measured before runs kept this")
    return figure
