"""The figure of a paper's matrices, a table: which of them the run holds, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.matrices.sets import get, is_stand_in, stands_for
from spmvbench.reports.figures import Family, LeftOut, Options, ReportFigure, verified_labels
from spmvbench.reports.tables import Column, Table, count, number, table

CAPTION = (
    "The matrices of the paper in its order, and their sizes as measured. A stand-in was generated with the rows, "
    "entries and row lengths that papers and the collection's index give of a matrix; it is not the matrix."
)
_SIZES = ["rows", "nnz", "row_len_mean", "row_len_max"]
_COLUMNS = [
    Column("matrix", "Matrix"),
    Column("measured", "Measured", None, "the matrix, a stand-in for it, or neither"),
    Column("rows", "Rows", count),
    Column("nnz", "Nonzeros", count),
    Column("row_len_mean", "Mean row", number, "mean row length"),
    Column("row_len_max", "Longest row", count),
]


def of_set(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Columns matrix, measured (the matrix, a stand-in, or no), rows, nnz, row_len_mean and row_len_max.

    One row per matrix of the set, NaN for those that the run does not hold. Raises LeftOut if it holds none.
    """
    wanted = [f"synthetic/{matrix}" if ":" in matrix else matrix for matrix in get(name).matrices]
    found = rows[(rows["matrix_sha256"] != "") & rows["matrix"].map(stands_for).isin(wanted)]
    if found.empty:
        raise LeftOut(f"no row of a matrix of the set {name}")
    found = found.drop_duplicates("matrix").assign(
        measured=lambda r: np.where(r["matrix"].map(is_stand_in), "stand-in", "the matrix")
    )
    found = found.assign(matrix=found["matrix"].map(stands_for)).set_index("matrix")
    listed = found[["measured", *_SIZES]].reindex(wanted).rename_axis("matrix").reset_index()
    return listed.assign(measured=listed["measured"].fillna("no"))


def shown(found: pd.DataFrame, name: str) -> list[Table]:
    """The result of `of_set` as one table."""
    counts = found["measured"].value_counts()
    held, stand_ins = counts.get("the matrix", 0), counts.get("stand-in", 0)
    return [table(f"{get(name).title}: {held} measured, {stand_ins} by stand-ins", found, _COLUMNS)]


def matrix_table(
    family: Family, title: str, papers: str, order: int, measured: Sequence[str] = (), **more: Any
) -> ReportFigure:
    """The matrices of a family's set as a figure; it is left out without a verified row of a format of `measured`."""

    def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
        if measured:
            verified_labels(rows, measured)  # so that a run without any gives one reason
        return of_set(rows, family.set)

    return ReportFigure(
        f"{family.name}-matrices",
        title,
        CAPTION,
        order,
        data,
        show=lambda found, options: shown(found, family.set),
        papers=papers,
        performance=False,
        family=family,
        **more,
    )
