"""Fig. 3 and 5: 16 matrices one by one, in single and in double precision."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.matrices.sets import members, stands_for
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.ehyb import SET, panels, rates

name = "ehyb-bars"
title = "EHYB, Fig. 3 and 5: matrices one by one"
caption = (
    "GFLOPS on the 16 matrices with the most nonzeros, those of the paper's set first; the paper does not name the 16 "
    "matrices of its figure."
)
papers = "Chen 2022, Figures 3 and 5"
order = 320
performance = True

MOST = 16


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `rates` of this package, of 16 matrices at most in each setting. Raises LeftOut without EHYB."""
    table = rates(rows)
    matrices = table.drop_duplicates(["setting", "matrix"])
    matrices = matrices.assign(is_paper_matrix=matrices["matrix"].map(stands_for).isin(members(SET)))
    matrices = matrices.sort_values(["is_paper_matrix", "nnz", "matrix"]).groupby("setting", observed=True).tail(MOST)
    return table.merge(matrices[["setting", "matrix"]], on=["setting", "matrix"])


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one group of bars per matrix, one bar per format."""
    figure, shown = panels(table, options, 2.6, style.bars)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(5, len(shown)))
    return figure
