"""Conditions on matrices. Each field is an option of the command line, a keyword of Python and part of the search."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from spmvbench.errors import UsageError


@dataclass(frozen=True)
class Condition:
    """One condition.

    fact: the attribute of an index entry that it is about. meets: whether a fact meets the value given. values: int for
    a number from 0 on, str for a text, bool, or the words that it takes. option: its name on the command line, without
    dashes; empty: the field's.
    """

    fact: str
    meets: Callable[[Any, Any], bool]
    values: type | tuple[str, ...]
    help: str
    option: str = ""

    def check(self, name: str, value: Any) -> None:
        """Raise UsageError unless the condition takes the value."""
        if isinstance(self.values, tuple):
            if value not in self.values:
                raise UsageError(f"{name} takes {', '.join(self.values)}, not {value!r}")
        elif self.values is int:
            if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
                raise UsageError(f"{name} takes an integer from 0 on, not {value!r}")
        elif not isinstance(value, self.values):
            raise UsageError(f"{name} takes {'a text' if self.values is str else 'True or False'}, not {value!r}")


def _contains(text: str, part: str) -> bool:
    return part.lower() in text.lower()


def _condition(*about: Any) -> Any:
    return field(default=None, metadata={"condition": Condition(*about)})


@dataclass(frozen=True)
class Conditions:
    """Conditions that a matrix must meet, all of those that are not None. Raises UsageError for a wrong value.

    A matrix whose fact is unknown does not meet a condition on it: a file has no kind, and no generated matrix an id.
    """

    kind: str | None = _condition("kind", _contains, str, "Only matrices whose kind contains TEXT, such as 'circuit'.")
    name: str | None = _condition("name", _contains, str, "Only matrices whose name contains TEXT.")
    id: int | None = _condition("number", operator.eq, int, "Only the matrix with number N in the collection's index.")
    min_nnz: int | None = _condition("nnz", operator.ge, int, "Only matrices with at least N entries.")
    max_nnz: int | None = _condition("nnz", operator.le, int, "Only matrices with at most N entries.")
    min_rows: int | None = _condition("rows", operator.ge, int, "Only matrices with at least N rows.")
    max_rows: int | None = _condition("rows", operator.le, int, "Only matrices with at most N rows.")
    min_cols: int | None = _condition("cols", operator.ge, int, "Only matrices with at least N columns.")
    max_cols: int | None = _condition("cols", operator.le, int, "Only matrices with at most N columns.")
    field: str | None = _condition(
        "dtype", operator.eq, ("real", "complex", "binary"), "Only matrices with such values; binary: patterns."
    )
    is2d3d: bool | None = _condition(
        "is2d3d", operator.eq, bool, "Only matrices of 2D or 3D discretizations, or only others.", "2d3d"
    )
    spd: bool | None = _condition(
        "spd", operator.eq, bool, "Only symmetric positive definite matrices, or only others."
    )

    def __post_init__(self) -> None:
        for name, value in self.given():
            CONDITIONS[name].check(name, value)

    def given(self) -> Iterator[tuple[str, Any]]:
        """Names and values of those that are not None."""
        return ((name, value) for name in CONDITIONS if (value := getattr(self, name)) is not None)

    def __bool__(self) -> bool:
        """Whether there is a condition."""
        return any(True for _ in self.given())

    def meets(self, fact_of: Callable[[str], Any]) -> bool:
        """Whether a matrix meets all conditions. fact_of: its facts by name, as of an index entry; None for unknown."""
        return all(
            (fact := fact_of(CONDITIONS[name].fact)) is not None and CONDITIONS[name].meets(fact, value)
            for name, value in self.given()
        )

    def words(self) -> list[str]:
        """The conditions as they are typed on the command line."""
        found = []
        for name, value in self.given():
            text = option(name)
            found += (
                [f"--{text}" if value else f"--no-{text}"] if isinstance(value, bool) else [f"--{text}", str(value)]
            )
        return found


CONDITIONS: dict[str, Condition] = {one.name: one.metadata["condition"] for one in fields(Conditions)}
ANY = Conditions()


def option(name: str) -> str:
    """The name of a condition on the command line, without dashes."""
    return CONDITIONS[name].option or name.replace("_", "-")
