"""Kernel breakdown: shares of the kernels in the time of an SpMV."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.kernel_breakdown import kernel_times
from spmvbench.reports import style
from spmvbench.reports.figures import Options

name = "kernels"
title = "Kernel breakdown"
caption = (
    "Share of each kernel in the time of an SpMV, mean over matrices, for formats with several named kernels. Each "
    "kernel is timed on its own with a warm L2, so that the times need not add up to the whole; shares are of their "
    "sum. Kernels whose names differ only in a number, a width or a length, count as one. The number of matrices is at "
    "the right."
)
papers = "Filippone et al. 2017, section 3.5"
order = 45
performance = True

_HATCHES = ("", "////", "||||", "xxxx", "----")


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, kernel, share (mean over matrices, 0 to 1), matrices."""
    table = kernel_times(rows)
    # Some formats have one kernel for each width or length that occurs in a matrix.
    table["kernel"] = table["kernel"].str.replace(r"_\d+$", "", regex=True)
    keys = ["setting", "label"]
    matrices = table.groupby(keys, observed=True)["matrix"].nunique().rename("matrices")
    sums = table.groupby([*keys, "kernel"], observed=True, sort=False)["share"].sum().reset_index()
    found = sums.join(matrices, on=keys)
    found["share"] /= found["matrices"]
    return found.sort_values(keys, kind="stable", ignore_index=True)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, one bar per format."""
    settings, kernels = list(table["setting"].unique()), list(table["kernel"].unique())
    labels = sorted(set(table["label"]))
    figure, axes = style.grid(len(settings), min(2, len(settings)), height=0.9 + 0.24 * len(labels), sharey=True)
    colors = [mark.color for mark in style.marks(kernels).values()]
    for ax, setting in zip(axes, settings, strict=True):
        shares = table[table["setting"] == setting].pivot(index="label", columns="kernel", values="share")
        shares = shares.reindex(index=labels, columns=kernels).fillna(0.0)
        left = pd.Series(0.0, index=labels)
        for place, kernel in enumerate(kernels):
            there = shares[kernel] > 0  # a bar without width takes as many bytes in the file
            bars = ax.barh(
                np.flatnonzero(there), shares[kernel][there], left=left[there], height=0.7,
                color=colors[place % len(colors)], edgecolor="white", linewidth=0,
                hatch=_HATCHES[place % len(_HATCHES)], label=kernel,
            )  # fmt: skip
            for bar in bars:
                style.titled(bar, f"{kernel}: {bar.get_width():.0%}")
            left += shares[kernel]
        counts = table[table["setting"] == setting].groupby("label")["matrices"].first()
        for label, count in counts.items():
            style.right_note(ax, labels.index(label), f"{count:,}")
        ax.set(
            title=str(setting), xlabel="share of the time of all kernels", xlim=(0, 1), ylim=(len(labels) - 0.5, -0.5),
            yticks=range(len(labels)), yticklabels=labels,
        )  # fmt: skip
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        ax.grid(axis="y", visible=False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(kernels), 8))
    return figure
