"""What each format could hold, how fast it was where it could, and where it was worst: the table that ends a run."""

from __future__ import annotations

import numpy as np
import pandas as pd

SECTION = ["device", "dtype", "mode"]
FAILED = ("timeout", "crashed", "oom", "error")


def coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per device, dtype, mode and format (`label`), fastest first in each section.

    rows: as in bench/record.py. A matrix that could not be read counts for nobody. Columns besides those four:
    cases (matrices tried); ok, skipped, wrong, failed (how many ended so); coverage (ok / cases); gflops (geometric
    mean over the ok cases with entries, NaN without any); wins (matrices on which no format was faster); worst
    (group/name of the matrix where the format was slowest beside the best), slowdown (by which factor); error_ratio
    (largest error over its bound); bytes_per_nnz (geometric mean over the ok cases).
    """
    rows = rows[rows["matrix_sha256"] != ""].copy()
    rows["matrix"] = rows["group"] + "/" + rows["name"]
    right = rows["status"] == "ok"
    fastest = rows["t_median"].where(right).groupby([rows[name] for name in [*SECTION, "matrix"]]).transform("min")
    rows["slowdown"] = (rows["t_median"] / fastest).where(right)
    found = [
        dict(zip([*SECTION, "label"], key, strict=True)) | _format(part)
        for key, part in rows.groupby([*SECTION, "label"], sort=True)
    ]
    table = pd.DataFrame(found, columns=[*SECTION, "label", *_format(rows.iloc[:0])])
    order = [*SECTION, "gflops", "coverage"]
    return table.sort_values(order, ascending=[True] * 3 + [False] * 2, kind="stable", ignore_index=True)


def _format(part: pd.DataFrame) -> dict[str, object]:
    """The figures of one format in one section."""
    ok = part[part["status"] == "ok"]
    worst = ok.loc[ok["slowdown"].idxmax()] if ok["slowdown"].notna().any() else None
    return {
        "cases": len(part),
        "ok": len(ok),
        "skipped": int((part["status"] == "skipped").sum()),
        "wrong": int((part["status"] == "wrong").sum()),
        "failed": int(part["status"].isin(FAILED).sum()),
        "coverage": len(ok) / len(part) if len(part) else np.nan,
        "gflops": geometric_mean(ok["gflops"]),
        "wins": int((ok["slowdown"] == 1).sum()),
        "worst": "" if worst is None else worst["matrix"],
        "slowdown": np.nan if worst is None else float(worst["slowdown"]),
        "error_ratio": float(part["error_ratio"].max()),
        "bytes_per_nnz": geometric_mean(ok["bytes_per_nnz"]),
    }


def geometric_mean(values: pd.Series) -> float:
    """The geometric mean of the positive values, NaN where there are none."""
    positive = values[values > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else np.nan
