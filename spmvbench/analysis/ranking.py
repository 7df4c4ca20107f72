"""Who is fastest: the best format of each matrix, and the baseline that others are compared with."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import right

# The usual reference is row-wise CSR: ours runs on every device, the vendor's is what papers compare with.
BASELINES = ("csr-lanes", "csr-vector", "cusparse-csr-alg2", "cusparse-csr-alg1", "csr-scalar")


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """The right rows with a positive rate and a column `ratio`: time over the best time on the matrix, 1 for a win."""
    counted = right(rows)
    counted = counted[counted["gflops"] > 0]
    best = counted.groupby(["setting", "matrix"], observed=True)["t_median"].transform("min")
    return counted.assign(ratio=counted["t_median"] / best)


def best_formats(rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest format of each matrix: columns setting, matrix, label, gflops, margin.

    margin: time of the second over time of the best (>= 1; NaN where nothing else was right). Among equals the first
    by name stands for all.
    """
    order = ranked(rows).sort_values(["setting", "matrix", "ratio", "label"], kind="stable")
    groups = order.groupby(["setting", "matrix"], observed=True)
    first = order[groups.cumcount() == 0].set_index(["setting", "matrix"])
    second = order[groups.cumcount() == 1].set_index(["setting", "matrix"])["ratio"]
    return first[["label", "gflops"]].assign(margin=second.reindex(first.index)).reset_index()


def default_baseline(rows: pd.DataFrame) -> str | None:
    """The label to compare with: plain CSR where it was measured, else the label right on most matrices, else None."""
    counts = right(rows)["label"].value_counts()
    known = [label for label in BASELINES if label in counts]
    if known or counts.empty:
        return known[0] if known else None
    return min(counts[counts == counts.max()].index)
