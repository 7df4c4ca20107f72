"""A report: figures with their data, and one HTML page that holds them all."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import jinja2
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from spmvbench.analysis.cases import counted, emulated, prepared, right
from spmvbench.analysis.programs import counts
from spmvbench.analysis.ranking import default_baseline, in_order
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.paths import inside, written_whole
from spmvbench.reports import charts, figures, style, tables
from spmvbench.reports.published import Published
from spmvbench.rows.schema import COLUMNS

PAGE, FIGURES = "index.html", "figures"


@dataclass(frozen=True)
class Drawn:
    """A figure on the page. files: what was written, the CSV last. chart: what the page draws it from, as module charts
    has it; else image is a data URI, or tables do without. said: the caption, parted where the baseline stands. unreal:
    its times are those of the emulated device.
    """

    name: str
    title: str
    caption: str
    said: list[str]
    papers: str
    alt: str
    chart: dict[str, Any] | None
    image: str
    tables: list[tables.Table]
    files: list[Path]
    unreal: bool


@dataclass(frozen=True)
class Report:
    """What a report holds. page: the HTML file. left_out: names of figures by the reason."""

    page: Path
    drawn: list[Drawn]
    left_out: dict[str, list[str]]


@dataclass(frozen=True)
class _Draft:
    """What every figure of a report is drawn from, and to where."""

    rows: pd.DataFrame
    times: pd.DataFrame
    environment: Mapping[str, Any]
    options: figures.Options
    folder: Path
    images: Sequence[str]
    numbers: bool
    with_emulated: bool


def write(
    rows: pd.DataFrame,
    environment: Mapping[str, Any],
    out: Path,
    *,
    names: Sequence[str] | None = None,
    images: Sequence[str] = ("svg",),
    baseline: str | None = None,
    with_emulated: bool = False,
    matrices: pd.DataFrame | None = None,
    published: Sequence[Published] = (),
    highlight: Sequence[str] | None = None,
    alone: bool = False,
    shared: str = "",
    home: str = "",
    jobs: int = 1,
    watch: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Write the page, and beside it the figures as `images` (svg, png, pdf) and their data as CSV.

    The page holds all that it shows. What can be steered there is drawn by its script, what cannot is an image.

    rows: of one or several runs. environment: as `store.environment`; every key may be missing. names: figures to draw,
    all without. baseline: a label, plain CSR without. with_emulated: where there are rows of the emulated device, show
    their times, and only those, marked as such. matrices: the runs' descriptions of their matrices, as
    `store.matrices`. published: papers' figures to set beside the run's. highlight: labels, the first of the standings
    without. alone: write the page and nothing beside it. shared: where from the page its style and script lie, as
    `write_shared` has put them; it holds them itself without. home: a page over several reports to link to. jobs:
    processes that draw; a figure may take seconds where there are many formats. watch: told after each figure how many
    of how many are done.

    Raises UsageError for an unknown figure, baseline or format to highlight.
    """
    chosen = figures.choose(names)
    draft = _drafted(rows, environment, out, images, baseline, with_emulated, matrices, published, highlight)
    draft = replace(draft, images=(), numbers=False) if alone else draft
    drawn: list[Drawn] = []
    left_out: dict[str, list[str]] = {}
    (out if alone else inside(out, draft.folder.name)).mkdir(parents=True, exist_ok=True)
    for done, found in enumerate(_every(draft, [figure.name for figure in chosen], jobs), start=1):
        if isinstance(found, Drawn):
            drawn.append(found)
        else:
            name, reason = found
            left_out.setdefault(reason, []).append(name)
        watch(done, len(chosen))

    page = out / PAGE
    text = _render(draft, drawn, left_out, out, shared, home)
    # A command may name files whose names are not UTF-8.
    return Report(_written(page, text.encode(errors="backslashreplace")), drawn, left_out)


