"""The report's figures: one module a figure. Add a module here and it is drawn.

A module has name, title, caption, papers (who drew it so before), order (place on the page), performance (whether it
shows times: those of the emulated device are drawn only on demand) and two functions:

    data(rows, options) -> DataFrame          what is drawn, written as CSV beside the figure
    draw(table, environment, options) -> Figure

rows are those of `analysis.cases.prepared`; a caption may name {baseline}. `LeftOut` says why there is nothing to draw.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from spmvbench.errors import UsageError, did_you_mean
from spmvbench.report.style import Mark


@dataclass(frozen=True)
class Options:
    """baseline: the label that others are compared with, None where nothing is right. marks: highlighted formats."""

    baseline: str | None
    marks: Mapping[str, Mark]


class LeftOut(Exception):
    """A figure has nothing to show; the text says why."""


def every() -> list[ModuleType]:
    """All figures in the order of the page."""
    found = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return sorted(found, key=lambda figure: (figure.order, figure.name))


def choose(names: Sequence[str] | None) -> list[ModuleType]:
    """The figures of these names, all without. Raises UsageError with the nearest names for an unknown one."""
    known = {figure.name: figure for figure in every()}
    for name in names or ():
        if name not in known:
            hint = did_you_mean(name, list(known)) or f"; there are {', '.join(known)}"
            raise UsageError(f"there is no figure {name!r}{hint}")
    return [figure for figure in known.values() if names is None or figure.name in names]
