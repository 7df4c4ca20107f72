"""Formats that are one program under several names."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.programs import shared
from spmvbench.reports import tables
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Table

name = "programs"
title = "Programs"
caption = (
    "Formats that have the same arrays, kernels and launches on a matrix are one program under several names there. It "
    "was timed once for all of them. Wins, ties and the fastest format of each matrix count it once, under the name in "
    "the column Same as; a format that is another's name on every matrix is not ranked. In other figures each name has "
    "its own point or curve, and these coincide."
)
papers = ""
order = 7
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.programs.shared`. Raises LeftOut."""
    if not (rows["program"] != "").any():
        raise LeftOut("no row names its program: rows of older versions do not")
    found = shared(rows)
    if found.empty:
        raise LeftOut("all formats are different programs on every matrix")
    return found


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One row for each format and each name that represents it on some matrix."""
    return [tables.shared_programs(table)]
