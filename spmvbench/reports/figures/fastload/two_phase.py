"""Fig. 5: the two phases with coalesced loads and stores, compared with whole SpMVs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.kernel_breakdown import kernel_times
from spmvbench.analysis.ranking import ranked
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, by_setting, over_nonzeros
from spmvbench.reports.figures.fastload import collected, marks_in, missing_formats, note_coverage, rival_labels

name = "fastload-two-phase"
title = "FastLoad, Fig. 5: bound of coalesced loads and stores"
caption = (
    "2 nnz over the time of two kernels of two-phase, all products and all sums. The paper leaves out the "
    "rearrangement between them, sorting x and setting y to zero; so does this figure. No program could multiply like "
    "this: it is a bound that enters no ranking. The paper: faster than all others on over 200 matrices."
)
papers = "Hu et al. 2024, Figure 5"
order = 420
performance = True

PHASES = ("multiply", "add")
AGAINST = ("TileSpMV", "cuSPARSE", "CSR5")


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, nnz, gflops. Raises LeftOut without two-phase or without a rival."""
    kernels = kernel_times(rows[rows["format"] == "two-phase"])
    kernels = kernels[kernels["kernel"].isin(PHASES)]
    if kernels.empty:
        raise LeftOut("no verified row of two-phase with a kernel breakdown")
    keys = ["setting", "matrix", "label", "nnz"]
    phases = kernels.groupby(keys, observed=True)["seconds"].agg(["sum", "size"]).reset_index()
    phases = phases[(phases["size"] == len(PHASES)) & (phases["nnz"] > 0)]
    phases = phases.assign(gflops=2e-9 * phases["nnz"] / phases["sum"])
    whole = rows[rows["label"].isin(rival_labels(rows, AGAINST).values()) & rows["matrix"].isin(phases["matrix"])]
    return pd.concat([ranked(hot(whole)), phases], ignore_index=True)[[*keys, "gflops"]]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting, both axes logarithmic."""
    figure, panels = by_setting(table)
    shown = marks_in(table["label"], options)
    for ax, setting, part in panels:
        over_nonzeros(ax, part, "gflops", shown, title=setting, ylabel="GFLOPS")
    style.legend(figure, shown)
    note_coverage(figure, collected(table["matrix"]), missing_formats(table["label"], AGAINST))
    return figure
