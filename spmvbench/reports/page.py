"""A report: figures, their data as CSV, and one HTML page with all of them."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from spmvbench.analysis.cases import counted, emulated, has_verified, kept, latest_cases, verified
from spmvbench.analysis.programs import counts
from spmvbench.analysis.ranking import RANKING, SLOWDOWN_CAP, by_mean_slowdown, default_baseline
from spmvbench.analysis.totals import totals
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.paths import inside, written_whole
from spmvbench.reports import figures, links, style, tables, views
from spmvbench.reports.published import Published
from spmvbench.rows.schema import COLUMNS

PAGE, FIGURES = "index.html", "figures"


@dataclass(frozen=True)
class Drawn:
    """A figure on the page.

    files: the files written, the CSV last. interactive: whether the page's script draws it (`views.INTERACTIVE`).
    drawing: the image as it is in the page, empty if the figure is interactive or tables alone. whole: the image with
    all formats, if that has only the best. emulated: whether its times are those of the emulated device.
    """

    name: str
    title: str
    caption: str
    papers: str
    alt: str
    interactive: bool
    drawing: Markup
    whole: Markup
    tables: list[tables.Table]
    files: list[Path]
    emulated: bool


@dataclass(frozen=True)
class Report:
    """The files of a report. page: the HTML file. left_out: names of figures that were not drawn, by reason."""

    page: Path
    drawn: list[Drawn]
    left_out: dict[str, list[str]]


@dataclass(frozen=True)
class _Draft:
    """Input and output folder of the figures of a report."""

    rows: pd.DataFrame
    times: pd.DataFrame
    options: figures.Options
    folder: Path
    images: Sequence[str]
    numbers: bool
    with_emulated: bool
    selected: dict[Any, pd.DataFrame] = field(default_factory=dict)


def write(
    rows: pd.DataFrame,
    environment: Mapping[str, Any],
    out: Path,
    *,
    names: Sequence[str] | None = None,
    images: Sequence[str] = ("svg",),
    alone: bool = False,
    shared: str = "",
    home: str = "",
    notices: Callable[[pd.DataFrame], Sequence[str]] = lambda rows: (),
    beside: str = "",
    jobs: int = 1,
    watch: Callable[[int, int], None] = lambda done, of: None,
    **asked: Any,
) -> Report:
    """Write the page, the figures as `images` (svg, png, pdf) and their data as CSV.

    The page is self-contained. Its script draws the interactive views; the images of all other figures are in it.

    rows: of one or several runs. environment: as `store.environment`; every key may be missing. names: figures to draw,
    None for all. alone: write only the page. shared: relative path from the page to the files of `write_shared`; empty
    embeds them. home: link to the index of several reports. notices: sentences of the latest rows for a
    banner. beside: a sentence on another run that the page compares with. jobs: number of processes
    that draw. watch: called after each figure with the number of figures done and in all. asked: as for `_drafted`.

    Raises UsageError for an unknown figure, baseline or format to highlight, and if there are no rows.
    """
    chosen = figures.choose(names)
    draft = _drafted(rows, environment, out, images, **asked)
    draft = replace(draft, images=(), numbers=False) if alone else draft
    drawn: list[Drawn] = []
    left_out: dict[str, list[str]] = {}
    (out if alone else inside(out, draft.folder.name)).mkdir(parents=True, exist_ok=True)
    for found in _every(draft, [figure.name for figure in chosen], jobs, watch):
        if isinstance(found, Drawn):
            drawn.append(found)
        else:
            name, reason = found
            left_out.setdefault(reason, []).append(name)

    page = out / PAGE
    text = _render(draft, drawn, left_out, out, shared, home, notices(draft.rows), beside)
    # The command in the metadata may contain file names that are not UTF-8.
    return Report(_written(page, text.encode(errors="backslashreplace")), drawn, left_out)


def picture(rows: pd.DataFrame, environment: Mapping[str, Any], name: str, **asked: Any) -> tuple[Figure, pd.DataFrame]:
    """One figure of a report and its data; asked: as for `write`.

    Raises UsageError as `write`, for the name of a family, if the figure has only tables, and if there is nothing to
    draw.
    """
    figure, *more = figures.choose([name])
    if more:
        raise UsageError(f"{name} has several figures: {', '.join(each.name for each in (figure, *more))}")
    if figure.draw is None:
        raise UsageError(f"{name} has tables and no picture")
    draft = _drafted(rows, environment, Path(), (), **asked)
    try:
        table = _table(figure, draft)
    except figures.LeftOut as reason:
        told = str(reason).replace("--emulated shows", "emulated=True shows")  # an option of `report`, not of Python
        raise UsageError(f"{name} cannot be drawn: {told}") from None
    with style.theme():
        return _drawing(figure, table, draft), table


def _drafted(
    rows: pd.DataFrame,
    environment: Mapping[str, Any],
    out: Path,
    images: Sequence[str],
    *,
    baseline: str | None = None,
    with_emulated: bool = False,
    matrices: pd.DataFrame | None = None,
    published: Sequence[Published] = (),
    highlight: Sequence[str] | None = None,
    other: tuple[pd.DataFrame, Mapping[str, Any]] | None = None,
) -> _Draft:
    """The input of the figures.

    baseline: a label, None for the default. with_emulated: if there are rows of the emulated device, show only their
    times, marked as such. matrices: descriptions of the runs' matrices, as `store.matrices`. published: published
    results to compare with. highlight: labels, None for those with the lowest mean slowdown. other: as of `Options`.
    """
    if rows.empty:
        raise UsageError("there are no rows to show")
    rows = latest_cases(rows)
    with_emulated = with_emulated and bool(emulated(rows).any())
    # A matrix without entries has no rate, so it has no place on a logarithmic axis.
    shown = (emulated(rows) == with_emulated) & ((rows["nnz"] > 0) | (rows["status"] != "ok"))
    times = rows  # one table where all are shown: each process that draws gets a copy
    if not shown.all():
        times = rows[shown]
        times = times.assign(setting=times["setting"].cat.remove_unused_categories())
    options = _options(rows, times, baseline, highlight)
    options = replace(options, matrices=matrices, published=published, environment=environment, other=other)
    return _Draft(rows, times, options, out / FIGURES, images, True, with_emulated)


def fingerprint(rows: pd.DataFrame) -> str:
    """A hash of the rows, stored in the page's head: it tells whether the run has newer rows than its page."""
    table = rows[["case_id", "started_at", "status"]].sort_values(["case_id", "started_at"])
    return hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()[:16]


