"""Fig. 1: mean times by group of the collection."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.figures.fastload import missing_formats, most_advanced, published, rival_labels
from spmvbench.reports.tables import number

name = "fastload-groups"
title = "FastLoad, Fig. 1: mean times by group"
caption = (
    "Geometric mean of the time of one SpMV over the matrices of a group that are verified for all of these methods, "
    "in microseconds; in brackets the paper's, on an RTX 3090 Ti over the whole group. The number of these matrices "
    "follows the group's name. The paper sorts x and sets y to zero outside of its times; here both count."
)
papers = "Hu et al. 2024, Figure 1"
order = 410
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, group, matrices, label, microseconds, published_matrices, published_microseconds.

    Raises LeftOut without FastLoad, without a rival, and where the run holds no matrix of the paper's ten groups.
    """
    methods = {"FastLoad": most_advanced(rows)} | rival_labels(rows)
    paper = published("group_times_us").rename(columns={"matrices": "published_matrices"})
    table = verified(hot(rows[rows["label"].isin(methods.values()) & rows["group"].isin(paper["group"])]))
    if table.empty:
        raise LeftOut(f"no verified row of a matrix of the groups {', '.join(paper['group'])}")
    of_all = table.groupby("setting", observed=True)["label"].transform("nunique")
    table = table[table.groupby(["setting", "matrix"], observed=True)["label"].transform("nunique") == of_all]
    groups = table.groupby(["setting", "group", "label"], observed=True)["t_median"]
    found = groups.agg(matrices="size", microseconds=lambda t: 1e6 * geometric_mean(t)).reset_index()
    paper = paper.reindex(columns=[*paper.columns, *(name for name in methods if name not in paper.columns)])
    times = paper.melt(["group", "published_matrices"], list(methods), "method", "published_microseconds")
    times["label"] = times.pop("method").map(methods)
    found = found.merge(times, on=["group", "label"])
    place = {name: at for names in (paper["group"], methods.values()) for at, name in enumerate(names)}
    found = found.sort_values(
        ["setting", "group", "label"], key=lambda v: v if v.name == "setting" else v.map(place), ignore_index=True
    )
    return found[
        ["setting", "group", "matrices", "label", "microseconds", "published_matrices", "published_microseconds"]
    ]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting: a row a group, one column per method."""
    settings = list(table["setting"].unique())
    most = table.groupby("setting", observed=True)["group"].nunique().max()
    figure, axes = style.grid(len(settings), min(2, len(settings)), height=1.0 + 0.42 * most)
    norm = LogNorm(table["microseconds"].min(), max(table["microseconds"].max(), table["microseconds"].min() * 1.01))
    for ax, setting in zip(axes, settings, strict=True):
        part = table[table["setting"] == setting]
        groups = part.drop_duplicates("group")
        labels = list(part["label"].unique())
        cells = part.set_index(["group", "label"])
        times = cells["microseconds"].unstack().reindex(index=groups["group"], columns=labels)
        drawn = ax.pcolormesh(np.ma.masked_invalid(times.to_numpy()), norm=norm, cmap="YlGnBu", edgecolors="white")
        for (group, label), cell in cells.iterrows():
            ax.text(
                labels.index(label) + 0.5, list(times.index).index(group) + 0.5,
                f"{cell['microseconds']:.3g}\n({number(cell['published_microseconds'])})", ha="center", va="center",
                fontsize=7, color="white" if norm(cell["microseconds"]) > 0.5 else style.INK,
            )  # fmt: skip
        rows = [f"{g.group} ({g.matrices} of {g.published_matrices})" for g in groups.itertuples()]
        ax.set(title=f"{setting}, microseconds (paper)", xlabel="method")
        ax.set_xticks(np.arange(len(labels)) + 0.5, [label.replace("[", "\n[") for label in labels], fontsize=7.5)
        ax.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=7.5)
        ax.grid(visible=False)
        ax.invert_yaxis()
    bar = figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.35, aspect=40, pad=0.02)
    bar.set_label("time of one SpMV, microseconds", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    style.plain_ticks(bar.ax.xaxis)
    style.missing(figure, missing_formats(table["label"]))
    return figure
