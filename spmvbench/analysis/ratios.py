"""Every format on every matrix beside the best one there."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import counted
from spmvbench.analysis.programs import named_once
from spmvbench.analysis.ranking import in_order, ranked

COLUMNS = ["setting", "family", "label", "own", "matrix", "status", "ratio"]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting, label that is counted and matrix that could be read, right or not.

    Columns: setting; family (empty in rows from before it was kept); label; own (the kernel is this project's); matrix;
    status; ratio (time over the best time on the matrix, 1 for the best; NaN without a right row).

    A label that is another's name on every matrix has no rows. In each setting families follow the best of their
    labels, and labels within a family their standing; those without a right row come last, by name.
    """
    every = named_once(counted(rows[rows["matrix_sha256"] != ""]))
    every = every.assign(ratio=ranked(every)["ratio"].reindex(every.index))
    # Rows of one label may be older than the two columns, and say nothing there.
    by_label = every.groupby("label")
    every = every.assign(family=by_label["family"].transform("max"), own=by_label["project_kernel"].transform("max"))
    parts = []
    for _, part in every.groupby("setting", observed=True):
        standing = {label: place for place, label in enumerate(in_order(part))}
        part = part.assign(place=part["label"].map(standing).fillna(len(standing)))
        part = part.assign(first=part.groupby("family")["place"].transform("min"))
        parts.append(part.sort_values(["first", "family", "place", "label", "matrix"]))
    return pd.concat(parts or [every], ignore_index=True)[COLUMNS]
