"""Tables 1 and 2: the speed-up over each rival, in single and in double precision."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import both_kernels, hot, of_one_operation
from spmvbench.analysis.speedup import pair_speedups, pair_summary
from spmvbench.reports.figures import LeftOut, Options, verified_labels
from spmvbench.reports.figures.ehyb import RIVALS, methods
from spmvbench.reports.tables import Column, Table, number, percent, table

name = "ehyb-speedups"
title = "EHYB, Tables 1 and 2: speed-up over each rival"
caption = (
    "On the matrices verified for both: the share on which EHYB is faster, and the largest, smallest and arithmetic "
    "mean speed-up, as in the paper. The paper, on a V100, means: csr5 1.53 in single and 1.38 in double precision, "
    "merge path 1.52 and 1.41, cuSPARSE ALG1 1.52 and 1.45, ALG2 1.90 and 1.59, hola 1.30 and 1.50, yaSpMV (here "
    "bccoo) 1.13 in single precision, 1.15 in its text; faster on all matrices, than yaSpMV on 60.6 % of them. If the "
    "run has rows of conjugate gradients, the column CG is the arithmetic mean of the speed-up of a whole solver."
)
papers = "Chen 2022, Tables 1 and 2"
order = 330
performance = True
EVERY_OPERATION = True  # compares SpMV with a solver


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.speedup.pair_summary`, every EHYB over every rival, of y = A x. Raises LeftOut without either.

    With rows of `cg@N` there are two more columns: cg, the mean of the speed-up in them, and cg_matrices, on which both
    are verified there.
    """
    products = of_one_operation(rows)
    ours, rivals = methods(products), both_kernels(products, verified_labels(products, RIVALS))
    pairs = [(label, rival) for label in ours for rival in rivals]
    found = pair_speedups(hot(products), pairs)
    if found.empty:
        raise LeftOut("no matrix is verified for both EHYB and a rival")
    solved = pair_speedups(hot(rows[rows["op"].str.startswith("cg@")]), pairs)
    if solved.empty:
        return pair_summary(found)
    # The settings of y = A x lack the name of the operation.
    solved = solved.assign(setting=solved["setting"].astype(str).str.replace(r" cg@\d+", "", regex=True))
    by_pair = solved.groupby(["setting", "label", "over"])
    means = by_pair["speedup"].mean().rename("cg").to_frame().assign(cg_matrices=by_pair["matrix"].nunique())
    summary = pair_summary(found)
    of_pairs = means.reindex(pd.MultiIndex.from_frame(summary[["setting", "label", "over"]].astype(str)))
    return summary.assign(**{name: of_pairs[name].to_numpy() for name in of_pairs})


_COLUMNS = [
    Column("label", "EHYB"),
    Column("over", "Over"),
    Column("matrices", "Matrices", number, "matrices that are verified for both"),
    Column("won", "Faster", percent, "share of them on which EHYB is faster"),
    Column("max", "Max", number, "largest speed-up"),
    Column("min", "Min", number, "smallest speed-up"),
    Column("mean", "Mean", number, "arithmetic mean of the speed-ups"),
]
_SOLVER = [
    Column("cg", "CG", number, "arithmetic mean of the speed-ups in conjugate gradients"),
    Column("cg_matrices", "Matrices, CG", number, "matrices that are verified for both in conjugate gradients"),
]


def show(found: pd.DataFrame, options: Options) -> list[Table]:
    """One table per setting, a row a pair."""
    columns = _COLUMNS + (_SOLVER if "cg" in found else [])
    return [table(str(setting), part, columns) for setting, part in found.groupby("setting", observed=True)]
