"""The figure of a paper's matrices, a table: which of them the run holds, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from spmvbench import paths
from spmvbench.matrices.sets import get, is_stand_in, stands_for
from spmvbench.reports.figures import Family, LeftOut, Options, ReportFigure, verified_labels
from spmvbench.reports.tables import Column, Table, count, number, table

CAPTION = (
    "The matrices of the paper in its order, and their sizes as measured. A stand-in was generated with the rows, "
    "entries and row lengths that papers and the collection's index give of a matrix; it is not the matrix."
)
_SIZES = ["rows", "nnz", "row_len_mean", "row_len_max"]
_MEASURED = ["measured", *_SIZES, "tiles"]
_COLUMNS = [
    Column("matrix", "Matrix"),
    Column("measured", "Measured", None, "the matrix, a stand-in for it, or neither"),
    Column("rows", "Rows", count),
    Column("nnz", "Nonzeros", count),
    Column("row_len_mean", "Mean row", number, "mean row length"),
    Column("row_len_max", "Longest row", count),
    Column("tiles", "Tiles of 16 x 16", count, "non-empty, measured"),
    *(Column(f"tiles_{n}", f"{n} x {n}, printed", count, "non-empty tiles, rounded") for n in (16, 32, 64)),
    Column("category", "Category", None, "as the paper prints it"),
    Column("description", "Description", None, "as the paper prints it"),
]


def of_set(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Columns matrix, measured (the matrix, a stand-in, or no), rows, nnz, row_len_mean, row_len_max and tiles.

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
    listed = found.reindex(columns=_MEASURED).reindex(wanted).rename_axis("matrix").reset_index()
    return listed.assign(measured=listed["measured"].fillna("no"))


def printed(found: pd.DataFrame, paper: str) -> pd.DataFrame:
    """The result of `of_set` with what only the paper's own table has: columns of configs/published/PAPER/matrices.csv.

    Without tiles, unless the paper prints tiles.
    """
    file = paths.configs() / "published" / paper / "matrices.csv"
    more = pd.read_csv(file) if file.exists() else found[["matrix"]]
    more = more.drop(columns=more.columns.intersection(_SIZES))
    found = found if "tiles_16" in more else found.drop(columns="tiles")
    return found.merge(more, on="matrix", how="left")


def shown(found: pd.DataFrame, name: str) -> list[Table]:
    """The result of `of_set` or `printed` as one table."""
    counts = found["measured"].value_counts()
    held, stand_ins = counts.get("the matrix", 0), counts.get("stand-in", 0)
    columns = [column for column in _COLUMNS if column.field in found]
    return [table(f"{get(name).title}: {held} measured, {stand_ins} by stand-ins", found, columns)]


def matrix_table(
    family: Family, title: str, papers: str, order: int, measured: Sequence[str] = (), **more: Any
) -> ReportFigure:
    """The matrices of a family's set as a figure; it is left out without a verified row of a format of `measured`."""

    def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
        if measured:
            verified_labels(rows, measured)  # so that a run without any gives one reason
        return printed(of_set(rows, family.set), family.name)

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
