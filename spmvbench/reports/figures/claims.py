"""Speed-ups that papers print, and the same speed-ups in this run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from spmvbench import paths
from spmvbench.analysis.cases import both_kernels, hot, labels_of, matching_kernels, natural_products, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.matrices.sets import is_stand_in, members, stands_for
from spmvbench.reports.figures import Options, ReportFigure, collected, fastload, tilespmspv
from spmvbench.reports.tables import Column, Table, by_setting, count, number, percent

_NEEDED = (
    "alias_of", "device_name", "dtype", "experiment", "format", "label", "matrix", "mode", "nnz", "op", "order",
    "setting", "status", "t_median",
)  # fmt: skip
_MEANS: dict[str, Callable[[pd.Series], float]] = {
    "geometric": geometric_mean,
    "harmonic": lambda s: float(len(s) / (1 / s).sum()),
    "arithmetic": lambda s: float(s.mean()),
    "average": lambda s: float(s.mean()),  # which mean, the paper does not say
}


def claims() -> pd.DataFrame:
    """configs/published/claims and FastLoad's Table I, one row per speed-up that a paper prints.

    format: keys, or labels with their parameters, of which the first one in the run counts. baselines: keys that
    correspond to the paper's rival, the most similar first; separated by ``|``: the fastest of them on each matrix. op:
    the operation, ``spmspv@0.1`` against rivals that may take a dense x. dtype: empty if the paper does not say, or for
    operations without values. set: the named set of the matrices that the paper names, empty if it measured the
    collection. least_nnz: least nonzeros of the paper's matrices. lacks: the parts of the claim that cannot be had.
    """
    found = pd.read_csv(paths.configs() / "published" / "claims" / "claims.csv", keep_default_na=False)
    found = pd.concat([found, _heights(found)], ignore_index=True)
    numbers = ["matrices", "mean", "max", "faster"]
    return found.assign(**{column: pd.to_numeric(found[column]) for column in numbers})


def _heights(found: pd.DataFrame) -> pd.DataFrame:
    """FastLoad's Table I as claims: each limit of the height over each of three rivals."""
    over = {"TileSpMV": "TileSpMV", "CSR5": "CSR5", "cuSPARSE": "cuSPARSE CSR"}
    printed = fastload.published("heights")
    whole = found[found["paper"] == "FastLoad"].set_index("over").loc[printed["rival"].map(over)].reset_index()
    heights = printed["height"].astype(str)
    return whole.assign(
        source="Hu et al., TPDS 2024, Table I",
        format=[
            "fastload" if height == fastload.DEFAULT_HEIGHT else f"fastload[height={height}]" for height in heights
        ],
        over=[f"{rival}, height {height}" for rival, height in zip(whole["over"], heights, strict=True)],
        mean=printed["speedup"],
        faster=printed["faster"],
    )


