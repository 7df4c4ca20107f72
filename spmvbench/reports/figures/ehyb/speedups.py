"""Tables 1 and 2: the speed-up over each rival, in single and in double precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from spmvbench.analysis.cases import both_kernels, hot
from spmvbench.analysis.speedup import pair_speedups, pair_summary
from spmvbench.reports.figures import LeftOut, Options, verified_labels
from spmvbench.reports.figures.ehyb import RIVALS, methods
from spmvbench.reports.tables import Column, Table, number, percent, table

name = "ehyb-speedups"
title = "EHYB, Tables 1 and 2: speed-up over each rival"
caption = (
    "On the matrices verified for both: the share on which EHYB is faster, and the largest, smallest and arithmetic "
    "mean speed-up, as in the paper. The paper, on a V100, means: csr5 1.53 in single and 1.38 in double precision, "
    "merge path 1.52 and 1.41, cuSPARSE ALG1 1.52 and 1.45, ALG2 1.90 and 1.59, hola 1.30 and 1.50, yaSpMV 1.13 in "
    "single precision; faster on all matrices, than yaSpMV on 60.6 % of them."
)
papers = "Chen 2022, Tables 1 and 2"
order = 330
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.speedup.pair_summary`, every EHYB over every rival. Raises LeftOut without either."""
    ours, rivals = methods(rows), both_kernels(rows, verified_labels(rows, RIVALS))
    found = pair_speedups(hot(rows), [(label, rival) for label in ours for rival in rivals])
    if found.empty:
        raise LeftOut("no matrix is verified for both EHYB and a rival")
    return pair_summary(found)


_COLUMNS = [
    Column("label", "EHYB"),
    Column("over", "Over"),
    Column("matrices", "Matrices", number, "matrices that are verified for both"),
    Column("won", "Faster", percent, "share of them on which EHYB is faster"),
    Column("max", "Max", number, "largest speed-up"),
    Column("min", "Min", number, "smallest speed-up"),
    Column("mean", "Mean", number, "arithmetic mean of the speed-ups"),
]


def show(found: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> list[Table]:
    """One table per setting, a row a pair."""
    return [table(str(setting), part, _COLUMNS) for setting, part in found.groupby("setting", observed=True)]
