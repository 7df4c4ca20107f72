"""How well stand-ins stand for their matrices: times and bytes of formats on both."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import verified

ALL, INDEX = "all", "index"  # facts that a stand-in was generated from


def pairs(rows: pd.DataFrame, beginning: str) -> pd.DataFrame:
    """Ratios of a format on a stand-in to the same format on the matrix, one row for each case verified on both.

    rows: as `cases.latest_cases`. beginning: how names of stand-ins begin; ``:index`` ends those generated from the
    facts of the collection's index alone. Columns setting, label, stands_for, facts (ALL or INDEX), time and bytes (the
    ratios).
    """
    held = verified(rows)[["setting", "label", "matrix", "t_median", "bytes_format"]].astype({"setting": str})
    is_one = held["matrix"].str.startswith(beginning)
    ones = held[is_one]
    names = ones["matrix"].str.removeprefix(beginning)
    facts = np.where(names.str.endswith(f":{INDEX}"), INDEX, ALL)
    ones = ones.assign(stands_for=names.str.removesuffix(f":{INDEX}"), facts=facts)
    real = held[~is_one].rename(columns={"matrix": "stands_for"})
    both = ones.merge(real, on=["setting", "label", "stands_for"], suffixes=("", "_real"))
    both = both.assign(
        time=both["t_median"] / both["t_median_real"], bytes=both["bytes_format"] / both["bytes_format_real"]
    )
    return both[["setting", "label", "stands_for", "facts", "time", "bytes"]]


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Deviations of `pairs` by setting, facts and label, with one row for all labels first (label ``all formats``).

    Columns setting, facts, label, matrices, time (geometric mean of the ratio), time_median, time_p90, bytes_median,
    bytes_p90: the median and the 90th percentile of the deviation, which is how much the larger of two values exceeds
    the smaller one, as a share of the smaller one.
    """
    whole = found.assign(label="all formats")
    together = pd.concat([whole, found], ignore_index=True)
    return (
        together.groupby(["setting", "facts", "label"], sort=False)
        .apply(_deviations, include_groups=False)
        .reset_index()
        .astype({"matrices": int})
    )


def _deviations(part: pd.DataFrame) -> pd.Series:
    found: dict[str, float] = {"matrices": part["stands_for"].nunique(), "time": np.exp(np.log(part["time"]).mean())}
    for name in ("time", "bytes"):
        deviation = np.exp(np.log(part[name]).abs()) - 1
        found |= {f"{name}_median": deviation.median(), f"{name}_p90": deviation.quantile(0.9)}
    return pd.Series(found)
