"""Table 10: what conversion costs."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import hot
from spmvbench.reports.figures import Options, breakeven
from spmvbench.reports.figures.survey import cases, grids, roles
from spmvbench.reports.tables import Table, number, seconds

name = "survey-conversion"
title = "Survey, Table 10: conversion"
caption = (
    "Conversion from CSR in seconds, in SpMVs of the format, and the number of SpMVs after which the format breaks "
    "even with {baseline}: 0 is at once, never is a slower format. Converted on the device if that was measured, else "
    "on the host and copied. The survey starts from sorted coordinates on the host: its times include a copy to the "
    "device."
)
papers = "Filippone et al. 2017, Table 10"
order = 130
performance = True

_QUANTITIES = {
    "setup": ("Conversion time", seconds),
    "spmvs": ("Conversion, SpMVs", number),
    "break_even": ("Break-even, SpMVs", number),
}


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, format, label, path, setup (seconds), spmvs, break_even (SpMVs), status, reason.

    Raises LeftOut without any of the survey's formats.
    """
    roles(rows)
    costs = breakeven.data(rows, options)[["setting", "matrix", "label", "path", *_QUANTITIES]]
    tried = cases(hot(rows))[["setting", "matrix", "format", "label", "status", "reason"]]
    return tried.merge(costs, on=["setting", "matrix", "label"], how="left")


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """Three tables per setting."""
    return grids(table, options, "setting", _QUANTITIES)
