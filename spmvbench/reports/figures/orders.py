"""What orders of rows and columns are worth: the distribution of the speed-up, a format a row."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.orders import gains, gains_by_format
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Column, Table, by_setting, number, percent

name = "orders"
title = "Gain by order, format by format"
caption = (
    "Time of a format in the natural order over its time in another order, on the same matrix: median, middle half, "
    "and 5 to 95 % of the matrices, whose number is at the right. Right of the line the order makes the format faster. "
    "x and y stay in the order of the matrix, so no permutation is in these times."
)
papers = ""
order = 96
performance = True
EVERY_OPERATION = True

_COLUMNS = [
    Column("label", "Format"),
    Column("order", "Order"),
    Column("mean", "Speed-up", number, "geometric mean of the time in the natural order over the time in this one"),
    Column("least", "5 %", number, "5th percentile of the speed-up"),
    Column("median", "Median", number),
    Column("most", "95 %", number, "95th percentile of the speed-up"),
    Column("faster", "Gain", percent, "share of the matrices on which the speed-up is over 1.05"),
    Column("break_even", "SpMVs", number, "until the order has paid: median over the matrices that gain"),
    Column("matrices", "Matrices", number),
]


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.orders.gains`, of hot settings if there are any. Raises LeftOut."""
    found = gains(hot(rows))
    if found.empty:
        raise LeftOut("no format is verified in the natural and another order (run --order none,rcm)")
    return found


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per format, one panel per setting and order."""
    table = table.assign(panel=table["setting"] + ", " + table["order"])
    table = table.assign(panel=pd.Categorical(table["panel"], sorted(set(table["panel"])), ordered=True))
    figure = style.ranges(
        table, "speedup", "panel", options.marks, "speed-up by the order",
        note=lambda rows: f"{len(rows):,}", note_title="matrices",
    )  # fmt: skip
    for ax in figure.axes:
        ax.axvline(1, color="black", linewidth=1)
    return figure


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table for each setting: mean, percentiles, share that gains, and SpMVs until the order has paid."""
    found = gains_by_format(table)
    return by_setting(found, _COLUMNS, "Gain by order")
