"""Fig. 8: searches in the 12 representative matrices, one by one."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import labels_of
from spmvbench.reports.figures import Options, missing_formats
from spmvbench.reports.figures.tilespmspv import SEARCH, SEARCHES, bars, marks_in, representative, searched

name = "tilespmspv-representative"
title = "TileBFS, Fig. 8: 12 representative matrices"
caption = (
    "GTEPS on the matrices of the paper's Table 2, in its order, then on those of the run with the most nonzeros. The "
    "paper: 2.33 times as fast as Gunrock and 2.65 times as fast as GSwitch, which do not run here, in the mean over "
    "its matrices."
)
papers = "Ji et al. 2022, Figure 8"
order = 530
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `representative` of this package, of all searches. Raises LeftOut without TileBFS."""
    rows = searched(rows, (SEARCH, *SEARCHES))
    return representative(rows, labels_of(rows, (SEARCH, *SEARCHES)))[["setting", "matrix", "label", "nnz", "gflops"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One group of bars per matrix, one bar per search."""
    return bars(table, "gflops", "GTEPS", marks_in(table, options), missing_formats(SEARCHES, table["label"]))
