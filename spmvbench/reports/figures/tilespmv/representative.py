"""Fig. 9: the 16 representative matrices, one by one."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.ranking import ranked
from spmvbench.matrices.sets import members, stands_for
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, by_setting, missing_formats
from spmvbench.reports.figures.tilespmv import RIVALS, SET, compared, marks_in

name = "tilespmv-representative"
title = "TileSpMV, Fig. 9: 16 representative matrices"
caption = (
    "GFLOPS on the matrices of the paper's Table II, in its order. The paper, in double precision on an A100: 288 "
    "GFLOPS on TSOPF_RS_b2383, 1.88 times those of merge-csr and 1.63 times those of csr5."
)
papers = "Niu et al. 2021, Figure 9"
order = 240
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, nnz, gflops. Raises LeftOut where the run holds none of the matrices."""
    ours, rivals = compared(rows)
    table = ranked(hot(rows[rows["label"].isin([*ours, *rivals])]))
    table = table[table["matrix"].map(stands_for).isin(members(SET))]
    if table.empty:
        raise LeftOut(f"no verified row of a matrix of the set {SET}")
    return table[["setting", "matrix", "label", "nnz", "gflops"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one group of bars per matrix, one bar per method."""
    wanted = members(SET)
    measured = {stands_for(matrix): matrix for matrix in table["matrix"]}
    matrices = [measured[matrix] for matrix in wanted if matrix in measured]
    shown = marks_in(table, options)
    figure, panels = by_setting(table, 1, height=2.6)
    for ax, setting, part in panels:
        rates = part.pivot(index="matrix", columns="label", values="gflops")
        style.bars(ax, rates.reindex(matrices), shown)
        ax.set(title=setting, ylabel="GFLOPS")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(shown))
    style.missing(figure, [*missing_formats(RIVALS, shown), *(matrix for matrix in wanted if matrix not in measured)])
    return figure
