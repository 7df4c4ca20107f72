"""Speed-up over a baseline by matrix and in the mean, and comparisons of pairs of formats."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.ranking import TIE

CONFIDENCE = 0.95


def speedups(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Time of the baseline over time of each format, for every matrix on which both are verified.

    Columns setting, matrix, label, nnz, t_base, t_median (seconds), speedup; without rows of the baseline itself.
    """
    counted = verified(rows)
    counted = counted[counted["t_median"] > 0]
    base = counted[counted["label"] == baseline].set_index(["setting", "matrix"])["t_median"].rename("t_base")
    both = counted[counted["label"] != baseline].join(base, on=["setting", "matrix"], how="inner")
    both = both.assign(speedup=both["t_base"] / both["t_median"])
    return both[["setting", "matrix", "label", "nnz", "t_base", "t_median", "speedup"]].reset_index(drop=True)


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


def against(rows: pd.DataFrame, label: str, over: str, tie: float = TIE) -> pd.DataFrame:
    """`speedups` of one label over another, above 1 where `label` is faster, with the column outcome.

    outcome: win, tie (times within `tie`) or loss. Ordered by setting and falling speed-up.
    """
    found = with_outcomes(speedups(rows[rows["label"].isin([label, over])], over), tie)
    return found.sort_values(["setting", "speedup", "matrix"], ascending=[True, False, True], ignore_index=True)


def with_outcomes(found: pd.DataFrame, tie: float = TIE) -> pd.DataFrame:
    """`speedups` with the column outcome of `against`."""
    faster, slower = found["speedup"] > tie, found["speedup"] < 1 / tie
    return found.assign(outcome=np.select([faster, slower], ["win", "loss"], "tie"))


def against_summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting of `against`: setting, matrices, wins, ties, losses, geomean, low, high.

    geomean: geometric mean of the speed-up; low, high: its 95 % interval over matrices, from Student's t distribution
    of the logarithms, as if the matrices were drawn at random; NaN for a single matrix.
    """
    found = []
    for setting, part in table.groupby("setting", observed=True):
        counts = [int((part["outcome"] == outcome).sum()) for outcome in ("win", "tie", "loss")]
        low, middle, high = interval(part["speedup"].to_numpy())
        found.append((setting, len(part), *counts, middle, low, high))
    return pd.DataFrame(found, columns=["setting", "matrices", "wins", "ties", "losses", "geomean", "low", "high"])


def interval(ratios: np.ndarray) -> tuple[float, float, float]:
    """(low, geometric mean, high) of positive ratios; low and high enclose CONFIDENCE, NaN for fewer than two."""
    from scipy.special import stdtrit  # takes longer to import than all intervals of a report to compute

    logs = np.log(ratios)
    if not len(logs):
        return math.nan, math.nan, math.nan
    middle = float(logs.mean())
    if len(logs) < 2:
        return math.nan, math.exp(middle), math.nan
    half = float(stdtrit(len(logs) - 1, 0.5 + CONFIDENCE / 2)) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return math.exp(middle - half), math.exp(middle), math.exp(middle + half)


def logarithms(rows: pd.DataFrame, block: list[str]) -> pd.DataFrame:
    """Logarithm of the verified times: one row for each block (such as run, setting and matrix), one column a label."""
    timed = verified(rows)
    timed = timed[timed["t_median"] > 0]
    return np.log(timed.pivot_table(index=block, columns="label", values="t_median", aggfunc="first", observed=True))


def opponents(logs: pd.DataFrame, label: str) -> pd.DataFrame:
    """A label against every other of `logarithms`: columns label, blocks, faster, slower, speedup.

    blocks: those in which both have a time; faster, slower: those in which `label` is, beyond TIE; speedup: geometric
    mean of the other's time over that of `label`. The strongest opponents come first.
    """
    times = logs.to_numpy()
    behind = times[:, [list(logs.columns).index(label)]] - times
    blocks = np.isfinite(behind).sum(axis=0)
    found = pd.DataFrame(
        {
            "label": logs.columns,
            "blocks": blocks,
            "faster": (behind < -math.log(TIE)).sum(axis=0),
            "slower": (behind > math.log(TIE)).sum(axis=0),
            "speedup": np.exp(np.nansum(behind, axis=0) / np.maximum(blocks, 1)),
        }
    )
    found = found[(found["blocks"] > 0) & (found["label"] != label)]
    found = found.assign(share=found["slower"] / found["blocks"])
    found = found.sort_values(["share", "slower", "label"], ascending=[False, False, True], ignore_index=True)
    return found.drop(columns="share")
