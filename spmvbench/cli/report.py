"""`spmvbench report`: draws figures and writes one HTML page from the rows of a run."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from spmvbench.cli import completion, option_types
from spmvbench.cli.progress import PLAIN_PROGRESS_SECONDS
from spmvbench.cli.results import echo_unread
from spmvbench.errors import SpmvbenchError, UsageError, counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd

IMAGES = ("svg", "png", "pdf")
PAPER = ("one-column", "two-column")  # as reports.style.PAPER
MANY_ROWS = 500  # from here on figures are drawn by one process per core; each takes 2 s to start


def _folders(runs: tuple[str, ...], results: str, *, every: bool) -> list[Path]:
    """The folders of these runs; without any, the newest one's; every: all."""
    from spmvbench.rows import store

    if runs:
        return list(dict.fromkeys(store.folder(run, results) for run in runs))
    known = store.runs(results)
    if not known:
        raise SpmvbenchError(f"there is no run in {results}: start one with spmvbench run --set demo")
    return known if every else known[:1]


# Columns that no page and no figure shows: of half a million rows they take a gigabyte.
UNSHOWN = (
    "samples", "bytes_arrays", "decoded", "t_decode", "t_compile", "x_seed", "timing_rule", "order_hash", "t_case",
    "t_x_changed", "t_in_use", "watts", "bytes_workspace", "bytes_needed", "bytes_limit", "distinct_results",
    "compared_results", "numa_node", "generator_hash", "schema_version",
)  # fmt: skip


def rows_of(folder: Path, needs: Callable[[str], bool] = lambda column: True) -> pd.DataFrame:
    """The rows of a run, with the columns that are needed. Raises SpmvbenchError if it has none yet, and as
    `store.load`.
    """
    from spmvbench.rows import store

    rows = store.load(folder, needs=needs)
    if rows.empty:
        if rows.attrs.get("left_out"):
            raise SpmvbenchError(f"{folder} holds no row that can be")
        raise SpmvbenchError(f"{folder} holds no rows yet: continue it with spmvbench run")
    return rows


def _is_shown(column: str) -> bool:
    return column not in UNSHOWN


