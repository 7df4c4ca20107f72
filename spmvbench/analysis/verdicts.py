"""Whether a measurement agrees with what a paper prints, and which number of the run explains a difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import parts
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.errors import counted, percent

HOLDS, DIRECTION, DIFFERS, NOT_TESTED = "holds", "holds by direction", "differs", "not tested"
VERDICTS = (HOLDS, DIRECTION, DIFFERS, NOT_TESTED)
FACTOR, SHARE = 1.5, 0.15  # a size agrees within this factor, a share of the matrices within this difference
LATENCY = 0.25  # share of reading its bytes in a format's time below which latency decides
LARGE, FEW = 1_000_000, 3  # entries, and least matrices of a part that explains a difference
NOT_EXAMINED = "Not examined."


def verdict(claim: Any, measured: pd.Series, mean: float) -> str:
    """One of VERDICTS.

    claim: what is printed. Of these the first counts, NaN if it is not: mean, faster (share of the matrices above 1),
    max (the largest); without rivals the median is between least and max. measured: by matrix; mean: the mean that the
    paper prints. The direction is the side of 1, of a share that of one half.
    """
    if not claim.baselines:
        return DIFFERS if measured.median() < claim.least or measured.median() > claim.max else HOLDS
    won = (measured > 1).mean()
    if claim.mean > 0:
        same, size = (mean > 1) == (claim.mean > 1), within(mean / claim.mean)
    elif claim.faster >= 0:
        same, size = (won > 0.5) == (claim.faster >= 0.5), bool(claim.words) or near(won, claim.faster)
    elif claim.max > 0:
        same, size = measured.max() > 1, within(measured.max() / claim.max)
    else:
        return NOT_TESTED
    return (HOLDS if size else DIRECTION) if same else DIFFERS


def near(won: float, printed: float) -> bool:
    """Whether shares are within SHARE of each other, and both none or both some."""
    return abs(won - printed) <= SHARE and (won > 0) == (printed > 0)


def within(ratio: Any) -> Any:
    """Whether ratios are within FACTOR of 1."""
    return (ratio >= 1 / FACTOR) & (ratio <= FACTOR)


def reason(claim: Any, of: pd.DataFrame, pair: tuple[str, str], measured: pd.Series, took: pd.Series) -> str:
    """What explains a difference, in one sentence with a number of these rows; NOT_EXAMINED if none does.

    of: the rows of the claim's formats in one setting. pair: the labels compared; measured: speed-ups by matrix; took:
    the rival's times.
    """
    label, rival = pair
    if claim.quantity or not claim.baselines:
        return NOT_EXAMINED
    own = of[of["label"] == label].set_index("matrix").reindex(measured.index)
    mean, printed = geometric_mean(measured), claim.mean if claim.mean > 0 else 1.0
    possible = geometric_mean((took * 1e9 * own["bound_gflops"] / own["work"]).dropna())
    if possible < (1 if mean < 1 else printed):
        return f"Limited by its bytes and the bandwidth of this GPU, it can be at most {possible:.2f} times as fast."
    large = own["nnz"] >= LARGE
    for part, words in ((large, "1 M entries and more"), (~large, "fewer than 1 M entries")):
        some = measured[part]
        if FEW <= len(some) < len(measured) and rank(claim, some) < rank(claim, measured):
            won = (some > 1).mean()
            on = f"On the {counted(len(some), 'matrix')} of {words}"
            return f"{on} it is {geometric_mean(some):.2f}, faster on {percent(won)}."
    times = of.pivot(index="matrix", columns="label", values="t_median").reindex(measured.index)
    other, rivals_other = (other_kernel(name, times) for name in pair)
    slower = geometric_mean(times[label] / times[other]) if other else np.nan
    if mean > printed and "kernel=paper" not in label and slower < 1:
        return f"This project's kernel takes {slower:.2f} of the time of the authors'."
    if mean < printed and "kernel=paper" in label and slower > 1:
        return f"The authors' kernel takes {slower:.2f} times the time of this project's."
    if mean < printed and rivals_other and "kernel=paper" not in rival:
        faster = geometric_mean(times[rival] / times[rivals_other])
        if faster < 1:
            return f"The rival, this project's kernel, takes {faster:.2f} of the time of its authors'."
    read = geometric_mean((own["work"] / (1e9 * own["bound_gflops"] * times[label])).dropna())
    if mean < printed and read < LATENCY and own["nnz"].median() < LARGE:
        return f"These matrices are small: reading its bytes takes {percent(read)} of its time, latency the rest."
    return NOT_EXAMINED


def rank(claim: Any, measured: pd.Series) -> int:
    """The place of the verdict on some matrices in VERDICTS, by the geometric mean."""
    return VERDICTS.index(verdict(claim, measured, geometric_mean(measured)))


def other_kernel(label: str, times: pd.DataFrame) -> str:
    """The label among these columns that has the other kernel of a key, the project's or the authors'; or none."""
    wanted = parts(label) ^ {"kernel=paper"}
    return next((other for other in times if parts(other) == wanted), "")
