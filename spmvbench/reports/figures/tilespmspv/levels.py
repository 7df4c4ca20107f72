"""Fig. 10: time and kernel of each level of a search."""

from __future__ import annotations

import json

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from spmvbench.matrices.sets import short_name
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.figures.tilespmspv import SEARCH, SEARCHES, marks_in, searched

name = "tilespmspv-levels"
title = "TileBFS, Fig. 10: level by level"
caption = (
    "Time of every level of one search from the vertex of highest degree, measured by the device's clock in separate "
    "runs. Circles are levels of Push-CSC, squares of Push-CSR, triangles of a pull, diamonds of another kernel. The "
    "paper: on in-2004 and msdoor TileBFS has no peak at the levels at which Gunrock and GSwitch have theirs; on "
    "msdoor and cant a late level of Pull-CSC may take longer; on roadNet-TX, with many sparse tiles, it is slower "
    "than GSwitch."
)
papers = "Ji et al. 2022, Figure 10"
order = 550
performance = True

MATRICES = ("LAW/in-2004", "INPRO/msdoor", "Williams/cant", "SNAP/roadNet-TX")  # the paper's
KERNELS = {1: "o", 2: "s", 3: "^"}  # the marker of each
FEW = 60  # levels whose markers have room


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, label, level, seconds, kernel, found (vertices): the paper's matrices first, four in all.

    Raises LeftOut where no row keeps its levels.
    """
    rows = searched(rows, (SEARCH, *SEARCHES))
    rows = rows[(rows["status"] == "ok") & rows["detail"].str.contains('"level_seconds"', regex=False)]
    if rows.empty:
        raise LeftOut("no verified row keeps the levels of a search")
    others = rows.sort_values(["nnz", "matrix"], ascending=False)["matrix"].unique()
    chosen = [*(m for m in MATRICES if m in set(others)), *(m for m in others if m not in MATRICES)][: len(MATRICES)]
    tables = []
    for matrix in chosen:
        for row in rows[rows["matrix"] == matrix].sort_values("label").itertuples():
            detail = json.loads(row.detail)
            columns = {name: detail[f"level_{name}"] for name in ("seconds", "kernel", "found")}
            least = min(map(len, columns.values()))
            columns = {name: values[:least] for name, values in columns.items()}
            levels = {"matrix": matrix, "label": row.label, "level": range(1, least + 1)}
            tables.append(pd.DataFrame(levels | columns))
    return pd.concat(tables, ignore_index=True)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per matrix, one line per search."""
    matrices, shown = list(table["matrix"].unique()), marks_in(table, options)
    figure, axes = style.grid(len(matrices), min(2, len(matrices)), height=3.0)
    for ax, matrix in zip(axes, matrices, strict=True):
        for label, mark in shown.items():
            part = table[(table["matrix"] == matrix) & (table["label"] == label)]
            ax.plot(part["level"], part["seconds"], color=mark.color, linewidth=0.8, linestyle=mark.line)
            for kernel, of_kernel in part.groupby("kernel"):
                ax.plot(
                    of_kernel["level"], of_kernel["seconds"], color=mark.color, linestyle="",
                    marker=KERNELS.get(kernel, "D"), markersize=4.5 if len(part) <= FEW else 2,
                )  # fmt: skip
        ax.set(title=short_name(matrix), xlabel="level", ylabel="time of the level", yscale="log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.time_ticks(ax.yaxis)
    lines = [Line2D([], [], color=mark.color, linestyle=mark.line, label=label) for label, mark in shown.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    style.missing(figure, [matrix for matrix in MATRICES if matrix not in matrices])
    return figure
