"""What an order of rows and columns is worth to each format: speed-up over the natural order, and its break-even."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.breakeven import break_even, ready
from spmvbench.analysis.cases import verified
from spmvbench.analysis.coverage import geometric_mean

COLUMNS = ["setting", "order", "label", "matrix", "speedup", "break_even", "t_order"]
_SAME = ["matrix", "label", "dtype", "mode", "op", "device_name"]
FASTER = 1.05  # a speed-up that counts: half of it is within the spread of medians between runs


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each verified case in another order that is verified in the natural order, too.

    rows: as `latest_cases`, of all orders. Columns: setting, that of the natural order; order; label; matrix; speedup:
    time in the natural order over time in this one; break_even: SpMVs after which the order has paid, its own time and
    the difference of the conversions included, inf if never; t_order: seconds.
    """
    rows = verified(rows)
    if "order" not in rows or rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    rows = rows.assign(ready=ready(rows))
    natural = rows["order"].isin(["none", ""])
    before = rows.loc[natural, [*_SAME, "setting", "t_median", "ready"]]
    found = rows.loc[~natural, [*_SAME, "order", "t_median", "ready", "t_order"]].merge(
        before, on=_SAME, suffixes=("", "_natural")
    )
    found = found[(found["t_median"] > 0) & (found["t_median_natural"] > 0)]
    return found.assign(
        speedup=found["t_median_natural"] / found["t_median"],
        break_even=break_even(
            found["ready"] + found["t_order"], found["t_median"], found["ready_natural"], found["t_median_natural"]
        ),
        setting=found["setting"].astype(str),
    )[COLUMNS]


def gains_by_format(table: pd.DataFrame) -> pd.DataFrame:
    """`gains` by setting, order and label, the largest mean speed-up of any order first.

    Columns: mean, least, median and most speed-up (geometric mean, 5th, 50th and 95th percentile); faster: share of the
    matrices on which the speed-up is over 1.05; break_even: median SpMVs of those; matrices.
    """
    pays = table["speedup"] > FASTER
    groups = table.assign(pays=pays, paid=table["break_even"].where(pays)).groupby(
        ["setting", "order", "label"], observed=True
    )
    found = groups["speedup"].quantile([0.05, 0.5, 0.95]).unstack().set_axis(["least", "median", "most"], axis=1)
    found = found.assign(
        mean=groups["speedup"].agg(geometric_mean),
        faster=groups["pays"].mean(),
        break_even=groups["paid"].median(),
        matrices=groups.size(),
    ).reset_index()
    best = found.groupby(["setting", "label"])["mean"].transform("max")
    found = found.assign(best=best).sort_values(
        ["setting", "best", "label", "order"], ascending=[True, False, True, True]
    )
    return found[["setting", "order", "label", "mean", "least", "median", "most", "faster", "break_even", "matrices"]]


def mean_gains(table: pd.DataFrame) -> pd.DataFrame:
    """The mean speed-up of `gains_by_format` with labels as rows and orders as columns, of one setting; NaN if none."""
    found = gains_by_format(table)
    cells = found.pivot(index="label", columns="order", values="mean")
    return cells.reindex(index=list(dict.fromkeys(found["label"]))).astype(np.float64)
