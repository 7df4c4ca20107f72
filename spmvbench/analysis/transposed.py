"""y = A^T x from one copy of the matrix or from two: times, bytes and conversion beside those of y = A x."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import verified
from spmvbench.analysis.coverage import geometric_mean

COLUMNS = [
    "setting", "label", "matrix", "plain", "one", "two", "bytes_one", "bytes_two", "ready_two", "break_even"
]  # fmt: skip
_SAME = ["matrix", "label", "dtype", "mode", "device_name"]


def transposed(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each matrix and label with a verified y = A^T x from one copy or two, in each setting of y = A x.

    rows: as `latest_cases`, of all operations. Columns: setting, of y = A x; label; matrix; plain, one, two: seconds of
    y = A x, of y = A^T x from its arrays and from a second copy, NaN if not verified; bytes_one, bytes_two: of one copy
    and of both; ready_two: seconds to convert A^T; break_even: y = A^T x after which the second copy has paid, inf if
    never, NaN without one of the times.
    """
    rows = verified(rows)
    rows = rows.assign(ready=ready(rows))
    parts = {name: rows[rows["op"] == op] for name, op in (("plain", "spmv"), ("one", "spmv-t@1"), ("two", "spmv-t@2"))}
    if parts["one"].empty and parts["two"].empty:
        return pd.DataFrame(columns=COLUMNS)
    found = parts["plain"][[*_SAME, "setting", "t_median", "bytes_format"]]
    found = found.rename(columns={"t_median": "plain", "bytes_format": "bytes_one"})
    one = parts["one"][[*_SAME, "t_median"]].rename(columns={"t_median": "one"})
    two = parts["two"][[*_SAME, "t_median", "bytes_format", "ready"]]
    two = two.rename(columns={"t_median": "two", "bytes_format": "bytes_two", "ready": "ready_two"})
    found = (
        found.merge(one, on=_SAME, how="left").merge(two, on=_SAME, how="left").dropna(subset=["one", "two"], how="all")
    )
    gain = found["one"] - found["two"]
    paid = np.where(gain > 0, found["ready_two"] / gain.where(gain > 0), np.inf)
    known = found["one"].notna() & found["two"].notna()
    found = found.assign(
        bytes_two=found["bytes_one"] + found["bytes_two"],
        break_even=np.where(known, paid, np.nan),
        setting=found["setting"].astype(str),
    )
    return found[COLUMNS].sort_values(["setting", "label", "matrix"], ignore_index=True)


def transposed_by_format(table: pd.DataFrame) -> pd.DataFrame:
    """`transposed` by setting and label, the fastest y = A^T x first.

    Columns: one, two: geometric mean of the time over that of y = A x; best: of the faster of both; bytes_two:
    geometric mean of the bytes of both copies over those of one; two_faster: share of the matrices with both on which
    the second copy is faster; break_even: median of `transposed`; matrices.
    """
    table = table.assign(
        one_ratio=table["one"] / table["plain"],
        two_ratio=table["two"] / table["plain"],
        best_ratio=table[["one", "two"]].min(axis=1) / table["plain"],
        bytes_ratio=table["bytes_two"] / table["bytes_one"],
        faster=(table["two"] < table["one"]).where(table["one"].notna() & table["two"].notna()),
    )
    found = table.groupby(["setting", "label"], as_index=False).agg(
        one=("one_ratio", geometric_mean),
        two=("two_ratio", geometric_mean),
        best=("best_ratio", geometric_mean),
        bytes_two=("bytes_ratio", geometric_mean),
        two_faster=("faster", lambda known: known.astype(float).mean()),
        break_even=("break_even", "median"),
        matrices=("matrix", "size"),
    )
    return found.sort_values(["setting", "best", "label"], ignore_index=True)
