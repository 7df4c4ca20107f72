"""What formats published since the survey are best at on the matrices of a run: a table of docs/results/rivals.md.

``python -m spmvbench.publishing.strengths RUN... --page docs/results/rivals.md`` makes it from the rows of runs and
writes it into the page, between two comments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.strengths import EVERY, strengths
from spmvbench.publishing import in_page
from spmvbench.reports import export
from spmvbench.reports.tables import Column, Table, number, table
from spmvbench.rows import store

FORMATS = (
    "sell-petsc", "csr-ans", "cb", "bit8x4", "bit8x4-dict", "mbsr", "csr-lrb", "sell-dict", "sell-pack", "amb",
    "csr-amf", "csr-overlap", "brcsd", "cusparse-coo-alg2", "cusparse-spmvop",
)  # fmt: skip
FEWEST = 2  # matrices of a structure that a format holds, for its share there to be shown
COLUMNS = [
    Column("label", "Format"),
    Column("held", "Matrices", number),
    Column("share", "Share", number),
    Column("first", "First of these", number),
    Column("near", "Within 5 % of all", number),
]


def shares(rows: pd.DataFrame, labels: Sequence[str] = FORMATS) -> Iterator[Table]:
    """A table for each setting, a row a format, the best first: `analysis.strengths`, and the share by structure.

    rows: as they are stored. A dash: no verified row, or fewer values are stored than the matrix has.
    """
    found = strengths(latest_cases(rows), labels)
    for setting, part in found.groupby("setting", sort=False):
        every = part[part["structure"] == EVERY].sort_values("share", ascending=False)
        enough = part[(part["held"] >= FEWEST) & (part["structure"] != EVERY)]
        by_structure = enough.pivot(index="label", columns="structure", values="share")
        columns = [*COLUMNS, *(Column(name, name.capitalize(), number) for name in by_structure)]
        caption = f"Share of the fastest format's rate, {setting}, {every['matrices'].iloc[0]} matrices"
        yield table(caption, every.join(by_structure, on="label"), columns)


def _markdown(rows: pd.DataFrame) -> str:
    return export.written(list(shares(rows)), "markdown").rstrip("\n")


main = in_page.command("strengths", __doc__, lambda given: _markdown(store.load_all(given.runs)), in_page.RUNS)

if __name__ == "__main__":
    main()
