"""Slowdown of every format on every matrix."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import counted
from spmvbench.analysis.programs import without_aliases
from spmvbench.analysis.ranking import by_mean_slowdown, ranked

COLUMNS = ["setting", "family", "label", "project_kernel", "matrix", "status", "ratio"]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting, counted label and matrix that could be read, whatever the status.

    Columns: setting; family (empty in rows of older versions); label; project_kernel (whether the kernel is this
    project's); matrix; status; ratio (time over the best time on the matrix, 1 for the best; NaN if not verified).

    A label that is another's name on every matrix has no rows. In each setting, families are ordered by their best
    label and labels within a family by mean slowdown; labels without a verified row come last, by name.
    """
    every = without_aliases(counted(rows[rows["matrix_sha256"] != ""]))
    every = every.assign(ratio=ranked(every)["ratio"].reindex(every.index))
    # Some rows of a label may be older than these two columns.
    by_label = every.groupby("label")
    every = every.assign(**by_label[["family", "project_kernel"]].transform("max"))
    parts = []
    for _, part in every.groupby("setting", observed=True):
        places = {label: place for place, label in enumerate(by_mean_slowdown(part))}
        part = part.assign(place=part["label"].map(places).fillna(len(places)))
        part = part.assign(first=part.groupby("family")["place"].transform("min"))
        parts.append(part.sort_values(["first", "family", "place", "label", "matrix"]))
    return pd.concat(parts or [every], ignore_index=True)[COLUMNS]
