"""`spmvbench check`: verifies a bundle or a run's folder without the GPU that measured it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from spmvbench.cli import completion, option_types

UNVERIFIED = 4  # exit code: nothing is wrong, something is not verified; 1 and 2 are errors, as for all commands


@click.command()
@click.argument("bundle", shell_complete=completion.runs)
@option_types.results
@click.option("--seconds", type=option_types.number(0), default=240.0, help="Time for regenerating matrices.")
@click.option(
    "--programs",
    type=option_types.number(0),
    default=0.0,
    metavar="SECONDS",
    help="Time for making the rows' programs again from these sources, machine code and arrays; needs the run's NVRTC.",
)
@click.option(
    "--run-sources",
    is_flag=True,
    help="Run the sources in the bundle, a stranger's program, in a container (podman or docker). Asks first.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(bundle: str, results: str, seconds: float, programs: float, run_sources: bool, yes: bool) -> int:
    """Verify BUNDLE, a file of `spmvbench bundle` or a run's name or folder, without a GPU.

    \b
    Exit code 0: everything was verified.
    Exit code 1: something is wrong.
    Exit code 4: nothing is wrong, but something was not verified: a matrix, a source, rows of an older version.
    """  # noqa: D301 - click wants the bare control character
    from tqdm import tqdm

    from spmvbench import paths
    from spmvbench.bundles import check
    from spmvbench.rows import store

    place = Path(bundle) if os.path.isfile(bundle) else store.folder(bundle, results)
    colours = {check.PASSED: "green", check.FAILED: "red", check.OPEN: "yellow", check.NOTE: None}
    verdicts = set()
    with (
        check.opened(place, paths.home() / "bundles") as content,
        tqdm(disable=None, leave=False, bar_format="{desc}") as bar,
    ):
        run_sources = run_sources and _allowed(check.included_modules(content), yes)
        for one in check.checks(seconds, run_sources, bar.set_description_str, programs):
            for finding in one(content):
                verdicts.add(finding.verdict)
                line = click.style(f"{finding.verdict:7}", fg=colours[finding.verdict])
                bar.clear()
                click.echo(f"{line} {finding.check:15} {finding.text}")
    if check.FAILED in verdicts:
        click.echo(f"{bundle} does not pass.")
        return 1
    if check.OPEN in verdicts:
        click.echo(f"Nothing of {bundle} is wrong; what is marked open was not verified.")
        return UNVERIFIED
    click.echo(f"{bundle} passes.")
    return 0


def _allowed(programs: list[Path], yes: bool) -> bool:
    """Whether the programs of a bundle run: there are some, a container can run them, and the user allows it."""
    from spmvbench.bundles import trial

    if not programs:
        return False
    name = Path(trial.engine()).name
    click.echo(
        f"The bundle's sender wrote {', '.join(path.name for path in programs)}. Run here, they are in a container of "
        f"{name} without a network and without your files, with {trial.MEMORY} GiB of memory and {trial.SECONDS} s a "
        "format."
    )
    return yes or click.confirm("Run them?")
