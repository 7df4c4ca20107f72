"""What orders of rows and columns are worth: the speed-up by format, its mean, and SpMVs until an order has paid."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.orders import FASTER, gains, gains_by_format, mean_gains
from spmvbench.reports import style
from spmvbench.reports.figures import Options, ReportFigure, panels
from spmvbench.reports.tables import Column, by_setting, number, percent

NOTHING = "no format is verified in the natural and another order (run --order none,rcm)"
_SPREAD = 1.0  # log2 of the speed-up at which colours end
_FEWEST, _MOST = 1e0, 1e7  # SpMVs

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


def _gains(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    return gains(hot(rows))


def _draw_gains(table: pd.DataFrame, options: Options) -> Figure:
    table = table.assign(panel=table["setting"] + ", " + table["order"])
    table = table.assign(panel=pd.Categorical(table["panel"], sorted(set(table["panel"])), ordered=True))
    figure = style.ranges(table, "speedup", "panel", options.marks, "speed-up by the order", note=style.matrices)
    for ax in figure.axes:
        ax.axvline(1, color="black", linewidth=1)
    return figure


def _draw_means(table: pd.DataFrame, options: Options) -> Figure:
    parts = {setting: mean_gains(part) for setting, part in table.groupby("setting", sort=False)}
    height = 0.2 * max(map(len, parts.values())) + 0.9
    figure, axes = style.grid(len(parts), len(parts), height=height, lines=True)
    for ax, (setting, cells) in zip(axes, parts.items(), strict=True):
        values = cells.to_numpy()
        norm = TwoSlopeNorm(0, -_SPREAD, _SPREAD)
        ax.pcolormesh(np.ma.masked_invalid(np.log2(values)), norm=norm, cmap="RdBu", edgecolors="white", linewidth=0.5)
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = abs(np.log2(value)) > 0.7 * _SPREAD
                ax.text(
                    column + 0.5, row + 0.53, f"{value:.2f}", ha="center", va="center", fontsize=7,
                    color="white" if dark else style.INK,
                )  # fmt: skip
        ax.set_xticks(np.arange(cells.shape[1]) + 0.5, list(cells.columns), fontsize=8)
        ax.set_yticks(np.arange(len(cells)) + 0.5, list(cells.index), fontsize=7)
        ax.set(ylim=(len(cells), 0), title=str(setting), xlabel="order", ylabel="format")
        ax.tick_params(length=0)
        ax.grid(visible=False)
    return figure


def _draw_breakeven(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table)
    marks = style.marks(sorted(set(table["order"])))
    for ax, setting, of_setting in found:
        for name, part in of_setting.groupby("order"):
            paid = np.sort(part["break_even"].where(part["speedup"] > FASTER, np.inf).clip(lower=_FEWEST))
            share = np.arange(1, len(paid) + 1) / len(paid)
            known = np.isfinite(paid)
            ends = [_FEWEST, *paid[known], _MOST], [0, *share[known], share[known][-1] if known.any() else 0]
            ax.step(*ends, where="post", color=marks[name].color, linestyle=marks[name].line, label=name)
        ax.set(title=setting, xscale="log", xlim=(_FEWEST, _MOST), ylim=(0, None))
        ax.set(xlabel="SpMVs", ylabel="share of the cases")
        style.count_ticks(ax.xaxis)
    style.legend(figure, marks)
    return figure


FIGURES = (
    ReportFigure(
        "orders-mean",
        "Mean gain by order",
        "Geometric mean, over the matrices, of the time of a format in the natural order over its time in another "
        "order. Blue cells gain, red cells lose.",
        95,
        _gains,
        _draw_means,
        every_operation=True,
        nothing=NOTHING,
    ),
    ReportFigure(
        "orders",
        "Gain by order, format by format",
        "Time of a format in the natural order over its time in another order, on the same matrix: median, middle "
        "half, and 5 to 95 % of the matrices, whose number is at the right. Right of the line the order makes the "
        "format faster. x and y stay in the order of the matrix, so no permutation is in these times.",
        96,
        _gains,
        _draw_gains,
        lambda table, options: by_setting(gains_by_format(table), _COLUMNS, "Gain by order"),
        by="-speedup",
        every_operation=True,
        nothing=NOTHING,
    ),
    ReportFigure(
        "orders-breakeven",
        "SpMVs until an order has paid",
        "Share of all cases (format and matrix) in which the order has paid after so many SpMVs: the time to compute "
        "it on the host, and the difference of the conversions, over the time gained. Cases that gain less than "
        f"{FASTER - 1:.0%} never pay.",
        97,
        _gains,
        _draw_breakeven,
        every_operation=True,
        nothing=NOTHING,
    ),
)
