"""Rankings: mean slowdown over all matrices, the fastest format and all slowdowns of each matrix, the baseline."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import counted, verified
from spmvbench.analysis.programs import same_as, without_aliases

# The usual reference is row-wise CSR: this project's kernels run on every device, papers compare with the vendor's. The
# last two are in imported rows alone.
BASELINES = (
    "csr-lanes",
    "csr-vector",
    "cusparse-csr-alg2",
    "cusparse-csr-alg1",
    "csr-scalar",
    "cusparse-csr",
    "ginkgo-csr",
)

# cuSPARSE's CSR: the first that was measured is what others are compared with.
VENDORS = ("cusparse-csr-alg1", "cusparse-csr-alg2")

# Times within this factor are tied: medians are measured to within 0.5 %.
TIE = 1.005
# Slowdowns are capped here. A matrix that a format failed or skipped counts as this slowdown.
SLOWDOWN_CAP = 10.0

# Columns that `mean_slowdowns` reads, where a table has them. Each selection of rows copies all columns of a table, and
# a row has more than a hundred.
RANKING = (
    "setting", "matrix", "label", "format", "params", "status", "experiment", "alias_of", "program", "t_median",
    "gflops",
)  # fmt: skip


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """The verified rows with a positive rate; the column `ratio` is their slowdown, time over the best time, >= 1."""
    found = verified(rows)
    found = found[found["gflops"] > 0]
    best = found.groupby(["setting", "matrix"], observed=True)["t_median"].transform("min")
    return found.assign(ratio=found["t_median"] / best)


def mean_slowdowns(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean slowdown, wins and ties of each setting and label (the index) with a verified row.

    Labels that are another's name on every matrix (`programs.aliases`) have no row.

    mean_slowdown: geometric mean, over all matrices of the setting that any format holds, of time divided by the best
    time, capped at SLOWDOWN_CAP. Failed and skipped matrices count as SLOWDOWN_CAP, so that all formats are compared on
    the same matrices and no single matrix decides. Its logarithm is the area above the performance profile, over log
    tau, up to tau = SLOWDOWN_CAP.

    wins: matrices on which no other program came within TIE of the format; ties: matrices on which it shares the win.
    A program with several names wins under its representative name (`programs.same_as`).
    """
    return mean_slowdowns_of(ranked(without_aliases(rows.filter(items=RANKING))))


def mean_slowdowns_of(table: pd.DataFrame) -> pd.DataFrame:
    """As `mean_slowdowns`, of a table that is `ranked` and has no labels that are another's name."""
    first = (table["ratio"] <= TIE) & (same_as(table) == "")
    sharing = first.groupby([table["setting"], table["matrix"]], observed=True).transform("sum")
    table = table.assign(
        log=np.log(table["ratio"].clip(upper=SLOWDOWN_CAP)), wins=first & (sharing == 1), ties=first & (sharing > 1)
    )
    grouped = table.groupby(["setting", "label"], observed=True)
    found = grouped.agg(log=("log", "sum"), held=("log", "size"), wins=("wins", "sum"), ties=("ties", "sum"))
    matrices = table.groupby("setting", observed=True)["matrix"].nunique()
    every = matrices.reindex(found.index.get_level_values("setting")).to_numpy()
    slowdown = np.exp((found["log"] + (every - found["held"]) * math.log(SLOWDOWN_CAP)) / every)
    return found.assign(mean_slowdown=slowdown)[["mean_slowdown", "wins", "ties"]]


def by_mean_slowdown(rows: pd.DataFrame) -> list[str]:
    """The labels with a verified row, ordered by mean slowdown over all settings, the lowest first.

    A setting in which a label has no verified row counts as SLOWDOWN_CAP.
    """
    slowdowns = mean_slowdowns(rows)["mean_slowdown"]
    if slowdowns.empty:
        return []
    by_setting = np.log(slowdowns.unstack("setting").fillna(SLOWDOWN_CAP))
    mean = by_setting.mean(axis="columns").round(12)  # the last bits depend on the order of the settings
    return sorted(mean.index, key=lambda label: (mean[label], label))


def best_formats(rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest format of each matrix: columns setting, matrix, label, gflops, margin, tied.

    margin: time of the second format over time of the best (>= 1; NaN if no other was verified). tied: the other labels
    within TIE, sorted. Of tied formats, `label` is the one with the lowest mean slowdown in the setting. A program with
    several names counts once, under its representative name (`programs.same_as`).
    """
    table = ranked(without_aliases(rows))
    table = table[same_as(table) == ""]
    table = table.join(mean_slowdowns(rows)["mean_slowdown"], on=["setting", "label"])
    case = ["setting", "matrix"]
    second = table.sort_values([*case, "ratio"]).groupby(case, observed=True)["ratio"].nth(1)
    second = table.loc[second.index].set_index(case)["ratio"]
    order = table[table["ratio"] <= TIE].sort_values([*case, "mean_slowdown", "label"], kind="stable")
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
    """The default baseline: plain CSR if it was measured, else the label verified on most matrices, else None."""
    counts = verified(rows)["label"].value_counts()
    known = [label for label in BASELINES if label in counts]
    if known or counts.empty:
        return known[0] if known else None
    return str(min(counts[counts == counts.max()].index))


_RATIOS = ["setting", "family", "label", "project_kernel", "matrix", "status", "ratio"]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting, counted label and matrix that could be read, whatever the status.

    Columns: setting; family (empty in rows of older versions); label; project_kernel (whether the kernel is this
    project's); matrix; status; ratio (time over the best time on the matrix, 1 for the best; NaN if not verified).

    A label that is another's name on every matrix has no rows. In each setting, families are ordered by their best
    label and labels within a family by mean slowdown; labels without a verified row come last, by name.
    """
    every = without_aliases(counted(rows[rows["matrix_sha256"] != ""]))
    every = every.assign(ratio=ranked(every)["ratio"].reindex(every.index))
    # Some rows of a label may be older than these two columns.
    by_label = every.groupby("label")
    every = every.assign(**by_label[["family", "project_kernel"]].transform("max"))
    parts = []
    for _, part in every.groupby("setting", observed=True):
        places = {label: place for place, label in enumerate(by_mean_slowdown(part))}
        part = part.assign(place=part["label"].map(places).fillna(len(places)))
        part = part.assign(first=part.groupby("family")["place"].transform("min"))
        parts.append(part.sort_values(["first", "family", "place", "label", "matrix"]))
    return pd.concat(parts or [every], ignore_index=True)[_RATIOS]
