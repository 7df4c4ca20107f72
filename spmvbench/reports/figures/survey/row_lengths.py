"""Fig. 9 and 11: distributions of row lengths."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.matrices.sets import short_name
from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.survey import described

name = "survey-row-lengths"
title = "Survey, Fig. 9 and 11: row lengths"
caption = (
    "Number of rows by length, from the matrix with the most even rows to that with the most uneven ones (by the "
    "coefficient of variation, CV): those of the survey's figures that the run has, and others at equal steps. Both "
    "axes are logarithmic if rows are longer than 100 entries; empty rows are drawn at 0."
)
papers = "Filippone et al. 2017, Figures 9 and 11"
order = 140
performance = False
any_matrix = True  # matrices of their own worth

WANTED = ("Williams/webbase-1M", "SNAP/wiki-Talk")
MOST = 12
LONG = 100


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, row_len_cv, length, rows; a matrix without a description has NaN. Raises LeftOut."""
    found, missing = described(rows, options, WANTED, MOST)
    table = found[["matrix", "row_len_cv", "row_lengths", "row_counts"]].explode(["row_lengths", "row_counts"])
    table = table.rename(columns={"row_lengths": "length", "row_counts": "rows"})
    return pd.concat([table, pd.DataFrame({"matrix": missing})], ignore_index=True)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per matrix."""
    known = table.dropna(subset="rows").astype({"length": int, "rows": int})
    matrices = list(known["matrix"].unique())
    figure, axes = style.grid(len(matrices), min(4, len(matrices)), height=2.3)
    for ax, matrix in zip(axes, matrices, strict=True):
        part = known[known["matrix"] == matrix]
        ax.set_title(f"{short_name(matrix)}, CV {part['row_len_cv'].iloc[0]:.2g}", fontsize=9)
        ax.set(xlabel="entries of a row", ylabel="rows")
        if part["length"].max() > LONG:
            ax.scatter(part["length"], part["rows"], s=7, color=style.COLOR, linewidths=0)
            ax.set_xscale("symlog", linthresh=1)
            ax.set_yscale("log")
            ax.set_xlim(-0.3, part["length"].max() * 1.6)
            style.count_ticks(ax.yaxis)
            ax.xaxis.set_major_formatter(style.COUNTS)
        else:
            ax.bar(part["length"], part["rows"], width=0.8, color=style.COLOR)
            ax.set_xlim(part["length"].min() - 1, part["length"].max() + 1)
            ax.locator_params(axis="x", integer=True)
            ax.yaxis.set_major_formatter(style.COUNTS)
    style.missing(figure, list(table.loc[table["rows"].isna(), "matrix"]), "Measured before runs kept this")
    return figure
