"""`spmvbench bundle`: packs a run into one file, for submitting or archiving."""

from __future__ import annotations

import os

import click

from spmvbench.cli import completion, option_types
from spmvbench.errors import counted


@click.command()
@click.argument("run", shell_complete=completion.runs)
@option_types.results
@click.option("--out", type=option_types.OUTPUT, help="The file, or -. Default: RUN.spmvbench.zip here.")
@click.option(
    "--include-program",
    "programs",
    multiple=True,
    metavar="FILE",
    help="Include this program: the library or Python file of --program. Repeatable.",
)
@click.option("--identify", is_flag=True, help="Keep the host's name and paths.")
def command(run: str, results: str, out: str | None, programs: tuple[str, ...], identify: bool) -> None:
    """Pack RUN, a run's name or folder, into one file that `spmvbench check` verifies.

    The file holds the rows with their samples, the descriptions of the matrices, the metadata without host names and
    paths, and the sources of the formats in SPMVBENCH_FORMATS. Of a program it holds the hash and the description. It
    holds no matrix.
    """
    from spmvbench.bundles import pack
    from spmvbench.formats.admission import byte_text
    from spmvbench.rows import store

    folder = store.folder(run, results)
    target = out or folder.resolve().name + pack.SUFFIX
    manifest = pack.pack(folder, target, identify=identify, include_programs=programs)
    brought, known = (
        [origin["format"] for origin in manifest["formats"] if origin["from"] == place]
        for place in ("bundle", "program")
    )
    piped = target == "-"
    size = f"{byte_text(os.path.getsize(target))}, " if os.path.isfile(target) and not piped else ""
    click.echo(f"{target}: {counted(manifest['cases'], 'case')}, {size}{manifest['division']} division", err=piped)
    if brought:
        click.echo(f"with the sources or the library of {', '.join(brought)}", err=piped)
    if known:
        click.echo(f"with hash and description of {', '.join(known)} alone (--include-program FILE)", err=piped)
    if not piped:
        click.echo(f"Before you send it: spmvbench check {target}")
