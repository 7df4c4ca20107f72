"""The matrices of each paper's set as a figure, a table: which of them the run holds, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import pandas as pd

from spmvbench.matrices.sets import get, is_stand_in, stands_for
from spmvbench.reports.figures import LeftOut, Options, ehyb, survey, tilespmspv, tilespmv, verified_labels
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
    found = found.drop_duplicates("matrix").assign(measured=lambda r: r["matrix"].map(_kind))
    found = found.assign(matrix=found["matrix"].map(stands_for)).set_index("matrix")
    listed = found[["measured", *_SIZES]].reindex(wanted).rename_axis("matrix").reset_index()
    return listed.assign(measured=listed["measured"].fillna("no"))


def _kind(matrix: str) -> str:
    return "stand-in" if is_stand_in(matrix) else "the matrix"


def shown(found: pd.DataFrame, name: str) -> list[Table]:
    """The result of `of_set` as one table."""
    counts = found["measured"].value_counts()
    held, stand_ins = counts.get("the matrix", 0), counts.get("stand-in", 0)
    return [table(f"{get(name).title}: {held} measured, {stand_ins} by stand-ins", found, _COLUMNS)]


@dataclass(frozen=True)
class MatrixTable:
    """The figure of a family: the matrices of its `SET`. It is left out without a verified row of its `MEASURED`."""

    family: ModuleType
    name: str
    title: str
    papers: str
    order: int
    caption: str = CAPTION
    performance: bool = False

    def data(self, rows: pd.DataFrame, options: Options) -> pd.DataFrame:
        """As `of_set`. Raises LeftOut."""
        if measured := getattr(self.family, "MEASURED", ()):
            verified_labels(rows, measured)  # so that a run without any gives one reason
        return of_set(rows, self.family.SET)

    def show(self, found: pd.DataFrame, options: Options) -> list[Table]:
        """One table."""
        return shown(found, self.family.SET)


FIGURES = (
    MatrixTable(survey, "survey-matrices", "Survey, Table 3: the matrices", "Filippone et al. 2017, Table 3", 102),
    MatrixTable(tilespmv, "tilespmv-matrices", "TileSpMV, Table II: the 16 matrices", "Niu et al. 2021, Table II", 205),
    MatrixTable(ehyb, "ehyb-matrices", "EHYB, Appendix B: the 92 matrices", "Chen 2022, Appendix B", 305),
    MatrixTable(
        tilespmspv, "tilespmspv-matrices", "TileSpMSpV, Table 2: the 12 matrices", "Ji et al. 2022, Table 2", 505
    ),
)
