"""Table 9: bytes per nonzero by matrix and format."""

from __future__ import annotations

import pandas as pd

from spmvbench.reports.figures import Options
from spmvbench.reports.figures.survey import cases, grids, roles
from spmvbench.reports.tables import Table, number

name = "survey-bytes"
title = "Survey, Table 9: bytes per nonzero"
caption = (
    "Bytes of the allocated arrays over the nonzeros, by matrix and format; the smallest value of a row is "
    "highlighted. The survey's library allocates an integer for every value of HDI; here one integer serves 32 values."
)
papers = "Filippone et al. 2017, Table 9"
order = 120
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns dtype, matrix, format, label, bytes_per_nnz, status, reason.

    Raises LeftOut without any of the survey's formats.
    """
    roles(rows)
    table = rows.assign(failed=rows["status"] != "ok").sort_values("failed", kind="stable")
    table = table.drop_duplicates(["dtype", "matrix", "label"])  # the same hot and cold, and on every device
    columns = ["dtype", "matrix", "format", "label", "bytes_per_nnz", "status", "reason"]
    return cases(table, "bytes_per_nnz")[columns].sort_values(
        "dtype", ascending=False, kind="stable", ignore_index=True
    )


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table per type."""
    return grids(
        table, options, "dtype", {"bytes_per_nnz": ("Bytes per nonzero", number)}, best="min", winner="Smallest"
    )
