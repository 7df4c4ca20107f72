"""What values stored narrower than the vectors gain, and the error of rounding them."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import verified
from spmvbench.analysis.coverage import geometric_mean

COLUMNS = ["setting", "values", "label", "matrix", "speedup", "bytes", "rounding_error"]
_SAME = ["matrix", "label", "vectors", "mode", "op", "order", "device_name"]


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each verified case of narrower values that is verified with values of the vectors' type, too.

    rows: as `latest_cases`. Columns: setting, that of one type; values: the type that they are stored in; label;
    matrix; speedup: time with values of the vectors' type over time with these; bytes: footprint over that with values
    of the vectors' type; rounding_error: of the matrix.
    """
    rows = verified(rows)
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    types = rows["dtype"].str.partition("/")
    mixed = types[1] == "/"
    order = rows["order"].replace("", "none") if "order" in rows else "none"
    error = rows["rounding_error"] if "rounding_error" in rows else float("nan")
    rows = rows.assign(values=types[0], vectors=types[2].where(mixed, types[0]), order=order, rounding_error=error)
    wide = rows.loc[~mixed, [*_SAME, "setting", "t_median", "bytes_format"]]
    narrow = rows.loc[mixed, [*_SAME, "values", "rounding_error", "t_median", "bytes_format"]]
    found = narrow.merge(wide, on=_SAME, suffixes=("", "_wide"))
    found = found[(found["t_median"] > 0) & (found["t_median_wide"] > 0)]
    return found.assign(
        speedup=found["t_median_wide"] / found["t_median"],
        bytes=found["bytes_format"] / found["bytes_format_wide"],
        setting=found["setting"].astype(str),
    )[COLUMNS]


def gains_by_format(table: pd.DataFrame) -> pd.DataFrame:
    """`gains` by setting, label and type of the values, the largest mean speed-up of any type first.

    Columns: mean, least and most speed-up (geometric mean, least and most of the matrices); bytes: geometric mean;
    rounding_error: the largest; matrices.
    """
    found = table.groupby(["setting", "values", "label"], as_index=False).agg(
        mean=("speedup", geometric_mean),
        least=("speedup", "min"),
        most=("speedup", "max"),
        bytes=("bytes", geometric_mean),
        rounding_error=("rounding_error", "max"),
        matrices=("matrix", "size"),
    )
    best = found.groupby(["setting", "label"])["mean"].transform("max")
    return (
        found.assign(best=best)
        .sort_values(["setting", "best", "label", "values"], ascending=[True, False, True, True], ignore_index=True)
        .drop(columns="best")
    )
