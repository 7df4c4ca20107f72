"""Fig. 9: heights of blocks on four matrices."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.ranking import ranked
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.fastload import HEIGHTS, four, variants

name = "fastload-matrices"
title = "FastLoad, Fig. 9: heights of blocks on four matrices"
caption = (
    "GFLOPS for each limit of the height of blocks, and with equal rows summed within a warp (improved, height 1), on "
    "the largest matrix of each of the four kinds with the largest matrices; the paper does not name its four. The "
    "paper: improved is the fastest on all four, on one of them by far."
)
papers = "Hu et al. 2024, Figure 9"
order = 460
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, nnz, label, height, gflops. Raises LeftOut without FastLoad."""
    labels = variants(rows)
    table = ranked(hot(rows[rows["label"].isin(labels)]))
    table = table[table["matrix"].isin(four(table))]
    return table.assign(height=table["label"].map(labels))[["setting", "matrix", "nnz", "label", "height", "gflops"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one group of bars per matrix, one bar per height."""
    settings, heights = list(table["setting"].unique()), set(table["height"])
    matrices = list(table.sort_values("nnz")["matrix"].unique())
    labels = table.drop_duplicates("height").set_index("height")["label"]
    ordered = [height for height in HEIGHTS if height in heights]
    marks = options.marks_of([labels[height] for height in ordered]).values()
    shown = dict(zip(ordered, marks, strict=True))
    figure, axes = style.grid(len(settings), 1, height=2.6)
    for ax, setting in zip(axes, settings, strict=True):
        rates = table[table["setting"] == setting].pivot(index="matrix", columns="height", values="gflops")
        style.bars(ax, rates.reindex(matrices), shown)
        ax.set(title=str(setting), ylabel="GFLOPS")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(shown), title="height")
    return figure
