"""What each format could hold, how fast it was where it could, and where it was worst: the table that ends a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import prepared
from spmvbench.analysis.programs import named_once, other_names
from spmvbench.analysis.ranking import ranked, standings

FAILED = ("implausible", "timeout", "crashed", "oom", "error")


def coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting (``f64 hot``) and format (`label`), in the order of their standings, then by coverage.

    A matrix that could not be read counts for nobody. Columns besides those two: device; kernel (own: of the bench's
    authors, where a paper has another or none; ``= ell``: another name of that format, because it says so or was the
    same program on every matrix); cases (matrices tried); ok, skipped, wrong, failed (how many ended so); coverage (ok
    over cases); gflops (geometric mean; NaN without any, and for what is not counted: experiments, other names of a
    format that is there too); behind, wins, ties (as `ranking.standings`; NaN, 0 and 0 where nothing is counted);
    worst (matrix on which the format was slowest beside the best), slowdown (by which factor); error_ratio (largest
    error over its bound); bytes_per_nnz (geometric mean).
    """
    rows = prepared(rows[rows["matrix_sha256"] != ""])
    rows["slowdown"] = ranked(named_once(rows))["ratio"].reindex(rows.index)
    names = other_names(rows)
    groups = rows.groupby(["setting", "label"], observed=True)
    found = [{"setting": setting, "label": label} | _figures(part, names) for (setting, label), part in groups]
    table = pd.DataFrame(found, columns=["setting", "label", *_figures(rows, names)])
    table["setting"] = table["setting"].astype(rows["setting"].dtype)
    table = table.join(standings(rows), on=["setting", "label"]).fillna({"wins": 0, "ties": 0})
    table = table.astype({"wins": int, "ties": int})
    order = ["setting", "behind", "coverage", "label"]
    return table.sort_values(order, ascending=[True, True, False, True], ignore_index=True)


def _figures(part: pd.DataFrame, names: Mapping[str, str]) -> dict[str, object]:
    """The figures of one format in one setting. names: as `programs.other_names`."""
    ok = part[part["status"] == "ok"]
    slowest = ok.loc[ok["slowdown"].idxmax()] if ok["slowdown"].notna().any() else None
    return {
        "device": part["device"].iloc[0] if len(part) else "",
        "kernel": _kernel(part, names),
        "cases": len(part),
        "ok": len(ok),
        "skipped": int(part["status"].eq("skipped").sum()),
        "wrong": int(part["status"].eq("wrong").sum()),
        "failed": int(part["status"].isin(FAILED).sum()),
        "coverage": len(ok) / len(part) if len(part) else math.nan,
        "gflops": geometric_mean(ok.loc[ok["slowdown"].notna(), "gflops"]),
        "worst": "" if slowest is None else slowest["matrix"],
        "slowdown": math.nan if slowest is None else float(slowest["slowdown"]),
        "error_ratio": float(part["error_ratio"].max()),
        "bytes_per_nnz": geometric_mean(ok["bytes_per_nnz"]),
    }


def _kernel(part: pd.DataFrame, names: Mapping[str, str]) -> str:
    """What a table says of the kernel, or of the name, of one format."""
    alias = part["alias_of"].max() if len(part) and "alias_of" in part else ""
    alias = alias or names.get(part["label"].iloc[0] if len(part) else "", "")
    own = "project_kernel" in part and part["project_kernel"].any()
    return f"= {alias}" if alias else "own" if own else ""


def geometric_mean(values: pd.Series | Sequence[float]) -> float:
    """Geometric mean of the positive, finite values; NaN where there is none.

    Of ratios it is the one mean that does not depend on which side is the denominator (Fleming & Wallace 1986).
    """
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array) & (array > 0)]
    return float(np.exp(np.log(array).mean())) if array.size else math.nan
