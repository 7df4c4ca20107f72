"""The report's figures, one module per figure. A module added here is drawn.

A package in here is a family: the figures of one paper, selected together by the package's name. Figures whose formats
the run lacks are left out.

A module with FIGURES holds several figures, objects with `family`, the package that they belong to.

A module has name, title, caption (may contain {baseline}), papers (sources of the figure), order (place on the page),
performance (whether it shows times; those of the emulated device are drawn only on request) and these functions:

    data(rows, options) -> DataFrame                the data, also written as CSV
    draw(table, options) -> Figure                  the drawing; optional if there is show
    show(table, options) -> [Table]                 tables for the page, instead of the drawing or below it; optional

rows: as `analysis.cases.latest_cases`, of y = A x only if there are such rows. `LeftOut` says why there is nothing to
draw.

A family may have compared_formats(): formats (keys) that its figures compare, which get distinct colours;
is_paper_matrix(matrices) and PAPER_MATRICES (words for these matrices): its figures are left out if the run holds none
of them, except modules with any_matrix = True; EVERY_OPERATION = True, which a module may have too: its figures take
rows of all operations. KEEPS_STAND_INS = True: the figure also takes stand-ins whose matrix is in the run.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spmvbench.analysis.cases import labels_of, of_one_operation
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.matrices.sets import is_stand_in, stands_for
from spmvbench.reports import style
from spmvbench.reports.published import Published
from spmvbench.reports.style import Mark


@dataclass(frozen=True)
class Options:
    """Options of a report's figures.

    baseline: the label that others are compared with, None if nothing is verified. marks: highlighted formats.
    matrices: descriptions of the run's matrices, as `store.matrices`, or None. published: published results to compare
    with. every: the mark of each format of the report, highlighted or not. environment: as `store.environment`.
    """

    baseline: str | None
    marks: Mapping[str, Mark]
    matrices: pd.DataFrame | None = None
    published: Sequence[Published] = ()
    every: Mapping[str, Mark] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def required_baseline(self) -> str:
        """The baseline. Raises LeftOut if there is none."""
        if self.baseline is None:
            raise LeftOut("no format is verified that others could be compared with")
        return self.baseline

    def marks_of(self, labels: Sequence[str]) -> dict[str, Mark]:
        """The marks of these formats, which are the same in every figure."""
        return style.marks_of(labels, {**self.marks, **self.every})


class LeftOut(Exception):
    """Raised if a figure has nothing to show; the text says why."""


@cache
def _modules() -> tuple[Any, ...]:
    found = pkgutil.walk_packages(__path__, f"{__name__}.")
    modules = [importlib.import_module(module.name) for module in found if not module.ispkg]
    return tuple(figure for module in modules for figure in getattr(module, "FIGURES", (module,)))


def every() -> list[Any]:
    """All figures in the order of the page."""
    return sorted(_modules(), key=lambda figure: (figure.order, figure.name))


def known() -> dict[str, list[Any]]:
    """All names of `--figures`: figures in the order of the page, then families, each with its modules."""
    figures = every()
    families: dict[str, list[Any]] = {}
    for figure in figures:
        if family := _family(figure):
            families.setdefault(family.__name__.removeprefix(f"{__name__}."), []).append(figure)
    return {figure.name: [figure] for figure in figures} | families


def choose(names: Sequence[str] | None) -> list[Any]:
    """The figures of these names or families (None: all), in the order of the page.

    Raises UsageError with the nearest names for an unknown one.
    """
    if names is None:
        return every()
    choices = known()
    for name in names:
        if name not in choices:
            hint = did_you_mean(name, list(choices)) or f"; there are {', '.join(choices)}"
            raise UsageError(f"there is no figure {name!r}{hint}")
    chosen = [figure for name in names for figure in choices[name]]
    return [figure for figure in every() if figure in chosen]


def _family(figure: Any) -> ModuleType | None:
    """The package of a paper's figure, None for other figures."""
    if isinstance(family := getattr(figure, "family", None), ModuleType):
        return family
    package = figure.__name__.rpartition(".")[0]
    return None if package == __name__ else sys.modules[package]


def formats_compared() -> list[Sequence[str]]:
    """The formats (keys) that each family compares."""
    families = dict.fromkeys(filter(None, map(_family, every())))
    return [family.compared_formats() for family in families if hasattr(family, "compared_formats")]


def table_of(figure: Any, rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """The data of a figure. Raises LeftOut if there is none, or if the run has no matrix of the figure's paper."""
    family = _family(figure)
    if family and hasattr(family, "is_paper_matrix") and not getattr(figure, "any_matrix", False):
        matrices = pd.Series(rows["matrix"].unique(), dtype=str).str.partition("@")[0].map(stands_for)
        if not family.is_paper_matrix(matrices).any():
            raise LeftOut(f"the run holds none of {family.PAPER_MATRICES}")
    if not getattr(figure, "EVERY_OPERATION", getattr(family, "EVERY_OPERATION", False)):
        rows = of_one_operation(rows)
    if not getattr(figure, "KEEPS_STAND_INS", False):
        rows = _without_needless_stand_ins(rows)
    table: pd.DataFrame = figure.data(rows, options)
    if table.empty:
        raise LeftOut("no row has the data")
    return table


def _without_needless_stand_ins(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without stand-ins for matrices that the run has."""
    stands = rows["matrix"].map(is_stand_in).astype(bool)
    return rows[~(stands & rows["matrix"].map(stands_for).isin(rows["matrix"]))] if stands.any() else rows


def by_setting(
    table: pd.DataFrame, columns: int = 2, *, height: float = 3.6
) -> tuple[Figure, list[tuple[Axes, str, pd.DataFrame]]]:
    """A figure with a panel for each setting: its axes, its name and the rows of it."""
    settings = list(table["setting"].unique())
    figure, axes = style.grid(len(settings), min(columns, len(settings)), height=height)
    return figure, [
        (ax, str(setting), table[table["setting"] == setting]) for ax, setting in zip(axes, settings, strict=True)
    ]


def over_nonzeros(ax: Axes, part: pd.DataFrame, value: str, shown: Mapping[str, Mark], **labels: str) -> None:
    """Points and trends of a column over the nonzeros, both axes logarithmic. labels: of the axes."""
    style.scatter(ax, part, "nnz", value, shown)
    style.trend(ax, part, "nnz", value, shown)
    ax.set(xscale="log", yscale="log", xlabel="nonzeros", **labels)
    style.count_ticks(ax.xaxis)
    style.plain_ticks(ax.yaxis)


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