def _options(
    rows: pd.DataFrame, times: pd.DataFrame, baseline: str | None, highlight: Sequence[str] | None
) -> figures.Options:
    """The baseline and the formats to highlight, ordered by mean slowdown, or by coverage if there are no times.

    Experiments and further names of a format are neither.
    """
    rows, times = counted(rows.filter(items=RANKING)), counted(times.filter(items=RANKING))
    known = sorted(set(rows["label"].unique()))
    for label, purpose in [(baseline, "compare with"), *((label, "highlight") for label in highlight or ())]:
        if label is not None and label not in known:
            hint = did_you_mean(label, known) or f"; it holds {', '.join(known)}"
            raise UsageError(f"the run holds no format {label!r} to {purpose}{hint}")
    baseline = baseline or default_baseline(times) or default_baseline(rows)
    order = by_mean_slowdown(times)
    if not order:
        held = rows[rows["status"] == "ok"]["label"].value_counts()
        order = sorted(known, key=lambda label: (-held.get(label, 0), label))
    shown = style.marks(order if highlight is None else [], baseline)
    shown = style.marks_of_all(highlight or [], shown, [highlight or []])
    return figures.Options(
        baseline, shown, every=style.marks_of_all([*order, *known], shown, figures.formats_compared())
    )


def _every(
    draft: _Draft, names: Sequence[str], jobs: int, watch: Callable[[int, int], None]
) -> Iterator[Drawn | tuple[str, str]]:
    """The figures of these names in order: each drawn, or its name and the reason why it was left out."""
    if jobs == 1 or len(names) < 2:
        for done, name in enumerate(names, start=1):
            yield _attempt(draft, name)
            watch(done, len(names))
        return
    # Spawned, not forked: libraries with running threads do not survive a fork.
    workers, context = min(jobs, len(names)), multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(f"{folder}/draft",)) as pool,
    ):
        with open(f"{folder}/draft", "wb") as file:  # once for all, and not in this process's memory beside its rows
            pickle.dump(draft, file, pickle.HIGHEST_PROTOCOL)
        drawing = [pool.submit(_attempt_in_worker, name) for name in names]
        for done, _ in enumerate(as_completed(drawing), start=1):
            watch(done, len(names))
        yield from (each.result() for each in drawing)


