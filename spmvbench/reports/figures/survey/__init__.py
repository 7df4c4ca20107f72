"""The survey's tables and figures: Filippone, Cardellini, Barbieri & Fanfarillo, ACM TOMS 43(4), 2017."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import labels_of
from spmvbench.formats.survey import CONFIDENCE
from spmvbench.formats.survey import confidence as confidence_of
from spmvbench.formats.survey import lacks as lacks_of
from spmvbench.matrices.sets import stands_for
from spmvbench.reports import published, style, tables
from spmvbench.reports.figures import LeftOut, Options

PAPER = "survey"
SET = "survey34"  # the named set of its Table 3
PAPER_MATRICES = "the survey's matrices (the set survey34)"
MOST_FORMATS, MOST_MATRICES = 24, 100  # in a table of the page; its CSV file has all


def is_paper_matrix(matrices: pd.Series) -> pd.Series:
    """Which of these matrices the survey measured."""
    return matrices.isin(published.paper(PAPER).matrices["matrix"])


def compared_formats() -> Sequence[str]:
    """The formats (keys) that these figures compare."""
    return [key for keys in formats().values() for key in keys]


def formats() -> Mapping[str, Sequence[str]]:
    """The formats that the survey measured, by its names, with the keys that correspond to each."""
    return published.paper(PAPER).formats


def roles(rows: pd.DataFrame) -> dict[str, str]:
    """The label of a verified row for each of the survey's formats, by its name there. Raises LeftOut for none."""
    found = {name: labels[0] for name, keys in formats().items() if (labels := labels_of(rows, keys))}
    if not found:
        raise LeftOut(f"no verified row of {', '.join(key for keys in formats().values() for key in keys)}")
    return found


def lacks(label: str) -> str:
    """What of its paper's contribution a format does not have; empty if it has all."""
    return lacks_of(label.partition("[")[0])


def confidence(label: str) -> str:
    """What was read of a format's names in the survey, as its list of names says; empty for a format of none."""
    return confidence_of(label.partition("[")[0])


def printed(options: Options) -> list[published.Published]:
    """The survey's own figures, as far as they were asked for."""
    return [given for given in options.published if given.paper.name == PAPER]


def named(found: Mapping[str, str]) -> dict[str, str]:
    """Names in drawings, by label: the survey's name, and the key if it differs."""
    return {label: name if label == name.lower() else f"{name} ({label})" for name, label in found.items()}


def marks_in(names: Sequence[str], labels: Mapping[str, str], options: Options) -> dict[str, style.Mark]:
    """The marks of these names of formats, in the survey's order: each that of its label, which `labels` gives by name,
    and a free one where the run has none.
    """
    chosen = [name for name in formats() if name in names]
    marks = options.marks_of([labels.get(name) or name for name in chosen])
    return dict(zip(chosen, marks.values(), strict=True))


def cases(rows: pd.DataFrame, *values: str) -> pd.DataFrame:
    """Every case of a matrix with entries, the matrices that the survey measured first, in its order.

    values: columns that are NaN unless the case is verified.
    """
    known = list(published.paper(PAPER).matrices["matrix"])
    place = {matrix: number for number, matrix in enumerate(known)}
    found = rows[(rows["matrix_sha256"] != "") & (rows["nnz"] > 0) & ~rows["experiment"]]
    found = found.assign(**{value: found[value].where(found["status"] == "ok") for value in values})
    order = found["matrix"].map(lambda matrix: place.get(stands_for(matrix), len(known)))
    return found.assign(order=order).sort_values(["order", "matrix"], kind="stable").drop(columns="order")


def grids(
    table: pd.DataFrame,
    options: Options,
    by: str,
    quantities: Mapping[str, tuple[str, Callable[[Any], str]]],
    *,
    best: str = "",
    winner: str = "",
    tie: float = 1.0,
) -> list[tables.Table]:
    """A table for each value of the column `by` and each quantity, as `tables.by_matrix`.

    The survey's formats come first, then highlighted ones, then others, up to MOST_FORMATS.
    quantities: heading, and how a number is shown, by column.
    """
    found = roles(table)
    order = dict.fromkeys([*found.values(), *options.marks, *sorted(table["label"].unique())])
    labels = [label for label in order if label in set(table["label"])]
    matrices = table["matrix"].unique()
    here = [f"{name} is {label}" for name, label in found.items() if label != name.lower()]
    notes = [f"the survey's {', '.join(here)}"] if here else []
    least = [label for label in found.values() if confidence(label) == CONFIDENCE[-1]]
    notes += [f"{', '.join(least)} after the {CONFIDENCE[-1]}"] if least else []
    notes += [
        f"{most} of {len(names)} {what}, the file has all"
        for names, most, what in ((labels, MOST_FORMATS, "formats"), (matrices, MOST_MATRICES, "matrices"))
        if len(names) > most
    ]
    more = f" ({'; '.join(notes)})" if notes else ""
    shown = table[table["matrix"].isin(matrices[:MOST_MATRICES])]
    return [
        tables.by_matrix(
            f"{heading}, {group}{more}",
            part, column, [label for label in labels[:MOST_FORMATS] if label in set(part["label"])],
            show=show, best=best, winner=winner, tie=tie,
        )
        for group, part in shown.groupby(by, observed=True, sort=False)
        for column, (heading, show) in quantities.items()
    ]  # fmt: skip


def described(rows: pd.DataFrame, options: Options, wanted: Sequence[str], most: int) -> tuple[pd.DataFrame, list[str]]:
    """The descriptions of `most` matrices of the run, from even to uneven rows, and the matrices that have none.

    Those of `wanted` that the run has, then others at equal steps of the order. Columns matrix, nnz, row_len_cv and
    those of rows.schema.MATRIX_COLUMNS. Raises LeftOut if the run has no descriptions.
    """
    about = rows[(rows["matrix_sha256"] != "") & (rows["nnz"] > 0)].drop_duplicates("matrix")
    about = about[["matrix", "matrix_sha256", "nnz", "row_len_cv"]].sort_values(["row_len_cv", "matrix"])
    kept = options.matrices
    if kept is None or not set(kept["matrix_sha256"]) & set(about["matrix_sha256"]):
        raise LeftOut("the run has no descriptions of its matrices (matrices.parquet): older versions wrote none")
    found = about.merge(kept.drop_duplicates("matrix_sha256"), on="matrix_sha256")
    chosen = found.index[found["matrix"].isin(wanted)][:most]
    rest = found.index.difference(chosen)
    steps = np.linspace(0, len(rest) - 1, min(most - len(chosen), len(rest))).round().astype(int)
    missing = sorted(set(about["matrix"]) - set(found["matrix"]))
    return found.loc[sorted([*chosen, *rest[steps]])], missing
