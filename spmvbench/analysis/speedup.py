"""Speed-up over a baseline by matrix and in the mean, and head-to-head comparisons of pairs of formats."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from spmvbench.analysis.cases import verified
from spmvbench.analysis.coverage import geometric_mean


def speedups(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Time of the baseline over time of each format, for every matrix on which both are verified.

    Columns setting, matrix, label, nnz, speedup; without rows of the baseline itself.
    """
    counted = verified(rows)
    counted = counted[counted["t_median"] > 0]
    base = counted[counted["label"] == baseline].set_index(["setting", "matrix"])["t_median"].rename("t_base")
    both = counted[counted["label"] != baseline].join(base, on=["setting", "matrix"], how="inner")
    both = both.assign(speedup=both["t_base"] / both["t_median"])
    return both[["setting", "matrix", "label", "nnz", "speedup"]].reset_index(drop=True)


def speedup_summary(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Speed-up over the baseline by setting and format, with its coverage: a mean over few matrices says little.

    Columns setting, label, geomean, median, min, max (of the speed-up), wins (matrices with a speed-up above 1),
    matrices (compared), coverage (matrices compared over all matrices with a verified row in the setting, 0 to 1).
    Ordered by setting, then by falling geometric mean.
    """
    table = speedups(rows, baseline)
    solved = verified(rows).groupby("setting", observed=True)["matrix"].nunique()
    groups = table.groupby(["setting", "label"], observed=True)["speedup"]
    summary = groups.agg(
        geomean=geometric_mean,
        median="median",
        min="min",
        max="max",
        wins=lambda s: int((s > 1).sum()),
        matrices="size",
    ).reset_index()
    summary["coverage"] = summary["matrices"] / summary["setting"].astype(object).map(solved)
    return summary.sort_values(["setting", "geomean", "label"], ascending=[True, False, True], ignore_index=True)


def pair_speedups(rows: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """The speed-ups of the first label of each pair over the second, on every matrix on which both are verified.

    Columns setting, matrix, label, over, nnz, speedup. Raises ValueError without a pair.
    """
    found = [speedups(rows[rows["label"].isin(pair)], pair[1]).assign(over=pair[1]) for pair in pairs]
    return pd.concat(found, ignore_index=True)[["setting", "matrix", "label", "over", "nnz", "speedup"]]


def pair_summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting, label and over of `pair_speedups`, in the order of the table.

    Further columns: matrices; wins (matrices with a speed-up above 1); won (their share); max, min and mean of the
    speed-up (arithmetic, as in papers); best, the matrix with the largest speed-up.
    """
    pair = ["setting", "label", "over"]
    order = table.sort_values(["speedup", "matrix"], ascending=[False, True], kind="stable")
    found = order.groupby(pair, observed=True, sort=False).agg(
        matrices=("speedup", "size"),
        wins=("speedup", lambda s: int((s > 1).sum())),
        max=("speedup", "first"),
        min=("speedup", "last"),
        mean=("speedup", "mean"),
        best=("matrix", "first"),
    )
    found["won"] = found["wins"] / found["matrices"]
    return table[pair].drop_duplicates().merge(found.reset_index(), on=pair)
