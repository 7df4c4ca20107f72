"""How many matrices, formats and cases rows hold: the only definition, for every page and table that says so."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from spmvbench.analysis.cases import imported


@dataclass(frozen=True)
class Totals:
    """The counts of one or several runs.

    matrices: those that could be read. unread: those that could not; they have no entries, and count for no format.
    formats: keys. labels: keys with their parameters. cases: pairs of a matrix that was read and a label, in each
    setting. verified: cases with status ok that are not imported.
    """

    matrices: int
    unread: int
    formats: int
    labels: int
    cases: int
    verified: int


def read(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of matrices that could be read."""
    return rows[rows["matrix_sha256"] != ""]


def totals(rows: pd.DataFrame) -> Totals:
    """The counts of rows as `cases.latest_cases`."""
    known = read(rows)
    verified = (known["status"] == "ok") & ~imported(known)
    return Totals(
        matrices=known["matrix"].nunique(),
        unread=len(set(rows["matrix"].unique()) - set(known["matrix"].unique())),
        formats=known["format"].nunique(),
        labels=known["label"].nunique(),
        cases=int(known["cases"].sum()),
        verified=int(known.loc[verified, "cases"].sum()),
    )
