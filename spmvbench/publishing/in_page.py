"""Tables that a command writes into a page of the documentation, between two comments.

The second has a hash of the rows of which the table was made: a page that is older than its rows is known by it.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.rows import files, store

if TYPE_CHECKING:
    import pandas as pd

END = re.compile("<!-- end of the table(?:, of rows [0-9a-f]+)? -->")


def begin(module: str) -> str:
    """The comment before the table that a module writes."""
    return f"<!-- table: written by {module} -->"


def end(rows: str) -> str:
    """The comment after a table. rows: as `rows_of`."""
    return f"<!-- end of the table{f', of rows {rows}' * bool(rows)} -->"


def updated(page: str, table: str, module: str, rows: str = "") -> str:
    """The text of a page with this table, of these rows. Raises UsageError for a page without the two comments."""
    before, first, rest = page.partition(begin(module))
    if not first or not (last := END.search(rest)):
        raise UsageError(f"the page has no place for the table: write {begin(module)} and {end('')}")
    return f"{before}{first}\n\n{table}\n\n{end(rows)}{rest[last.end() :]}"


def rows_of(places: Iterable[Path | str]) -> str:
    """Hash (12 hex digits) of runs: their names, their cases and when each was measured; empty without runs.

    places: runs, as `store.folder` finds them, and folders of runs. Raises as `store.folder` and `files.read`.
    """
    inside = {place: [path.parent for path in Path(place).glob(f"*/{store.ROWS}")] for place in places}
    runs = {run for place, found in inside.items() for run in found or [store.folder(place)]}
    digest = hashlib.sha256()
    for run in sorted(runs, key=lambda run: run.name):
        table = files.read(run / store.ROWS, files.CASES, ("case_id", "started_at"))
        cases = zip(table["case_id"].to_pylist(), table["started_at"].to_pylist(), strict=True)
        digest.update("\n".join([run.name, *(" ".join(case) for case in sorted(cases)), ""]).encode())
    return digest.hexdigest()[:12] if runs else ""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[str] = ()) -> str:
    """A table in Markdown. numbers: the heads whose columns are aligned to the right."""
    rules = ["---:" if name in numbers else "---" for name in head]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rules, *rows))


def listed(rows: pd.DataFrame, cells: Mapping[str, str], numbers: Container[str] = ()) -> str:
    """A table in Markdown with a line for each row.

    cells: by head what a cell has, as `str.format` takes it, with the names of columns; of NaN it is empty.
    """
    lines = ([text.format_map(row) for text in cells.values()] for row in rows.to_dict("records"))
    return markdown(list(cells), (["" if cell == "nan" else cell for cell in line] for line in lines), numbers)


def frame(found: pd.DataFrame, digits: int = 2) -> str:
    """A table in Markdown of a frame and its index: fractions with so many decimals, nothing for NaN."""

    def cell(value: Any) -> str:
        return number(value, digits) if isinstance(value, float) else str(value)

    head = [str(found.index.name), *map(str, found.columns)]
    return markdown(head, ([str(name), *map(cell, row)] for name, *row in found.itertuples()), head[1:])


def number(value: float, digits: int = 2, unknown: str = "") -> str:
    """A cell of a table: the value with so many decimals, or `unknown` for NaN."""
    return unknown if math.isnan(value) else f"{value:.{digits}f}"


def link(folder: Path, page: Path | None) -> str:
    """The path of a folder from a page, or from where it is printed."""
    return Path(os.path.relpath(folder, page.parent if page else None)).as_posix()


def put(page: Path | None, table: str, module: str, rows: str) -> None:
    """Write the table of these rows into a page, or print it if there is none. Raises as `updated`."""
    if page is None:
        print(table)
        return
    text = updated(page.read_text(encoding="utf-8"), table, module, rows)
    with paths.written_whole(page) as file:
        file.write(text.encode())


Argument = tuple[str, dict[str, Any]]  # of argparse
_RUN = "a run, by its name in results/ or its folder"
RUN: Argument = ("run", {"metavar": "RUN", "help": _RUN})
RUNS: Argument = ("runs", {"nargs": "+", "metavar": "RUN", "help": _RUN})
FOLDER: Argument = ("folder", {"type": Path, "help": "the folder of the runs, such as results/published"})
Made = Callable[[argparse.Namespace], str | Mapping[str, str]]


def parser(module: str) -> argparse.ArgumentParser:
    """The parser of a module's arguments, with what it says of itself. module: its full name."""
    package, _, name = module.rpartition(".")
    return argparse.ArgumentParser(prog=f"python -m {package} {name}", description=sys.modules[module].__doc__)


def command(made: Made, *arguments: Argument) -> Callable[..., None]:
    """The function `main` of a module of this package, which prints a table or writes it into ``--page``.

    made: from the arguments a table, or several by a word that their places have after the module's name.
    """
    module = made.__module__

    def main(given: Sequence[str] | None = None) -> None:
        words = parser(module)
        words.add_argument(
            "--page", type=Path, help="the page that holds the table, between two comments; else it is printed"
        )
        for argument, about in arguments:
            words.add_argument(argument, **about)
        options = words.parse_args(given)
        if options.page and not options.page.is_file():
            raise UsageError(f"there is no page {options.page}")
        if "folder" in options and not store.runs(options.folder):
            raise UsageError(f"{options.folder} holds no run")
        tables = made(options)
        places = [getattr(options, name, None) for name in ("folder", "run", "other")] + getattr(options, "runs", [])
        rows = rows_of(filter(None, places)) if options.page else ""
        for word, table in {"": tables}.items() if isinstance(tables, str) else tables.items():
            put(options.page, table, f"{module} {word}".rstrip(), rows)

    return main
