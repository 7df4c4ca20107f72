"""The table of both kernels in docs/results/papers.md: the time of `kernel=paper` over that of the default.

``python -m spmvbench.publishing.kernels RUN... --page docs/results/papers.md`` makes it from the rows of runs and
writes it into the page, between two comments.
"""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import hot, latest_cases, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.speedup import pair_speedups
from spmvbench.errors import UsageError
from spmvbench.publishing import in_page
from spmvbench.reports import export
from spmvbench.reports.tables import Column, number, table
from spmvbench.rows import store

COLUMNS = [
    Column("label", "Key"),
    Column("setting", "Setting"),
    Column("matrices", "Matrices", number),
    Column("mean", "Mean", number, "geometric mean of the time of kernel=paper over that of the default"),
    Column("least", "Least", number),
    Column("most", "Most", number),
]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Time of `kernel=paper` over that of the default, by key and setting: the fields of COLUMNS.

    rows: as they are stored; verified hot ones of matrices with both count. Raises UsageError if there are none.
    """
    rows = verified(hot(latest_cases(rows)))
    labels = set(rows["label"])
    pairs = [(label, f"{label}[kernel=paper]") for label in sorted(labels) if f"{label}[kernel=paper]" in labels]
    if not pairs:
        raise UsageError("the runs have no verified rows of a format with both kernels")
    by_key = pair_speedups(rows, pairs).groupby(["setting", "label"], observed=True)["speedup"]
    return by_key.agg(matrices="size", mean=geometric_mean, least="min", most="max").reset_index()


def markdown(rows: pd.DataFrame) -> str:
    """The table, from rows as they are stored. Raises as `ratios`."""
    made = table("Time of kernel=paper over that of the default", ratios(rows), COLUMNS)
    return export.written([made], "markdown").rstrip("\n")


main = in_page.command("kernels", __doc__, lambda given: markdown(store.load_all(given.runs)), in_page.RUNS)

if __name__ == "__main__":
    main()
