"""Performance profiles, whole and zoomed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.profiles import performance_profile
from spmvbench.reports import style
from spmvbench.reports.figures import Options

name = "profile"
title = "Performance profile"
caption = (
    "Share of matrices on which a format is within a factor tau of the fastest. The value at tau = 1 is the share on "
    "which no format was faster. Failed and skipped matrices are never within tau, so a curve ends at the format's "
    "coverage. Formats that are not highlighted are grey."
)
papers = "Dolan & More 2002; Filippone et al. 2017, Figures 13 and 14"
order = 10
performance = True

ZOOM = 2.0


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """The points of every curve: columns setting, label, tau, rho."""
    curves = [
        performance_profile(part, by="label").assign(setting=setting)
        for setting, part in rows.groupby("setting", observed=True)
    ]
    return pd.concat(curves, ignore_index=True)[["setting", "label", "tau", "rho"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: the whole profile at the left, the part near the best at the right."""
    settings = list(table["setting"].unique())
    figure, axes = style.grid(2 * len(settings), 2, height=3.3)
    far = max(table["tau"].max(), ZOOM) * 1.15
    curves = dict(list(table.groupby(["setting", "label"])))
    for i, setting in enumerate(settings):
        part = table[table["setting"] == setting]
        whole, zoomed = axes[2 * i : 2 * i + 2]
        for ax, limit in ((whole, far), (zoomed, ZOOM)):
            for label in style.order_of(part, options.marks):
                curve, mark = curves[setting, label], options.marks.get(label, style.OTHERS)
                near = curve[curve["tau"] <= limit]
                near = near.iloc[style.coarse(*(np.log(v) for v in (near["tau"].to_numpy(), 1.0, limit)))]
                offset = 0.02 * list(options.marks).index(label) if label in options.marks else 0
                marked: dict[str, Any] = (
                    {} if mark is style.OTHERS else {"marker": mark.marker, "markevery": (offset, 0.18)}
                )
                ax.step(
                    np.append(near["tau"], limit), np.append(near["rho"], near["rho"].iloc[-1]), where="post",
                    color=mark.color, linestyle=mark.line, linewidth=0.8 if mark is style.OTHERS else 1.7,
                    markersize=5, **({} if mark is style.OTHERS else marked),
                )  # fmt: skip
            ax.set(ylim=(0, 1.02), xlim=(1, limit), xlabel="tau: time over the best time")
        whole.set(xscale="log", title=setting, ylabel="share of matrices within tau")
        style.plain_ticks(whole.xaxis)
        zoomed.set(title=f"{setting}, near the best")
    style.legend(figure, options.marks, len(set(table["label"]) - set(options.marks)), lines=True)
    return figure
