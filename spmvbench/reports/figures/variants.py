"""Variants of one format: values of a parameter, and types that values are stored in."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.sweeps import sweeps
from spmvbench.analysis.values import gains, gains_by_format
from spmvbench.reports import style
from spmvbench.reports.figures import Options, ReportFigure, panels
from spmvbench.reports.tables import Column, by_setting, number

MOST = 12  # panels of sweeps
_EXACT = 1e-18  # where values that are exact in the narrower type are drawn
_PANEL = ["setting", "format", "parameter", "fixed"]
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


def _sweeps(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.sweeps.sweeps`, of the first sweeps that fit into the panels."""
    table = sweeps(rows)
    return table[table.groupby(_PANEL, sort=False, observed=True).ngroup() < MOST]


def _draw_sweeps(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table, _PANEL, 3, height=3.0)
    for ax, _, part in found:
        first = part.iloc[0]
        values = part.drop_duplicates("place").sort_values("place")["value"].tolist()
        ratios = part.pivot_table(index="matrix", columns="place", values="ratio")
        for line in ratios.to_numpy():
            ax.plot(range(len(values)), line, color=style.GREY, linewidth=0.8)
        mean = np.exp(np.log(ratios).mean())
        ax.plot(range(len(values)), mean, color=style.COLOR, marker="o", linewidth=2)
        ax.set_xticks(range(len(values)), values)
        ax.set(title=f"{first['format']}, {first['setting']}", ylabel="time over the best", yscale="log")
        ax.set_xlabel(f"{first['parameter']} ({first['fixed']})" if first["fixed"] else first["parameter"])
        style.around_one(ax)
        ax.set_ylim(bottom=0.95)
    return figure


def _draw_values(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table)
    marks = style.marks(sorted(set(table["values"])))
    for ax, setting, of_setting in found:
        for values, part in of_setting.groupby("values"):
            error = np.maximum(part["rounding_error"].fillna(0), _EXACT)
            mark = marks[values]
            ax.plot(error, part["speedup"], mark.marker, color=mark.color, markersize=3, label=values, alpha=0.7)
        ax.axhline(1, color="black", linewidth=1)
        ax.set(title=setting, xscale="log", xlabel="rounding error of the matrix", ylabel="speed-up")
        ax.xaxis.set_major_formatter(lambda error, _: f"{error:.0e}")
    style.legend(figure, marks)
    return figure


FIGURES = (
    ReportFigure(
        "sweep",
        "Sweeps of parameters",
        "Time for each value of a parameter over the best time among its values on the same matrix. Thin lines are "
        "matrices, the thick one is the geometric mean. Only matrices on which every value is verified are shown.",
        46,
        _sweeps,
        _draw_sweeps,
        nothing="no format has three values of a parameter on a matrix (run --formats 'sell[height=*]')",
    ),
    ReportFigure(
        "values",
        "Values narrower than vectors",
        "Time of a format with values of the type of x and y over its time with narrower values, on the same matrix, "
        "against the error of rounding them: the largest relative error of a row in the 1-norm. A point is a format on "
        "a matrix. The line is a speed-up of 1. Results are verified against the rounded matrix, so this error is no "
        "part of a verdict.",
        89,
        lambda rows, options: gains(hot(rows)),
        _draw_values,
        lambda table, options: by_setting(gains_by_format(table), _COLUMNS, "Gain by narrower values"),
        every_operation=True,
        nothing="no format is verified with values narrower than the vectors (run --values f32 --vectors f64)",
    ),
)
