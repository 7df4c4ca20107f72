"""Verdicts of an A/B comparison: two builds, measured alternately in one invocation.

Each pair gives one difference of logarithms, new minus old. Its times are taken in the order old, new, new, old or the
reverse, so that a steady drift cancels. Both builds get new addresses in memory in every pair, because effects of an
address are no property of a build. The median difference has the exact confidence interval of Wilcoxon's signed-rank
test (Hollander, Wolfe & Chicken 2014, section 3.3). Its only assumption: the differences of identical builds are
distributed symmetrically around 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

CONFIDENCE = 0.99
# Smaller changes do not matter. Two processes of one build differ by less.
THRESHOLD = 0.005
KEY = ["matrix", "label", "setting"]
VERDICTS = ("slower", "faster", "undecided", "same")


@cache
def _rank(n: int, confidence: float) -> int:
    """The largest k such that the k-th smallest and k-th largest Walsh average enclose the median; 0 for none."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] = counts[rank:] + counts[:-rank]
    below = np.cumsum(counts) / 2.0**n
    return int(np.searchsorted(below, (1 - confidence) / 2, side="right"))


def median_interval(differences: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Low end, Hodges-Lehmann estimate and high end of the median. The ends are infinite if there are too few pairs."""
    d = np.asarray(differences, float)
    means = np.sort(((d[:, None] + d) / 2)[np.triu_indices(len(d))])
    k = _rank(len(d), confidence)
    ends = (means[k - 1], means[-k]) if k else (-np.inf, np.inf)
    return float(ends[0]), float(np.median(means)) if len(d) else np.nan, float(ends[1])


def verdicts(pairs: pd.DataFrame, threshold: float = THRESHOLD) -> pd.DataFrame:
    """One row with a verdict for each case. pairs: columns KEY, old and new (seconds), one row for each pair.

    Columns: KEY, pairs, old and new (medians, seconds), ratio (new over old), low and high (its interval), verdict. A
    case is slower or faster if the whole interval is further from 1 than the threshold, same if the whole interval is
    within the threshold, else undecided.
    """
    found = []
    for key, part in pairs.groupby(KEY, sort=False, observed=True):
        low, middle, high = np.exp(median_interval(np.log(part["new"]) - np.log(part["old"])))
        verdict = "slower" if low > 1 + threshold else "faster" if high < 1 / (1 + threshold) else "undecided"
        if low >= 1 / (1 + threshold) and high <= 1 + threshold:
            verdict = "same"
        times = {"old": part["old"].median(), "new": part["new"].median()}
        ends = {"ratio": middle, "low": low, "high": high}
        found.append(dict(zip(KEY, key, strict=True)) | {"pairs": len(part)} | times | ends | {"verdict": verdict})
    return pd.DataFrame(found, columns=[*KEY, "pairs", "old", "new", "ratio", "low", "high", "verdict"])
