"""What became of every case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.bench.record import STATUSES
from spmvbench.report import style
from spmvbench.report.figures import Options

name = "coverage"
title = "Coverage"
caption = "What became of every case, by format and type. Only cases that are ok enter any other figure."
papers = ""
order = 5
performance = False

# From quiet to loud; hatches tell them apart without colour.
_LOOKS = {
    "ok": ("#0072B2", ""),
    "skipped": ("#d9d9d9", ""),
    "oom": ("#CC79A7", "...."),
    "timeout": ("#E69F00", "////"),
    "crashed": ("#882255", "xxxx"),
    "error": ("#555555", "++++"),
    "wrong": ("#D55E00", "\\\\\\\\"),
}


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Cases by dtype, label and status; a matrix that could not be read counts for nobody."""
    readable = rows[rows["matrix_sha256"] != ""]
    return readable.groupby(["dtype", "label", "status"], as_index=False).size().rename(columns={"size": "cases"})


def draw(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> Figure:
    """A bar a format, a panel a type, widest coverage first."""
    types = sorted(table["dtype"].unique(), reverse=True)
    counts = table.pivot_table(index=["dtype", "label"], columns="status", values="cases", fill_value=0, aggfunc="sum")
    statuses = [status for status in STATUSES if status in counts]
    shares = counts.div(counts.sum(axis=1), axis=0)
    ok = shares.get("ok", pd.Series(0.0, index=shares.index)).groupby("label").mean()
    order = list(ok.sort_values(ascending=False, kind="stable").index)
    figure, axes = style.grid(len(types), len(types), height=0.9 + 0.21 * len(order), sharey=True)
    for ax, dtype in zip(axes, types, strict=True):
        part = shares.loc[dtype].reindex(order).fillna(0.0)
        left = np.zeros(len(order))
        for status in statuses:
            color, hatch = _LOOKS[status]
            ax.barh(
                range(len(order)), part[status], left=left, color=color, hatch=hatch, edgecolor="white", linewidth=0,
                height=0.75, label=status,
            )  # fmt: skip
            left += part[status].to_numpy()
        ax.set(title=dtype, xlim=(0, 1), xlabel="share of cases", yticks=range(len(order)), yticklabels=order)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        ax.grid(axis="y", visible=False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(statuses))
    return figure
