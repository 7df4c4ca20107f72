"""Speed-ups that papers print, and the same speed-ups in this run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from spmvbench import paths
from spmvbench.analysis.cases import both_kernels, hot, labels_of, matching_kernels, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Column, Table, count, number, percent, table

name = "claims"
title = "Speed-ups: papers and this run"
caption = (
    "Speed-ups of a paper's format over the formats that the paper compares it with. First what the paper prints: the "
    "mean (and which mean), the largest, and the share of its matrices on which its format is faster; a dash if it "
    "prints none, or if its tables were not available. Then the measurements of this run, on matrices verified for "
    "both, for each kernel in the run, and the share of the run's matrices that these are. Other matrices and another "
    "GPU explain differences: nearly all matrices of the papers are from SuiteSparse."
)
papers = (
    "Liu & Vinter 2015; Merrill & Garland 2016; Niu et al. 2021; Chen 2022; Lu & Liu 2023; Hu et al. 2024; Zhang et al."
)
order = 65
performance = True


def claims() -> pd.DataFrame:
    """configs/published/claims, one row per speed-up that a paper prints.

    baselines: keys that correspond to the paper's rival, the most similar first; separated by ``|``: the fastest of
    them on each matrix. dtype: empty if the paper does not say. least_nnz: least nonzeros of the paper's matrices.
    """
    found = pd.read_csv(paths.configs() / "published" / "claims" / "claims.csv", keep_default_na=False)
    numbers = ["matrices", "mean", "max", "faster"]
    return found.assign(**{column: pd.to_numeric(found[column]) for column in numbers})


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """One row for each claim, setting and pair of kernels in the run.

    Columns of `claims`; setting, label, rival; geomean, median, most (largest) of the speed-up and won (share of
    matrices with a speed-up above 1); compared (matrices); coverage (share of the run's matrices). Raises LeftOut.
    """
    run = hot(rows)
    ours = verified(run)
    lines = []
    for claim in claims().itertuples(index=False):
        part = ours[ours["dtype"] == claim.dtype] if claim.dtype else ours
        for setting, of in part.groupby("setting", observed=True):
            solved = of["matrix"].nunique()
            of = of[of["nnz"] >= claim.least_nnz]
            times = of.pivot_table(index="matrix", columns="label", values="t_median", observed=True)
            for label, rival, took in _pairs(of, times, run[run["setting"] == setting], claim):
                speedup = (took / times[label]).dropna()
                if speedup.empty:
                    continue
                lines.append(
                    claim._asdict()
                    | {"setting": str(setting), "label": label, "rival": rival, "geomean": geometric_mean(speedup)}
                    | {"median": speedup.median(), "most": speedup.max(), "won": (speedup > 1).mean()}
                    | {"compared": len(speedup), "coverage": len(speedup) / solved}
                )
    if not lines:
        raise LeftOut("no matrix is verified for a format of these papers and its rival")
    return pd.DataFrame(lines)


def _pairs(of: pd.DataFrame, times: pd.DataFrame, run: pd.DataFrame, claim: Any) -> list[tuple[str, str, pd.Series]]:
    """(label, rival, times of the rival): every kernel of the paper's format with the same kind of its rival.

    Of several rivals the fastest counts, on matrices for which the run has a row of each rival, whatever its status.
    """
    labels = both_kernels(of, labels_of(of, [claim.format]))
    if "|" in claim.baselines:
        known = [label for label in labels_of(of, claim.baselines.split("|")) if label in times]
        tried = run[run["label"].isin(known)].groupby("matrix", observed=True)["label"].nunique()
        fastest = times[known].min(axis=1).where(tried.reindex(times.index) == len(known))
        return [(label, f"fastest of {len(known)}", fastest) for label in labels if known]
    rivals = both_kernels(of, labels_of(of, claim.baselines.split())[:1])
    return [(label, rival, times[rival]) for label, rival in matching_kernels(labels, rivals)]


_COLUMNS = [
    Column("paper", "Paper"),
    Column("over", "Its rival"),
    Column("gpu", "Its GPU"),
    Column("matrices", "Its matrices", count),
    Column("printed_mean", "Its mean", None, "as the paper prints it, and which mean"),
    Column("max", "Its largest", number, "largest speed-up that the paper prints"),
    Column("faster", "Its share faster", percent, "share of its matrices on which the paper's format is faster"),
    Column("label", "Measured"),
    Column("rival", "Over"),
    Column("geomean", "Geometric mean", number, "of the speed-ups measured"),
    Column("median", "Median", number, "of the speed-ups measured"),
    Column("most", "Largest", number, "largest speed-up measured"),
    Column("won", "Faster on", percent, "share of the matrices compared on which it is faster"),
    Column("compared", "Compared", count, "matrices that are verified for both"),
    Column("coverage", "Coverage", percent, "share of the run's matrices that these are"),
]


def show(found: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> list[Table]:
    """One table per setting, one row per claim and pair of kernels."""
    printed = [f"{mean:g} {kind}" if mean > 0 else "-" for mean, kind in zip(found["mean"], found["kind"], strict=True)]
    found = found.assign(printed_mean=printed)
    return [table(setting, part, _COLUMNS) for setting, part in found.groupby("setting", sort=False)]
