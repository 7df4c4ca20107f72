"""Tables at the terminal: the table that ends a run, for each type and mode, and the failures."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from spmvbench.errors import counted

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

LISTED_FAILURES = 20
Columns = dict[str, Callable[[Any], str]]  # for each head a function from a row to its text


def echo_results(rows: pd.DataFrame) -> None:
    """Print the table that ends a run, one for each type and mode; then reasons of skipped and failed cases."""
    from spmvbench.analysis.cases import verified_or_imported
    from spmvbench.analysis.coverage import coverage
    from spmvbench.analysis.ranking import SLOWDOWN_CAP, TIE
    from spmvbench.rows.schema import IMPORTED, rate_unit

    ranked = False
    for setting, part in coverage(rows).groupby("setting", observed=True):
        device = part["device"].iloc[0]
        emulated = device.startswith("emulated")
        title = str(setting) if device == IMPORTED else f"{device}, {setting}"
        title = f"EMULATED, {setting}: results are verified, times are no measure of performance" if emulated else title
        click.secho(f"\n{title}", bold=True)
        if emulated:
            part = part.sort_values(["coverage", "label"], ascending=[False, True])
        ranked |= not emulated
        columns = _VERIFIED if emulated else _MEASURED
        words = {"GFLOPS": rate_unit(setting), "verified": verified_or_imported(part)}
        columns = {words.get(name, name): text for name, text in columns.items()}
        if not part["kernel"].any():
            columns = {name: text for name, text in columns.items() if name != "kernel"}
        echo_table(part, columns, _WORDS, red=part["wrong"])
    if ranked:
        click.echo(
            "\nMean slowdown: geometric mean, over all matrices, of time divided by the best time. Failed or skipped\n"
            f"matrices count as {SLOWDOWN_CAP:g}. It orders the table. Times within {100 * (TIE - 1):.1f} % are tied.\n"
            "Kernel: project marks this project's kernels, not a paper's; = NAME: the same program on every matrix;\n"
            "other bits: products with the same x differed in some case;\n"
            "self-timed, started by the host, started on a stream: by no CUDA graph (docs/programs.md);\n"
            "values compressed: fewer values are stored than the matrix has, so the time depends on which repeat."
        )
    _echo_bits(rows)
    _echo_reasons(rows)


def echo_next(folder: Path, results: Path, device: str) -> None:
    """Print where the rows of a run are, and the command that draws them."""
    from spmvbench.measure.cases import device_kind
    from spmvbench.rows import store

    report = ["spmvbench", "report", folder.name if str(results) == "results" else str(folder)]
    if device_kind(device) == "emulated":
        report.append("--emulated")  # otherwise the report omits emulated times
    click.echo(f"\nRows: {folder / store.ROWS}\nNext: {shlex.join(report)}")


def _echo_bits(rows: pd.DataFrame) -> None:
    """Print which formats had other bits in products with the same x, and whether float atomics explain it.

    Formats are named with their operation unless that is y = A x.
    """
    rows = rows.assign(label=(rows["label"] + " " + rows["op"]).str.removesuffix(" spmv"))
    differ = rows[rows["same_bits"] == "no"]
    for adds, why in {
        "yes": "they add by atomics",
        "no": "without float atomics",
        "": "unknown whether by atomics",
    }.items():
        if labels := sorted(set(differ.loc[differ["float_atomics"] == adds, "label"])):
            click.echo(f"\nOther bits in products with the same x, {why}: {', '.join(labels)}")
    same = rows[(rows["same_bits"] == "yes") & (rows["float_atomics"] == "yes")]
    if labels := sorted(set(same["label"])):
        click.echo(f"\nThe same bits although they add by atomics, here: {', '.join(labels)}")


def _echo_reasons(rows: pd.DataFrame) -> None:
    """Print one line per reason of skipped cases, per format and reason of failed cases, per unreadable matrix."""
    from spmvbench.analysis.reasons import by_kind, first_line

    read = rows[rows["matrix_sha256"] != ""]
    unread = rows[(rows["matrix_sha256"] == "") & (rows["reason"] != "")].drop_duplicates(["group", "name"])
    failures = read[~read["status"].isin(["ok", "skipped"])]
    skipped = by_kind(read[read["status"] == "skipped"])
    if len(failures) or len(skipped) or len(unread):
        click.echo()
    for row in skipped.itertuples():
        click.echo(f"skipped {row.cases}: {row.reason} ({row.labels})")
    alike = failures.groupby(["status", "label", failures["reason"].map(first_line)], sort=False)
    for (status, label, reason), part in list(alike)[:LISTED_FAILURES]:
        first = part.iloc[0]
        more = f" and {len(part) - 1} more" if len(part) > 1 else ""
        click.echo(
            f"{status}: {first['group']}/{first['name']} {label} {first['dtype']} {first['mode']}{more}: {reason}"
        )
    if len(alike) > LISTED_FAILURES:
        click.echo(f"and {len(alike) - LISTED_FAILURES} other failures; the rows contain all reasons")
    for row in unread.itertuples():
        click.echo(f"not read: {row.group}/{row.name}: {row.reason}")


def echo_failed(rows: pd.DataFrame) -> int:
    """Print how many cases failed, or that none was measured. Returns the exit code: 1 in both cases."""
    from spmvbench.rows.schema import SETTLED

    failed = int((~rows["status"].isin(SETTLED)).sum())
    if failed:
        click.echo(f"\n{counted(failed, 'case')} failed; the same command with --retry measures them again.")
        return 1
    if not (rows["status"] == "ok").any():
        click.echo("\nNothing was measured: every case was skipped.")
        return 1
    return 0


def echo_unread(unread: Mapping[str, Exception]) -> int:
    """Print a line with the reason for each run that cannot be read. Returns the exit code: 1 if there is any."""
    for name, reason in unread.items():
        click.secho(f"{name} was not read: {reason}", fg="red")
    return 1 if unread else 0


_COUNTS: Columns = {
    "verified": lambda row: f"{row.ok}/{row.cases}",
    "skipped": lambda row: str(row.skipped or ""),
    "wrong": lambda row: str(row.wrong or ""),
    "failed": lambda row: str(row.failed or ""),
}
_MEASURED: Columns = {
    "format": lambda row: row.label,
    "kernel": lambda row: row.kernel,
    "mean slowdown": lambda row: number(row.mean_slowdown, ".2f", "x"),
    "wins": lambda row: f"{row.wins} +{row.ties} tied" if row.ties else str(row.wins),
    "GFLOPS": lambda row: number(row.gflops, ".4g"),
    "worst case": lambda row: f"{row.worst_slowdown:.3g}x on {row.worst_matrix}" if row.worst_matrix else "",
    **_COUNTS,
}
_VERIFIED: Columns = {
    "format": lambda row: row.label,
    "bytes/nonzero": lambda row: number(row.bytes_per_nnz, ".3g"),
    "error / rounding bound": lambda row: number(row.error_ratio, ".2g"),
    **_COUNTS,
}


def few(names: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """The first names, and how many more there are."""
    return between.join(names[:most]) + f" and {len(names) - most} more" * (len(names) > most)


def number(value: float, spec: str, unit: str = "") -> str:
    """A formatted number with its unit; empty for NaN."""
    return "" if value != value else f"{value:{spec}}{unit}"


def time(seconds: float, digits: int = 3) -> str:
    """Seconds with so many digits and a unit; empty for NaN."""
    size, unit = (1.0, "s") if seconds >= 1 else (1e-3, "ms") if seconds >= 1e-3 else (1e-6, "us")
    return number(seconds / size, f".{digits}g", f" {unit}")


_WORDS = ("format", "kernel", "worst case")


def echo_table(
    table: pd.DataFrame | Iterable[Any],
    columns: Columns,
    words: Sequence[str],
    red: Iterable[Any] = (),
) -> None:
    """Print rows, of a table or of any objects, under a header, no wider than the terminal.

    columns: for each head a function from a row to its text. words: columns that are left-aligned and shortened on a
    narrow terminal. red: for each row whether it is printed in red.
    """
    import shutil
    import sys

    rows = table.itertuples() if hasattr(table, "itertuples") else table
    lines = [list(columns), *([text(row) for text in columns.values()] for row in rows)]
    widths = {name: max(map(len, cells)) for name, cells in zip(columns, zip(*lines, strict=True), strict=True)}
    if sys.stdout.isatty():
        _narrow(widths, words, shutil.get_terminal_size().columns)
    for line, bad in itertools.zip_longest(lines, [False, *red]):
        cells = [
            _cut(cell, width).ljust(width) if name in words else cell.rjust(width)
            for cell, (name, width) in zip(line, widths.items(), strict=True)
        ]
        click.secho("  ".join(cells).rstrip(), fg="red" if bad else None)


def _narrow(widths: dict[str, int], words: Sequence[str], available: int) -> None:
    """Shrink the widest columns of words until the table fits the terminal, to 14 characters at least."""
    while sum(widths.values()) + 2 * (len(widths) - 1) > available:
        name = max((name for name in words if name in widths), key=lambda name: widths[name])
        if widths[name] <= 14:
            return
        widths[name] -= 1


def _cut(text: str, width: int) -> str:
    """A text of at most `width` characters; the middle is left out, because labels differ at the end."""
    if len(text) <= width:
        return text
    tail = (width - 3) // 2
    return f"{text[: width - 3 - tail]}...{text[len(text) - tail :]}"
