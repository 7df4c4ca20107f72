"""y = A^T x from one copy of the matrix or from two."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import hot
from spmvbench.analysis.transposed import transposed, transposed_by_format
from spmvbench.reports import tables
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Table

name = "transposed"
title = "Transposed products: one copy or two"
caption = (
    "y = A^T x from the arrays of A (one copy), and from a second copy, which is A^T in the same format. Times are "
    "geometric means, over the matrices, relative to y = A x in the same format."
)
papers = ""
order = 99
performance = True
EVERY_OPERATION = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.transposed.transposed`, of hot settings if there are any. Raises LeftOut."""
    found = transposed(hot(rows))
    if found.empty:
        raise LeftOut("no verified row of y = A^T x (run --op spmv,spmv-t)")
    return found


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table for each setting."""
    found = transposed_by_format(table)
    return [tables.transposed(str(setting), part) for setting, part in found.groupby("setting", sort=False)]
