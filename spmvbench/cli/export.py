"""`spmvbench export`: a run for other programs, as CSV, JSON, Markdown, LaTeX or Ginkgo's JSON."""

from __future__ import annotations

import click

from spmvbench.cli import completion, option_types
from spmvbench.errors import UsageError

FORMATS = ("csv", "json", "markdown", "latex", "ginkgo")
TABLES = ("cases", "formats", "matrices", "programs", "reasons")


@click.command(name="export")
@click.argument("run", shell_complete=completion.runs)
@click.option("--to", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option(
    "--table",
    type=click.Choice(TABLES),
    help="cases: a row a case, in csv and json with every column; formats: the table that ends a run; matrices: a row "
    "a matrix, a column a format; programs: formats that are one program; reasons: why cases are not ok. "
    "Default: cases in csv and json, else formats.",
)
@click.option("--samples", is_flag=True, help="With the samples of each case, in csv and json of cases.")
@click.option("--out", type=option_types.OUTPUT, metavar="FILE", help="Where to write; standard output without, or -.")
@option_types.results
def command(run: str, to: str, table: str | None, samples: bool, out: str | None, results: str) -> None:
    """Write the rows or tables of a run for other programs.

    RUN is a name under results/ or a folder. Times are in seconds, sizes in bytes. ginkgo is the JSON of Ginkgo's spmv
    benchmark, a record a matrix, which its performance explorer and PETSc's bench_spmv read.

    \b
    spmvbench export h200 --to latex --table matrices
    spmvbench export h200 --to ginkgo --out h200.json
    """  # noqa: D301 - click reads the backspace
    from spmvbench import paths
    from spmvbench.cli.report import rows_of
    from spmvbench.reports import export
    from spmvbench.rows import store

    if to == "ginkgo" and table is not None:
        raise UsageError("--table and --to ginkgo exclude each other: Ginkgo's layout is one of its own")
    if samples and (to not in ("csv", "json") or table not in (None, "cases")):
        raise UsageError("--samples goes with the cases in csv or json")
    rows = rows_of(store.folder(run, results))
    try:
        text = export.text(rows, to, table or "", samples)
    except ValueError as error:
        raise UsageError(f"{run} cannot be written so: {error}") from None
    with paths.output(out or "-") as file:
        file.write(text.encode())
    if out not in (None, "-"):
        click.echo(f"Written: {out}", err=True)
