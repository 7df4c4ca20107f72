"""Values narrower than the vectors: speed-up against the error of rounding."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.values import gains, gains_by_format
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Column, Table, by_setting, number

name = "values"
title = "Values narrower than vectors"
caption = (
    "Time of a format with values of the type of x and y over its time with narrower values, on the same matrix, "
    "against the error of rounding them: the largest relative error of a row in the 1-norm. A point is a format on a "
    "matrix. The line is a speed-up of 1. Results are verified against the rounded matrix, so this error is no part of "
    "a verdict."
)
papers = ""
order = 89
performance = True
EVERY_OPERATION = True

_EXACT = 1e-18  # where values that are exact in the narrower type are drawn

_COLUMNS = [
    Column("label", "Format"),
    Column("values", "Values"),
    Column("mean", "Speed-up", number, "geometric mean of the time with values of the vectors' type over this one"),
    Column("least", "Least", number),
    Column("most", "Most", number),
    Column("bytes", "Footprint", number, "over that with values of the vectors' type, geometric mean"),
    Column("rounding_error", "Rounding error", number, "the largest of the matrices"),
    Column("matrices", "Matrices", number),
]


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.values.gains`, of hot settings if there are any. Raises LeftOut."""
    found = gains(hot(rows))
    if found.empty:
        raise LeftOut("no format is verified with values narrower than the vectors (run --values f32 --vectors f64)")
    return found


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one mark per type of the values."""
    settings = list(dict.fromkeys(table["setting"]))
    figure, axes = style.grid(len(settings), min(2, len(settings)))
    names = sorted(set(table["values"]))
    marks = style.marks(names)
    for ax, setting in zip(axes, settings, strict=True):
        for kind, part in table[table["setting"] == setting].groupby("values"):
            error = np.maximum(part["rounding_error"].fillna(0), _EXACT)
            mark = marks[kind]
            ax.plot(error, part["speedup"], mark.marker, color=mark.color, markersize=3, label=kind, alpha=0.7)
        ax.axhline(1, color="black", linewidth=1)
        ax.set(title=str(setting), xscale="log", xlabel="rounding error of the matrix", ylabel="speed-up")
        ax.xaxis.set_major_formatter(lambda error, _: f"{error:.0e}")
    style.legend(figure, marks, 0)
    return figure


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One table for each setting."""
    found = gains_by_format(table)
    return by_setting(found, _COLUMNS, "Gain by narrower values")
