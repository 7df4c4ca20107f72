"""Which formats are one program under several names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from spmvbench.analysis.programs import shared
from spmvbench.reports import tables
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Table

name = "programs"
title = "Programs"
caption = (
    "Formats that come to the same arrays, kernels and launches on a matrix are one program there under several names. "
    "It was timed once and given to all of them. Wins, ties and the fastest format of each matrix count it once, under "
    "the name that stands at Same as; a format that is another's name on every matrix has no rank of its own. In other "
    "figures each name keeps its point or curve, and these lie on each other."
)
papers = ""
order = 7
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.programs.shared`. Raises LeftOut."""
    if not (rows["program"] != "").any():
        raise LeftOut("no row tells its program: they are older than that")
    found = shared(rows)
    if found.empty:
        raise LeftOut("every format is a program of its own on every matrix")
    return found


def show(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> list[Table]:
    """A row for each format and name that stands for it somewhere."""
    return [tables.shared_programs(table)]
