"""New values in the same pattern: what they take in products of CSR, and after how many products they pay."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.breakeven import break_even, ready
from spmvbench.analysis.cases import hot, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.programs import without_aliases
from spmvbench.analysis.ranking import BASELINES, VENDORS

PRODUCTS = tuple(float(n) for n in np.round(np.logspace(0, 4, 17), 1))  # between updates


def updates(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each verified hot case of the runs that timed new values: setting, matrix, label, reference, anew,
    update and spmv (seconds), products (update in products of the reference), break_even.

    reference: cuSPARSE's CSR, or the first of the other formats on CSR that was measured. anew: whether values decide
    what the format stores, so that its update is a conversion. break_even: as `breakeven.break_even`, of updates in
    place of setups: the number of products from one update to the next from which the format leads the reference.
    """
    counted = without_aliases(hot(verified(rows)))
    # A merged run may have rows of invocations without --update: they tell nothing of what is converted anew.
    asked = counted.groupby(["setting", "matrix", "gpu"], observed=True, dropna=False)["t_update"].transform("count")
    counted = counted[asked > 0]
    label = next((label for label in (*VENDORS, *BASELINES) if label in set(counted["label"].unique())), None)
    if label is None:
        return pd.DataFrame()
    found = counted[["setting", "matrix", "label"]].assign(
        reference=label,
        anew=counted["t_update"].isna(),
        update=counted["t_update"].fillna(ready(counted)),
        spmv=counted["t_median"],
    )
    key = ["setting", "matrix"]
    csr = found[found["label"] == label].set_index(key)[["update", "spmv"]].add_prefix("csr_")
    found = found.join(csr, on=key).dropna(subset=["update", "csr_update"])
    found["products"] = found["update"] / found["csr_spmv"]
    found["break_even"] = break_even(found["update"], found["spmv"], found["csr_update"], found["csr_spmv"])
    return found.reset_index(drop=True)


def updates_by_format(found: pd.DataFrame) -> pd.DataFrame:
    """For each setting and label: matrices, products (geometric mean), largest, break_even (median), anew. By products.

    found: as `updates`.
    """
    groups = found.groupby(["setting", "label"], observed=True)
    table = groups.agg(
        matrices=("matrix", "nunique"),
        products=("products", geometric_mean),
        largest=("products", "max"),
        break_even=("break_even", "median"),
        anew=("anew", "any"),
    )
    table["anew"] = ["converted anew" if anew else "" for anew in table["anew"]]
    return table.reset_index().sort_values(["setting", "products"], ignore_index=True)


def with_updates(found: pd.DataFrame) -> pd.DataFrame:
    """For each setting, label and number of PRODUCTS: ratio, the geometric mean of the time of an update and so many
    products over that of the reference. found: as `updates`.
    """
    tables = []
    for n in PRODUCTS:
        csr = found["csr_update"] + n * found["csr_spmv"]
        tables.append(found.assign(between=n, ratio=(found["update"] + n * found["spmv"]) / csr))
    groups = pd.concat(tables).groupby(["setting", "label", "between"], observed=True)
    return groups["ratio"].agg(geometric_mean).reset_index()
