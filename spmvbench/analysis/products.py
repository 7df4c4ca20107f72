"""Time to N products: conversion and N SpMVs, for several ways of choosing a format."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import verified
from spmvbench.analysis.ranking import SLOWDOWN_CAP, VENDORS

NUMBERS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)  # of SpMVs
WITHIN = 1.05  # of cuSPARSE's time
ADVISED, MEASURED, SINGLE, VENDOR = "advised", "advised, few measured", "best single format", "cuSPARSE CSR"
ORACLE = "oracle"
CUPY, HOST_CALLED = "CuPy's csr @ x", "cupy-csr"  # the label of its rows: times of calls from the host
COLUMNS = ["setting", "chooser", "spmvs", "label", "slowdown", "within", "always", "speedup", "matrices"]


def products(rows: pd.DataFrame, advised: pd.DataFrame | None = None) -> pd.DataFrame:
    """How long conversion and N SpMVs take, by the way in which the format is chosen.

    rows: as `latest_cases`. advised: columns matrix, dtype, spmvs and label, the format that is advised for so many
    SpMVs; and measured, if known: the one that is advised if the best few by the model are measured before. Compared
    are the matrices on which cuSPARSE's CSR is verified, the first of `VENDORS` in the setting; a setting without it
    has no rows. The time of a conversion is `breakeven.ready`, a vendor's preprocessing included.

    Columns: setting; chooser: ORACLE (the format with the least time on each matrix), ADVISED (only on matrices and
    numbers of SpMVs that `advised` names), MEASURED (the same, if it has that column; the time of measuring does not
    count), SINGLE (the one format with the least slowdown over all matrices, for each N), VENDOR, CUPY (only on
    matrices with a row of HOST_CALLED; its time is that of calls from the host, and it is no choice of the oracle);
    spmvs: N; label: the format, empty if it depends on the matrix; slowdown: geometric mean over the matrices of the
    time over the oracle's; within: share of the matrices on which the time is at most WITHIN times that of VENDOR;
    always: share of the matrices on which it is for every N of this chooser; speedup: geometric mean of the time of
    VENDOR over the time; matrices: their number.

    A matrix that the chosen format does not hold counts as SLOWDOWN_CAP times the oracle. Without rows of a format that
    is advised on one of the matrices, ADVISED is left out of a setting, and likewise MEASURED: the other matrices would
    be a selection.
    """
    called = rows["label"] == HOST_CALLED
    calls, rows = rows[called], rows[~called]
    calls = calls.assign(seconds=ready(calls), each=calls["t_median"].where(calls["status"] == "ok"))
    known = verified(rows)
    known = known.assign(made=ready(known))
    known = known[known["made"].notna() & (known["t_median"] > 0)]
    tried = rows.groupby("setting", observed=True)["label"].agg(lambda labels: set(labels.unique()))
    parts = [
        _of_setting(part, advised, tried[setting], calls[calls["setting"] == setting]).assign(setting=setting)
        for setting, part in known.groupby("setting", observed=True)
        if set(VENDORS) & set(part["label"].unique())
    ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)
    return table[COLUMNS]


def _of_setting(
    part: pd.DataFrame, advised: pd.DataFrame | None, tried: Collection[str], calls: pd.DataFrame
) -> pd.DataFrame:
    """The rows of one setting. part: its verified rows with the column made. tried: the labels of all of its rows.

    calls: the rows of HOST_CALLED, with the columns seconds (until the first product) and each (NaN if not verified).
    """
    vendor = next(label for label in VENDORS if label in set(part["label"].unique()))
    made, spmv = (part.pivot(index="matrix", columns="label", values=name) for name in ("made", "t_median"))
    made, spmv = (grid[spmv[vendor].notna()] for grid in (made, spmv))
    by_advice = {}
    if advised is not None:
        advised = advised[advised["dtype"].isin(part["dtype"]) & advised["matrix"].isin(made.index)]
        columns = {ADVISED: "label", MEASURED: "measured"}
        by_advice = {
            chooser: advised.set_index("matrix")[[column, "spmvs"]].rename(columns={column: "label"})
            for chooser, column in columns.items()
            if column in advised and set(advised[column]) <= set(tried)
        }
    calls = calls.set_index("matrix")
    calls = calls[calls.index.isin(made.index)]
    found, near = [], dict[str, list[pd.Series]]()
    for n in NUMBERS:
        total = made + n * spmv
        oracle = total.min(axis=1)
        missing = SLOWDOWN_CAP * oracle
        logs = np.log(total.div(oracle, axis=0))
        single = str(logs.fillna(np.log(SLOWDOWN_CAP)).mean().idxmin())
        choices = {
            ORACLE: ("", oracle),
            SINGLE: (single, total[single].fillna(missing)),
            VENDOR: (vendor, total[vendor]),
            CUPY: (HOST_CALLED, (calls["seconds"] + n * calls["each"]).fillna(missing)),
        }
        for chooser, advice in by_advice.items():
            labels = advice.loc[advice["spmvs"] == n, "label"]
            chosen = [total[label][matrix] if label in total else np.nan for matrix, label in labels.items()]
            choices[chooser] = ("", pd.Series(chosen, labels.index, dtype=float).fillna(missing))
        for chooser, (label, seconds) in choices.items():
            if seconds.empty:
                continue
            slower, faster = seconds / oracle[seconds.index], total.loc[seconds.index, vendor] / seconds
            near.setdefault(chooser, []).append(1 / faster <= WITHIN)
            found.append(
                {
                    "chooser": chooser,
                    "spmvs": n,
                    "label": label,
                    "slowdown": np.exp(np.log(slower).mean()),
                    "within": near[chooser][-1].mean(),
                    "speedup": np.exp(np.log(faster).mean()),
                    "matrices": len(seconds),
                }
            )
    order = [ORACLE, ADVISED, MEASURED, SINGLE, VENDOR, CUPY]
    table = pd.DataFrame(found)
    always = {chooser: pd.concat(each, axis=1).all(axis=1).mean() for chooser, each in near.items()}
    table["always"] = table["chooser"].map(always)
    return table.sort_values("chooser", key=lambda names: names.map(order.index), kind="stable", ignore_index=True)
