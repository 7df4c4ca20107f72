"""Bytes per nonzero."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import footprints
from spmvbench.reports import style
from spmvbench.reports.figures import Options

name = "bytes"
title = "Bytes per nonzero"
caption = (
    "Bytes of the allocated arrays over the nonzeros: median, middle half, and 5 to 95 % of the matrices that the "
    "format holds, whose number is at the right. CSR takes a little over 12 bytes in f64 and 8 in f32 if rows are "
    "long."
)
papers = "Filippone et al. 2017, Table 9"
order = 70
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.breakeven.footprints`."""
    return footprints(rows)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per format, one panel per type, smallest first."""
    return style.ranges(
        table, "bytes_per_nnz", "dtype", options.marks, "bytes per nonzero",
        note=lambda rows: f"{len(rows):,}", note_title="matrices",
    )  # fmt: skip
