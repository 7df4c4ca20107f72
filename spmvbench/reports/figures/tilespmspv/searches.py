"""Fig. 7: searches over all matrices."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import labels_of
from spmvbench.reports import head_to_head
from spmvbench.reports.figures import Options, missing_formats, verified_labels
from spmvbench.reports.figures.tilespmspv import SEARCH, SEARCHES, marks_in, searched

name = "tilespmspv-searches"
title = "TileBFS, Fig. 7: compared with searches over adjacency lists"
caption = (
    "GTEPS: arcs that leave reached vertices over the mean time from all sources, and the speed-up of TileBFS. Gunrock "
    "and GSwitch, the paper's rivals, do not run here; this project's push-only and direction-optimizing searches are "
    "compared instead. The paper, on an RTX 3090 over 2,081 matrices: in the geometric mean 2.74 times as fast as "
    "Gunrock (faster on 93.99 % of them, at most 21.01 times) and 4.69 times as fast as GSwitch (68.6 %, at most "
    "1164.35 times)."
)
papers = "Ji et al. 2022, Figure 7"
order = 520
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `head_to_head.table`, TileBFS over each rival. Raises LeftOut without TileBFS, or without any rival."""
    rows = searched(rows, (SEARCH, *SEARCHES))
    ours, rivals = labels_of(rows, (SEARCH,)), verified_labels(rows, SEARCHES)
    return head_to_head.table(rows, [*ours, *rivals], [(label, over) for label in ours for over in rivals])


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: GTEPS, then one panel per rival."""
    return head_to_head.draw(table, marks_in(table, options), missing_formats(SEARCHES, table["label"]))
