"""Rows of another run: added if it is of the same card; else times of one card over those of the other."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import imported, named_order, verified
from spmvbench.analysis.older import changed
from spmvbench.errors import UsageError

CASE = ["setting", "matrix", "label"]


def beside(rows: pd.DataFrame, others: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows, and those of another run of the same matrices, types, modes and operations; their labels name the run.

    others: rows of a run, as `store.load`. A label ``csr5`` of it becomes ``csr5 (name)``. Rows of both must be of one
    model of GPU. Matrices are the same by content; by name if rows of others are imported, which are then in one
    setting with these. Raises UsageError if they are not, and if no case fits.
    """
    case = ["content", "dtype", "mode", "op"]
    rows, others = _with_content(rows, others)
    wanted = pd.MultiIndex.from_frame(rows.loc[rows["matrix_sha256"] != "", case]).unique()
    found = others[pd.MultiIndex.from_frame(others[case]).isin(wanted)]
    if found.empty:
        raise UsageError(f"{name} has no row of these matrices, types and modes")
    mine, theirs = (set(part["device_name"].unique()) for part in (rows, found))
    if not theirs <= mine:
        raise UsageError(
            f"{name} was measured on {', '.join(sorted(theirs))}, these rows on {', '.join(sorted(mine))}: times of "
            "different GPUs are not compared"
        )
    suffix = f" ({name})"
    about = rows.drop_duplicates("content").set_index("content")
    renamed = {column: found["content"].map(about[column]) for column in ("group", "name", "file_sha256")}
    if len(kinds := set(rows["device"].unique())) == 1:
        renamed["device"] = kinds.pop()
    # Its programs are not those of these rows: the same kernel in two runs is two results.
    return pd.concat(
        [
            rows,
            found.assign(
                **renamed,
                label=found["label"] + suffix,
                alias_of=found["alias_of"].where(found["alias_of"] == "", found["alias_of"] + suffix),
                program=found["program"].where(found["program"] == "", found["program"] + suffix),
            ),
        ],
        ignore_index=True,
    ).drop(columns="content")


def _with_content(*tables: pd.DataFrame) -> list[pd.DataFrame]:
    """The tables with a column `content` that is equal for the same matrix."""
    by_name = any(imported(rows).any() for rows in tables)
    return [
        rows.assign(content=rows["group"] + "/" + rows["name"] if by_name else rows["matrix_sha256"]) for rows in tables
    ]


def ratios(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """The time on another card over that of these rows, for every case verified on both.

    rows, others: as `latest_cases`; a case has the same content of its matrix (matrix_sha256) in both. Rows whose label
    means another program today (configs/older_programs.csv) are left out. Columns setting, matrix, nnz, label, t_here,
    t_there (seconds) and ratio (t_there over t_here; above 1: this card is faster), ordered by setting, matrix and
    label.
    """
    here, there = (verified(part[changed(part) == ""]) for part in (rows, others))
    here, there = (part[part["t_median"] > 0].assign(order=named_order) for part in (here, there))
    key = ["matrix_sha256", "dtype", "mode", "op", "order", "label"]
    times = there.drop_duplicates(key, keep="last").set_index(key)["t_median"].rename("t_there")
    both = here.join(times, on=key, how="inner").rename(columns={"t_median": "t_here"})
    both = both.assign(ratio=both["t_there"] / both["t_here"]).sort_values(CASE, ignore_index=True)
    return both[["setting", "matrix", "nnz", "label", "t_here", "t_there", "ratio"]]


def carried_over(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting and matrix of `ratios`: what of the ranking and of the speed carries over.

    Columns setting, matrix, formats, rank_correlation (Spearman's of the times; NaN for fewer than three formats), low,
    middle, high (smallest, median and largest ratio), best (the fastest format here) and lost (time there of `best`
    over the best time there, minus 1).
    """
    found = []
    for (setting, matrix), part in table.groupby(["setting", "matrix"], observed=True):
        here, there = part["t_here"].to_numpy(), part["t_there"].to_numpy()
        ranks = (part["t_here"].rank(), part["t_there"].rank())
        best = int(np.argmin(here))
        found.append(
            {
                "setting": setting,
                "matrix": matrix,
                "formats": len(part),
                "rank_correlation": float(np.corrcoef(*ranks)[0, 1]) if len(part) > 2 else math.nan,
                "low": float(part["ratio"].min()),
                "middle": float(part["ratio"].median()),
                "high": float(part["ratio"].max()),
                "best": part["label"].iloc[best],
                "lost": float(there[best] / there.min() - 1),
            }
        )
    columns = ["setting", "matrix", "formats", "rank_correlation", "low", "middle", "high", "best", "lost"]
    return pd.DataFrame(found, columns=columns)
