"""Coverage: statuses of all cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.reports import charts, style
from spmvbench.reports.figures import Options
from spmvbench.rows.schema import STATUSES

name = "coverage"
title = "Coverage"
caption = (
    "Share of failed and skipped cases by format and type, the most first, with their number and the number of cases. "
    "Formats without any are counted in one line. Only cases with status ok enter other figures."
)
papers = ""
order = 5
performance = False

# The worse the status, the stronger the colour; hatches distinguish statuses without colour.
_LOOKS = {
    "ok": ("#0072B2", ""),
    "skipped": ("#b4b4b4", ""),
    "implausible": ("#009E73", "||||"),
    "oom": ("#CC79A7", "...."),
    "timeout": ("#E69F00", "////"),
    "crashed": ("#882255", "xxxx"),
    "error": ("#555555", "++++"),
    "wrong": ("#D55E00", "\\\\\\\\"),
}


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Number of cases by dtype, label and status, without matrices that could not be read."""
    readable = rows[rows["matrix_sha256"] != ""]
    return readable.groupby(["dtype", "label", "status"], as_index=False).size().rename(columns={"size": "cases"})


def draw(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> Figure:
    """One panel per type, one bar per format with failed or skipped cases; the last line counts all others."""
    types = sorted(table["dtype"].unique(), reverse=True)
    counts = table.pivot_table(index=["dtype", "label"], columns="status", values="cases", fill_value=0, aggfunc="sum")
    cases = counts.sum(axis=1)
    lacking = [status for status in STATUSES if status in counts and status != "ok"]
    shares = counts[lacking].div(cases, axis=0)
    missing = shares.sum(axis=1).groupby("label").mean()
    whole = int((missing == 0).sum())
    partly = missing[missing > 0].sort_values(ascending=False, kind="stable").index
    lines = [*partly, *([f"{whole} format{'s' if whole > 1 else ''}: every case ok"] if whole else [])]
    figure, axes = style.grid(len(types), len(types), height=0.9 + 0.21 * len(lines), sharey=True)
    for ax, dtype in zip(axes, types, strict=True):
        part = shares.loc[dtype].reindex(lines).fillna(0.0)
        left = np.zeros(len(lines))
        for status in lacking:
            color, hatch = _LOOKS[status]
            ax.barh(
                range(len(lines)), part[status], left=left, color=color, hatch=hatch, edgecolor="white", linewidth=0,
                height=0.75, label=status,
            )  # fmt: skip
            left += part[status].to_numpy()
        for y, label in enumerate(partly):
            if (dtype, label) in cases.index:
                of = cases[dtype, label]
                style.right_note(ax, y, f"{of - counts.get('ok', cases * 0)[dtype, label]:,} of {of:,}")
        ax.plot(0, len(lines) - 1, "") if not lacking else None
        ax.set(title=dtype, xlim=(0, 1), xlabel="share of cases", yticks=range(len(lines)), yticklabels=lines)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        ax.grid(axis="y", visible=False)
    if lacking:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(lacking))
    return figure


def chart(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """One panel per type."""
    parts = {status: _LOOKS[status][0] for status in STATUSES if status != "ok"}
    return charts.shares(None, parts, lacking=True)
