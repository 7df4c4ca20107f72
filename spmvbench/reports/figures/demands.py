"""What solvers ask of a product besides its time: the same bits every time, and new values in the same pattern."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.determinism import bits, by_spread, costs
from spmvbench.analysis.updates import updates, updates_by_format, with_updates
from spmvbench.reports import style
from spmvbench.reports.figures import Options, ReportFigure, panels
from spmvbench.reports.tables import Column, by_setting, number

_COSTS = [
    Column("spread", "Spread of row lengths", about="standard deviation over mean"),
    Column("matrices", "Matrices", number),
    Column("mean", "Mean cost", number, "geometric mean"),
    Column("largest", "Largest cost", number),
    Column("matrix", "On"),
]
_UPDATES = [
    Column("label", "Format"),
    Column("matrices", "Matrices", number),
    Column("products", "Products", number, "time of an update in products of the reference, geometric mean"),
    Column("largest", "Most", number),
    Column("break_even", "Break-even", number, "products between updates from which it leads the reference, median"),
    Column("anew", "Update", about="converted anew: values decide what is stored"),
]


def _costs(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    found = bits(rows)["repeats"]
    return costs(hot(rows), set(found[found == "yes"].index))


def _draw_costs(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table)
    for ax, setting, part in found:
        ax.plot(part["spread"], part["cost"], "o", color=style.COLOR, markersize=4)
        ax.axhline(1, color="black", linewidth=1)
        ax.set(title=setting, xlabel="row lengths: standard deviation over mean", ylabel="time over the best of all")
        ax.set_xscale("symlog", linthresh=0.01)
        ax.xaxis.set_major_formatter("{x:g}")
    return figure


def _draw_updates(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(with_updates(table))
    marks = options.marks_of(label for label in options.marks if label in set(table["label"].unique()))
    for ax, setting, of_setting in found:
        for label, part in of_setting.groupby("label", observed=True):
            color, width = (marks[label].color, 2.0) if label in marks else (style.GREY, 0.8)
            ax.plot(part["between"], part["ratio"], color=color, linewidth=width, zorder=2 if label in marks else 1)
        ax.axhline(1, color="black", linewidth=1)
        ax.set(title=setting, xscale="log", yscale="log", xlabel="products from one update to the next")
        ax.set_ylabel(f"time over that of {table['reference'].iloc[0]}")
        style.around_one(ax)
        style.plain_ticks(ax.xaxis)
    style.legend(figure, marks, table["label"].nunique() - len(marks), lines=True)
    return figure


FIGURES = (
    ReportFigure(
        "determinism",
        "What the same bits cost",
        "Time of the best format whose products with the same x had the same bits in every case, and whose kernels add "
        "no floats by atomics, over the time of the best of all. A point is a matrix. Formats that store fewer values "
        "than the matrix has are left out.",
        47,
        _costs,
        _draw_costs,
        lambda table, options: by_setting(by_spread(table), _COSTS, "Cost of the same bits"),
        nothing="no row says whether products had the same bits",
    ),
    ReportFigure(
        "updates",
        "New values in the same pattern",
        "Time of an update of all values and of the products until the next one, over that of cuSPARSE's CSR (or of "
        "another CSR): geometric mean over the matrices. Formats that choose by values are converted anew.",
        48,
        lambda rows, options: updates(rows),
        _draw_updates,
        lambda table, options: by_setting(updates_by_format(table), _UPDATES, "New values"),
        nothing="no row has the time of an update (run --update)",
    ),
)
