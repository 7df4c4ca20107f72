"""Fig. 11: conversion compared with one search."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import labels_of
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.tilespmspv import SEARCH, bars, representative, searched

name = "tilespmspv-preprocessing"
title = "TileBFS, Fig. 11: conversion and one search"
caption = (
    "Time of the conversion of the graph from CSR to tiles of bits, on the device, or on the host and copied if that "
    "was not measured, and mean time of one search. The paper says both that conversion takes no longer than one "
    "search in normal cases and that it takes no more than ten in most."
)
papers = "Ji et al. 2022, Figure 11"
order = 560
performance = True

CONVERSION, ONE_SEARCH = "conversion from CSR", "one search"


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, work (which of the two), seconds. Raises LeftOut without TileBFS."""
    rows = searched(rows, (SEARCH,))
    table = representative(rows, labels_of(rows, (SEARCH,)))
    on_host = table["t_convert_host"] + table["t_transfer"].fillna(0)
    table = table.assign(**{CONVERSION: table["t_convert_device"].fillna(on_host), ONE_SEARCH: table["t_median"]})
    case = ["setting", "matrix"]
    return table.melt(case, [CONVERSION, ONE_SEARCH], "work", "seconds").dropna(subset="seconds")


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, two bars per matrix."""
    figure = bars(
        table.rename(columns={"work": "label"}), "seconds", "time", style.marks([CONVERSION, ONE_SEARCH]), yscale="log"
    )
    for ax in figure.axes:
        style.time_ticks(ax.yaxis)
    return figure
