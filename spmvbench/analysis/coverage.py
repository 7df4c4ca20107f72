"""Coverage, mean slowdown and worst case of each format: the table at the end of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.programs import aliases
from spmvbench.analysis.ranking import RANKING, mean_slowdowns_of, ranked

FAILED = ("implausible", "timeout", "crashed", "oom", "error")
# Marks of formats by what starts their products, if that is no CUDA graph: the one that says the least about a time.
TIMED_BY = {"self": "self-timed", "host": "started by the host", "stream": "started on a stream"}
# What `coverage` reads: a copy of all columns would take long.
_READ = (
    *RANKING, "run_id", "group", "name", "matrix_sha256", "file_sha256", "dtype", "mode", "op", "order", "device",
    "device_name", "sequence", "started_at", "t_q1", "t_q3", "work", "error_ratio", "bytes_per_nnz", "project_kernel",
    "compresses_values", "same_bits", "timed_by", "t_convert_device", "t_convert_host", "t_tune", "t_transfer",
    "t_setup",
)  # fmt: skip


def coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting (``f64 hot``) and format (`label`), ordered by mean slowdown, then by coverage.

    Rows of matrices that could not be read are ignored. Further columns:

    - device;
    - kernel: ``project`` if the kernel is this project's and not a paper's; ``= ell`` if the format is another name of
      ``ell`` (declared, or the same program on every matrix); ``values compressed`` besides if on some matrix the
      format stores fewer values than the matrix has, ``other bits`` if in some case products with the same x differed;
      TIMED_BY for what no graph starts;
    - cases (matrices tried); ok, skipped, wrong, failed (cases with such a status); coverage (ok over cases);
    - gflops (geometric mean), mean_slowdown, wins, ties as `ranking.mean_slowdowns`: NaN, NaN, 0 and 0 for formats that
      are not ranked (experiments, further names of a ranked format);
    - worst_slowdown (largest time over the best time on a matrix) and worst_matrix;
    - error_ratio (largest error as a fraction of its rounding bound); bytes_per_nnz and conversion (time over that of
      an SpMV, as `breakeven.ready`): geometric means.
    """
    rows = rows.filter(items=_READ)
    rows = latest_cases(rows[rows["matrix_sha256"] != ""])
    names = aliases(rows)
    best = ranked(rows[~rows["label"].isin(names)])
    rows["ratio"] = best["ratio"].reindex(rows.index)
    table = _figures(rows, names).reset_index()
    table = table.join(mean_slowdowns_of(best), on=["setting", "label"]).fillna({"wins": 0, "ties": 0})
    table = table.astype({"wins": int, "ties": int})
    order = ["setting", "mean_slowdown", "coverage", "label"]
    return table.sort_values(order, ascending=[True, True, False, True], ignore_index=True)


def _figures(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The columns of `coverage` that need no ranking; the index is setting and label. names: as `programs.aliases`."""
    key = ["setting", "label"]
    by = [rows[name] for name in key]
    ok, known = rows["status"] == "ok", rows["ratio"].notna()
    slowest = rows.loc[rows[ok & known].groupby(key, observed=True)["ratio"].idxmax()].set_index(key)

    def count(which: pd.Series) -> pd.Series:
        return which.groupby(by, observed=True).sum().astype(int)

    def mean(values: pd.Series) -> pd.Series:
        return values.groupby(by, observed=True).agg(geometric_mean).astype(float)

    groups = rows.groupby(key, observed=True)
    table = pd.DataFrame({"device": groups["device"].first()})
    return table.assign(
        kernel=_kernels(groups, names),
        cases=groups.size(),
        ok=count(ok),
        skipped=count(rows["status"] == "skipped"),
        wrong=count(rows["status"] == "wrong"),
        failed=count(rows["status"].isin(FAILED)),
        coverage=lambda found: found["ok"] / found["cases"],
        gflops=mean(rows["gflops"].where(ok & known)),
        worst_matrix=slowest["matrix"].reindex(table.index).fillna(""),
        worst_slowdown=slowest["ratio"],
        error_ratio=groups["error_ratio"].max(),
        bytes_per_nnz=mean(rows["bytes_per_nnz"].where(ok)),
        conversion=mean((ready(rows) / rows["t_median"]).where(ok)),
    )


def _kernels(groups: Any, names: Mapping[str, str]) -> list[str]:
    """The column `kernel` of `coverage`, for rows grouped by setting and label."""
    facts = groups[["project_kernel", "compresses_values"]].any()
    facts["declared"] = groups["alias_of"].max()
    facts["differ"] = groups["same_bits"].agg(lambda bits: "no" in set(bits))
    found = []
    for ((_, label), fact), start in zip(facts.iterrows(), _timed_by(groups), strict=True):
        alias = fact["declared"] or names.get(label, "")
        origin = f"= {alias}" if alias else "project" if fact["project_kernel"] else ""
        marks = "values compressed" if fact["compresses_values"] else "", "other bits" if fact["differ"] else ""
        found.append(", ".join(filter(None, (origin, *marks, start))))
    return found


def _timed_by(groups: Any) -> list[str]:
    """One of TIMED_BY for each group, or an empty text. The host starts all products of the emulated device."""
    rows = groups.obj
    by_nature = ~rows["device"].str.startswith("cuda") & (rows["timed_by"] == "host")
    found = rows["timed_by"].where(~by_nature, "").groupby([rows["setting"], rows["label"]], observed=True).agg(set)
    return [next((mark for by, mark in TIMED_BY.items() if by in said), "") for said in found]


def geometric_mean(values: pd.Series | Sequence[float]) -> float:
    """Geometric mean of the positive, finite values; NaN if there is none.

    It is the only mean of ratios that does not depend on which value is the denominator (Fleming & Wallace 1986).
    """
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array) & (array > 0)]
    return float(np.exp(np.log(array).mean())) if array.size else math.nan
