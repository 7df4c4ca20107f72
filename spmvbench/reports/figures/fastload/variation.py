"""Fig. 8: speed-up by how much row lengths vary."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.speedup import pair_speedups
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.fastload import (
    PROJECT,
    collected,
    marks_in,
    missing_formats,
    most_advanced,
    note_coverage,
    rival_labels,
)

name = "fastload-variation"
title = "FastLoad, Fig. 8: speed-up by variation of row lengths"
caption = (
    "Speed-up of FastLoad over each rival, by the coefficient of variation of the row lengths (0: all rows are equally "
    "long); above the line FastLoad is faster. The paper: the gain is largest if row lengths vary little; over "
    "TileSpMV there is little gain if they vary much."
)
papers = "Hu et al. 2024, Figure 8"
order = 440
performance = True

PAIRS = (("cuSPARSE", "basic CSC"), ("CSR5", "TileSpMV"))  # the paper's two panels


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, over, method (the rival's name in the paper), row_len_cv, speedup.

    Raises LeftOut without FastLoad or without a rival.
    """
    label, others = most_advanced(rows), rival_labels(rows)
    found = pair_speedups(hot(rows), [(label, rival) for rival in others.values()])
    found["method"] = found["over"].map({rival: name.removesuffix(PROJECT) for name, rival in others.items()})
    variation = rows.drop_duplicates("matrix").set_index("matrix")["row_len_cv"]
    found = found.join(variation, on="matrix")
    return found[["setting", "matrix", "label", "over", "method", "row_len_cv", "speedup"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: a panel a pair of rivals, as the paper has them."""
    settings = list(table["setting"].unique())
    shown = marks_in(table["over"], options)
    points = table.drop(columns="label").rename(columns={"over": "label"})  # points bear the mark of the rival
    pairs = [pair for pair in PAIRS if set(pair) & set(table["method"])]
    figure, axes = style.grid(len(settings) * len(pairs), len(pairs))
    panels = iter(axes)
    for setting in settings:
        for pair in pairs:
            ax = next(panels)
            part = points[(points["setting"] == setting) & points["method"].isin(pair)]
            ax.set(title=f"{setting}, over {' and '.join(pair)}", yscale="log", ylabel="speed-up")
            ax.axhline(1, color="black", linewidth=1)
            style.scatter(ax, part, "row_len_cv", "speedup", shown)
            if len(part):
                ax.set_ylim(min(part["speedup"].min(), 1) / 1.3, max(part["speedup"].max(), 1) * 1.3)
            ax.set_xscale("symlog", linthresh=0.1)
            ax.set_xlim(-0.01, max(table["row_len_cv"].max(), 0.1) * 1.5)
            ax.set_xlabel("coefficient of variation of the row lengths")
            ax.xaxis.set_major_formatter("{x:g}")
            style.plain_ticks(ax.yaxis)
    style.legend(figure, shown)
    note_coverage(figure, collected(table["matrix"]), missing_formats(table["over"]))
    return figure
