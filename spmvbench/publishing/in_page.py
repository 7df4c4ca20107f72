"""Tables that a command writes into a page of the documentation, between two comments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


Argument = tuple[str, dict[str, Any]]  # of argparse
_RUN = "a run, by its name in results/ or its folder"
RUN: Argument = ("run", {"metavar": "RUN", "help": _RUN})
RUNS: Argument = ("runs", {"nargs": "+", "metavar": "RUN", "help": _RUN})
FOLDER: Argument = ("folder", {"type": Path, "help": "the folder of the runs, such as results/published"})
Made = Callable[[argparse.Namespace], str | Mapping[str, str]]


def command(name: str, description: str | None, made: Made, *arguments: Argument) -> Callable[..., None]:
    """The function `main` of `python -m spmvbench.publishing.NAME`, which prints a table or writes it into ``--page``.

    made: from the arguments a table, or several by a word that their places have after the module's name.
    """
    module = f"spmvbench.publishing.{name}"

    def main(given: Sequence[str] | None = None) -> None:
        parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
        parser.add_argument(
            "--page", type=Path, help="the page that holds the table, between two comments; else it is printed"
        )
        for argument, about in arguments:
            parser.add_argument(argument, **about)
        options = parser.parse_args(given)
        tables = made(options)
        for word, table in {"": tables}.items() if isinstance(tables, str) else tables.items():
            put(options.page, table, f"{module} {word}".rstrip())

    return main
