"""Two builds measured in pairs within one session: which cases became slower or faster, and how sure that is.

Each pair gives one difference of logarithms, new less old, of times that lie side by side in the order old, new, new,
old or the reverse: a drift that is steady over a pair takes from neither. Both builds lie at a new place in memory in
every pair, for what an address does to a time is no property of a build. The median difference has the exact
confidence interval of Wilcoxon's signed ranks (Hollander, Wolfe & Chicken 2014, section 3.3): it asks for no
distribution but that of identical builds the differences are as often above 0 as below, by as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

CONFIDENCE = 0.99
# A change of less is none that anybody asks for; what two processes do to one build stays below.
THRESHOLD = 0.005
KEY = ["matrix", "label", "setting"]
VERDICTS = ("slower", "faster", "undecided", "same")


@cache
def _rank(n: int, confidence: float) -> int:
    """The largest k so that the k-th smallest and k-th largest of the pairwise means hold the median; 0 for none."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] = counts[rank:] + counts[:-rank]
    below = np.cumsum(counts) / 2.0**n
    return int(np.searchsorted(below, (1 - confidence) / 2, side="right"))


def least_pairs(confidence: float = CONFIDENCE) -> int:
    """The pairs without which nothing can be told."""
    return next(n for n in range(1, 64) if _rank(n, confidence))


def median_interval(differences: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Low end, estimate (Hodges and Lehmann's) and high end of the median; endless ends where pairs are too few."""
    d = np.asarray(differences, float)
    means = np.sort(((d[:, None] + d) / 2)[np.triu_indices(len(d))])
    k = _rank(len(d), confidence)
    ends = (means[k - 1], means[-k]) if k else (-np.inf, np.inf)
    return float(ends[0]), float(np.median(means)) if len(d) else np.nan, float(ends[1])


def judged(pairs: pd.DataFrame, threshold: float = THRESHOLD, confidence: float = CONFIDENCE) -> pd.DataFrame:
    """A verdict a case. pairs: columns KEY, old and new (seconds), a row a pair.

    Columns: KEY, pairs, old and new (medians), ratio (new over old), low and high (its interval), verdict. A case is
    slower or faster where the whole interval is further from 1 than the threshold, the same where it is within, else
    undecided.
    """
    found = []
    for key, part in pairs.groupby(KEY, sort=False, observed=True):
        low, middle, high = np.exp(median_interval(np.log(part["new"]) - np.log(part["old"]), confidence))
        verdict = "slower" if low > 1 + threshold else "faster" if high < 1 / (1 + threshold) else "undecided"
        if low >= 1 / (1 + threshold) and high <= 1 + threshold:
            verdict = "same"
        times = {"old": part["old"].median(), "new": part["new"].median()}
        ends = {"ratio": middle, "low": low, "high": high}
        found.append(dict(zip(KEY, key, strict=True)) | {"pairs": len(part)} | times | ends | {"verdict": verdict})
    return pd.DataFrame(found, columns=[*KEY, "pairs", "old", "new", "ratio", "low", "high", "verdict"])
