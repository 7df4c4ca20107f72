"""`spmvbench bundle`: a run in one file, to hand in or to keep."""

from __future__ import annotations

from pathlib import Path

import click

from spmvbench.cli import completion, option_types
from spmvbench.errors import UsageError


@click.command()
@click.argument("run", shell_complete=completion.runs)
@option_types.results
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="The file; default: RUN.spmvbench.zip here."
)
@click.option("--identify", is_flag=True, help="Leave the host's name and paths in.")
def command(run: str, results: str, out: Path | None, identify: bool) -> None:
    """Pack RUN, a name under --results or a folder, into one file that `spmvbench check` verifies.

    It holds the rows with their samples, the descriptions of the matrices, the record of the environment without host
    names and paths, and the sources of formats that SPMVBENCH_FORMATS names. No matrix lies in it.
    """
    from spmvbench import store
    from spmvbench.bundle import pack

    folder = store.folder(run, results)
    target = out or Path(folder.resolve().name + pack.SUFFIX)
    if target.is_dir():
        raise UsageError(f"{target} is a folder: name a file for --out")
    manifest = pack.pack(folder, target, identify=identify)
    own = [origin["format"] for origin in manifest["formats"] if origin["from"] == "bundle"]
    click.echo(
        f"{target}: {manifest['cases']} cases, {target.stat().st_size / 1e6:.1f} MB, {manifest['division']} division"
    )
    if own:
        click.echo(f"with the sources of {', '.join(own)}")
    click.echo(f"Before you send it: spmvbench check {target}")
