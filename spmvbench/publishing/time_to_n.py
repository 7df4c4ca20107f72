"""The table "time to N products" of README.md and docs/results/operators.md: conversion and N SpMVs over cuSPARSE's."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from spmvbench.analysis.cases import hot, latest_cases, natural_products
from spmvbench.analysis.products import ADVISED, CUPY, MEASURED, ORACLE, SINGLE, products
from spmvbench.errors import UsageError, percent
from spmvbench.publishing import in_page
from spmvbench.reports import advised
from spmvbench.rows import store

NUMBERS = (1, 10, 100, 1_000, 10_000, 1_000_000)  # of SpMVs
SHOWN = (ADVISED, MEASURED, SINGLE, CUPY)


def markdown(found: pd.DataFrame) -> str:
    """The table. found: as `products`, of one setting.

    By N: the share of the matrices on which the time is near that of cuSPARSE or below, and the geometric mean of
    cuSPARSE's time over it. The first column is the share on which it is near or below for every N. Without the advice
    the first line is the format with the least time on each matrix.
    """
    shown = SHOWN if ADVISED in set(found["chooser"]) else (ORACLE, *SHOWN)
    found = found[found["chooser"].isin(shown) & found["spmvs"].isin(NUMBERS)]
    lines = []
    for chooser, part in found.groupby("chooser", sort=False):
        cells = (f"{percent(x.within)}, {x.speedup:.2f}" for x in part.itertuples())
        lines.append([chooser, percent(part["always"].iloc[0]), *cells])
    return in_page.markdown(("Choice", "For every N", *(f"{n:,}" for n in NUMBERS)), lines)


def rows_of(run: Path | str) -> pd.DataFrame:
    """The hot double-precision rows of a run."""
    rows = store.load(run)
    return hot(natural_products(latest_cases(rows[rows["dtype"] == "f64"])))


def of_run(run: Path | str) -> pd.DataFrame:
    """`products` of `rows_of`. Raises UsageError if the run has no row of cuSPARSE's CSR."""
    rows = rows_of(run)
    found = products(rows, advised.choices(rows))
    if found.empty:
        raise UsageError(f"{run} has no verified row of cuSPARSE's CSR in double precision")
    return found


main = in_page.command(lambda given: markdown(of_run(given.run)), in_page.RUN)
