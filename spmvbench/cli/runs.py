"""`spmvbench runs`: lists, shows, removes and merges runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import completion, option_types
from spmvbench.cli.results import echo_results, echo_table, echo_unread, few
from spmvbench.errors import SpmvbenchError, counted

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def _results_of_group() -> str:
    """The --results that was given before the subcommand, or its default."""
    parent = click.get_current_context().parent
    assert parent is not None, "a subcommand has a parent"
    results: str = parent.params["results"]
    return results


# Accepted both before and after the subcommand.
_ALSO_RESULTS = click.option(
    "--results", default=_results_of_group, show_default=False, metavar="DIR", help="Folder of the runs."
)
_COLUMNS = {
    "run": lambda row: row.run,
    "cases": lambda row: str(row.cases),
    "verified": lambda row: str(row.verified),
    "matrices": lambda row: str(row.matrices),
    "formats": lambda row: str(row.formats),
    "measured": lambda row: row.settings,
    "device": lambda row: row.device,
    "last": lambda row: row.last,
    "size": lambda row: row.size,
}


def _about(folder: Path, rows: pd.DataFrame) -> dict[str, Any]:
    from spmvbench import untrusted
    from spmvbench.analysis.cases import imported, settings
    from spmvbench.formats.admission import byte_text
    from spmvbench.rows import folders

    return {
        "run": untrusted.file_name(folder.name),
        "cases": len(rows),
        "verified": int(((rows["status"] == "ok") & ~imported(rows)).sum()),
        "matrices": (rows["group"] + "/" + rows["name"]).nunique(),
        "formats": rows["label"].nunique(),
        "settings": ", ".join(settings(rows).categories),
        "device": ", ".join(sorted(set(rows["device_name"]) - {""})),
        "last": rows["started_at"].max()[:16].replace("T", " ") if len(rows) else "",
        "size": byte_text(folders.size(folder)),
    }


@click.group(name="runs", invoke_without_command=True)
@option_types.results
@click.pass_context
def command(ctx: click.Context, results: str) -> int:
    """List the runs, the most recent first; show, remove and merge them.

    Without a subcommand: one line per run. Times are UTC. For a run that cannot be read the line has the reason, and
    the exit code is 1.
    """
    return 0 if ctx.invoked_subcommand is not None else _list(results)


@command.command("list")
@_ALSO_RESULTS
def listed(results: str) -> int:
    """List the runs, as without a subcommand."""
    return _list(results)


def _list(results: str) -> int:
    """Print a line for each run, and why others cannot be read. Returns the exit code."""
    import pandas as pd

    from spmvbench.rows import store

    found = store.runs(results)
    if not found:
        raise SpmvbenchError(f"there is no run in {results}: start one with spmvbench run --set demo")
    lines, unread = [], {}
    for folder in found:
        try:
            store.environment(folder)
            lines.append(_about(folder, store.load(folder)))
        except (SpmvbenchError, OSError) as error:
            unread[folder.name] = error
    if lines:
        echo_table(pd.DataFrame(lines), _COLUMNS, ("run", "measured", "device"))
    return echo_unread(unread)


@command.command()
@click.argument("run", shell_complete=completion.runs)
@_ALSO_RESULTS
def show(run: str, results: str) -> None:
    """Show a run: its device, the invocations with their commands, and the table of results."""
    import shlex

    from spmvbench.cli.report import rows_of
    from spmvbench.rows import store

    folder = store.folder(run, results)
    about = _about(folder, rows := rows_of(folder))
    for name in ("cases", "matrices", "formats", "measured", "device", "last", "size"):
        click.echo(f"{name:12}{about['settings' if name == 'measured' else name]}")
    for invocation in store.environment(folder)["sessions"]:
        typed = [str(word) for word in invocation.get("command") or []]
        facts = [invocation["started"][:16].replace("T", " ")]
        facts += [f"{invocation[name]}" for name in ("host", "spmvbench", "git") if invocation.get(name)]
        click.echo(f"{'invocation':12}{', '.join(facts)}: {shlex.join(['spmvbench', *typed[1:]]) if typed else ''}")
    echo_results(rows)
    if text := store.imported(rows):
        click.echo(f"\n{text}.")


@command.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completion.runs)
@click.option("--yes", is_flag=True, help="Do not ask.")
@_ALSO_RESULTS
def rm(runs: tuple[str, ...], yes: bool, results: str) -> None:
    """Delete runs: their folders with rows, metadata and reports. Asks first.

    A folder is deleted only if its run.json shows that it is a run.
    """
    from spmvbench.formats.admission import byte_text
    from spmvbench.rows import folders

    for folder in {folder.resolve(): folder for folder in [folders.removable(run, results) for run in runs]}.values():
        text = f"{folder}: {_cases(folder)}, {byte_text(folders.size(folder))}"
        if not yes and not click.confirm(f"Remove {text}?"):
            click.echo(f"Kept: {folder}")
            continue
        folders.remove(folder)
        click.echo(f"Removed {text}")


def _cases(folder: Path) -> str:
    """The number of cases of a run that may be damaged, in words."""
    from spmvbench.rows import store

    try:
        return counted(len(store.load(folder)), "case")
    except SpmvbenchError:
        return "damaged, cases unknown"


@command.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=completion.runs)
@click.option("--into", required=True, metavar="NAME", help="Name of the new run.")
@_ALSO_RESULTS
def merge(runs: tuple[str, ...], into: str, results: str) -> None:
    """Merge runs into a new one, by the newest row of each case. The merged runs stay.

    A case is a matrix, a format, a type, an operation and a device, as in tables. A row that was not measured (skipped
    or failed) never replaces one that was (verified, wrong or implausible). Rows of other matrices than the first RUN
    has under their names, as of another seed, are left out. All invocations are kept.
    """
    from pathlib import Path

    from spmvbench.rows import folders, store

    target = Path(results) / store.name_of(into)
    rows = folders.merge(list(dict.fromkeys(store.folder(run, results) for run in runs)), target)
    counts = rows.groupby("run", sort=False)["merged"].value_counts().unstack(fill_value=0)
    columns = {what: lambda row, what=what: str(row[1].get(what, 0)) for what in folders.MERGED}
    echo_table(counts.iterrows(), {"run": lambda row: str(row[0])} | columns, ("run",))
    for what in (folders.NO_RESULT, folders.OTHER):
        left_out = rows[rows["merged"] == what]
        names = sorted(set(left_out["group"] + "/" + left_out["name"]))
        if names:
            click.echo(f"{what}: {few(names)}")
    click.echo(f"{target}: {counted((rows['merged'] == folders.TAKEN).sum(), 'case')} of {counted(len(counts), 'run')}")
