"""Tables that a command writes into a page of the documentation, between two comments."""

from __future__ import annotations

from pathlib import Path

from spmvbench import paths
from spmvbench.errors import UsageError

END = "<!-- end of the table -->"


def begin(module: str) -> str:
    """The comment before the table that `python -m MODULE` writes."""
    return f"<!-- table: written by {module} -->"


def updated(page: str, table: str, module: str) -> str:
    """The text of a page with this table. Raises UsageError for a page without the two comments."""
    before, first, rest = page.partition(begin(module))
    _, end, after = rest.partition(END)
    if not first or not end:
        raise UsageError(f"the page has no place for the table: write {begin(module)} and {END}")
    return f"{before}{first}\n\n{table}\n\n{END}{after}"


def put(page: Path | None, table: str, module: str) -> None:
    """Write the table into a page, or print it if there is none. Raises as `updated`."""
    if page is None:
        print(table)
        return
    text = updated(page.read_text(encoding="utf-8"), table, module)
    with paths.written_whole(page) as file:
        file.write(text.encode())
