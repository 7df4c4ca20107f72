"""Who ranks whom: standings over all matrices, the best format of each, the baseline that others are compared with."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import right
from spmvbench.analysis.programs import named_once, same_as

# The usual reference is row-wise CSR: ours runs on every device, the vendor's is what papers compare with.
BASELINES = ("csr-lanes", "csr-vector", "cusparse-csr-alg2", "cusparse-csr-alg1", "csr-scalar")

# Times within half a per cent are equal: a median is measured no nearer than that.
TIE = 1.005
# From which factor on a format is out of reach, as far behind as one that cannot hold the matrix.
REACH = 10.0


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """The right rows with a positive rate and a column `ratio`: time over the best time on the matrix, 1 for a win."""
    counted = right(rows)
    counted = counted[counted["gflops"] > 0]
    best = counted.groupby(["setting", "matrix"], observed=True)["t_median"].transform("min")
    return counted.assign(ratio=counted["t_median"] / best)


def standings(rows: pd.DataFrame) -> pd.DataFrame:
    """How formats stand on common ground: a row for each setting and label with a right row, by these two.

    A label that is another's name everywhere (`programs.other_names`) has none.

    behind: geometric mean, over all matrices of the setting that any format holds, of time over the best time; REACH
    where that is more, or where the format has no right row. 1 is the fastest everywhere, REACH never within reach.
    So every format is judged on the same matrices, one that it cannot hold costs as much as being far slower, and no
    single matrix decides; it is the area above the performance profile up to tau = REACH, as a factor.

    wins: matrices on which no other program came within TIE of it; ties: those on which it shares the win. A program
    of several names wins under the one that stands for it (`programs.same_as`).
    """
    table = ranked(named_once(rows))
    first = (table["ratio"] <= TIE) & (same_as(table) == "")
    sharing = first.groupby([table["setting"], table["matrix"]], observed=True).transform("sum")
    table = table.assign(
        log=np.log(table["ratio"].clip(upper=REACH)), wins=first & (sharing == 1), ties=first & (sharing > 1)
    )
    grouped = table.groupby(["setting", "label"], observed=True)
    found = grouped.agg(log=("log", "sum"), held=("log", "size"), wins=("wins", "sum"), ties=("ties", "sum"))
    matrices = table.groupby("setting", observed=True)["matrix"].nunique()
    every = matrices.reindex(found.index.get_level_values("setting")).to_numpy()
    behind = np.exp((found["log"] + (every - found["held"]) * math.log(REACH)) / every)
    return found.assign(behind=behind)[["behind", "wins", "ties"]]


def in_order(rows: pd.DataFrame) -> list[str]:
    """The labels with a right row by their standings over all settings, the best first; a setting without them counts
    as REACH.
    """
    behind = standings(rows)["behind"]
    if behind.empty:
        return []
    by_setting = np.log(behind.unstack("setting").fillna(REACH))
    mean = by_setting.mean(axis="columns").round(12)  # to the last bit it would hang on the order of the settings
    return sorted(mean.index, key=lambda label: (mean[label], label))


def best_formats(rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest format of each matrix: columns setting, matrix, label, gflops, margin, tied.

    margin: time of the second over time of the best (>= 1; NaN where nothing else was right). tied: the others within
    TIE, by name. Among those the label is the one that stands first over all matrices of the setting. A program of
    several names counts once, under the one that stands for it (`programs.same_as`).
    """
    table = ranked(named_once(rows))
    table = table[same_as(table) == ""]
    table = table.join(standings(rows)["behind"], on=["setting", "label"])
    case = ["setting", "matrix"]
    second = table.sort_values([*case, "ratio"]).groupby(case, observed=True)["ratio"].nth(1)
    second = table.loc[second.index].set_index(case)["ratio"]
    order = table[table["ratio"] <= TIE].sort_values([*case, "behind", "label"], kind="stable")
    groups = order.groupby(case, observed=True)
    first = order[groups.cumcount() == 0].set_index(case)
    tied = (
        order[groups.cumcount() > 0].groupby(case, observed=True)["label"].agg(lambda labels: ", ".join(sorted(labels)))
    )
    return (
        first[["label", "gflops"]]
        .assign(margin=second.reindex(first.index), tied=tied.reindex(first.index).fillna(""))
        .reset_index()
    )


def default_baseline(rows: pd.DataFrame) -> str | None:
    """The label to compare with: plain CSR where it was measured, else the label right on most matrices, else None."""
    counts = right(rows)["label"].value_counts()
    known = [label for label in BASELINES if label in counts]
    if known or counts.empty:
        return known[0] if known else None
    return min(counts[counts == counts.max()].index)
