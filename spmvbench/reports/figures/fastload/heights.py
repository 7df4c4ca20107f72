"""Table I: heights of blocks, against the rivals."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from spmvbench.analysis.cases import hot
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.speedup import pair_speedups
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.fastload import (
    collected,
    marks_in,
    missing_formats,
    note_coverage,
    published,
    rival_labels,
    variants,
)

name = "fastload-heights"
title = "FastLoad, Table I: heights of blocks"
caption = (
    "For each limit of the height of blocks, and with equal rows added up within a warp (improved, height 1): the "
    "geometric mean of the speed-up over each rival, and the share of the matrices on which FastLoad is faster. "
    "Hollow: the paper, on an RTX 3090 Ti over 2,757 matrices; heights 1 to 8 are nearly equal there, none is worst."
)
papers = "Hu et al. 2024, Table I"
order = 450
performance = True

AGAINST = ("TileSpMV", "CSR5", "cuSPARSE")
_SHOWN = {"speedup": "speed-up, geometric mean", "faster": "share of matrices"}


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, height, over, matrices, collection (how many of them are the collection's), speedup,
    faster (share of the matrices, 0 to 1), published_speedup and published_faster (NaN where the paper has none).

    Raises LeftOut without FastLoad or without a rival.
    """
    labels, others = variants(rows), rival_labels(rows, AGAINST)
    pairs = [(label, rival) for label in labels for rival in others.values()]
    groups = pair_speedups(hot(rows), pairs).groupby(["setting", "label", "over"], observed=True)
    found = groups.agg(
        matrices=("matrix", "size"),
        collection=("matrix", collected),
        speedup=("speedup", geometric_mean),
        faster=("speedup", lambda s: float((s > 1).mean())),
    ).reset_index()
    paper = published("heights").rename(columns={"faster": "published_faster", "speedup": "published_speedup"})
    paper["over"] = paper.pop("rival").map(others)
    found["height"] = found["label"].map(labels)
    order = {height: at for at, height in enumerate(labels.values())}
    found = found.merge(paper, on=["height", "over"], how="left")
    return found.sort_values(
        ["setting", "over", "height"], key=lambda v: v.map(order) if v.name == "height" else v, ignore_index=True
    )


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: speed-ups, and shares of wins."""
    settings, heights = list(table["setting"].unique()), list(dict.fromkeys(table["height"]))
    shown = marks_in(table["over"], options)
    figure, axes = style.grid(2 * len(settings), 2, height=3.0)
    panels = iter(axes)
    for setting in settings:
        for value, text in _SHOWN.items():
            ax = next(panels)
            for over, mark in shown.items():
                part = table[(table["setting"] == setting) & (table["over"] == over)].set_index("height")
                part = part.reindex(heights)
                ax.plot(heights, part[value], color=mark.color, marker=mark.marker, linestyle=mark.line, label=over)
                paper = part[f"published_{value}"]
                ax.plot(heights, paper, color=mark.color, marker=mark.marker, linestyle="", markerfacecolor="none")
            ax.set(title=f"{setting}, {'speed-up' if value == 'speedup' else 'faster'}", ylabel=text)
            ax.set(xlabel="most entries of a column in a block", ylim=(0, 1.02 if value == "faster" else None))
            if value == "speedup":
                ax.axhline(1, color="black", linewidth=1)
            else:
                ax.yaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    handles = [Line2D([], [], color=m.color, marker=m.marker, linestyle=m.line, label=k) for k, m in shown.items()]
    handles.append(Line2D([], [], color=style.INK, marker="o", linestyle="", markerfacecolor="none", label="the paper"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), handlelength=3)
    note_coverage(figure, table["collection"].max(), missing_formats(table["over"], AGAINST))
    return figure
