"""Mean gain by order: a cell for each format and order."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from spmvbench.analysis.orders import mean_gains
from spmvbench.reports import style
from spmvbench.reports.figures import Options, orders

name = "orders-mean"
title = "Mean gain by order"
caption = (
    "Geometric mean, over the matrices, of the time of a format in the natural order over its time in another order. "
    "Blue cells gain, red cells lose."
)
papers = ""
order = 95
performance = True
EVERY_OPERATION = True

data = orders.data
_SPREAD = 1.0  # log2 of the speed-up at which colours end


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, formats down, orders across, the number in each cell."""
    parts = {setting: mean_gains(part) for setting, part in table.groupby("setting", sort=False)}
    height = 0.2 * max(map(len, parts.values())) + 0.9
    figure, axes = style.grid(len(parts), len(parts), height=height)
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
