"""`spmvbench compare`: compares two runs case by case, or two formats of a run matrix by matrix."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import click

from spmvbench.cli import completion, option_types
from spmvbench.cli.results import Columns, echo_table, few, number, time
from spmvbench.errors import UsageError, counted

if TYPE_CHECKING:
    import pandas as pd

LISTED = 20
SLOWER, INCOMPLETE = 3, 4  # exit codes; 1 and 2 are errors, as for all commands


CASES = {
    "matrix": lambda row: row.matrix,
    "format": lambda row: row.label,
    "setting": lambda row: str(row.setting),
    "before": lambda row: time(row.t_before, 4),
    "after": lambda row: time(row.t_after, 4),
    "ratio": lambda row: number(row.ratio, ".3f"),
    "interval": lambda row: f"{row.low:.3f}-{row.high:.3f}",
}
_PROGRAM = {"program": lambda row: "another" if row.other_program else ""}
_COUNTS = {
    "cases": lambda row: str(row.cases),
    "slower": lambda row: str(row.slower or ""),
    "same": lambda row: str(row.same or ""),
    "faster": lambda row: str(row.faster or ""),
    "undecided": lambda row: str(row.undecided or ""),
    "incomplete": lambda row: str(row.incomplete or ""),
    "ratio": lambda row: number(row.ratio, ".3f"),
    "worst case": lambda row: f"{row.worst:.3f} on {row.worst_of}" if row.worst_of else "",
}


def _echo_cases(table: pd.DataFrame, every: bool) -> None:
    """Print the timed cases, the largest change first. Without `every`: LISTED per verdict, none of the same."""
    from spmvbench.analysis.compare import VERDICTS

    for verdict in VERDICTS if every else VERDICTS[:-1]:
        part = table[table["verdict"] == verdict].sort_values("ratio", ascending=verdict == "faster")
        if part.empty:
            continue
        click.secho(f"\n{verdict.capitalize()}: {len(part)}", bold=True)
        shown = part if every else part[:LISTED]
        columns = CASES | _PROGRAM if shown["other_program"].any() else CASES
        echo_table(shown, columns, ("matrix", "format"), red=[verdict == "slower"] * len(shown))
        if len(shown) < len(part):
            click.echo(f"and {len(part) - len(shown)} more; --all lists every case")


def _echo_others(table: pd.DataFrame, every: bool) -> None:
    """Print the cases that are not verified in both runs, one line for each format, setting and reason.

    Without `every` only those that make the comparison incomplete, with one matrix per line.
    """
    from spmvbench.analysis.compare import INCOMPLETE as KEPT_APART
    from spmvbench.analysis.compare import OUTCOMES
    from spmvbench.analysis.reasons import first_line

    for outcome, meaning in OUTCOMES.items():
        part = table[table["verdict"] == outcome]
        if part.empty:
            continue
        click.secho(f"\n{outcome.capitalize()}: {len(part)} ({meaning})", bold=True)
        reasons = (part["status_after"].fillna("") + ": " + part["reason"].map(first_line)).str.removeprefix(": ")
        alike = list(part.groupby(["label", "setting", reasons.rename("why")], observed=True, sort=False)["matrix"])
        for (label, setting, why), matrices in alike[: len(alike) if every else LISTED * (outcome in KEPT_APART)]:
            names = ", ".join(matrices if every else matrices[:1])
            more = "" if every or len(matrices) == 1 else f" and {counted(len(matrices) - 1, 'matrix')} more"
            click.echo(f"  {label} {setting}: {names}{more}{f': {why}' if why else ''}")
        if outcome in KEPT_APART and len(alike) > LISTED and not every:
            click.echo(f"  and {len(alike) - LISTED} more; --all lists every case")


@click.command(name="compare")
@click.argument("before", shell_complete=completion.runs)
@click.argument("after", required=False, shell_complete=completion.runs)
@click.option(
    "--format",
    "formats",
    metavar="A,B",
    help="Only these formats: keys, labels, globs. Of one run: the two to compare.",
)
@click.option(
    "--threshold",
    type=option_types.PERCENT,
    help="Differences up to this are reported as the same. Default: 6.8 % between invocations (99 % of the cases of "
    "one program, measured twice, differ by less), 0.5 % within one. 0: the samples alone decide.",
)
@click.option("--all", "every", is_flag=True, help="List every case, including those that are the same.")
@click.option(
    "--beside",
    metavar="RUN",
    shell_complete=completion.runs,
    help="Of one run: add the rows of another for the same matrices, with its name in their labels.",
)
@option_types.results
def command(
    before: str,
    after: str | None,
    formats: str | None,
    threshold: float | None,
    every: bool,
    beside: str | None,
    results: str,
) -> int:
    """Compare two runs case by case: matrix, format, type, mode, operation and kind of device.

    BEFORE and AFTER are names under results/ or results/published, or folders. The ratio of the medians, after
    divided by before, has an interval made of the samples' spread (95 % of each median) and the threshold. A case is
    slower or faster if the interval excludes 1, the same if the samples' part of the interval is within the threshold,
    else undecided. Among many cases of identical builds a few exceed the threshold by chance: measure those again, or
    use the summary.

    One run and --format A,B compare two of its formats: matrices on which A is faster (wins), as fast within 0.5 % or
    the threshold (ties) and slower (losses), and the geometric mean of A's speed-up with its 95 % interval.

    \b
    Exit code:  0  no case is slower; it may be faster, the same or undecided
                3  a case is slower
                4  incomplete, slower or not: a case of BEFORE is missing in AFTER,
                   failed there, or is skipped there and was verified before
                2  the command is wrong, 1 a run cannot be read
    """  # noqa: D301 - click wants the bare control character
    if after is None:
        return _two_formats(before, formats, threshold, every, beside, results)
    if beside is not None:
        raise UsageError("--beside adds rows to one run: name one, and two formats with --format")
    return _two_runs(before, after, formats, threshold, every, results)


def _two_formats(
    run: str, formats: str | None, threshold: float | None, every: bool, beside: str | None, results: str
) -> int:
    """Compare two formats of a run, with the rows of another one if there is `beside`."""
    from spmvbench.analysis import cards
    from spmvbench.analysis.cases import emulated, latest_cases
    from spmvbench.analysis.ranking import TIE
    from spmvbench.analysis.speedup import against, against_summary
    from spmvbench.cli.report import rows_of
    from spmvbench.rows import store

    if formats is None:
        raise UsageError("name a second run, or two formats of this one with --format A,B")
    folder = store.folder(run, results)
    rows = rows_of(folder)
    if beside is not None:
        other = store.folder(beside, results)
        rows = cards.beside(rows, rows_of(other), other.name)
    label, over = _pair(rows, formats)
    rows = latest_cases(rows)
    of_gpu = rows[~emulated(rows)]
    rows = of_gpu if len(of_gpu) else rows
    table = against(rows, label, over, TIE if threshold is None else 1 + threshold)
    if table.empty:
        raise UsageError(f"no matrix has a verified time of both {label} and {over}")
    click.echo(f"{folder}, {_held(rows)}")
    if not len(of_gpu):
        click.secho("EMULATED: times are no measure of performance", fg="yellow")
    for setting, part in table.groupby("setting", observed=True):
        click.secho(f"\n{setting}: time of {over} divided by that of {label}", bold=True)
        shown = part if every else part[:LISTED]
        echo_table(shown, _of_pair(label, over), ("matrix", "outcome"), red=shown["outcome"] == "loss")
        if len(shown) < len(part):
            click.echo(f"and {len(part) - len(shown)} more; --all lists every matrix")
    click.echo()
    for row in against_summary(table).itertuples():
        interval = "" if row.low != row.low else f" (95 %: {row.low:.3f} to {row.high:.3f})"
        click.echo(
            f"{label} against {over}, {row.setting}: wins {row.wins}, ties {row.ties}, losses {row.losses} on "
            f"{counted(row.matrices, 'matrix')}; geometric mean of the speed-up {row.geomean:.3f}{interval}"
        )
    return 0


def _of_pair(label: str, over: str) -> Columns:
    return {
        "matrix": lambda row: row.matrix,
        label: lambda row: time(row.t_median, 4),
        over: lambda row: time(row.t_base, 4),
        "speed-up": lambda row: number(row.speedup, ".3f"),
        "outcome": lambda row: row.outcome,
    }


def _pair(rows: pd.DataFrame, text: str) -> tuple[str, str]:
    """The two labels of --format. A key means its label with default parameters, if it was measured."""
    from spmvbench.analysis import choice

    named = choice.words(text)
    if len(named) != 2:
        raise UsageError("--format takes two formats of one run, such as mine,csr5")
    labels = [(word, choice.labels_of(rows, word, "--format")) for word in named]
    one, other = (
        word if word in found else min(found, key=lambda label: (len(label), label)) for word, found in labels
    )
    if one == other:
        raise UsageError(f"--format takes two formats: both words mean {one}")
    return one, other


def _two_runs(before: str, after: str, formats: str | None, threshold: float | None, every: bool, results: str) -> int:
    from spmvbench.analysis import compare as analysis
    from spmvbench.cli.report import rows_of
    from spmvbench.measure.timing import median_interval
    from spmvbench.rows import store

    folders = [store.folder(run, results) for run in (before, after)]
    if folders[0].samefile(folders[1]):
        raise UsageError(f"{before} and {after} are the same run: name two")
    invocations = [store.environment(folder)["sessions"] for folder in folders]
    tables = [
        analysis.with_session(rows_of(folder, analysis.USED.__contains__), of)
        for folder, of in zip(folders, invocations, strict=True)
    ]
    if formats is not None:
        import pandas as pd

        from spmvbench.analysis.choice import labels_of

        chosen = labels_of(pd.concat(tables), formats, "--format", "neither run holds a")
        tables = [table[table["label"].isin(chosen)] for table in tables]
    table = analysis.compared(tables[0], tables[1], median_interval, threshold)
    if not (table["status_before"].notna() & table["status_after"].notna()).any():
        raise UsageError(
            f"{before} and {after} have no case in common: no matrix and format in the same setting and on the "
            f"same kind of device ({'; '.join(_held(rows) for rows in tables)})"
        )

    for name, rows, folder in zip(("Before", "After"), tables, folders, strict=True):
        click.echo(f"{name + ':':8}{folder}, {_held(rows)}")
    differ = analysis.differences(*zip(tables, invocations, strict=True))
    for fact, (old, new) in differ.items():
        click.secho(f"{fact} differs: {old} before, {new} after", fg="yellow" if fact == "Device" else None)
    _echo_sources(table)
    one, other = (table[[f"status_{run}", f"t_{run}"]].set_axis(["status", "t"], axis=1) for run in ("before", "after"))
    is_equal = one.equals(other)  # a run and its copy; two NaNs are equal
    if is_equal:
        click.echo("Nothing differs: every case has the same status and time in both")
    if every or not is_equal:
        _echo_cases(table, every)
        _echo_others(table, every)
    for by, title in () if is_equal else (("label", "format"), ("matrix", "matrix")):
        click.secho(f"\nBy {title} (ratio: geometric mean of time after / time before)", bold=True)
        found = analysis.summary(table[table["verdict"] != "new"], by)
        counts = {name: text for name, text in _COUNTS.items() if name not in found or found[name].any()}
        columns: Columns = {title: operator.attrgetter(by), **counts}
        echo_table(found, columns, (title, "worst case"), red=found["slower"] > 0)
    counts = table["verdict"].value_counts()
    known = (*analysis.VERDICTS, *analysis.OUTCOMES)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in known if verdict in counts)
    default = (
        f"{100 * analysis.BETWEEN_SESSIONS:g} % between invocations, {100 * analysis.WITHIN_SESSION:g} % within one"
    )
    width = default if threshold is None else f"{100 * threshold:g} %"
    click.echo(f"\n{counted(len(table), 'case')}: {summary}. Threshold: {width}.")
    if counts.reindex(analysis.INCOMPLETE).sum():
        return INCOMPLETE
    return SLOWER if "slower" in counts else 0


def _echo_sources(table: pd.DataFrame) -> None:
    """Print which formats ran from other sources, ran another program or gave other bits."""
    common = table[table["status_before"].notna() & table["status_after"].notna()]
    if changed := sorted(set(common.loc[~common["same_sources"], "label"])):
        click.echo(f"The sources of {counted(len(changed), 'format')} differ: {few(changed, LISTED)}")
    else:
        click.echo("The sources are the same in all common cases")
    if tuned := sorted(set(table.loc[table["other_program"], "label"])):
        click.echo(
            f"{counted(table['other_program'].sum(), 'case')} ran another program of the same sources, found by timing "
            f"or compiled otherwise: {few(tuned, LISTED)}"
        )
    if varying := sorted(set(table.loc[table["other_bits"], "label"])):
        cases = counted(table["other_bits"].sum(), "case")
        click.echo(f"{cases} gave other bits with the same x, by the same program: {few(varying, LISTED)}")


def _held(rows: pd.DataFrame) -> str:
    """Number of cases, devices and settings of a run, in words."""
    from spmvbench.analysis.cases import settings

    devices = ", ".join(sorted(set(rows["device_name"]) - {""})) or "no device"
    return f"{counted(len(rows), 'case')} on {devices}, {', '.join(settings(rows).categories)}"
