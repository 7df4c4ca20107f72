"""Tables of rows that a caller hands over: from CSV, with Arrow's types, or with some of the columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from spmvbench.rows.files import Layout
from spmvbench.rows.schema import COLUMNS, LISTS

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = re.compile(r"[-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?)", re.IGNORECASE)
_ROWS = Layout("", "", "", COLUMNS, COLUMNS)


def typed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows in the types that `store.load` gives; missing columns and values are empty, other columns stay.

    A text of a list, as CSV holds it, is read as numbers. Raises TypeError if a column holds other values.
    """
    import pyarrow as pa

    wanted, columns = _ROWS.schema.empty_table().to_pandas().dtypes, {}
    nulls = {"int or null": "float64"}  # as pandas has integers of which some are missing
    if all(
        name in rows and str(rows[name].dtype) in (str(wanted[name]), nulls.get(kind))
        for name, (kind, _) in COLUMNS.items()
    ):
        return rows  # the rows of `load`, or some of them
    for name in rows.columns.intersection(list(COLUMNS)):
        kind = COLUMNS[name][0]
        values = rows[name].map(_numbers) if kind in LISTS else rows[name]
        try:
            columns[name] = pa.array(values, from_pandas=True).cast(_ROWS.schema.field(name).type)
        except (pa.ArrowException, TypeError):
            raise TypeError(f"these are no rows of a run: the column {name} holds other values than {kind}") from None
    if not columns:
        raise TypeError("these are no rows of a run: they have none of its columns")
    found = _ROWS.completed(pa.table(columns)).to_pandas().set_axis(rows.index)
    found = found.assign(**{name: rows[name] for name in rows.columns.difference(list(COLUMNS), sort=False)})
    found.attrs = dict(rows.attrs)
    return found


def _numbers(value: Any) -> Any:
    if isinstance(value, str):
        shown = "" if "..." in value else value  # a list that was shortened for print
        value = [float(number) for number in _NUMBER.findall(shown)]
    return np.asarray(value, np.float64) if np.ndim(value) else None
