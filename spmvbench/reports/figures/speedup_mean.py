"""Mean speed-up over the baseline, with its coverage."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.speedup import speedup_summary
from spmvbench.reports import style
from spmvbench.reports.figures import Options, by_setting

name = "speedup-mean"
title = "Mean speed-up"
caption = (
    "Geometric mean of the speed-up over {baseline} (bar and first number), smallest to largest (thin line), and the "
    "share of all solved matrices in the mean (second number). The largest mean comes first. Means over different "
    "matrices are not comparable: read both numbers together."
)
papers = "Fleming & Wallace 1986; Gao et al. 2022 (EHYB)"
order = 50
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.speedup.speedup_summary`."""
    return speedup_summary(rows, options.required_baseline)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per format, one panel per setting."""
    figure, panels = by_setting(table, height=0.9 + 0.21 * table["setting"].value_counts().max())
    for ax, setting, rows in panels:
        part = rows.sort_values("geomean", ascending=False, kind="stable")
        for y, row in enumerate(part.itertuples()):
            mark = options.marks.get(row.label, style.OTHERS)
            color = "#8a8a8a" if mark is style.OTHERS else mark.color
            ax.plot([row.min, row.max], [y, y], color=color, linewidth=1)
            ax.plot([1, row.geomean], [y, y], color=color, linewidth=7, alpha=0.45, solid_capstyle="butt")
            (dot,) = ax.plot(row.geomean, y, color=color, marker=mark.marker, markersize=5)
            style.titled(dot, f"{row.label}: {row.geomean:.2f}x, from {row.min:.2f}x to {row.max:.2f}x")
            style.right_note(ax, y, f"{row.geomean:.2f}x, {row.coverage:.0%}")
        style.right_title(ax, "mean, share")
        ax.axvline(1, color="black", linewidth=1)
        ax.set(title=setting, xscale="log", xlabel=f"speed-up over {options.baseline}")
        ax.set(yticks=range(len(part)), yticklabels=part["label"], ylim=(len(part) - 0.4, -0.6))
        style.plain_ticks(ax.xaxis)
        style.keep_apart(ax)
        ax.grid(axis="y", visible=False)
    return figure
