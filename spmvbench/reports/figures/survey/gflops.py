"""Tables 5 to 8: GFLOPS by matrix and format."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import hot
from spmvbench.analysis.ranking import TIE
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.survey import cases, grids, roles
from spmvbench.reports.tables import Table, number

name = "survey-gflops"
title = "Survey, Tables 5 to 8: GFLOPS"
caption = (
    "2 nnz over the median time, by matrix and format. The fastest format of a row is highlighted, and named even if "
    "the table has no column for it. A dash is a format that does not hold the matrix; the note says why."
)
papers = "Filippone et al. 2017, Tables 5 to 8"
order = 110
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, format, label, gflops, status, reason. Raises LeftOut without any of these."""
    roles(rows)
    return cases(hot(rows), "gflops")[["setting", "matrix", "format", "label", "gflops", "status", "reason"]]


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table per setting."""
    return grids(table, options, "setting", {"gflops": ("GFLOPS", number)}, best="max", winner="Fastest", tie=TIE)
