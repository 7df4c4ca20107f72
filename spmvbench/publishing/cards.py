"""The table of docs/results/cards.md: ranks and ratios of times on two cards, by setting and matrix.

``python -m spmvbench.publishing.cards RUN OTHER --page docs/results/cards.md`` makes it from a run of each card and
writes it into the page, between two comments.
"""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cards import carried_over
from spmvbench.errors import UsageError
from spmvbench.publishing import in_page
from spmvbench.reports import export
from spmvbench.reports.figures import comparisons
from spmvbench.rows import store


def markdown(rows: pd.DataFrame, others: pd.DataFrame) -> str:
    """`summary` of the rows of two cards. Raises UsageError if they are not of two cards, or have no case in common."""
    if not comparisons.differ(rows, others):
        raise UsageError("the two runs are not of two models of GPU")
    table, pair = comparisons.compared(rows, others)
    return export.written([comparisons.summary(carried_over(table), *pair)], "markdown").rstrip("\n")


main = in_page.command(
    "cards",
    __doc__,
    lambda given: markdown(store.load(given.run), store.load(given.other)),
    in_page.RUN,
    ("other", {"metavar": "OTHER", "help": "a run of another card"}),
)

if __name__ == "__main__":
    main()