def measured(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """One row for each claim, setting and pair of kernels in the run.

    Columns of `claims`; setting, label, rival; alike, geomean, median, most (largest) of the speed-up and won (share of
    matrices with a speed-up above 1); rivals (how many the run has of those of which the fastest counts); compared
    (matrices), stand_ins (how many of them stand in for a matrix that was not measured), of_paper (how many are, or
    stand in for, one of the paper's); coverage (share of the run's matrices). alike is the same mean as the paper's,
    NaN if it names none.
    """
    lines = []
    rows = rows[rows.columns.intersection(_NEEDED)]  # each of some fifty claims selects rows
    for op, asked in claims().groupby("op", sort=False):
        run = _of_operation(rows, str(op))
        ours = verified(run)
        solved = ours.groupby("setting", observed=True)["matrix"].nunique()
        known = set(ours["format"])
        for claim in asked.itertuples(index=False):
            if len(known & _keys(claim)) < 2:
                continue
            part = ours[ours["format"].isin(_keys(claim)) & (ours["nnz"] >= claim.least_nnz)]
            part = part[part["dtype"] == claim.dtype] if claim.dtype else part
            for setting, of in part.groupby("setting", observed=True):
                if of["format"].nunique() > 1:
                    lines += _measured(claim, str(setting), of, run[run["setting"] == setting], solved[setting])
    return pd.DataFrame(lines)


def _of_operation(rows: pd.DataFrame, op: str) -> pd.DataFrame:
    """The hot rows of an operation; with a sparse x also those of SpMV, in the settings of the sparse x."""
    if op == "spmv":
        return hot(natural_products(rows))
    found = rows[rows["op"] == op]
    if op.startswith("spmspv@") and len(found):
        found = tilespmspv.beside_dense(pd.concat([found, natural_products(rows)]))
    return hot(found)


def _measured(claim: Any, setting: str, of: pd.DataFrame, run: pd.DataFrame, solved: int) -> list[dict[str, Any]]:
    """One row for each pair of kernels of a claim.

    of: the claim's verified rows of one setting; run: all rows of the setting; solved: its matrices with verified rows.
    """
    times = of.pivot(index="matrix", columns="label", values="t_median")
    lines = []
    for label, rival, rivals, took in _pairs(of, times, run, claim):
        speedup = (took / times[label]).dropna()
        if speedup.empty:
            continue
        mean = _MEANS.get(claim.kind)
        lines.append(
            claim._asdict()
            | {"setting": setting, "label": label, "rival": rival, "rivals": rivals, "geomean": geometric_mean(speedup)}
            | {"alike": mean(speedup) if mean else float("nan"), "median": speedup.median(), "most": speedup.max()}
            | {"won": (speedup > 1).mean(), "compared": len(speedup), "coverage": len(speedup) / solved}
            | {"stand_ins": sum(map(is_stand_in, speedup.index)), "of_paper": _of_paper(speedup.index, claim.set)}
        )
    return lines


def _keys(claim: Any) -> set[str]:
    words = f"{claim.format} {claim.baselines}".replace("|", " ").split()
    return {word.partition("[")[0] for word in words}


def _of_paper(matrices: pd.Index, named: str) -> int:
    """How many of these are, or stand in for, matrices of the named set; without a name, of the collection."""
    found = pd.Series(matrices, dtype=str).map(stands_for)
    return int((found.isin(members(named)) if named else collected(found)).sum())


def _pairs(
    of: pd.DataFrame, times: pd.DataFrame, run: pd.DataFrame, claim: Any
) -> list[tuple[str, str, int, pd.Series]]:
    """(label, rival, rivals, times of the rival): each kernel of the paper's format with the same kind of its rival.

    Of several rivals the fastest counts, on matrices for which the run has a row of each rival, whatever its status.
    """
    labels = _labels(of, claim.format)
    if "|" in claim.baselines:
        known = [label for label in labels_of(of, claim.baselines.split("|")) if label in times]
        tried = run[run["label"].isin(known)].groupby("matrix", observed=True)["label"].nunique()
        fastest = times[known].min(axis=1).where(tried.reindex(times.index) == len(known))
        return [(label, f"fastest of {len(known)}", len(known), fastest) for label in labels if known]
    rivals = both_kernels(of, labels_of(of, claim.baselines.split())[:1])
    return [(label, rival, 1, times[rival]) for label, rival in matching_kernels(labels, rivals)]


def _labels(of: pd.DataFrame, wanted: str) -> list[str]:
    """The first of these labels or keys that is verified, and the same with the authors' kernel, if verified."""
    there = set(of["label"])
    for word in wanted.split():
        if "[" not in word:
            found = both_kernels(of, labels_of(of, [word]))
        else:
            found = [label for label in (word, word.replace("[", "[kernel=paper,")) if label in there]
        if found:
            return found
    return []


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
    Column("shown_mean", "Mean", number, "of the speed-ups measured: the paper's mean, geometric if it names none"),
    Column("median", "Median", number, "of the speed-ups measured"),
    Column("most", "Largest", number, "largest speed-up measured"),
    Column("won", "Faster on", percent, "share of the matrices compared on which it is faster"),
    Column("compared", "Compared", count, "matrices that are verified for both"),
    Column("coverage", "Coverage", percent, "share of the run's matrices that these are"),
    Column("stand_ins", "Stand-ins", count, "of the matrices compared"),
    Column("lacks", "Not at hand", None, "parts of the claim that cannot be had"),
]


def _show(found: pd.DataFrame, options: Options) -> list[Table]:
    printed = [f"{mean:g} {kind}" if mean > 0 else "-" for mean, kind in zip(found["mean"], found["kind"], strict=True)]
    found = found.assign(printed_mean=printed, shown_mean=found["alike"].fillna(found["geomean"]))
    return by_setting(found, _COLUMNS)


FIGURE = ReportFigure(
    "claims",
    "Speed-ups: papers and this run",
    "Speed-ups of a paper's format over the formats that the paper compares it with. First what the paper prints: "
    "the mean (and which mean), the largest, and the share of its matrices on which its format is faster; a dash "
    "if it prints none, or if its tables were not available. Then the measurements of this run, on matrices "
    "verified for both, for each kernel in the run, and the share of the run's matrices that these are. Other "
    "matrices and another GPU explain differences: nearly all matrices of the papers are from SuiteSparse. The "
    "last columns count the stand-ins among the matrices compared, and say which parts of a claim cannot be had.",
    65,
    measured,
    show=_show,
    papers="Liu & Vinter 2015; Merrill & Garland 2016; Niu et al. 2021; Chen 2022; Ji et al. 2022; Lu & Liu 2023; "
    "Hu et al. 2024; Zhang et al. 2026",
    nothing="no matrix is verified for a format of these papers and its rival",
    every_operation=True,  # claims about a sparse x and about searches, too
)
FIGURES = (FIGURE,)
