"""Values of a new row in the types of their columns, such that every reader takes them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spmvbench.rows.checks import VALUE_FAULTS, shown
from spmvbench.rows.schema import COLUMNS, EMPTY


def storable(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row as plain values. If a value does not fit its column, the status becomes `error`.

    The reason then names that value, and the status and reason that the row had.
    """
    plain, refused = fitted(row)
    if refused:
        would = f"; the case was {plain['status']}" + (f": {plain['reason']}" if plain.get("reason") else "")
        reason = f"a row cannot hold what the format gave: {', '.join(refused)}{would if plain.get('status') else ''}"
        plain |= {"status": "error", "reason": reason}
    return plain


def fitted(
    row: Mapping[str, Any], columns: Mapping[str, tuple[str, str]] = COLUMNS
) -> tuple[dict[str, Any], list[str]]:
    """The values in the types of their columns, and in words those that do not fit, or that no reader would take.

    Values that do not fit become the column's empty value, texts that are not Unicode their printable part.
    """
    plain, refused = {}, []
    for name, value in row.items():
        kind = columns[name][0]
        try:
            plain[name] = _PLAIN[kind](value)
            if any(wrong for wrong, _ in VALUE_FAULTS[kind](name, plain[name])):
                plain[name] = EMPTY[kind]
                refused.append(f"{name} {shown(value)}")
        except Exception:  # a format's own type may raise anything here
            text = isinstance(value, str) and kind == "str"
            plain[name] = value.encode(errors="backslashreplace").decode() if text else EMPTY[kind]
            refused.append(f"{name} {shown(value)}")
    return plain, refused


def _text(value: Any) -> str:
    value.encode()  # raises for other types and for lone surrogates
    return str(value)


def _count(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():  # estimates may end in a division
        value = int(value)
    return int(np.int64(operator.index(value)))  # raises beyond 64 bits


def _truth(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError
    return bool(value)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _count,
    "int or null": lambda value: None if value is None else _count(value),
    "float": lambda value: float(value + 0.0),  # raises for text
    "bool": _truth,
    "ints": lambda value: [_count(part) for part in value],
    **dict.fromkeys(("floats", "doubles"), lambda value: [float(part) for part in value]),
}