def picture(
    rows: pd.DataFrame,
    environment: Mapping[str, Any],
    name: str,
    *,
    baseline: str | None = None,
    with_emulated: bool = False,
    matrices: pd.DataFrame | None = None,
    published: Sequence[Published] = (),
    highlight: Sequence[str] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """One figure of a report, and the numbers in it; arguments as of `write`.

    Raises UsageError for what `write` does, for a family's name, where there are only tables, and where nothing can be
    drawn.
    """
    figure, *more = figures.choose([name])
    if more or not hasattr(figure, "draw"):
        what = (
            f"several figures: {', '.join(each.name for each in (figure, *more))}" if more else "tables and no picture"
        )
        raise UsageError(f"{name} has {what}")
    draft = _drafted(rows, environment, Path(), (), baseline, with_emulated, matrices, published, highlight)
    try:
        table = _table(figure, draft)
    except figures.LeftOut as reason:
        raise UsageError(f"{name} cannot be drawn: {reason}") from None
    with style.theme():
        return _drawing(figure, table, draft), table


def _drafted(
    rows: pd.DataFrame,
    environment: Mapping[str, Any],
    out: Path,
    images: Sequence[str],
    baseline: str | None,
    with_emulated: bool,
    matrices: pd.DataFrame | None,
    published: Sequence[Published],
    highlight: Sequence[str] | None,
) -> _Draft:
    """What the figures of these rows are drawn from; arguments as of `write`."""
    rows = prepared(rows)
    with_emulated = with_emulated and bool(emulated(rows).any())
    # A matrix without entries is held or not, but has no rate: none has a place on a logarithmic axis.
    times = rows[(emulated(rows) == with_emulated) & ((rows["nnz"] > 0) | (rows["status"] != "ok"))]
    times = times.assign(setting=times["setting"].cat.remove_unused_categories())
    options = replace(_options(rows, times, baseline, highlight), matrices=matrices, published=published)
    return _Draft(rows, times, environment, options, out / FIGURES, images, True, with_emulated)


def fingerprint(rows: pd.DataFrame) -> str:
    """A hash of what was measured: it stands in the page's head, so that one can tell whether rows came after it."""
    table = rows[["case_id", "started_at", "status"]].sort_values(["case_id", "started_at"])
    return hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()[:16]


def _options(
    rows: pd.DataFrame, times: pd.DataFrame, baseline: str | None, highlight: Sequence[str] | None
) -> figures.Options:
    """The baseline, and the formats to highlight, by their standings; without times, by coverage.

    What is not counted (experiments, other names) is neither.
    """
    rows, times = counted(rows), counted(times)
    known = sorted(set(rows["label"]))
    for label, purpose in [(baseline, "compare with"), *((label, "highlight") for label in highlight or ())]:
        if label is not None and label not in known:
            hint = did_you_mean(label, known) or f"; it holds {', '.join(known)}"
            raise UsageError(f"the run holds no format {label!r} to {purpose}{hint}")
    baseline = baseline or default_baseline(times) or default_baseline(rows)
    order = in_order(times)
    if not order:
        held = rows[rows["status"] == "ok"]["label"].value_counts()
        order = sorted(known, key=lambda label: (-held.get(label, 0), label))
    shown = style.marks(order if highlight is None else [], baseline)
    shown = style.marks_of_all(highlight or [], shown, [highlight or []])
    return figures.Options(baseline, shown, every=style.marks_of_all([*order, *known], shown, figures.together()))


def _every(draft: _Draft, names: Sequence[str], jobs: int) -> Iterator[Drawn | tuple[str, str]]:
    """The figures of these names in order, each drawn, or its name and the reason why it is left out."""
    if jobs == 1 or len(names) < 2:
        for name in names:
            yield _attempt(draft, name)
        return
    # Started anew, not forked: libraries that have threads running do not survive a fork.
    workers, context = min(jobs, len(names)), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_take, initargs=(draft,)) as pool:
        yield from pool.map(_attempt_here, names)


_taken: list[_Draft] = []  # in a process that draws: its only one


def _take(draft: _Draft) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _taken.append(draft)


