"""`spmvbench check`: what can be verified of a bundle, or of a run's folder, without the GPU that measured it."""

from __future__ import annotations

from pathlib import Path

import click

UNVERIFIED = 4  # exit code: nothing is wrong, something is not verified; 1 and 2 are errors, as everywhere


@click.command()
@click.argument("bundle", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--seconds", type=click.FloatRange(0), default=240.0, show_default=True, help="Time to make matrices again in."
)
@click.option("--run-sources", is_flag=True, help="Run the sources that lie in the bundle: a stranger's program.")
def command(bundle: Path, seconds: float, run_sources: bool) -> int:
    """Verify BUNDLE, a file of `spmvbench bundle` or a run's folder, without a GPU.

    \b
    Exit code 0: everything was verified, and is right.
    Exit code 1: something is wrong.
    Exit code 4: nothing is wrong, but something was not verified: a matrix, a source, rows of an older version.
    """  # noqa: D301 - click wants the bare control character
    from tqdm import tqdm

    from spmvbench import paths
    from spmvbench.bundle import check

    colours = {check.PASSED: "green", check.FAILED: "red", check.OPEN: "yellow", check.NOTE: None}
    verdicts = set()
    with (
        check.opened(bundle, paths.home() / "bundles") as content,
        tqdm(disable=None, leave=False, bar_format="{desc}") as bar,
    ):
        for one in check.checks(seconds, run_sources, bar.set_description_str):
            for finding in one(content):
                verdicts.add(finding.verdict)
                line = click.style(f"{finding.verdict:7}", fg=colours[finding.verdict])
                bar.clear()
                click.echo(f"{line} {finding.check:9} {finding.text}")
    if check.FAILED in verdicts:
        click.echo(f"{bundle} does not pass.")
        return 1
    if check.OPEN in verdicts:
        click.echo(f"Nothing of {bundle} is wrong; what is marked open was not verified.")
        return UNVERIFIED
    click.echo(f"{bundle} passes.")
    return 0
