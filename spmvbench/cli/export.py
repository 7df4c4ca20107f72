"""`spmvbench export`: writes a run as CSV, JSON, Markdown, LaTeX or Ginkgo's JSON."""

from __future__ import annotations

import click

from spmvbench.cli import completion, option_types
from spmvbench.errors import UsageError

FORMATS = ("csv", "json", "markdown", "latex", "ginkgo")
TABLES = ("cases", "formats", "matrices", "products", "programs", "reasons", "rivals")


@click.command(name="export")
@click.argument("run", shell_complete=completion.runs)
@click.option("--to", type=click.Choice(FORMATS), required=True, help="File format.")
@click.option(
    "--table",
    type=click.Choice(TABLES),
    help="cases: one row per case, in csv and json with every column; formats: the table that ends a run; matrices: "
    "one row per matrix, one column per format; products: time of conversion and N SpMVs; programs: formats that are "
    "the same program; reasons: why cases were skipped or failed; rivals: formats beside their authors' programs on an "
    "H200. Default: cases in csv and json, else formats.",
)
@click.option("--samples", is_flag=True, help="Include the samples of each case (csv and json of cases).")
@click.option("--out", type=option_types.OUTPUT, metavar="FILE", help="Output file. Default, and -: standard output.")
@option_types.results
def command(run: str, to: str, table: str | None, samples: bool, out: str | None, results: str) -> None:
    """Write the rows or tables of a run for other programs.

    RUN is a name under results/ or results/published, or a folder. Times are in seconds, sizes in bytes. ginkgo is the
    JSON of Ginkgo's spmv benchmark, one object per matrix, which its performance explorer and PETSc's bench_spmv read.

    \b
    spmvbench export h200 --to latex --table matrices
    spmvbench export h200 --to ginkgo --out h200.json
    """  # noqa: D301 - click reads the backspace
    from spmvbench import paths
    from spmvbench.cli.report import rows_of
    from spmvbench.reports import export
    from spmvbench.rows import store

    if to == "ginkgo" and table is not None:
        raise UsageError("--table and --to ginkgo exclude each other: Ginkgo's JSON has a fixed layout")
    if samples and (to not in ("csv", "json") or table not in (None, "cases")):
        raise UsageError("--samples goes with the cases in csv or json")
    rows = rows_of(store.folder(run, results))
    try:
        text = export.text(rows, to, table or "", samples)
    except ValueError as error:
        raise UsageError(f"{run} cannot be exported: {error}") from None
    with paths.output(out or "-") as file:
        file.write(text.encode())
    if out not in (None, "-"):
        click.echo(f"Written: {out}", err=True)
