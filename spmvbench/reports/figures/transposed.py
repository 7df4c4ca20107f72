"""y = A^T x from one copy of the matrix or from two."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import hot
from spmvbench.analysis.transposed import transposed, transposed_by_format
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Column, Table, by_setting, number, percent

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

_COLUMNS = [
    Column("label", "Format"),
    Column("one", "One copy", number, "time of y = A^T x from the arrays of A over that of y = A x"),
    Column("two", "Two copies", number, "time of y = A^T x from a second copy over that of y = A x"),
    Column("bytes_two", "Bytes", number, "bytes of both copies over those of one"),
    Column("two_faster", "Second faster", percent, "share of the matrices on which the second copy is faster"),
    Column("break_even", "Products", number, "until the second copy has paid: median over the matrices"),
    Column("matrices", "Matrices", number),
]


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.transposed.transposed`, of hot settings if there are any. Raises LeftOut."""
    found = transposed(hot(rows))
    if found.empty:
        raise LeftOut("no verified row of y = A^T x (run --op spmv,spmv-t)")
    return found


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table for each setting."""
    found = transposed_by_format(table)
    return by_setting(found, _COLUMNS, "Transposed products")
