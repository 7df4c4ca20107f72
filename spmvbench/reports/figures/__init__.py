"""The report's figures: one module a figure. Add a module here and it is drawn.

A package in here is a family, the figures of one paper, chosen together by the package's name. It is drawn as far as
the run holds the formats that it is about.

A module has name, title, caption, papers (who drew it so before), order (place on the page), performance (whether it
shows times: those of the emulated device are drawn only on demand) and two functions or three:

    data(rows, options) -> DataFrame                what is shown, written as CSV beside the figure
    draw(table, environment, options) -> Figure     a picture
    show(table, environment, options) -> [Table]    tables for the page; in place of the picture, or under it

A family may say which formats (keys) its figures compare, so that they get different colours: side_by_side(); and which
matrices are its paper's, with words for them: of_paper(matrices) and OF_PAPER. It is left out where a run holds none of
these, but for a module with of_any = True. EVERY_OPERATION = True: its figures take rows of all operations, where
others see those of y = A x alone, if there are any.

rows are those of `analysis.cases.latest_cases`; a caption may name {baseline}. `LeftOut` says why there is nothing to draw.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import pandas as pd

from spmvbench.analysis.cases import labels_of, of_one_operation
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.reports import style
from spmvbench.reports.published import Published
from spmvbench.reports.style import Mark


@dataclass(frozen=True)
class Options:
    """What figures know besides rows.

    baseline: the label that others are compared with, None where nothing is right. marks: highlighted formats.
    matrices: what the run keeps of its matrices, as `store.matrices`; None without. published: papers' figures to set
    beside the run's. every: the mark of each format of the report, of the highlighted ones too.
    """

    baseline: str | None
    marks: Mapping[str, Mark]
    matrices: pd.DataFrame | None = None
    published: Sequence[Published] = ()
    every: Mapping[str, Mark] = field(default_factory=dict)

    def marks_of(self, labels: Sequence[str]) -> dict[str, Mark]:
        """The marks of these formats, which are the same in every figure."""
        return style.marks_of(labels, {**self.marks, **self.every})


class LeftOut(Exception):
    """A figure has nothing to show; the text says why."""


def every() -> list[ModuleType]:
    """All figures in the order of the page."""
    modules = pkgutil.walk_packages(__path__, f"{__name__}.")
    found = [importlib.import_module(module.name) for module in modules if not module.ispkg]
    return sorted(found, key=lambda figure: (figure.order, figure.name))


def known() -> dict[str, list[ModuleType]]:
    """What can be chosen: every figure by its name, in the order of the page, then the families by theirs."""
    figures = every()
    families: dict[str, list[ModuleType]] = {}
    for figure in figures:
        if figure.__package__ != __name__:
            families.setdefault(figure.__package__.removeprefix(f"{__name__}."), []).append(figure)
    return {figure.name: [figure] for figure in figures} | families


def choose(names: Sequence[str] | None) -> list[ModuleType]:
    """The figures of these names, or of these families, all without; in the order of the page.

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


def _family(figure: ModuleType) -> ModuleType | None:
    """The package of a paper's figure, None for others."""
    return None if figure.__package__ == __name__ else sys.modules[figure.__package__]


def together() -> list[Sequence[str]]:
    """The formats (keys) that each family compares."""
    families = dict.fromkeys(filter(None, map(_family, every())))
    return [family.side_by_side() for family in families if hasattr(family, "side_by_side")]


def table_of(figure: ModuleType, rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """What a figure shows. Raises LeftOut where that is nothing, or the run has no matrix of the figure's paper."""
    family = _family(figure)
    if hasattr(family, "of_paper") and not getattr(figure, "of_any", False):
        matrices = pd.Series(rows["matrix"].unique(), dtype=str).str.partition("@")[0]
        if not family.of_paper(matrices).any():
            raise LeftOut(f"the run holds none of {family.OF_PAPER}")
    if not getattr(family, "EVERY_OPERATION", False):
        rows = of_one_operation(rows)
    table = figure.data(rows, options)
    if table.empty:
        raise LeftOut("no row has what it shows")
    return table


def collected(matrices: pd.Series) -> pd.Series:
    """Which of these matrices (group/name) are of the SuiteSparse collection."""
    return ~matrices.str.partition("/")[0].isin(["synthetic", "file"])


def held(rows: pd.DataFrame, formats: Sequence[str], least: int = 1) -> list[str]:
    """The labels of those of these formats (keys) that have a right row. Raises LeftOut for fewer than `least`."""
    labels = labels_of(rows, formats)
    if len(labels) < least:
        missing = absent(formats, labels)
        raise LeftOut(f"no right row of {', '.join(missing)}")
    return labels


def absent(formats: Sequence[str], labels: Iterable[str]) -> list[str]:
    """Those of the formats (keys) that none of the labels is of."""
    keys = {label.partition("[")[0] for label in labels}
    return [key for key in formats if key not in keys]
