"""Formats in solvers, beside their rank by SpMV alone."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.solvers import solvers
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Column, Table, by_setting, number, percent, seconds

name = "solvers"
title = "Formats in solvers"
caption = (
    "Solvers with a fixed number of iterations. The time of an iteration is the geometric mean over the matrices. The "
    "share of SpMV is that of the products in the sum of products and vector kernels, each timed on its own. Ranks are "
    "by mean slowdown, in the solver and in y = A x alone, of the same formats on the same matrices."
)
papers = ""
order = 94
performance = True
EVERY_OPERATION = True

_COLUMNS = [
    Column("label", "Format"),
    Column("seconds", "Iteration", seconds, "geometric mean over the matrices"),
    Column("share", "SpMV", percent, "share of the products in the time of all kernels"),
    Column("slowdown", "Slowdown", number, "mean slowdown in the solver"),
    Column("rank", "Rank", number, "by the mean slowdown in the solver"),
    Column("slowdown_spmv", "Slowdown, SpMV", number, "mean slowdown in y = A x alone"),
    Column("rank_spmv", "Rank, SpMV", number, "by the mean slowdown in y = A x alone"),
    Column("matrices", "Matrices", number),
]


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.solvers.solvers`. Raises LeftOut."""
    found = solvers(rows)
    if found.empty:
        raise LeftOut("no verified row of a solver (run --op cg@100,pagerank@50)")
    return found


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table for each setting."""
    return by_setting(table, _COLUMNS, "Formats in solvers")