def _once(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without the column folder. Raises UsageError if a case is in two folders."""
    from spmvbench.analysis.cases import CASE, keyed

    if rows["folder"].nunique() < 2:
        return rows.drop(columns="folder")
    cases = keyed(rows)
    places = cases.groupby(CASE, observed=True)["folder"].unique()
    twice = places[places.map(len) > 1]
    if len(twice):
        (setting, matrix, label), (one, other) = twice.index[0], twice.iloc[0][:2]
        more = f" and {counted(len(twice) - 1, 'case')} more" if len(twice) > 1 else ""
        raise UsageError(
            f"several of these runs hold {matrix} {label} {setting}{more}, and a report shows a case once: "
            f"compare them with spmvbench compare {one} {other}"
        )
    return rows.drop(columns="folder")


def _narrowed(
    rows: pd.DataFrame, formats: str | None, matrix: str | None, group: str | None, min_nnz: int | None
) -> pd.DataFrame:
    """The selected rows. Raises UsageError for a name that the rows lack, and if no row is left."""
    from spmvbench.analysis import choice
    from spmvbench.analysis.cases import kept, matrix_names

    keep = rows["nnz"] >= (min_nnz or 0)
    if formats is not None:
        keep &= rows["label"].isin(choice.labels_of(rows, formats, "--formats"))
    if matrix is not None:
        names = matrix_names(rows, "file_sha256")
        keep &= names.isin(choice.matrices_of(rows.assign(matrix=names), matrix, "--matrix"))
    if group is not None:
        keep &= rows["group"].isin(choice.groups_of(rows, group, "--group"))
    if not keep.any():
        raise UsageError("no row has such a matrix and format: use fewer conditions")
    return kept(rows, keep)


def _read(folders: list[Path]) -> tuple[Any, Any, dict[str, Any]]:
    """Rows of all runs with the column `folder`, their matrices, and the metadata of the first with all invocations."""
    import pandas as pd

    from spmvbench import untrusted
    from spmvbench.rows import store

    tables = [rows_of(folder, _is_shown).assign(folder=untrusted.file_name(str(folder))) for folder in folders]
    environments = [store.environment(folder) for folder in folders]
    invocations = [one for environment in environments for one in environment["sessions"]]
    matrices = pd.concat([store.matrices(folder) for folder in folders], ignore_index=True)
    rows = pd.concat(tables, ignore_index=True) if len(tables) > 1 else tables[0]
    return rows, matrices, environments[0] | {"sessions": invocations}


@click.command(name="report")
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=completion.runs)
@click.option("--out", metavar="DIR", help="Output folder. Default: report/ in the run's folder.")
@click.option(
    "--figures",
    type=option_types.words(),
    metavar="A,B",
    help="Only these figures; survey, tilespmv, tilespmspv, ehyb or fastload for all of that paper's.",
    shell_complete=completion.of("reports.figures", lambda figures: figures.known(), listed=True),
)
@click.option(
    "--published",
    type=option_types.words(),
    metavar="A,B",
    help="Add these printed numbers to the figures: survey-k40m, survey-k20m, survey-gtx660, survey-m2070.",
    shell_complete=completion.of("reports.published", lambda published: published.names(), listed=True),
)
@click.option("--image", metavar="TYPES", help="Image files: svg, png, pdf. Default: svg, with --paper pdf.")
@click.option(
    "--paper",
    type=click.Choice(PAPER),
    help="For a paper: figures 3.5 or 7.16 inches wide with text of 8 points, of hot rows (--mode) and 12 formats "
    "(--formats), their captions and tables in LaTeX, a sentence that cites the formats, and formats.bib.",
)
@click.option(
    "--beside",
    metavar="RUN",
    shell_complete=completion.runs,
    help="Another run of the same matrices, such as h200-headline of results/published. Of the same GPU model: add its "
    "rows, with its name in their labels. Of another: compare the two cards.",
)
@click.option(
    "--baseline", metavar="FORMAT", help="Format that speed-up and break-even are relative to. Default: plain CSR."
)
@click.option("--formats", metavar="A,B", help="Only these formats: keys, labels or globs; 'sell[height=*]'.")
@click.option("--matrix", metavar="A,B", help="Only these matrices: names, with or without group, or globs.")
@click.option("--group", metavar="A,B", help="Only matrices of these groups.")
@click.option("--min-nnz", type=click.IntRange(min=0), metavar="N", help="Only matrices with at least N entries.")
@click.option("--highlight", metavar="A,B", help="Formats to highlight in every figure. Default: the first eight.")
@click.option("--dtype", type=option_types.words(), metavar="TYPES", help="Only these types: f64,f32.")
@click.option("--mode", type=option_types.words(), metavar="MODES", help="Only these modes: hot,cold.")
@option_types.results
@click.option("--emulated", is_flag=True, help="Show times of the emulated device, with EMULATED across each figure.")
@click.option(
    "--all", "every", is_flag=True, help="Write a page for every run in --results, as with --site for that folder."
)
@click.option("--site", metavar="DIR", help="Write the page only, with its library and an index of all pages in DIR.")
@click.option(
    "--index/--no-index",
    default=True,
    help="With --site: write the index, the pages of matrices and formats, and the search, too.",
)
@click.option(
    "--repository", default="", show_default=False, metavar="URL", help="With --site: address that the index links to."
)
@click.option("--open", "opened", is_flag=True, help="Show the page in a browser.")
def command(
    runs: tuple[str, ...],
    results: str,
    out: str | None,
    every: bool,
    site: str | None,
    index: bool,
    repository: str,
    opened: bool,
    **asked: Any,
) -> int:
    """Draw the figures of a run and write one HTML page with all of them.

    RUN is a name under results/ or results/published, or a folder; default: the newest run, with --site that of the
    site. Several runs become one report, which needs --out; no case may be in two of them (use spmvbench compare for
    that).
    """
    from pathlib import Path

    from spmvbench.paths import inside

    _require_one_place(runs, out, site, every=every, paper=asked["paper"])
    if site is not None and click.get_current_context().get_parameter_source("results") is ParameterSource.DEFAULT:
        results = site
    folders = _folders(runs, results, every=every)
    if len(folders) > 1 and out is None and not every:
        raise UsageError("a report of several runs needs --out DIR")
    place = Path(results) if every else None if site is None else Path(site)
    if others := [folder for folder in folders if place and folder.resolve().parent != place.resolve()]:
        raise UsageError(f"{others[0]} is not in {place}: the runs of a site must be in its folder")
    written, unread = None, {}
    for group in [[folder] for folder in folders] if every else [folders]:
        try:
            written = _write(group, Path(out) if out is not None else inside(group[0], "report"), place, **asked)
        except (SpmvbenchError, OSError) as error:
            if not every or isinstance(error, UsageError):
                raise
            unread[group[0].name] = error
    code = echo_unread(unread)
    if place is not None and index:
        from spmvbench.reports.site import writing

        written = writing.write(place, repository)
        click.echo(f"Index: {written}")
    if opened and written is not None:
        import webbrowser

        if not webbrowser.open(written.resolve().as_uri()):
            raise SpmvbenchError(f"no browser can be started here: open {written} in one")
    return code


def _require_one_place(
    runs: tuple[str, ...], out: str | None, site: str | None, *, every: bool, paper: str | None
) -> None:
    """Raises UsageError for options that name several places to write to, or one that cannot be written to."""
    if "-" in (out, site):
        raise UsageError("a report is a folder of files and cannot go to standard output: name a folder")
    if every and (runs or out is not None or site is not None):
        raise UsageError("--all reports every run in --results and writes there: give no RUN, --out or --site with it")
    if site is not None and out is not None:
        raise UsageError("--site writes the page into the run's folder: give no --out with it")
    if (every or site is not None) and paper:
        raise UsageError("--paper writes files beside the page, which --site and --all do not: use --out")


def _write(
    folders: list[Path],
    out: Path,
    site: Path | None,
    *,
    figures: tuple[str, ...] | None,
    published: tuple[str, ...] | None,
    image: str | None,
    paper: str | None,
    beside: str | None,
    baseline: str | None,
    formats: str | None,
    matrix: str | None,
    group: str | None,
    min_nnz: int | None,
    highlight: str | None,
    dtype: tuple[str, ...] | None,
    mode: tuple[str, ...] | None,
    emulated: bool,
) -> Path:
    """Write one report of these runs with the command's options, print what was written, return the page."""
    from spmvbench import formats as installed
    from spmvbench.analysis.cases import latest_cases
    from spmvbench.analysis.choice import labels_of
    from spmvbench.analysis.ranking import default_baseline
    from spmvbench.reports import figures as known
    from spmvbench.reports import page, style
    from spmvbench.reports import paper as latex
    from spmvbench.reports import published as papers
    from spmvbench.reports.figures import comparisons
    from spmvbench.reports.site import runs as site_runs
    from spmvbench.reports.site import writing
    from spmvbench.runner.arguments import words

    images = words(image or ("pdf" if paper else "svg"), IMAGES)
    if paper and "pdf" not in images:
        raise UsageError("--paper writes PDF: name pdf in --image, or leave --image out")
    count, asked = len(known.choose(figures)), figures is not None
    rows, matrices, environment = _read(folders)
    if paper and mode is None and (rows["mode"] == "hot").any():
        mode = ("hot",)
    rows = _once(_of_values(rows, dtype=dtype, mode=mode))
    other, sentence = None, ""
    if beside is not None:
        rows, other, sentence = _joined(rows, beside, folders[0].parent)
    rows = _narrowed(rows, formats, matrix, group, min_nnz)
    if other is not None:
        figures = (*figures, "cards") if figures else None
    marked = None if highlight is None else labels_of(rows, highlight, "--highlight", "the report holds no")
    tried = rows["label"].nunique()
    if paper and formats is None:
        marked = latex.series(rows, baseline or default_baseline(latest_cases(rows)), marked or ())
        rows = rows[rows["label"].isin(marked)]
    both = comparisons.compared(rows, other[0]) if other else None  # raises what the figure would leave out
    shared, home = ("", "") if site is None else writing.shared(site, out)
    with style.paper(paper) if paper else nullcontext():
        report = page.write(
            rows,
            environment,
            out,
            names=figures,
            images=images,
            baseline=baseline,
            with_emulated=emulated,
            matrices=matrices,
            highlight=marked,
            published=[papers.get(name) for name in published or ()],
            alone=site is not None,
            shared=shared,
            home=home,
            notices=site_runs.notices,
            other=other,
            beside=sentence,
            # The width of a paper's figures is known in this process alone.
            jobs=(os.cpu_count() or 1) if len(rows) >= MANY_ROWS and not paper else 1,
            watch=_progress(count),
        )
    width = max((len(drawn.name) for drawn in report.drawn), default=0)
    for drawn in report.drawn if site is None else ():
        click.echo(f"  {drawn.name:{width}}  {', '.join(path.name for path in drawn.files)}")
    _echo_left_out(report.left_out, asked=asked)
    if both and other:
        _echo_cards(*both, comparisons.bandwidth_ratio(environment, other[1]))
    if paper:
        references = {key: installed.get(key).reference for key in installed.keys()}  # noqa: SIM118
        for path in latex.write(out, rows, report.drawn, paper, references, tried):
            click.echo(f"  {path.name}")
        shown = rows["label"].nunique()
        click.echo(
            f"{shown} of {counted(tried, 'format')}"
            + (f": {latex.RULE}. --formats names others" if formats is None else "")
        )
    click.echo(f"Report: {report.page}")
    return report.page


def _of_values(rows: pd.DataFrame, **chosen: tuple[str, ...] | None) -> pd.DataFrame:
    """The rows with one of the chosen values in each named column. Raises UsageError if there is none."""
    for column, values in chosen.items():
        if values is not None:
            present = sorted(rows[column].unique())
            rows = rows[rows[column].isin(values)]
            if rows.empty:
                raise UsageError(f"no row has {column} {' or '.join(values)}: there is {', '.join(present)}")
    return rows


def _joined(
    rows: pd.DataFrame, beside: str, results: Path
) -> tuple[pd.DataFrame, tuple[pd.DataFrame, dict[str, Any]] | None, str]:
    """The rows with those of another run; if it is of another card, apart, its rows and metadata; what was compared."""
    from spmvbench.analysis import cards
    from spmvbench.analysis.cases import gpus
    from spmvbench.reports.figures import comparisons
    from spmvbench.rows import store

    other = store.folder(beside, results)
    second = rows_of(other, _is_shown)
    if comparisons.differ(rows, second):
        there = gpus(second)[0]
        return rows, (second, store.environment(other)), f"Compared with {other.name}, of an {there}: figure Two cards."
    told = f"With the rows of {other.name}, whose formats have its name in brackets."
    return cards.beside(rows, second, other.name), None, told


def _progress(count: int) -> Callable[[int, int], None]:
    """A function that shows how many of so many figures are drawn: a bar at a terminal, else a line now and then."""
    from tqdm import tqdm

    hidden = not sys.stderr.isatty()
    bar = tqdm(desc="Drawing", total=count, unit="figure", leave=False, disable=hidden, dynamic_ncols=True)
    last = time.monotonic()

    def watch(done: int, of: int) -> None:
        nonlocal last
        bar.update(done - bar.n)
        if hidden and time.monotonic() - last >= PLAIN_PROGRESS_SECONDS:
            last = time.monotonic()
            click.echo(f"{done}/{of} figures", err=True)
        if done >= of:
            bar.close()

    return watch


def _echo_left_out(left_out: dict[str, list[str]], *, asked: bool) -> None:
    """Print which figures were not drawn and why; of those that nobody asked for by name, how many."""
    if asked:
        for reason, names in left_out.items():
            click.echo(f"Left out: {', '.join(names)}: {reason}")
        return
    hidden = {reason: len(names) for reason, names in left_out.items() if "--emulated" in reason}
    for reason, count in hidden.items():
        click.echo(f"{counted(count, 'figure')} left out: {reason}")
    if rest := sum(map(len, left_out.values())) - sum(hidden.values()):
        click.echo(
            f"{f'{rest} more' if hidden else counted(rest, 'figure')} left out: the page says why, under Not drawn"
        )


def _echo_cards(table: pd.DataFrame, cards: tuple[str, str], bandwidths: float) -> None:
    """Print what carries over to another card, a line for each matrix. table, cards: of `comparisons.compared`."""
    from spmvbench.analysis.cards import carried_over

    here, there = cards
    known = "" if bandwidths != bandwidths else f"; ratio of their bandwidths {bandwidths:.2f}"
    click.echo(f"Time on {there} over time on {here}{known}")
    for row in carried_over(table).itertuples():
        ranks = "" if row.rank_correlation != row.rank_correlation else f", ranks correlate {row.rank_correlation:.3f}"
        click.echo(
            f"  {row.matrix}, {row.setting}: {counted(row.formats, 'format')}, {row.low:.2f} to {row.high:.2f}, median "
            f"{row.middle:.2f}{ranks}; {row.best} loses {100 * row.lost:.1f} %"
        )
