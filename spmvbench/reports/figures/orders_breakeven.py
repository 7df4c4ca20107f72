"""SpMVs after which an order of rows and columns has paid."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.orders import FASTER
from spmvbench.reports import style
from spmvbench.reports.figures import Options, orders

name = "orders-breakeven"
title = "SpMVs until an order has paid"
caption = (
    "Share of all cases (format and matrix) in which the order has paid after so many SpMVs: the time to compute it "
    "on the host, and the difference of the conversions, over the time gained. Cases that gain less than "
    f"{FASTER - 1:.0%} never pay."
)
papers = ""
order = 97
performance = True
EVERY_OPERATION = True

data = orders.data
_FEWEST, _MOST = 1e0, 1e7


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one line per order."""
    settings = list(dict.fromkeys(table["setting"]))
    figure, axes = style.grid(len(settings), min(2, len(settings)))
    names = sorted(set(table["order"]))
    marks = style.marks(names)
    for ax, setting in zip(axes, settings, strict=True):
        for name, part in table[table["setting"] == setting].groupby("order"):
            paid = np.sort(part["break_even"].where(part["speedup"] > FASTER, np.inf).clip(lower=_FEWEST))
            share = np.arange(1, len(paid) + 1) / len(paid)
            known = np.isfinite(paid)
            ends = [_FEWEST, *paid[known], _MOST], [0, *share[known], share[known][-1] if known.any() else 0]
            ax.step(*ends, where="post", color=marks[name].color, linestyle=marks[name].line, label=name)
        ax.set(title=str(setting), xscale="log", xlim=(_FEWEST, _MOST), ylim=(0, None))
        ax.set(xlabel="SpMVs", ylabel="share of the cases")
        style.count_ticks(ax.xaxis)
    style.legend(figure, marks, 0)
    return figure
