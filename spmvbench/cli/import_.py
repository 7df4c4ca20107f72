"""`spmvbench import`: makes a run of what others measured."""

from __future__ import annotations

from pathlib import Path

import click

from spmvbench.cli import option_types
from spmvbench.errors import counted

UNITS = ("s", "ms", "us", "ns")  # as rows.ginkgo.UNITS


@click.command(name="import")
@click.argument("layout", type=click.Choice(["ginkgo"]), metavar="ginkgo")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE...")
@click.option("--run", "run_name", metavar="NAME", help="Name of the run. Default: that of the first file.")
@click.option(
    "--gpu",
    default="",
    show_default=False,
    metavar="NAME",
    help="The GPU. Default: as the file says, else the file's name.",
)
@click.option("--unit", type=click.Choice(UNITS), help="Unit of the times. Default: found from the times.")
@option_types.results
def command(
    layout: str, paths: tuple[str, ...], run_name: str | None, gpu: str, unit: str | None, results: str
) -> None:
    """Make a run of FILEs with the results of Ginkgo's spmv benchmark, or of `spmvbench export --to ginkgo`.

    Formats of such files are ginkgo-csr, cusparse-coo and so on. The rows are marked imported: no ranking mixes them
    with those of other runs unless `report --beside` asks for it, and nothing here verifies them.

    \b
    spmvbench import ginkgo K40m.json.gz --gpu 'Tesla K40m'
    spmvbench report K40m
    """  # noqa: D301 - click reads the backspace
    from spmvbench import __version__
    from spmvbench.rows import ginkgo, store

    sources = [ginkgo.read(Path(path), gpu, unit or "") for path in paths]
    name = store.name_of(run_name or sources[0].path.name.partition(".")[0])
    folder = Path(results) / name
    rows = ginkgo.keep(sources, folder, {"spmvbench": __version__, "seed": 0})
    for source in sources:
        click.echo(f"{source.path}: {counted(len(source.entries), 'matrix')} on {source.gpu}, times in {source.unit}")
        if source.left_out:
            click.echo(f"Left out: {counted(len(source.left_out), 'record')}, such as {source.left_out[0]}", err=True)
    click.echo(f"{counted(rows, 'row')} imported: {folder}\nNext: spmvbench report {name}")
