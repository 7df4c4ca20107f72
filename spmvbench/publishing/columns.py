"""The tables of docs/columns.md: what each column of rows.parquet and of matrices.parquet means."""

from __future__ import annotations

from collections.abc import Mapping

from spmvbench.publishing import in_page
from spmvbench.reports.export import plain_markdown
from spmvbench.rows.schema import COLUMNS, MATRIX_COLUMNS


def table(columns: Mapping[str, tuple[str, str]]) -> str:
    """Name, type and meaning of each column."""
    cells = [(f"`{name}`", kind, _markdown(meaning)) for name, (kind, meaning) in columns.items()]
    return in_page.markdown(("Column", "Type", "Meaning"), cells)


def _markdown(text: str) -> str:
    """A meaning, with its words in code between backquotes, in a cell."""
    words = text.replace("``", "`").split("`")
    return "".join(
        f"`{word}`".replace("|", "\\|") if place % 2 else plain_markdown(word) for place, word in enumerate(words)
    )


main = in_page.command(lambda given: {"rows": table(COLUMNS), "matrices": table(MATRIX_COLUMNS)})
