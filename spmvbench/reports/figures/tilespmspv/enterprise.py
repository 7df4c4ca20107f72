"""Fig. 12: searches in matrices of Enterprise's paper."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import labels_of
from spmvbench.analysis.ranking import ranked
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, by_setting
from spmvbench.reports.figures.tilespmspv import SEARCH, SEARCHES, marks_in, searched

name = "tilespmspv-enterprise"
title = "TileBFS, Fig. 12: a matrix of Enterprise's paper"
caption = (
    "GTEPS on audikw_1, the one of the figure's six matrices that the paper's text names. Enterprise does not run "
    "here; as released it never goes bottom-up, so that the search that pushes alone is the nearest to it. The paper: "
    "1.39 times as fast as Enterprise in the mean and at most 2.31 times."
)
papers = "Ji et al. 2022, Figure 12"
order = 570
performance = True

MATRIX = "GHS_psdef/audikw_1"


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, nnz, gflops. Raises LeftOut without TileBFS or the matrix."""
    rows = searched(rows, (SEARCH, *SEARCHES))
    table = ranked(rows[rows["label"].isin(labels_of(rows, (SEARCH, *SEARCHES)))])
    table = table[table["matrix"] == MATRIX]
    if table.empty:
        raise LeftOut(f"no verified row of {MATRIX}, the matrix of Enterprise's paper that TileBFS's names")
    return table[["setting", "matrix", "label", "nnz", "gflops"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one bar per search."""
    shown = marks_in(table, options)
    figure, panels = by_setting(table, 1, height=2.6)
    for ax, setting, part in panels:
        rates = part.pivot(index="matrix", columns="label", values="gflops")
        style.bars(ax, rates, shown)
        ax.set(title=setting, ylabel="GTEPS")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(shown))
    return figure
