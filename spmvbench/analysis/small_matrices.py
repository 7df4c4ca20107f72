"""Small matrices: the best times by the longest row and the number of launches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.ranking import ranked

ENTRIES = 1_000_000  # matrices with fewer are small
LONGEST = (64, 256)  # entries of the longest row, up to which a class goes
COLUMNS = ["setting", "mode", "longest", "matrices", "entries", "best", "gbps", "one", "several", "won"]


def small_matrices(rows: pd.DataFrame) -> pd.DataFrame:
    """The best times of matrices with fewer than ENTRIES entries, in classes by the entries of their longest row.

    rows: as `latest_cases`, of GPUs. One row for each setting and class with a matrix, and one for all of them, last.
    Columns: setting; mode; longest: the class in words; matrices: their number; entries: the median of theirs; best:
    geometric mean of the time of the fastest format, seconds; gbps: median of the bytes that the fastest formats read
    and write over their time, GB/s; one, several: as best, of the formats with one launch and of those with more, on
    the matrices for which there are both; won: share of the matrices on which the fastest format has several launches.
    """
    known = ranked(rows)
    known = known[(known["nnz"] < ENTRIES) & (known["launches"] > 0)]
    found: list[dict[str, Any]] = []
    for setting, part in known.groupby("setting", observed=True):
        best = part.loc[part.groupby("matrix")["t_median"].idxmin()].set_index("matrix")
        several = part["launches"] > 1
        least = {
            name: part[which].groupby("matrix")["t_median"].min().reindex(best.index)
            for name, which in {"one": ~several, "several": several}.items()
        }
        both = least["one"].notna() & least["several"].notna()
        for text, chosen in _classes(best["row_len_max"]):
            if not chosen.any():
                continue
            held = best[chosen]
            times = {name: geometric_mean(seconds[chosen & both]) for name, seconds in least.items()}
            found.append(
                {
                    "setting": setting,
                    "mode": part["mode"].iloc[0],
                    "longest": text,
                    "matrices": len(held),
                    "entries": held["nnz"].median(),
                    "best": geometric_mean(held["t_median"]),
                    "gbps": held["gbps"].median(),
                    "won": (held["launches"] > 1).mean(),
                }
                | times
            )
    return pd.DataFrame(found, columns=COLUMNS)


def _classes(longest: pd.Series) -> list[tuple[str, pd.Series]]:
    """Each class in words, with the matrices that it has."""
    ends = [0, *LONGEST, np.inf]
    found = []
    for low, high in pairwise(ends):
        text = f"{low + 1:,.0f} to {high:,.0f}" if np.isfinite(high) and low else f"more than {low:,.0f}"
        found.append((text if low else f"up to {high:,.0f}", (longest > low) & (longest <= high)))
    return [*found, ("all", longest >= 0)]
