"""Tables of rows that a caller hands over: from CSV, with Arrow's types, or with some of the columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spmvbench.rows.schema import COLUMNS, LISTS, arrow_schema, blank_row

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = re.compile(r"[-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?)", re.IGNORECASE)
_WITH_NULLS = {"int or null": "float64"}  # as pandas has integers of which some are missing
_TRUTHS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def typed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows in the types that `store.load` gives; missing columns and values are empty, other columns stay.

    A text of a list, as CSV holds it, is read as numbers. Raises TypeError if a column holds other values.
    """
    import pandas as pd
    from pandas.api.types import is_scalar

    schema = arrow_schema()
    wanted = schema.empty_table().to_pandas().dtypes
    if all(
        name in rows and str(rows[name].dtype) in (str(wanted[name]), _WITH_NULLS.get(kind))
        for name, (kind, _) in COLUMNS.items()
    ):
        return rows  # the rows of `load`, or some of them
    blank, columns = blank_row(), {}
    for name, (kind, _) in COLUMNS.items():
        given = rows[name].tolist() if name in rows else [None] * len(rows)
        try:
            values = [blank[name] if is_scalar(value) and pd.isna(value) else _PLAIN[kind](value) for value in given]
            dtype = "object" if kind in LISTS else _WITH_NULLS[kind] if None in values else wanted[name]
            columns[name] = pd.Series(values, index=rows.index, dtype=dtype)
        except (ValueError, TypeError, KeyError, OverflowError):
            raise TypeError(f"these are no rows of a run: the column {name} holds other values than {kind}") from None
    others = {name: rows[name] for name in rows.columns if name not in COLUMNS}
    found = pd.DataFrame(columns | others)
    found.attrs = dict(rows.attrs)
    return found


def _text(value: Any) -> str:
    """A text; numbers as CSV readers make them of texts of digits."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _numbers(value: Any) -> Any:
    import numpy as np

    if isinstance(value, str):
        if "..." in value:
            return np.empty(0)  # a list that was shortened for print
        value = [float(number) for number in _NUMBER.findall(value)]
    return np.asarray(value, np.float64)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    **dict.fromkeys(("int", "int or null"), lambda value: int(float(value)) if isinstance(value, str) else int(value)),
    "float": float,
    "bool": lambda value: _TRUTHS[str(value).lower()],
    **dict.fromkeys(LISTS, _numbers),
}
