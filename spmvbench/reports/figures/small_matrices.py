"""Small matrices: the best times beside the launch overhead."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import emulated
from spmvbench.analysis.small_matrices import small_matrices
from spmvbench.reports import tables
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Column, Table, number, percent, seconds

name = "small-matrices"
title = "Small matrices"
caption = (
    "The fastest format on each matrix of fewer than a million entries, in classes by the longest row. Bytes over time "
    "are far below what the device can read: these times are made of launches, of loads that wait for each other, and "
    "of the longest row. The best of the formats with one launch and of those with several are compared on the "
    "matrices for which there are both."
)
papers = ""
order = 98
performance = True

_COLUMNS = [
    Column("longest", "Longest row", about="entries"),
    Column("matrices", "Matrices", number),
    Column("entries", "Entries", number, "median"),
    Column("best", "Best", seconds, "geometric mean of the time of the fastest format"),
    Column("overheads", "Launch overheads", number, "the same over the time of an empty kernel"),
    Column("gbps", "GB/s", number, "median of the bytes of the fastest format over its time"),
    Column("one", "Best of one launch", seconds, "geometric mean"),
    Column("several", "Best of several", seconds, "geometric mean, on the same matrices"),
    Column("won", "Several win", percent, "share of the matrices on which the fastest format has several launches"),
]


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.small_matrices.small_matrices`. Raises LeftOut."""
    found = small_matrices(rows[~emulated(rows)])
    if found.empty:
        raise LeftOut("no matrix of fewer than a million entries was verified on a GPU")
    return found


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table for each setting. The launch overhead is the median of the run's invocations."""
    known = [session.get("launch_overhead") or {} for session in options.environment.get("sessions", [])]
    overhead = pd.DataFrame(known, columns=["hot", "cold"], dtype=float).median()
    table = table.assign(overheads=table["best"] / table["mode"].map(overhead))
    groups = table.groupby("setting", sort=False, observed=True)
    return [tables.table(f"Small matrices, {setting}", part, _COLUMNS) for setting, part in groups]
