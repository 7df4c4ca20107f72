"""The tables of docs/results/rivals.md: formats beside their authors' programs, and recent formats."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from spmvbench.analysis.cases import hot, latest_cases, of_one_operation, verified
from spmvbench.analysis.reasons import in_common, pattern
from spmvbench.publishing import in_page
from spmvbench.publishing.run_tables import FORMATS
from spmvbench.reports import export, published, tables
from spmvbench.reports.tables import Column, number
from spmvbench.rows import store

EQUAL = 0.97  # of the program's GFLOPS, that counts as much


def markdown(rows: pd.DataFrame) -> str:
    """The tables, then sentences on what has no rows.

    rows: as they are stored. Raises ValueError as `export.paired`.
    """
    public = published.public_programs()
    rows = rows[(rows["device_name"] == public.gpu) & rows["name"].isin(public.rows["matrix"])]
    cases = hot(of_one_operation(latest_cases(rows)))
    pairs = export.paired(cases)
    written = export.written([*export.rivals(pairs), slower(pairs), *recent(cases)], "markdown")
    return "\n\n".join([written.rstrip("\n"), *without_rows(cases, pairs, public)])


def slower(pairs: pd.DataFrame) -> tables.Table:
    """The pairs of `analysis.rivals.beside` below EQUAL, the farthest first, with the format's share of its bound."""
    found = pairs[pairs["ratio"] < EQUAL].sort_values(["ratio", "title"])
    columns = [
        Column("setting", "Setting"),
        Column("title", "Program"),
        Column("label", "Format"),
        Column("matrix", "Matrix"),
        Column("ratio", "Ratio", number),
        Column("share", "Of bound", number, "the format's GFLOPS over its bound"),
    ]
    return tables.table(
        f"Formats below {EQUAL} of the program", found.assign(share=found["ours"] / found["bound"]), columns
    )


def recent(cases: pd.DataFrame) -> Iterator[tables.Table]:
    """GFLOPS of the formats published since the survey, for each setting with verified rows of several of them."""
    for setting, part in cases.groupby("setting", observed=True):
        labels = [label for label in FORMATS if label in set(verified(part)["label"])]
        if len(labels) > 1:
            shown = part[part["label"].isin(labels)].sort_values("name")
            alike = shown.groupby(shown["reason"].map(pattern))["reason"].transform(in_common)
            shown = shown.assign(matrix=shown["name"], reason=alike)
            caption = f"GFLOPS of formats published since the survey, {setting}"
            yield tables.by_matrix(caption, shown, "gflops", labels, best="max", winner="First of these")


def without_rows(cases: pd.DataFrame, pairs: pd.DataFrame, public: published.PublicPrograms) -> Iterator[str]:
    """For each setting: the programs beside which no format has a row, and the recent formats without verified rows."""
    for setting, part in cases.groupby("setting", observed=True):
        figures = public.rows.loc[public.rows["dtype"].isin(part["dtype"]), "program"]
        titles = public.programs.loc[public.programs["program"].isin(figures), "title"].unique()
        compared = set(pairs.loc[pairs["setting"] == setting, "title"])
        held = set(verified(part)["label"])
        for text, names in (
            ("no format has rows beside", [title for title in titles if title not in compared]),
            ("no verified rows of", [f"`{label}`" for label in FORMATS if label not in held]),
        ):
            if names:
                yield f"In {setting}, {text}: {'; '.join(names)}."


main = in_page.command(lambda given: markdown(store.load_all(given.runs)), in_page.RUNS)
