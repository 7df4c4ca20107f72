"""Speed-up over a baseline, matrix by matrix and in the mean."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from spmvbench.analysis.cases import right
from spmvbench.analysis.coverage import geometric_mean


def speedups(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Time of the baseline over time of each format, for every matrix on which both are right.

    Columns setting, matrix, label, nnz, speedup; the baseline itself is left out.
    """
    counted = right(rows)
    counted = counted[counted["t_median"] > 0]
    base = counted[counted["label"] == baseline].set_index(["setting", "matrix"])["t_median"].rename("t_base")
    both = counted[counted["label"] != baseline].join(base, on=["setting", "matrix"], how="inner")
    both = both.assign(speedup=both["t_base"] / both["t_median"])
    return both[["setting", "matrix", "label", "nnz", "speedup"]].reset_index(drop=True)


def speedup_summary(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Speed-up over the baseline by setting and format, the coverage beside it: a mean over few matrices says little.

    Columns setting, label, geomean, median, min, max (of the speed-up), wins (matrices where it is above 1), matrices
    (compared), coverage (compared over all matrices that any format solved in the setting, 0 to 1).
    Ordered by setting, then falling geometric mean.
    """
    table = speedups(rows, baseline)
    solved = right(rows).groupby("setting", observed=True)["matrix"].nunique()
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


def duels(rows: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """The speed-ups of the first label of each pair over the second, on every matrix on which both are right.

    Columns setting, matrix, label, over, nnz, speedup. Raises ValueError without a pair.
    """
    found = [speedups(rows[rows["label"].isin(pair)], pair[1]).assign(over=pair[1]) for pair in pairs]
    return pd.concat(found, ignore_index=True)[["setting", "matrix", "label", "over", "nnz", "speedup"]]


def duel_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Of duels by setting, label and over, in the order of the table.

    Columns beside these: matrices, wins (speed-up above 1), won (their share of the matrices), of the speed-up max, min
    and mean (arithmetic, as papers tabulate it), and best, the matrix of the max.
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
