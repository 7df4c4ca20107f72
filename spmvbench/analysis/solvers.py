"""Formats in solvers: time of an iteration, the share of SpMV in it, and the rank beside that by SpMV alone."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import in_natural_order
from spmvbench.analysis.details import kernel_times
from spmvbench.analysis.ranking import mean_slowdowns, ranked

SOLVERS = r"(?:cg|pagerank|pdhg)@(\d+)"
COLUMNS = ["setting", "label", "seconds", "share", "slowdown", "rank", "slowdown_spmv", "rank_spmv", "matrices"]


def solvers(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting of a solver and label with a verified row, the least mean slowdown first.

    rows: as `latest_cases`, of all operations. Columns: setting; label; seconds: of one iteration, geometric mean over
    the matrices; share: of the products in the sum of products and vector kernels, each timed on its own, mean over the
    matrices, NaN in cold rows and if a product takes vectors along; slowdown: `ranking.mean_slowdowns` of the solver;
    rank: by it, 1 is the least; slowdown_spmv, rank_spmv: the same of y = A x, or of ``pair`` if that is an iteration's
    product, in the same type, mode and device on the matrices of the solver, NaN if it was not measured; matrices:
    verified ones.
    """
    counts = rows["op"].str.extract(f"^{SOLVERS}$")[0].astype(float)
    parts = [
        _of_setting(part, rows).assign(setting=setting)
        for setting, part in rows.assign(iterations=counts)[counts.notna()].groupby("setting", observed=True)
    ]
    found = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)
    return found[COLUMNS]


def _of_setting(part: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    held = ranked(part)
    by_label = held.assign(log=np.log(held["t_median"] / held["iterations"])).groupby("label")
    found = _slowdowns(part).join(np.exp(by_label["log"].mean()).rename("seconds"))
    times = kernel_times(part)
    times["share"] = times["share"].where(~times["kernel"].str.contains("+", regex=False))
    of_products = times[times["kernel"] != "vectors"].groupby(["label", "matrix"])["share"].sum(skipna=False)
    found = found.join(of_products.groupby("label").mean())
    found = found.join(by_label["matrix"].nunique().rename("matrices"))
    same = (rows[["dtype", "mode", "device_name"]] == part[["dtype", "mode", "device_name"]].iloc[0]).all(axis=1)
    product = "pair" if part["op"].iloc[0].startswith("pdhg") else "spmv"
    alone = in_natural_order(rows[same & rows["matrix"].isin(held["matrix"])], product)
    # Formats of the solver alone: ranks among others would not be comparable.
    alone = _slowdowns(alone[alone["label"].isin(found.index)])
    return found.join(alone.add_suffix("_spmv")).sort_values(["slowdown", "seconds"]).reset_index(names="label")


def _slowdowns(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean slowdown and rank by label, of rows of one setting."""
    slowdown = mean_slowdowns(rows)["mean_slowdown"].droplevel("setting").rename("slowdown")
    return pd.DataFrame({"slowdown": slowdown, "rank": slowdown.rank(method="min")})
