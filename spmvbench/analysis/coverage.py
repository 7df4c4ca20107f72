"""Coverage, mean slowdown and worst case of each format: the table at the end of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.programs import aliases, without_aliases
from spmvbench.analysis.ranking import mean_slowdowns, ranked

FAILED = ("implausible", "timeout", "crashed", "oom", "error")


def coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting (``f64 hot``) and format (`label`), ordered by mean slowdown, then by coverage.

    Rows of matrices that could not be read are ignored. Further columns:

    - device;
    - kernel: ``project`` if the kernel is this project's and not a paper's; ``= ell`` if the format is another name of
      ``ell`` (declared, or the same program on every matrix);
    - cases (matrices tried); ok, skipped, wrong, failed (cases with such a status); coverage (ok over cases);
    - gflops (geometric mean), mean_slowdown, wins, ties as `ranking.mean_slowdowns`: NaN, NaN, 0 and 0 for formats that
      are not ranked (experiments, further names of a ranked format);
    - worst_slowdown (largest time over the best time on a matrix) and worst_matrix;
    - error_ratio (largest error as a fraction of its rounding bound); bytes_per_nnz (geometric mean).
    """
    rows = latest_cases(rows[rows["matrix_sha256"] != ""])
    rows["ratio"] = ranked(without_aliases(rows))["ratio"].reindex(rows.index)
    names = aliases(rows)
    groups = rows.groupby(["setting", "label"], observed=True)
    found = [{"setting": setting, "label": label} | _figures(part, names) for (setting, label), part in groups]
    table = pd.DataFrame(found, columns=["setting", "label", *_figures(rows, names)])
    table["setting"] = table["setting"].astype(rows["setting"].dtype)
    table = table.join(mean_slowdowns(rows), on=["setting", "label"]).fillna({"wins": 0, "ties": 0})
    table = table.astype({"wins": int, "ties": int})
    order = ["setting", "mean_slowdown", "coverage", "label"]
    return table.sort_values(order, ascending=[True, True, False, True], ignore_index=True)


def _figures(part: pd.DataFrame, names: Mapping[str, str]) -> dict[str, object]:
    """The columns of `coverage` for one format in one setting. names: as `programs.aliases`."""
    ok = part[part["status"] == "ok"]
    slowest = ok.loc[ok["ratio"].idxmax()] if ok["ratio"].notna().any() else None
    return {
        "device": part["device"].iloc[0] if len(part) else "",
        "kernel": _kernel(part, names),
        "cases": len(part),
        "ok": len(ok),
        "skipped": int(part["status"].eq("skipped").sum()),
        "wrong": int(part["status"].eq("wrong").sum()),
        "failed": int(part["status"].isin(FAILED).sum()),
        "coverage": len(ok) / len(part) if len(part) else math.nan,
        "gflops": geometric_mean(ok.loc[ok["ratio"].notna(), "gflops"]),
        "worst_matrix": "" if slowest is None else slowest["matrix"],
        "worst_slowdown": math.nan if slowest is None else float(slowest["ratio"]),
        "error_ratio": float(part["error_ratio"].max()),
        "bytes_per_nnz": geometric_mean(ok["bytes_per_nnz"]),
    }


def _kernel(part: pd.DataFrame, names: Mapping[str, str]) -> str:
    """The column `kernel` of `coverage`."""
    alias = part["alias_of"].max() if len(part) and "alias_of" in part else ""
    alias = alias or names.get(part["label"].iloc[0] if len(part) else "", "")
    project = "project_kernel" in part and part["project_kernel"].any()
    return f"= {alias}" if alias else "project" if project else ""


def geometric_mean(values: pd.Series | Sequence[float]) -> float:
    """Geometric mean of the positive, finite values; NaN if there is none.

    It is the only mean of ratios that does not depend on which value is the denominator (Fleming & Wallace 1986).
    """
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array) & (array > 0)]
    return float(np.exp(np.log(array).mean())) if array.size else math.nan
