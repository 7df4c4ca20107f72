"""Fig. 2 and 4: GFLOPS over all matrices, in single and in double precision."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.ehyb import panels, rates

name = "ehyb-lines"
title = "EHYB, Fig. 2 and 4: GFLOPS over all matrices"
caption = (
    "GFLOPS on every matrix that EHYB holds, by rising nonzeros. EHYB permutes x and y and computes its extra rows in "
    "every SpMV. With order=native, x and y are already permuted, as in the paper's timing; the paper's program "
    "computes the extra rows in the first SpMV only. The paper, on a V100: faster than all rivals on every one of its "
    "94 matrices, except yaSpMV, than which it is faster on 60.6 % of them in single precision."
)
papers = "Chen 2022, Figures 2 and 4"
order = 310
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `rates` of this package. Raises LeftOut without EHYB."""
    return rates(rows)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one dot per format and matrix, the matrices from left to right."""
    figure, shown = panels(table, options, 2.8, style.dots)
    for ax in figure.axes:
        ax.set_yscale("log")
        style.plain_ticks(ax.yaxis)
    style.legend(figure, shown)
    return figure
