"""Trend of points over a logarithmic axis: medians in bins."""

from __future__ import annotations

import numpy as np
import pandas as pd

BINS, LEAST_POINTS, LEAST_BINS = 14, 8, 3


def medians(table: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Medians of y for each label: columns label, x (geometric middle of the bin), y.

    The range of x over all labels, x > 0, is divided into BINS bins of equal width on a logarithmic axis. A bin needs
    LEAST_POINTS points of the label, a label LEAST_BINS such bins; else it has no rows.
    """
    edges = np.geomspace(table[x].min(), table[x].max() * 1.001, BINS + 1)
    middles = np.sqrt(edges[1:] * edges[:-1])
    bins = np.digitize(table[x], edges) - 1
    groups = table.groupby(["label", bins])[y]
    found = groups.median()[groups.size() >= LEAST_POINTS].reset_index(level=0)
    found = found.assign(**{x: middles[found.index]})
    enough = found.groupby("label")["label"].transform("size") >= LEAST_BINS
    return found.loc[enough, ["label", x, y]].reset_index(drop=True)
