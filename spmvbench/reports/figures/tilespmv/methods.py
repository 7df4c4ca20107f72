"""Fig. 6: GFLOPS of the three methods, and what each step of them gains."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.reports import head_to_head
from spmvbench.reports.figures import Options, missing_formats
from spmvbench.reports.figures.tilespmv import METHODS, marks_in, tile_methods

name = "tilespmv-methods"
title = "TileSpMV, Fig. 6: the three methods"
caption = (
    "Every tile in CSR (tile-csr), in the best of seven formats (tile), and with the very sparse part deferred to CSR5 "
    "(tile-deferred-coo; below 1.8 million nonzeros it is tile). The "
    "paper, in double precision on Titan RTX and A100: tile up to 6.75 times as fast as tile-csr, the more the "
    "larger the matrix; tile-deferred-coo up to 7.02 times as fast as tile."
)
papers = "Niu et al. 2021, Figure 6"
order = 210
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `head_to_head.table`, each method over the one before it. Raises LeftOut without two methods."""
    labels = tile_methods(rows, least=2)
    return head_to_head.table(hot(rows), labels, [(better, label) for label, better in pairwise(labels)])


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: GFLOPS, then one panel per step."""
    return head_to_head.draw(table, marks_in(table, options), missing_formats(METHODS, table["label"]))
