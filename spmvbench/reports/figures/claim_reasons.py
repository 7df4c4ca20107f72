"""Why a claim differs, where neither sizes nor kernels explain it: what both sides take in these rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.verdicts import NOT_EXAMINED
from spmvbench.errors import counted
from spmvbench.reports.tables import percent, seconds

AMOUNTS = ("bytes", "peak", "conversion")  # quantities that both sides have


def by_both_sides(claim: Any, of: pd.DataFrame, label: str, rival: str, measured: pd.Series, took: pd.Series) -> str:
    """A sentence with numbers of both sides, medians over the matrices; NOT_EXAMINED if the rows have none.

    of, measured, took: as `verdicts.reason`, but took of any quantity, and `measured` itself without a rival.
    """
    own = of[of["label"] == label].set_index("matrix").reindex(measured.index)
    took = took.reindex(measured.index)
    if not claim.baselines:
        return _costs(claim, own, measured)
    if claim.quantity in AMOUNTS:
        sides = [took / measured, took]
        if claim.quantity == "conversion":
            ours, theirs = (seconds(side.median()) for side in sides)
        else:
            ours, theirs = (f"{(side / own['nnz']).median():.1f} bytes a nonzero" for side in sides)
        return f"It takes {ours} in the median, its rival {theirs}."
    rival, name = _fastest(of, label, rival, measured.index)
    other = of[of["label"] == rival].set_index("matrix").reindex(measured.index)
    share, of_rival = (_reached(rows) for rows in (own, other))
    if share > 0 and of_rival > 0:
        return f"Of what its bytes allow on this GPU it reaches {percent(share)}, {name} {percent(of_rival)}."
    return _parts(own, other, name)


def _costs(claim: Any, own: pd.DataFrame, measured: pd.Series) -> str:
    """What an amount counted in products, or in searches, is made of."""
    unit, column = "search" if claim.op.startswith("bfs") else "product", "t_median"
    if claim.quantity == "host SpMVs":
        unit, column = "product on the host", "t_spmv_host"
    cost = (measured * own[column]).median()
    if claim.quantity == "dense tiles" or not cost > 0:
        return NOT_EXAMINED
    return f"It takes {seconds(cost)} in the median, and a {unit} {seconds(own[column].median())}."


def _fastest(of: pd.DataFrame, label: str, rival: str, matrices: pd.Index) -> tuple[str, str]:
    """The rival and its name in a sentence; of several the one that is the fastest on most matrices."""
    if rival in set(of["label"].unique()):
        return rival, rival
    times = of[of["label"] != label].pivot(index="matrix", columns="label", values="t_median").reindex(matrices)
    if times.empty or times.isna().all(axis=None):
        return rival, rival
    fastest = times.dropna(how="all").idxmin(axis=1)
    most = str(fastest.mode()[0])
    return most, f"{most}, the fastest of the others on {(fastest == most).sum()} of {counted(len(fastest), 'matrix')},"


def _reached(rows: pd.DataFrame) -> float:
    return float((rows["work"] / (1e9 * rows["bound_gflops"] * rows["t_median"])).median())


def _parts(own: pd.DataFrame, other: pd.DataFrame, name: str) -> str:
    """What times are made of that no bytes bound: levels of a search, kernels of a product with a sparse x."""
    levels = own["detail"].map(lambda text: json.loads(text or "{}").get("levels", np.nan))
    if levels.notna().any():
        ours, theirs = (seconds((rows["t_median"] / levels).median()) for rows in (own, other))
        return f"A level takes {ours} in the median, with {name} {theirs}."
    kernels = own["t_kernels"].map(lambda text: json.loads(text or "{}"))
    shares = kernels.map(lambda times: max(times.values()) / sum(times.values()) if len(times) > 1 else np.nan)
    if shares.isna().all():
        return NOT_EXAMINED
    ours, theirs = (seconds(rows["t_median"].median()) for rows in (own, other))
    return (
        f"It takes {ours} in the median, {percent(shares.median())} of it in its longest kernel and the rest in those "
        f"that prepare x and y; {name} {theirs}."
    )
