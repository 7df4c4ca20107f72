"""Tables that a command writes into a page of the documentation, between two comments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path

import pandas as pd

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.rows import store

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


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[str] = ()) -> str:
    """A table in Markdown. numbers: the heads whose columns are aligned to the right."""
    rules = ["---:" if name in numbers else "---" for name in head]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rules, *rows))


def put(page: Path | None, table: str, module: str) -> None:
    """Write the table into a page, or print it if there is none. Raises as `updated`."""
    if page is None:
        print(table)
        return
    text = updated(page.read_text(encoding="utf-8"), table, module)
    with paths.written_whole(page) as file:
        file.write(text.encode())


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m MODULE`, with the option ``--page``: the page that the table is written into."""
    found = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    found.add_argument(
        "--page", type=Path, help="the page that holds the table, between two comments; else it is printed"
    )
    return found


def add_run(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the argument `run`, or `runs` for one or more."""
    told = "a run, by its name in results/ or its folder"
    if several:
        parser.add_argument("runs", nargs="+", metavar="RUN", help=told)
    else:
        parser.add_argument("run", metavar="RUN", help=told)


def command(
    module: str, description: str | None, made: Callable[[pd.DataFrame], str], given: Sequence[str] | None
) -> None:
    """Print the table that `made` gives of the rows of one or more runs, or write it into a page.

    given: the arguments, by default those of the process.
    """
    asked = parser(module, description)
    add_run(asked, several=True)
    options = asked.parse_args(given)
    put(options.page, made(store.load_all(options.runs)), module)
