"""Where the time of an SpMV goes, as far as a format names its parts."""

from __future__ import annotations

import json

import pandas as pd


def part_times(rows: pd.DataFrame) -> pd.DataFrame:
    """The time of each named part, repeated by itself: columns setting, matrix, label, nnz, part, seconds, share.

    share: of the sum of the row's parts, 0 to 1. From rows that are right, experiments among them; parts in the order
    in which they run.
    """
    counted = rows[(rows["status"] == "ok") & (rows["t_kernels"] != "")]
    found = [
        (row.setting, row.matrix, row.label, row.nnz, part, seconds, seconds / sum(parts.values()))
        for row in counted.itertuples()
        for parts in [json.loads(row.t_kernels)]
        for part, seconds in parts.items()
    ]
    table = pd.DataFrame(found, columns=["setting", "matrix", "label", "nnz", "part", "seconds", "share"])
    return table.astype({"setting": rows["setting"].dtype})