def _end_with_parent() -> None:
    """A parent that was killed sends nothing any more: who waits for its next figure would wait for ever."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _attempt_here(name: str) -> Drawn | tuple[str, str]:
    return _attempt(_taken[0], name)


def _attempt(draft: _Draft, name: str) -> Drawn | tuple[str, str]:
    (figure,) = figures.choose([name])
    try:
        return _draw(figure, draft)
    except figures.LeftOut as reason:
        return name, str(reason)


def _table(figure: ModuleType, draft: _Draft) -> pd.DataFrame:
    """What a figure shows. Raises LeftOut."""
    if figure.performance and right(draft.times).empty:
        if len(right(draft.rows)) and not draft.with_emulated:
            raise figures.LeftOut("the only right rows are of the emulated device, whose times --emulated shows")
        raise figures.LeftOut("no row is right")
    return figures.table_of(figure, draft.times if figure.performance else draft.rows, draft.options)


def _drawing(figure: ModuleType, table: pd.DataFrame, draft: _Draft) -> Figure:
    """The picture, with a word across it where its times are none of a GPU."""
    drawing = figure.draw(table, draft.environment, draft.options)
    if figure.performance and draft.with_emulated:
        style.emulated_across(drawing)
    return drawing


def _draw(figure: ModuleType, draft: _Draft) -> Drawn:
    """Draw one figure, or make its tables, and write its files. Raises LeftOut."""
    options, folder = draft.options, draft.folder
    table = _table(figure, draft)
    unreal = figure.performance and draft.with_emulated
    chart = figure.chart(table, draft.environment, options) if hasattr(figure, "chart") else None
    kinds = dict.fromkeys([*draft.images, *(["svg"] if chart is None else [])])
    image, paths = "", []
    if hasattr(figure, "draw") and kinds:
        with style.theme():
            drawing = _drawing(figure, table, draft)
            pictures = {kind: style.rendered(drawing, kind) for kind in kinds}
        paths = [_written(folder / f"{figure.name}.{kind}", pictures[kind]) for kind in draft.images]
        if chart is None:
            line = pictures["svg"].replace(b"\n", b" ")
            image = f"data:image/svg+xml,{quote(line, safe=' =/:,;.()-+!?@')}"
    shown = figure.show(table, draft.environment, options) if hasattr(figure, "show") else []
    if unreal:
        shown = [replace(part, caption=f"EMULATED: {part.caption}") for part in shown]
    if draft.numbers:
        numbers = tables.csv(table, "%.6g")
        paths.append(_written(folder / f"{figure.name}.csv", numbers.encode()))
    said = figure.caption.split("{baseline}")
    caption = str(options.baseline).join(said)
    alt = f"{figure.title}. {caption}" + (f" The numbers are in {figure.name}.csv." if draft.numbers else "")
    return Drawn(figure.name, figure.title, caption, said, figure.papers, alt, chart, image, shown, paths, unreal)


def _written(path: Path, content: bytes) -> Path:
    with written_whole(path) as file:
        file.write(content)
    return path


def sources() -> dict[str, str]:
    """What every page needs: the library that draws, the page's script and its style, by the names of their files."""
    package = resources.files("spmvbench.reports")
    texts = {name: (package / folder / name).read_text(encoding="utf-8") for folder, name in _SOURCES}
    return {
        "library.js": texts["d3.min.js"] + texts["plot.min.js"],
        "page.js": "".join(texts[name] for name in ("state.js", "charts.js", "page.js")),
        "page.css": texts["page.css"],
    }


_SOURCES = [("library", name) for name in ("d3.min.js", "plot.min.js")]
_SOURCES += [("templates", name) for name in ("state.js", "charts.js", "page.js", "page.css")]


def write_shared(folder: Path) -> None:
    """Write what several pages share to a folder; each is written with `shared`, the way there."""
    inside(folder.parent, folder.name).mkdir(parents=True, exist_ok=True)
    for name, text in sources().items():
        _written(folder / name, text.encode())
    licences = (resources.files("spmvbench.reports") / "library" / "LICENSES").read_bytes()
    _written(folder / "LICENSES", licences)


def templates() -> jinja2.Environment:
    """The pages' templates."""
    loader = jinja2.PackageLoader("spmvbench.reports", "templates")
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )


def _render(
    draft: _Draft, drawn: Sequence[Drawn], left_out: Mapping[str, Sequence[str]], out: Path, shared: str, home: str
) -> str:
    """The page's text."""
    rows, times, environment, options = draft.rows, draft.times, draft.environment, draft.options
    speed = len(right(times)) > 0
    measured = rows[rows["matrix_sha256"] != ""]
    charts_of = {figure.name: figure.chart for figure in drawn if figure.chart}
    return (
        templates()
        .get_template("page.html")
        .render(
            source={} if shared else {name: Markup(text) for name, text in sources().items()},
            shared=shared,
            home=home,
            runs=sorted(set(rows["run_id"])),
            devices=sorted(set(rows["device_name"]) - {""}) or sorted(set(rows["device"])),
            days=sorted(set(rows["started_at"].str.slice(0, 10)) - {""}),
            matrices=measured["matrix"].nunique(),
            labels=measured["label"].nunique(),
            programs=counts(measured),
            cases=int(rows["cases"].sum()),
            fingerprint=fingerprint(rows),
            settings=[str(setting) for setting in rows["setting"].cat.categories],
            statuses=tables.statuses(rows),
            near_floor=int((right(times)["near_launch_overhead"]).sum()),
            baseline=options.baseline,
            emulated=draft.with_emulated,
            hidden=bool(emulated(rows).any()) and not draft.with_emulated,
            formats=tables.formats(times if speed else rows, speed=speed),
            drawn=[(figure, [path.relative_to(out).as_posix() for path in figure.files]) for figure in drawn],
            left_out=left_out,
            data=Markup(tables.script_json(charts.page_data(rows, times if speed else rows[:0], options, charts_of))),
            reasons=tables.reasons(rows),
            unread=tables.unread(rows),
            sources=tables.sources(rows),
            environment=tables.facts({k: v for k, v in environment.items() if k != "sessions"}),
            sessions=len(environment.get("sessions", [])),
            meanings=[(name, meaning) for name, (_, meaning) in COLUMNS.items() if name in _EXPLAINED],
        )
    )


_EXPLAINED = ("gflops", "model_bytes", "bytes_format", "error_ratio", "near_launch_overhead", "t_setup")
