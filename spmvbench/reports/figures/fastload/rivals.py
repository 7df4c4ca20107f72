"""Fig. 7: speed-up over each rival, by workload."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.reports import head_to_head
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.fastload import (
    collected,
    marks_in,
    missing_formats,
    most_advanced,
    note_coverage,
    rival_labels,
)

name = "fastload-rivals"
title = "FastLoad, Fig. 7: speed-up by workload"
caption = (
    "GFLOPS, and the speed-up of FastLoad over each rival: above the line FastLoad is faster. The paper, in double "
    "precision on an RTX 3090 Ti: faster than cuSPARSE on 2,326, than CSR5 on 2,402, than the basic CSC on 2,342 and "
    "than TileSpMV on 1,978 of 2,757 matrices, in the geometric mean 2.98, 2.88, 2.12 and 1.22 times as fast; the "
    "larger the matrix, the less over cuSPARSE and CSR5. It sorts x and sets y to zero outside of its times."
)
papers = "Hu et al. 2024, Figure 7"
order = 430
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `head_to_head.table`, FastLoad over each rival. Raises LeftOut without either."""
    label, others = most_advanced(rows), list(rival_labels(rows).values())
    return head_to_head.table(hot(rows), [label, *others], [(label, rival) for rival in others])


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: GFLOPS, then one panel per rival."""
    figure = head_to_head.draw(table, marks_in(table["label"], options))
    note_coverage(figure, collected(table["matrix"]), missing_formats(table["label"]))
    return figure
