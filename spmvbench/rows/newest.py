"""Which of several rows of one case counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from spmvbench.rows.schema import MEASURED

if TYPE_CHECKING:
    import pandas as pd


def written(rows: pd.DataFrame) -> pd.Index:
    """The index of the rows of one or several runs in the order of writing. If the clock was set back, it counts as
    stopped.
    """
    runs = rows.sort_values(["sequence", "started_at"]).groupby("run_id", sort=False)["started_at"]
    return runs.transform(lambda starts: list(accumulate(starts, max))).sort_values(kind="stable").index


def newest(rows: pd.DataFrame, case: Sequence[str], order: pd.Index | None = None) -> pd.Index:
    """The index of the row of each case that counts: the one written last of those measured, else the last.

    case: the columns that tell cases apart. order: that of `written`, if it is known. A row without a verdict on a
    measurement (`schema.MEASURED`) never supersedes one that has it.
    """
    order = written(rows) if order is None else order
    of = rows.loc[order, [*case, "status"]]  # of many rows, a copy of these columns alone
    of = of.assign(measured=of["status"].isin(MEASURED)).sort_values("measured", kind="stable")
    return of.drop_duplicates(list(case), keep="last").index
