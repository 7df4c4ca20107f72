"""Kernel breakdown: the time of each named kernel of an SpMV."""

from __future__ import annotations

import json

import pandas as pd


def kernel_times(rows: pd.DataFrame) -> pd.DataFrame:
    """The time of each named kernel, timed on its own: columns setting, matrix, label, nnz, kernel, seconds, share.

    share: of the sum over the row's kernels, 0 to 1. From rows with status ok, experiments included; kernels in the
    order in which they run.
    """
    counted = rows[(rows["status"] == "ok") & (rows["t_kernels"] != "")]
    found = [
        (row.setting, row.matrix, row.label, row.nnz, kernel, seconds, seconds / sum(kernels.values()))
        for row in counted.itertuples()
        for kernels in [json.loads(row.t_kernels)]
        for kernel, seconds in kernels.items()
    ]
    table = pd.DataFrame(found, columns=["setting", "matrix", "label", "nnz", "kernel", "seconds", "share"])
    return table.astype({"setting": rows["setting"].dtype})
