"""Performance profiles."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import counted


def performance_profile(rows: pd.DataFrame, by: str = "format") -> pd.DataFrame:
    """For each format, the share of matrices on which it is within a factor tau of the best (Dolan & More 2002).

    With r the ratio of the best rate on a matrix to the format's (>= 1), rho(tau) is the number of matrices with
    r <= tau over the number of all matrices that any format solved. A format solved a matrix if its rate is positive
    and finite and its status, if the table has that column, is ok. A matrix that a format did not solve has no r, so
    its curve stays below 1. rho(1) is the share of matrices on which the format is the best; ties count for each, so
    these shares may add up to more than 1.

    rows: any table with the columns gflops, matrix and `by`; only `cases.counted` rows count. Returns columns `by`,
    tau, rho: the points of each step function by rising tau, the first at tau = 1. A format that solved nothing has
    only that point, with rho = 0. Raises ValueError if a format has two rates for a matrix.
    """
    rows = counted(rows)
    numbers = pd.to_numeric(rows["gflops"], errors="coerce").astype(float)
    solved = np.isfinite(numbers) & (numbers > 0)
    if "status" in rows:
        solved &= rows["status"] == "ok"
    table = pd.DataFrame({"matrix": rows["matrix"], by: rows[by], "rate": numbers})[solved]
    twice = table.duplicated(["matrix", by])
    if twice.any():
        first = table[twice].iloc[0]
        raise ValueError(f"{first[by]} has more than one value for {first['matrix']}: choose one setting first")

    ratios = table.groupby("matrix")["rate"].transform("max") / table["rate"]
    matrices = table["matrix"].nunique()
    curves = []
    for name in sorted(rows[by].unique()):
        tau, counts = np.unique(np.append(ratios[table[by] == name], 1.0), return_counts=True)
        counts[0] -= 1  # the point at 1 that every curve starts with
        rho = counts.cumsum() / max(matrices, 1)
        curves.append(pd.DataFrame({by: name, "tau": tau, "rho": rho}))
    return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(columns=[by, "tau", "rho"])


def share_within(profile: pd.DataFrame, tau: float) -> pd.Series:
    """rho(tau) of every format of a profile, 0 <= rho <= 1, by format."""
    return profile[profile["tau"] <= tau].groupby("format")["rho"].max()
