"""Cells and columns of tables that link to other pages of the site."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from spmvbench.reports import links
from spmvbench.reports.tables import NONE, Cell, Column, number


def heading(text: str, *, is_number: bool = True, about: str = "") -> Column:
    """The head of a column. is_number: whether its cells are numbers."""
    return Column("", text, number if is_number else None, about)


def of_format(label: str) -> Cell:
    """A label that links to the page of its format."""
    return Cell(label, href=links.format(label))


def of_matrix(name: str) -> Cell:
    """A matrix that links to its page."""
    return Cell(name, href=links.matrix(name))


def of_number(value: Any, text: str | None = None, **more: Any) -> Cell:
    """A number, by default as `tables.number`, counts in full; empty and last in every order if it is NaN."""
    if isinstance(value, Integral):
        return Cell(f"{value:,}" if text is None else text, int(value), **more)
    value = float(value)
    if math.isnan(value):
        return Cell(NONE, "", **more)
    return Cell(number(value) if text is None else text, "Infinity" if math.isinf(value) else value, **more)
