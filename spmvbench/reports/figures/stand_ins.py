"""How much times and bytes of formats differ between stand-ins and the matrices that they stand for."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import hot
from spmvbench.analysis.stand_ins import pairs, summary
from spmvbench.matrices.sets import STAND_IN
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Column, Table, by_setting, count, number, percent

name = "stand-ins"
title = "Stand-ins and their matrices"
caption = (
    "Stand-ins are generated from what is known of a matrix: its rows, entries and row lengths (all), or what the "
    "collection's index says (index). If a run holds both, this compares each format on both: the geometric mean of "
    "the time on the stand-in divided by the time on the matrix, and the deviations of times and bytes. The deviation "
    "is how much the larger value exceeds the smaller one: its median and its 90th percentile over the matrices."
)
papers = ""
order = 101
performance = True
KEEPS_STAND_INS = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.stand_ins.summary`. Raises LeftOut if the run holds no stand-in together with its matrix."""
    found = pairs(hot(rows), STAND_IN)
    if found.empty:
        raise LeftOut("the run holds no stand-in together with its matrix")
    return summary(found)


_COLUMNS = [
    Column("label", "Format"),
    Column("facts", "Facts", None, "what the stand-in was generated from"),
    Column("matrices", "Matrices", count),
    Column("time", "Time ratio", number, "geometric mean of the time on the stand-in over that on the matrix"),
    Column("time_median", "Time, median", percent, "median deviation of the time"),
    Column("time_p90", "Time, 90 %", percent, "90th percentile of the deviation of the time"),
    Column("bytes_median", "Bytes, median", percent, "median deviation of the bytes of the format"),
    Column("bytes_p90", "Bytes, 90 %", percent, "90th percentile of the deviation of the bytes of the format"),
]


def show(found: pd.DataFrame, options: Options) -> list[Table]:
    """One table per setting."""
    return by_setting(found, _COLUMNS)
