"""One format against another, or against all others, within a run: wins, ties, geometric mean with its interval."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import verified
from spmvbench.analysis.ranking import TIE

CONFIDENCE = 0.95


def duel(rows: pd.DataFrame, label: str, over: str) -> pd.DataFrame:
    """The time of `over` divided by that of `label` on every matrix on which both are verified.

    Columns setting, matrix, nnz, t_label, t_over (seconds), speedup (above 1: `label` is faster) and outcome: win, tie
    (times within TIE) or loss. Ordered by setting and falling speed-up.
    """
    timed = verified(rows)
    timed = timed[timed["t_median"] > 0]
    case = ["setting", "matrix"]
    other = timed[timed["label"] == over].set_index(case)["t_median"].rename("t_over")
    both = timed[timed["label"] == label].join(other, on=case, how="inner").rename(columns={"t_median": "t_label"})
    both = both.assign(speedup=both["t_over"] / both["t_label"])
    both["outcome"] = np.select([both["speedup"] > TIE, both["speedup"] < 1 / TIE], ["win", "loss"], "tie")
    both = both.sort_values(["setting", "speedup", "matrix"], ascending=[True, False, True], ignore_index=True)
    return both[[*case, "nnz", "t_label", "t_over", "speedup", "outcome"]]


def duel_summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting of `duel`: setting, matrices, wins, ties, losses, geomean, low, high.

    geomean: geometric mean of the speed-up; low, high: its 95 % interval over matrices, from Student's t distribution
    of the logarithms, as if the matrices were drawn at random; NaN for a single matrix.
    """
    found = []
    for setting, part in table.groupby("setting", observed=True):
        counts = part["outcome"].value_counts()
        low, middle, high = interval(part["speedup"].to_numpy())
        found.append(
            {
                "setting": setting,
                "matrices": len(part),
                "wins": int(counts.get("win", 0)),
                "ties": int(counts.get("tie", 0)),
                "losses": int(counts.get("loss", 0)),
                "geomean": middle,
                "low": low,
                "high": high,
            }
        )
    columns = ["setting", "matrices", "wins", "ties", "losses", "geomean", "low", "high"]
    return pd.DataFrame(found, columns=columns)


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
