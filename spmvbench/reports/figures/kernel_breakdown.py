"""Where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.kernel_breakdown import kernel_times
from spmvbench.reports import charts, style
from spmvbench.reports.figures import Options

name = "parts"
title = "Where the time goes"
caption = (
    "Formats whose SpMV has parts: the share of each, the mean over matrices. A part is timed repeated by itself, with "
    "a warm L2, so that parts need not add up to the whole; shares are of their sum. Parts that "
    "differ by a number alone, a width or a length, count as one. How many matrices these are stands at the right."
)
papers = "Filippone et al. 2017, section 3.5"
order = 45
performance = True

_HATCHES = ("", "////", "....", "xxxx", "----")


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, part, share (mean over matrices, 0 to 1), matrices."""
    table = kernel_times(rows)
    table["part"] = table["part"].str.replace(r"_\d+$", "", regex=True)  # as many widths or lengths as a matrix has
    keys = ["setting", "label"]
    matrices = table.groupby(keys, observed=True)["matrix"].nunique().rename("matrices")
    sums = table.groupby([*keys, "part"], observed=True, sort=False)["share"].sum().reset_index()
    found = sums.join(matrices, on=keys)
    found["share"] /= found["matrices"]
    return found.sort_values(keys, kind="stable", ignore_index=True)


def draw(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> Figure:
    """A panel a setting, a bar a format."""
    settings, parts = list(table["setting"].unique()), list(table["part"].unique())
    labels = sorted(set(table["label"]))
    figure, axes = style.grid(len(settings), min(2, len(settings)), height=0.9 + 0.24 * len(labels), sharey=True)
    colors = [mark.color for mark in style.marks(parts).values()]
    for ax, setting in zip(axes, settings, strict=True):
        shares = table[table["setting"] == setting].pivot(index="label", columns="part", values="share")
        shares = shares.reindex(index=labels, columns=parts).fillna(0.0)
        left = pd.Series(0.0, index=labels)
        for place, part in enumerate(parts):
            ax.barh(
                labels, shares[part], left=left, height=0.7, color=colors[place % len(colors)], edgecolor="white",
                linewidth=0, hatch=_HATCHES[place % len(_HATCHES)], label=part,
            )  # fmt: skip
            left += shares[part]
        counts = table[table["setting"] == setting].groupby("label")["matrices"].first()
        for label, count in counts.items():
            ax.text(1.01, label, f"{count:,}", transform=ax.get_yaxis_transform(), va="center", fontsize=7)
        ax.set(title=str(setting), xlabel="share of the time of all parts", xlim=(0, 1), ylim=(len(labels) - 0.5, -0.5))
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        ax.grid(axis="y", visible=False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(parts), 8))
    return figure


def chart(table: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """A panel a setting."""
    shown = charts.panels(table, "setting").rename(columns={"share": "value", "matrices": "count"})
    parts = charts.part_colors(list(table["part"].unique()))
    return charts.shares(shown[["panel", "label", "part", "value", "count"]], parts, note="matrices")
