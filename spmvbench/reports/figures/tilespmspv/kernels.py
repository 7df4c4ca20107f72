"""Fig. 9: TileBFS with one, two and three of its kernels."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.reports.figures import Options
from spmvbench.reports.figures.tilespmspv import SEARCH, bars, representative, searched, variants

name = "tilespmspv-kernels"
title = "TileBFS, Fig. 9: one, two and three kernels"
caption = (
    "GTEPS with Push-CSC alone, with Push-CSC and Push-CSR, and with Pull-CSC as well, selected by the rule. The "
    "paper: on dielFilterV2clx faster by 2.32 and by 7.91 times (it does not say than what)."
)
papers = "Ji et al. 2022, Figure 9"
order = 540
performance = True

STEPS = (f"{SEARCH}[kernels=1]", f"{SEARCH}[kernels=12]", SEARCH)


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `representative` of this package, of TileBFS with fewer and all kernels. Raises LeftOut without fewer."""
    rows = searched(rows, (SEARCH,))
    return representative(rows, variants(rows, STEPS))[["setting", "matrix", "label", "nnz", "gflops"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One group of bars per matrix, one bar per number of kernels."""
    labels = [label for label in STEPS if label in set(table["label"])]
    return bars(table, "gflops", "GTEPS", options.marks_of(labels), [step for step in STEPS if step not in labels])
