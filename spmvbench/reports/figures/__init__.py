"""The report's figures. A module in here has some of them in FIGURES, and one that is added is drawn."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from spmvbench.analysis.cases import authors, labels_of, of_one_operation
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.matrices.sets import STAND_IN, stands_for
from spmvbench.reports import style
from spmvbench.reports.published import Published
from spmvbench.reports.style import Mark
from spmvbench.reports.tables import Table

AUTHORS = "the authors' kernels"

FEW = 30  # formats of a figure with a line for each, before all are asked for


@dataclass(frozen=True)
class Options:
    """Options of a report's figures.

    baseline: the label that others are compared with, None if nothing is verified. marks: highlighted formats.
    matrices: descriptions of the run's matrices, as `store.matrices`, or None. published: published results to compare
    with. every: the mark of each format of the report, highlighted or not. environment: as `store.environment`. other:
    rows and environment of a run of another card.
    """

    baseline: str | None
    marks: Mapping[str, Mark]
    matrices: pd.DataFrame | None = None
    published: Sequence[Published] = ()
    every: Mapping[str, Mark] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    other: tuple[pd.DataFrame, Mapping[str, Any]] | None = None

    @property
    def required_baseline(self) -> str:
        """The baseline. Raises LeftOut if there is none."""
        if self.baseline is None:
            raise LeftOut("no format is verified that others could be compared with")
        return self.baseline

    def marks_of(self, labels: Iterable[str], order: Sequence[str] | None = None) -> dict[str, Mark]:
        """The marks of these formats, which are the same in every figure. order: of their keys, others come last."""
        if order is not None:
            place = {key: at for at, key in enumerate(order)}
            labels = sorted(set(labels), key=lambda label: (place.get(label.partition("[")[0], len(place)), label))
        return style.marks_of(list(labels), {**self.marks, **self.every})


@dataclass(frozen=True)
class Family:
    """The figures of one paper, selected together by the family's name.

    compared: formats (keys) that they compare, which get distinct colours. matrices: words for the paper's matrices,
    which is_paper_matrix recognizes among names (group/name). set: the named set of those that it shows one by one.
    """

    name: str
    compared: Callable[[], Sequence[str]]
    matrices: str
    is_paper_matrix: Callable[[pd.Series], pd.Series]
    set: str = ""


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the report: its data, which is also written as CSV, and a drawing, tables or both.

    caption: may contain {baseline}. order: place on the page. table: gives the data; `LeftOut` says why there is
    nothing to show, `nothing` if the data are empty. Its rows are as `analysis.cases.latest_cases`, of y = A x only if
    there are such rows, unless every_operation. papers: sources of the figure. performance: whether it shows times;
    those of the emulated device are drawn only on request. family: its paper; the figure is left out if the run has no
    matrix of that, unless any_matrix. keeps_stand_ins: whether it takes stand-ins whose matrix is in the run, too. by:
    of a figure with a line for each format, the column by whose median they are ordered, after a - the largest first.
    """

    name: str
    title: str
    caption: str
    order: int
    table: Callable[[pd.DataFrame, Options], pd.DataFrame]
    draw: Callable[[pd.DataFrame, Options], Figure] | None = None
    show: Callable[[pd.DataFrame, Options], list[Table]] | None = None
    papers: str = ""
    performance: bool = True
    family: Family | None = None
    every_operation: bool = False
    any_matrix: bool = False
    keeps_stand_ins: bool = False
    by: str = ""
    nothing: str = "no row has the data"

    def data(self, rows: pd.DataFrame, options: Options) -> pd.DataFrame:
        """The data. Raises LeftOut if there are none."""
        found = self.table(rows, options)
        if found.empty:
            raise LeftOut(self.nothing)
        return found

    def few(self, table: pd.DataFrame, options: Options) -> pd.DataFrame:
        """The rows of the FEW best formats of a line each, and of those highlighted; of other figures all rows."""
        if not self.by:
            return table
        medians = table.groupby("label")[self.by.removeprefix("-")].median()
        best = medians.sort_values(ascending=not self.by.startswith("-"), kind="stable").index[:FEW]
        return table[table["label"].isin({*best, *options.marks})]


class LeftOut(Exception):
    """Raised if a figure has nothing to show; the text says why."""


@cache
def every() -> tuple[ReportFigure, ...]:
    """All figures in the order of the page."""
    modules = [importlib.import_module(module.name) for module in pkgutil.iter_modules(__path__, f"{__name__}.")]
    found: list[ReportFigure] = [figure for module in modules for figure in getattr(module, "FIGURES", ())]
    return tuple(sorted(found, key=lambda figure: (figure.order, figure.name)))


def known() -> dict[str, list[ReportFigure]]:
    """All names of `--figures`: figures in the order of the page, then families, each with its figures."""
    families: dict[str, list[ReportFigure]] = {}
    for figure in every():
        if figure.family:
            families.setdefault(figure.family.name, []).append(figure)
    return {figure.name: [figure] for figure in every()} | families


def choose(names: Sequence[str] | None) -> list[ReportFigure]:
    """The figures of these names or families (None: all), in the order of the page.

    Raises UsageError with the nearest names for an unknown one.
    """
    choices = known()
    for name in names or ():
        if name not in choices:
            hint = did_you_mean(name, list(choices)) or f"; there are {', '.join(choices)}"
            raise UsageError(f"there is no figure {name!r}{hint}")
    chosen = [figure.name for name in names or () for figure in choices[name]]
    return [figure for figure in every() if names is None or figure.name in chosen]


