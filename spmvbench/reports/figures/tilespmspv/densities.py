"""Fig. 6: a sparse x of four densities, against TileSpMV, BSR and others."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot, labels_of
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.reports import head_to_head, style
from spmvbench.reports.figures import Options, missing_formats, verified_labels
from spmvbench.reports.figures.tilespmspv import RIVALS, SPARSE, TILE_SPMV, beside_dense, marks_in

name = "tilespmspv-densities"
title = "TileSpMSpV, Fig. 6: a sparse x"
caption = (
    "GFLOPS, of all 2 nnz flops whatever x holds, and the speed-up of TileSpMSpV over each rival, by the density of "
    "x: above the line TileSpMSpV is faster, with geometric means. TileSpMV, BSR and the merge path take a dense x; "
    "their rows are those of SpMV. The bucket algorithm is ours after Azad and Buluc, as is the plain push over "
    "columns. The paper, on an RTX 3090 at densities of 0.1, 0.01, 0.001 and 0.0001: in the geometric mean 1.10, "
    "1.65, 2.20 and 2.38 times as fast as TileSpMV, 7.58, 13.78, 22.43 and 24.95 times as cuSPARSE's BSR, 13.46, "
    "14.85, 20.06 and 20.43 times as its bucket algorithm; at most 79.43 GFLOPS (trans5)."
)
papers = "Ji et al. 2022, Figure 6"
order = 510
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `head_to_head.table`, TileSpMSpV over each rival. Raises LeftOut without TileSpMSpV, or without any rival."""
    rows = hot(rows)
    ours = verified_labels(rows, (SPARSE,))
    rivals = [*labels_of(rows, TILE_SPMV)[:1], *labels_of(rows, RIVALS)] or verified_labels(rows, (*TILE_SPMV, *RIVALS))
    return head_to_head.table(
        beside_dense(rows), [*ours, *rivals], [(label, over) for label in ours for over in rivals]
    )


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One column per density; for each type a row of rates, and one of speed-ups with the marks of the rivals."""
    shown = marks_in(table, options)
    place = table["setting"].astype(str).str.extract(r"(?P<type>.*?) spmspv@(?P<density>\S+)(?P<device>.*)")
    table = table.assign(row=place["type"] + place["device"], density=place["density"])
    rows, densities = table["row"].unique(), list(table["density"].unique())
    figure, axes = style.grid(2 * len(rows) * len(densities), len(densities), height=2.5)
    panels = iter(axes)
    for row in rows:
        for rate in (True, False):
            for density in densities:
                ax = next(panels)
                part = table[(table["row"] == row) & (table["density"] == density) & ((table["over"] == "") == rate)]
                if rate:
                    _over_nonzeros(ax, part, "gflops", shown)
                    ax.set(title=f"{row}, {density}", ylabel="GFLOPS")
                else:
                    means = part.groupby("over", sort=False)["speedup"].agg(geometric_mean)
                    _over_nonzeros(ax, part.assign(label=part["over"]), "speedup", shown)
                    ax.axhline(1, color="black", linewidth=1)
                    ax.set(title=f"over rivals, {density}", ylabel="speed-up")
                    low, high = part["speedup"].min(), part["speedup"].max()
                    ax.set_ylim(min(low, 1) / 1.3, max(high, 1) * 1.8 ** len(means))  # room for the text
                    text = "\n".join(f"{mean:.2f}x {over}" for over, mean in means.items())
                    ax.text(0.02, 0.98, text, transform=ax.transAxes, va="top", fontsize=7, in_layout=False)
                style.plain_ticks(ax.yaxis)
    style.legend(figure, shown)
    missing = missing_formats(RIVALS, table["label"])
    if len(missing_formats(TILE_SPMV, table["label"])) == len(TILE_SPMV):
        missing = [TILE_SPMV[0], *missing]
    style.missing(figure, missing)
    return figure


def _over_nonzeros(ax: Axes, part: pd.DataFrame, value: str, shown: Mapping[str, style.Mark]) -> None:
    style.scatter(ax, part, "nnz", value, shown)
    style.trend(ax, part, "nnz", value, shown)
    ax.set(xscale="log", yscale="log", xlabel="nonzeros")
    style.count_ticks(ax.xaxis)