_worker_draft: list[_Draft] = []  # in a drawing process: its only draft


def _start_worker(draft: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(draft, "rb") as file:
        _worker_draft.append(pickle.load(file))  # written by the parent


def _end_with_parent() -> None:
    """Ends this process when its parent ends: a worker of a killed parent would wait for its next figure forever."""
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


def _attempt_in_worker(name: str) -> Drawn | tuple[str, str]:
    return _attempt(_worker_draft[0], name)


def _attempt(draft: _Draft, name: str) -> Drawn | tuple[str, str]:
    (figure,) = figures.choose([name])
    try:
        return _draw(figure, draft)
    except figures.LeftOut as reason:
        return name, str(reason)


def _table(figure: figures.ReportFigure, draft: _Draft) -> pd.DataFrame:
    if figure.performance and not has_verified(draft.times):
        if has_verified(draft.rows) and not draft.with_emulated:
            raise figures.LeftOut("the only verified rows are of the emulated device, whose times --emulated shows")
        raise figures.LeftOut("no row is verified")
    return figures.table_of(figure, draft.times if figure.performance else draft.rows, draft.options, draft.selected)


def _drawing(figure: figures.ReportFigure, table: pd.DataFrame, draft: _Draft) -> Figure:
    """The drawing, with the GPU above its panels, marked EMULATED if its times are those of the emulated device."""
    assert figure.draw, "it has only tables"
    drawing = figure.draw(table, draft.options)
    if figure.performance:
        gpus = draft.times.loc[~emulated(draft.times), "device_name"].unique()
        above = drawing.get_suptitle()
        unsaid = [f"{gpu}." for gpu in gpus if gpu not in above]
        style.missing(drawing, [], before=" ".join([*unsaid, above]))
    if figure.performance and draft.with_emulated:
        style.emulated_across(drawing)
    return drawing


def _draw(figure: figures.ReportFigure, draft: _Draft) -> Drawn:
    """Draw one figure or make its tables, and write its files. Raises LeftOut."""
    options, folder = draft.options, draft.folder
    table = _table(figure, draft)
    with_emulated = figure.performance and draft.with_emulated
    interactive = figure.name in views.INTERACTIVE
    types = dict.fromkeys([*draft.images, *([] if interactive else ["svg"])])
    inline, whole, paths = Markup(""), Markup(""), []
    if figure.draw and types:
        with style.theme():
            drawing = _drawing(figure, table, draft)
            pictures = {image: style.rendered(drawing, image) for image in types}
        paths = [_written(folder / f"{figure.name}.{image}", pictures[image]) for image in draft.images]
        few = figure.few(table, options)
        if not interactive:
            inline = _inline(figure, pictures["svg"])
        if len(few) < len(table) and not interactive:
            with style.theme():
                inline, whole = _inline(figure, style.rendered(_drawing(figure, few, draft), "svg"), "few"), inline
    shown = figure.show(table, options) if figure.show else []
    if with_emulated:
        shown = [replace(part, caption=f"EMULATED: {part.caption}") for part in shown]
    if draft.numbers:
        numbers = tables.csv(table, 6)
        paths.append(_written(folder / f"{figure.name}.csv", numbers.encode()))
    caption = figure.caption.replace("{baseline}", str(options.baseline))
    alt = f"{figure.title}. {caption}" + (f" Data: {figure.name}.csv." if draft.numbers else "")
    return Drawn(
        figure.name, figure.title, caption, figure.papers, alt, interactive, inline, whole, shown, paths, with_emulated
    )  # fmt: skip


def _inline(figure: figures.ReportFigure, svg: bytes, which: str = "") -> Markup:
    return Markup(style.inline(svg.decode(), f"{figure.name}{which and '-'}{which}", figure.title))


def _written(path: Path, content: bytes) -> Path:
    with written_whole(path) as file:
        file.write(content)
    return path


def sources() -> dict[str, str]:
    """What every page needs, by file name: the drawing library, the page's script and its style."""
    package = resources.files("spmvbench.reports")
    texts = {name: (package / folder / name).read_text(encoding="utf-8") for folder, name in _SOURCES}
    return {
        "library.js": texts["d3.min.js"] + texts["plot.min.js"],
        "page.js": "".join(texts[name] for name in _SCRIPTS),
        "page.css": texts["page.css"],
    }


_SCRIPTS = ("statistics.js", "state.js", "views.js", "page.js")
_SOURCES = [("library", name) for name in ("d3.min.js", "plot.min.js")]
_SOURCES += [("templates", name) for name in (*_SCRIPTS, "page.css")]


def write_shared(folder: Path) -> None:
    """Write the files that several pages share to a folder; see `shared` of `write`."""
    inside(folder.parent, folder.name).mkdir(parents=True, exist_ok=True)
    for name, text in sources().items():
        _written(folder / name, text.encode())
    licences = (resources.files("spmvbench.reports") / "library" / "LICENSES").read_bytes()
    _written(folder / "LICENSES", licences)


def templates(*packages: str) -> jinja2.Environment:
    """The templates of pages. packages: that have more of them."""
    names = (*packages, "spmvbench.reports")
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(name, "templates") for name in names])
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )


