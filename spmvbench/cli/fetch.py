"""`spmvbench fetch`: downloads matrices of the SuiteSparse collection into the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spmvbench.cli.results import few
from spmvbench.cli.selection import selection
from spmvbench.errors import UsageError, counted

if TYPE_CHECKING:
    from spmvbench.matrices.selection import Selection
    from spmvbench.matrices.suitesparse import Entry, Outcome


@click.command("fetch")
@selection
@click.option(
    "--mirror", help="Address or folder to fetch from.  [default: $SPMVBENCH_MIRROR, else the collection's site]"
)
@click.option(
    "--format",
    type=click.Choice(["MM", "MAT", "RB"], case_sensitive=False),
    default="MM",
    help="Matrix Market, MATLAB or Rutherford-Boeing; other commands read MM from the cache.",
)
@click.option(
    "--outdir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the files, as GROUP/NAME.  [default: the cache]",
)
@click.option("--jobs", type=click.IntRange(1, 64), default=4, help="Number of parallel downloads.")
@click.option("--dry-run", is_flag=True, help="List the matrices without fetching them.")
@click.option("--missing-ok", is_flag=True, help="Exit with 0 even if the mirror lacks some matrices.")
@click.option("--verify/--no-verify", default=True, help="Compare archives with the site's SHA-256.")
@click.option("--quiet", "-q", is_flag=True, help="No progress bars.")
@click.pass_context
def command(
    ctx: click.Context,
    chosen: Selection,
    mirror: str | None,
    format: str,
    outdir: Path | None,
    jobs: int,
    dry_run: bool,
    missing_ok: bool,
    verify: bool,
    quiet: bool,
) -> None:
    """Fetch matrices from the SuiteSparse Matrix Collection or a mirror of it.

    MATRIX is group/name, a glob such as 'HB/bcs*', or a name that only one group has. Matrices in the cache are not
    fetched again. Interrupted downloads are continued.

    \b
    spmvbench fetch HB/1138_bus
    spmvbench fetch --group HB --max-nnz 100000
    spmvbench fetch --set survey34
    """  # noqa: D301 - click reads the backspace
    from spmvbench.matrices import sets, suitesparse, synthetic
    from spmvbench.matrices.lookup import require_no_other

    if not chosen:
        raise UsageError(
            "nothing to fetch: name group/name, 'HB/bcs*', --group HB, --set survey34, --kind or --max-nnz"
        )
    asked = [*chosen.matrices, *(name for known in chosen.sets for name in sets.members(known))]
    generated = [name for name in asked if synthetic.is_spec(name)]
    names = [name for name in asked if name not in generated]
    if generated:
        click.echo(f"Nothing to fetch for {', '.join(generated)}: generated when needed.")
    if asked and not names and not chosen.groups:
        return
    for name in names:
        require_no_other(name)
    entries = suitesparse.search(
        names, groups=chosen.groups, conditions=chosen.conditions, limit=chosen.limit, mirror=mirror
    )
    if not entries:
        raise UsageError("no matrix of the collection meets these conditions")
    if dry_run:
        _list(entries)
        return
    try:
        outcome = suitesparse.fetch(
            entries, mirror=mirror, jobs=jobs, verify=verify, progress=not quiet, format=format, folder=outdir
        )
    except KeyboardInterrupt:
        click.echo("Downloads so far are kept; the same command continues.", err=True)
        raise
    _summarise(outcome)
    if outcome.failed or (outcome.missing and not missing_ok):
        ctx.exit(1)


def _list(entries: list[Entry]) -> None:
    from spmvbench.matrices import suitesparse

    width = max(len(entry.id) for entry in entries)
    click.echo(f"{'matrix':{width}} {'rows':>12} {'cols':>12} {'entries':>14}")
    here = 0
    for entry in entries:
        rows, cols, stored = ("?" if n is None else f"{n:,}" for n in (entry.rows, entry.cols, entry.stored))
        there = suitesparse.cached(entry.group, entry.name) is not None
        here += there
        click.echo(f"{entry.id:{width}} {rows:>12} {cols:>12} {stored:>14}{'  cached' if there else ''}")
    total = sum(entry.stored or 0 for entry in entries)
    click.echo(f"{counted(len(entries), 'matrix')}, {total:,} entries by the index, {here} cached")


def _summarise(outcome: Outcome) -> None:
    from spmvbench.formats.admission import byte_text

    click.echo(f"fetched        {len(outcome.fetched):5}" + (f"   {byte_text(outcome.size)}" if outcome.size else ""))
    click.echo(f"cached         {len(outcome.present):5}")
    if outcome.missing:
        click.echo(f"missing        {len(outcome.missing):5}   {few([entry.id for entry in outcome.missing])}")
    if outcome.failed:
        click.echo(f"failed         {len(outcome.failed):5}")
        for entry, reason in outcome.failed:
            click.echo(f"  {entry.id}: {reason}")
    if outcome.differing:
        click.echo(
            f"Warning: {len(outcome.differing)} of the mirror's archives differ from the site's, "
            f"possibly because the mirror packed them again: {few([entry.id for entry in outcome.differing])}",
            err=True,
        )