def formats_compared() -> list[Sequence[str]]:
    """The formats (keys) that each family compares."""
    families = {figure.family.name: figure.family for figure in every() if figure.family}
    return [family.compared() for family in families.values()]


def table_of(
    figure: ReportFigure, rows: pd.DataFrame, options: Options, selected: dict[Any, pd.DataFrame] | None = None
) -> pd.DataFrame:
    """The data of a figure. Raises LeftOut if there is none, or if the run has no matrix of the figure's paper.

    selected: what figures have selected of these rows, of which there are few kinds; more are added.
    """
    if figure.family and not figure.any_matrix:
        matrices = pd.Series(rows["matrix"].unique(), dtype=str).str.partition("@")[0].map(stands_for)
        if not figure.family.is_paper_matrix(matrices).any():
            raise LeftOut(f"the run holds none of {figure.family.matrices}")
    found = {} if selected is None else selected
    kind = figure.performance, figure.every_operation, figure.keeps_stand_ins
    if kind not in found:
        found[kind] = _selected(rows, *kind[1:])
    return figure.data(found[kind], options)


def _selected(rows: pd.DataFrame, every_operation: bool, keeps_stand_ins: bool) -> pd.DataFrame:
    if not every_operation:
        rows = of_one_operation(rows)
    stands = rows["matrix"].str.startswith(STAND_IN)
    if stands.any() and not keeps_stand_ins:  # without those for matrices that the run has
        rows = rows[~(stands & rows["matrix"].map(stands_for).isin(rows["matrix"].unique()))]
    return rows


def panels(
    table: pd.DataFrame, by: str | list[str] = "setting", columns: int = 2, *, height: float = 3.6, lines: bool = False
) -> tuple[Figure, list[tuple[Axes, str, pd.DataFrame]]]:
    """A figure with a panel for each value of `by`, in the table's order: its axes, its name and the rows of it."""
    parts = list(table.groupby(by, sort=False, observed=True))
    figure, axes = style.grid(len(parts), min(columns, len(parts)), height=height, lines=lines)
    names = [key if isinstance(key, tuple) else (key,) for key, _ in parts]
    return figure, [
        (ax, ", ".join(map(str, name)), part) for ax, name, (_, part) in zip(axes, names, parts, strict=True)
    ]


def over_nonzeros(ax: Axes, part: pd.DataFrame, value: str, shown: Mapping[str, Mark], **labels: str) -> None:
    """Points and trends of a column over the nonzeros, both axes logarithmic. labels: of the axes."""
    style.scatter(ax, part, "nnz", value, shown)
    style.trend(ax, part, "nnz", value, shown)
    ax.set(xscale="log", yscale="log", xlabel="nonzeros", **labels)
    style.count_ticks(ax.xaxis)
    style.plain_ticks(ax.yaxis)


def bars(
    table: pd.DataFrame,
    value: str,
    text: str,
    shown: Mapping[str, Mark],
    *,
    by: Sequence[str] = ("setting",),
    label: str = "label",
    title: str | None = None,
    ticks: Callable[[Axis], None] | None = None,
    **axes: Any,
) -> Figure:
    """A panel for each value of `by`, in it a group of bars for each matrix, a bar for each label.

    More labels than `style.HATCHES` are in panels of so many, each with its own legend. The matrices have the table's
    order. title: of the legend. ticks: sets those of the values. axes: more for the axes, such as yscale.
    """
    most, names = len(style.HATCHES), list(shown)
    several = len(names) > most
    parts = table[label].map(lambda name: names.index(name) // most)
    figure, found = panels(table.assign(part=parts), [*by, "part"], 1, height=2.6)
    for ax, name, part in found:
        heights = part.pivot(index="matrix", columns=label, values=value).reindex(part["matrix"].unique())
        start = most * part["part"].iloc[0]
        style.bars(ax, heights, {label: shown[label] for label in names[start : start + most]})
        ax.set(title=name.rpartition(", ")[0], ylabel=text, **axes)
        if ticks:
            ticks(ax.yaxis)
        if several:
            ax.legend(loc="upper left", bbox_to_anchor=(1, 1), title=title)
    if not several:
        style.below(figure, columns=4, title=title)
    return figure


def by_kernel(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column kernels: this project's, then the authors' of the keys that have both, if any has.

    Labels of keys with one kernel are in both parts.
    """
    theirs = authors(table["label"])
    keys = table["label"].str.partition("[")[0]
    own = table[~theirs | ~keys.isin(keys[~theirs])].assign(kernels="this project's kernels")
    return pd.concat([own, table[theirs | ~keys.isin(keys[theirs])].assign(kernels=AUTHORS)]) if theirs.any() else own


def others(table: pd.DataFrame, shown: Mapping[str, Mark]) -> int:
    """How many formats of a table have no mark of their own."""
    return len(set(table["label"].unique()) - set(shown))


def collected(matrices: pd.Series) -> pd.Series:
    """Which of these matrices (group/name) are in the SuiteSparse collection."""
    return ~matrices.str.partition("/")[0].isin(["synthetic", "file"])


def verified_labels(rows: pd.DataFrame, formats: Sequence[str], least: int = 1) -> list[str]:
    """The labels of these formats (keys) that have a verified row. Raises LeftOut if there are fewer than `least`."""
    labels = labels_of(rows, formats)
    if len(labels) < least:
        missing = missing_formats(formats, labels)
        raise LeftOut(f"no verified row of {', '.join(missing)}")
    return labels


def missing_formats(formats: Sequence[str], labels: Iterable[str]) -> list[str]:
    """The formats (keys) that none of the labels belongs to."""
    keys = {label.partition("[")[0] for label in labels}
    return [key for key in formats if key not in keys]