def _render(
    draft: _Draft,
    drawn: Sequence[Drawn],
    left_out: Mapping[str, Sequence[str]],
    out: Path,
    shared: str,
    home: str,
    notices: Sequence[str],
    beside: str,
) -> str:
    rows, times, options = draft.rows, draft.times, draft.options
    environment = options.environment
    found = totals(rows)
    speed = has_verified(times)
    measured, shown = kept(rows, rows["matrix_sha256"] != ""), times if speed else rows[:0]
    root = home.removesuffix(links.INDEX) if home else None
    listed = [(figure, [path.relative_to(out).as_posix() for path in figure.files]) for figure in drawn]
    return (
        templates()
        .get_template("page.html")
        .render(
            source={} if shared else {name: Markup(text) for name, text in sources().items()},
            shared=shared,
            root=root,
            links=links,
            notices=notices,
            beside=beside,
            runs=sorted(set(rows["run_id"])),
            devices=sorted(set(rows["device_name"].unique()) - {""}) or sorted(set(rows["device"].unique())),
            days=sorted(set(rows["started_at"].str.slice(0, 10)) - {""}),
            matrices=found.matrices,
            keys=found.formats,
            labels=found.labels,
            programs=counts(measured),
            cases=found.cases,
            fingerprint=fingerprint(rows),
            settings=[str(setting) for setting in rows["setting"].cat.categories],
            statuses=tables.statuses(measured),
            near_launch_overhead=int((verified(times.filter(items=_NEAR))["near_launch_overhead"]).sum()),
            baseline=options.baseline,
            emulated=draft.with_emulated,
            hidden=bool(emulated(rows).any()) and not draft.with_emulated,
            speed=speed,
            ranking=tables.format_columns(rows, speed=speed),
            matrix_columns=[column for column in tables.MATRICES if speed or column.field not in _TIMED],
            PICTURE=_PICTURE,
            few=figures.FEW,
            cap=f"{SLOWDOWN_CAP:g}",
            views=[entry for entry in listed if entry[0].interactive],
            drawn=[entry for entry in listed if not entry[0].interactive],
            left_out=left_out,
            data=Markup(tables.script_json(views.page_data(rows, shown, environment, options, root))),
            reasons=tables.reasons(rows),
            unread=tables.unread(rows),
            sources=tables.sources(rows),
            environment=tables.facts({k: v for k, v in environment.items() if k != "sessions"}),
            invocations=len(environment.get("sessions", [])),
            meanings=[(name, meaning) for name, (_, meaning) in COLUMNS.items() if name in _EXPLAINED],
        )
    )


_NEAR = ("label", "alias_of", "experiment", "status", "near_launch_overhead")
_PICTURE = "profile"  # the view above the ranking
_TIMED = ("fastest", "rate", "margin")
_EXPLAINED = ("gflops", "model_bytes", "bytes_format", "error_ratio", "near_launch_overhead", "t_setup")
