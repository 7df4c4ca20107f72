"""Fig. 8: against merge-based CSR, CSR5 and BSR."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot, matching_kernels
from spmvbench.reports import head_to_head
from spmvbench.reports.figures import Options, missing_formats
from spmvbench.reports.figures.tilespmv import RIVALS, compared, marks_in

name = "tilespmv-rivals"
title = "TileSpMV, Fig. 8: against merge path, CSR5 and BSR"
caption = (
    "GFLOPS, and the speed-up of TileSpMV over each rival: above the line TileSpMV is faster. The paper, in double "
    "precision: faster than merge-csr on 1,813, than csr5 on 2,040 and than cuSPARSE's BSR of 4 x 4 blocks on 1,638 of "
    "2,757 matrices, up to 2.61 (exdata_1), 3.96 (rel8) and 426.59 times (lp_osa_60); at most 288 GFLOPS on an A100 "
    "(TSOPF_RS_b2383), where merge-csr stays below 200 and csr5 reaches 210."
)
papers = "Niu et al. 2021, Figure 8"
order = 230
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `head_to_head.table`, the most advanced tile method over each rival. Raises LeftOut without either."""
    ours, rivals = compared(rows)
    return head_to_head.table(hot(rows), [*ours, *rivals], matching_kernels(ours, rivals))


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: GFLOPS, then one panel per rival."""
    return head_to_head.draw(table, marks_in(table, options), missing_formats(RIVALS, table["label"]))
