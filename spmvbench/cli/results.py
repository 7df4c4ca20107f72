"""What stands at the end of a run: a table for each type and mode, then what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd

LISTED_FAILURES = 20


def echo_results(rows: pd.DataFrame) -> None:
    """The table that ends a run, a part for each type and mode; then what went wrong."""
    from spmvbench.analysis.coverage import coverage

    for setting, part in coverage(rows).groupby("setting", observed=True):
        device = part["device"].iloc[0]
        emulated = device.startswith("emulated")
        title = f"EMULATED, {setting}: answers are checked, times are no measure of performance"
        click.secho(f"\n{title if emulated else f'{device}, {setting}'}", bold=True)
        if emulated:
            part = part.sort_values(["coverage", "label"], ascending=[False, True])
        _echo_table(part, _CHECKED if emulated else _MEASURED)
    failures = rows[~rows["status"].isin(["ok", "skipped"])]
    if len(failures):
        click.echo()
    for row in failures.head(LISTED_FAILURES).itertuples():
        reason = row.reason.partition("\n")[0]
        click.echo(f"{row.status}: {row.group}/{row.name} {row.label} {row.dtype} {row.mode}: {reason}")
    if len(failures) > LISTED_FAILURES:
        click.echo(f"and {len(failures) - LISTED_FAILURES} more; the rows hold every reason")
    unread = rows[rows["matrix_sha256"] == ""].drop_duplicates(["group", "name"])
    for row in unread[unread["status"] == "skipped"].itertuples():
        click.echo(f"not read: {row.group}/{row.name}: {row.reason}")


_COUNTS = {
    "right": lambda row: f"{row.ok}/{row.cases}",
    "skipped": lambda row: str(row.skipped or ""),
    "wrong": lambda row: str(row.wrong or ""),
    "failed": lambda row: str(row.failed or ""),
}
_MEASURED = {
    "format": lambda row: row.label,
    "GFLOPS": lambda row: _number(row.gflops, ".4g"),
    "wins": lambda row: str(row.wins),
    "worst case": lambda row: f"{row.slowdown:.3g}x on {row.worst}" if row.worst else "",
    **_COUNTS,
}
_CHECKED = {
    "format": lambda row: row.label,
    "bytes/nonzero": lambda row: _number(row.bytes_per_nnz, ".3g"),
    "error/bound": lambda row: _number(row.error_ratio, ".2g"),
    **_COUNTS,
}


def _number(value: float, spec: str) -> str:
    return "" if value != value else format(value, spec)


def _echo_table(table: pd.DataFrame, columns: dict[str, Callable[[Any], str]]) -> None:
    """Print rows under a header; text to the left, numbers to the right; a row with wrong answers in red."""
    lines = [list(columns), *([text(row) for text in columns.values()] for row in table.itertuples())]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    left = {"format", "worst case"}
    for line, wrong in zip(lines, [0, *table["wrong"]], strict=True):
        cells = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        ]
        click.secho("  ".join(cells).rstrip(), fg="red" if wrong else None)
