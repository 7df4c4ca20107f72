"""Speed-ups and amounts that papers print, and the same in this run, with a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from spmvbench import paths
from spmvbench.analysis import verdicts
from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import both_kernels, hot, labels_of, matching_kernels, natural_products, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.matrices.sets import is_stand_in, members, stands_for
from spmvbench.reports.figures import LeftOut, Options, ReportFigure, collected, fastload, tilespmspv
from spmvbench.reports.figures.claim_reasons import by_both_sides
from spmvbench.reports.tables import Column, Table, by_setting, count, number, percent

_NEEDED = (
    "alias_of", "bound_gflops", "bytes_format", "bytes_peak", "detail", "device", "device_name", "dtype", "experiment",
    "format", "kind", "label", "matrix", "mode", "nnz", "op", "order", "setting", "status", "t_convert_device",
    "t_convert_host", "t_kernels", "t_median", "t_setup", "t_spmv_host", "t_transfer", "t_tune", "tiles", "work",
)  # fmt: skip
_MEANS: dict[str, Callable[[pd.Series], float]] = {
    "geometric": geometric_mean,
    "harmonic": lambda s: float(len(s) / (1 / s).sum()),
    "arithmetic": lambda s: float(s.mean()),
    "average": lambda s: float(s.mean()),  # which mean, the paper does not say
}
# What a claim compares, from rows; the time if it says nothing. Without rivals it is an amount of its own.
_QUANTITIES: dict[str, Callable[[pd.DataFrame], pd.Series]] = {
    "": lambda rows: rows["t_median"],
    "bytes": lambda rows: rows["bytes_format"],
    "peak": lambda rows: rows["bytes_peak"].where(rows["bytes_peak"] > 0),
    "conversion": ready,
    "host SpMVs": lambda rows: ready(rows) / rows["t_spmv_host"],
    "products": lambda rows: ready(rows) / rows["t_median"],
    "partitioning": lambda rows: _detail(rows, "partition_s") / rows["t_median"],
    "reordering": lambda rows: (ready(rows) - _detail(rows, "partition_s")) / rows["t_median"],  # part of t_setup
    "dense tiles": lambda rows: _detail(rows, "tile_share").map(lambda of: of["dns"], na_action="ignore"),
    "two kernels": lambda rows: rows["t_median"].where(rows["format"] != "two-phase", rows["t_kernels"].map(_phases)),
}


def _detail(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows["detail"].map(lambda text: json.loads(text or "{}").get(name, np.nan))


def _phases(kernels: str) -> float:
    taken = json.loads(kernels or "{}")
    return float(sum(taken.get(kernel, np.nan) for kernel in fastload.PHASES))


def claims() -> pd.DataFrame:
    """configs/published/claims and FastLoad's Table I, one row per number that a paper prints.

    format: keys, or labels with their parameters, of which the first one in the run counts. baselines: those that
    correspond to the paper's rival, the most similar first; separated by ``|``: the fastest of them on each matrix; a
    program of configs/published/speed/searches.csv; none if the claim is about an amount, which is between least and
    max. quantity: a name of _QUANTITIES. op: the operation, ``spmspv@0.1`` against rivals that may take a dense x.
    dtype: empty if the paper does not say, or for operations without values. set: the named set of the matrices that
    the paper names, empty if it measured the collection. on: the only matrices of the claim. about: ``tiles`` if it is
    about the tiles of matrices, which stand-ins may lack. least_nnz: least nonzeros of the paper's matrices. words:
    what the paper says of faster, if it prints no number. lacks: the parts of the claim that cannot be had.
    """
    found = pd.read_csv(paths.configs() / "published" / "claims" / "claims.csv", keep_default_na=False)
    found = pd.concat([found, _heights(found)], ignore_index=True)
    numbers = ["matrices", "mean", "least", "max", "faster"]
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


@cache
def _published(file: str) -> pd.DataFrame:
    return pd.read_csv(paths.configs() / "published" / file)


def measured(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """One row for each claim, setting and pair of kernels in the run.

    Columns of `claims`; setting, label, rival; alike, geomean, median, most (largest) of the speed-up, or of the
    amount, and won (share of matrices with a speed-up above 1); rivals (how many the run has of those of which the
    fastest counts); compared (matrices), stand_ins (how many of them stand in for a matrix that was not measured),
    of_paper (how many are of the paper's, a stand-in as half a one); coverage (share of the run's matrices); verdict
    and reason of a difference, as `analysis.verdicts`. alike is the same mean as the paper's, NaN if it names none.

    Matrices of the paper count, and stand-ins for them; all others only if the run has none. Of claims about tiles
    those stand-ins count whose number of tiles is near the one that TileSpMSpV's Table 2 prints.
    """
    lines = []
    rows = rows.reindex(columns=rows.columns.intersection(_NEEDED))  # each of some seventy claims selects rows
    groups = _group_times(rows, options)
    for op, asked in claims().groupby("op", sort=False):
        run = _of_operation(rows, str(op))
        ours = verified(run.assign(experiment=run["experiment"] & (run["format"] != "two-phase")))
        solved = ours.groupby("setting", observed=True)["matrix"].nunique()
        known = set(ours["format"].unique())
        for claim in asked.itertuples(index=False):
            if not known & _keys(claim.format):
                continue
            part = ours[ours["format"].isin(_keys(claim.format, claim.baselines)) & (ours["nnz"] >= claim.least_nnz)]
            part = part[part["dtype"] == claim.dtype] if claim.dtype else part
            part = part[_has_what_it_is_about(part, claim)]
            for setting, of in part.groupby("setting", observed=True):
                lines += _measured(claim, str(setting), of, run[run["setting"] == setting], solved[setting], groups)
    return pd.DataFrame(lines)


def _has_what_it_is_about(rows: pd.DataFrame, claim: Any) -> pd.Series:
    """Which of these rows are of matrices of the claim that have the property which it is about."""
    matrix = rows["matrix"].map(stands_for)
    kept = matrix.isin(claim.on.split()) if claim.on else pd.Series(True, rows.index)
    if claim.about == "tiles":
        printed = _published("tilespmspv/matrices.csv").set_index("matrix")["tiles_16"]
        near = verdicts.within(rows["tiles"] / matrix.map(printed).astype(float))
        kept &= ~rows["matrix"].map(is_stand_in).astype(bool) | near
    return kept


def _group_times(rows: pd.DataFrame, options: Options) -> pd.Series:
    """Time that FastLoad's Figure 1 prints over the time here, by format (key): geometric mean over its groups."""
    try:
        table = fastload.group_times(_of_operation(rows, "spmv"), options)
    except LeftOut:
        return pd.Series(dtype=float)
    ratio = (table["published_microseconds"] / table["microseconds"]).groupby(table["label"].str.partition("[")[0])
    return ratio.agg(lambda s: geometric_mean(s.dropna()))


def _of_operation(rows: pd.DataFrame, op: str) -> pd.DataFrame:
    """The hot rows of an operation; with a sparse x also those of SpMV, in the settings of the sparse x."""
    if op == "spmv":
        return hot(natural_products(rows))
    found = rows[rows["op"] == op]
    if op.startswith("spmspv@") and len(found):
        found = tilespmspv.beside_dense(pd.concat([found, natural_products(rows)]))
    return hot(found)


def _measured(
    claim: Any, setting: str, of: pd.DataFrame, run: pd.DataFrame, solved: int, groups: pd.Series
) -> list[dict[str, Any]]:
    """One row for each pair of kernels of a claim.

    of: the claim's verified rows of one setting; run: all rows of the setting; solved: its matrices with verified rows.
    """
    lines = []
    for label, rival, rivals, own, took in _pairs(of, run, claim):
        speedup = (own if took is None else took / own).dropna()
        if speedup.empty:
            continue
        of_paper = _of_paper(speedup.index, claim.set)
        speedup = speedup[of_paper] if of_paper.any() else speedup
        mean = _MEANS.get(claim.kind)
        alike = mean(speedup) if mean else float("nan")
        stand_ins = speedup.index.map(is_stand_in).to_numpy(bool)
        found = verdicts.verdict(claim, speedup, alike if mean else geometric_mean(speedup))
        why = ""
        if found in (verdicts.DIRECTION, verdicts.DIFFERS):
            why = verdicts.reason(claim, of, (label, rival), speedup, took if took is not None else own)
            if why == verdicts.NOT_EXAMINED:
                why = _by_groups(claim, label, rival, groups)
            if why == verdicts.NOT_EXAMINED:
                why = by_both_sides(claim, of, label, rival, speedup, took if took is not None else own)
        lines.append(
            claim._asdict()
            | {"setting": setting, "label": label, "rival": rival, "rivals": rivals, "geomean": geometric_mean(speedup)}
            | {"alike": alike, "median": speedup.median(), "most": speedup.max(), "won": (speedup > 1).mean()}
            | {"compared": len(speedup), "coverage": len(speedup) / solved, "stand_ins": int(stand_ins.sum())}
            | {"of_paper": float((1 - stand_ins / 2).sum()) if of_paper.any() else 0.0}
            | {"verdict": found, "reason": why}
        )
    return lines


def _by_groups(claim: Any, label: str, rival: str, groups: pd.Series) -> str:
    """A reason from the times of groups of matrices that FastLoad prints."""
    ours, other = (groups.get(name.partition("[")[0], np.nan) for name in (label, rival))
    if claim.paper != "FastLoad" or claim.quantity or not other > ours * verdicts.FACTOR:
        return verdicts.NOT_EXAMINED
    return (
        f"In the groups of Figure 1 its rival took {other:.1f} times the time measured here, FastLoad {ours:.1f} times."
    )


def _keys(*texts: str) -> set[str]:
    return {word.partition("[")[0] for text in texts for word in text.replace("|", " ").split()}


def _of_paper(matrices: pd.Index, named: str) -> pd.Series:
    """Which of these are, or stand in for, matrices of the named set; without a name, of the collection."""
    found = pd.Series(matrices, matrices, dtype=str).map(stands_for)
    return found.isin(members(named)) if named else collected(found)


def _pairs(of: pd.DataFrame, run: pd.DataFrame, claim: Any) -> list[tuple[str, str, int, pd.Series, pd.Series | None]]:
    """(label, rival, rivals, quantity of the label, that of the rival): each kernel with the same kind of its rival.

    Of several rivals the fastest counts, on matrices for which the run has a row of each rival, whatever its status.
    """
    values = of.assign(value=_QUANTITIES[claim.quantity](of)).pivot(index="matrix", columns="label", values="value")
    labels = _labels(of, claim.format)
    programs = _published("speed/searches.csv")
    programs = programs[(programs["program"] == claim.baselines) & programs["gpu"].isin(run["device_name"].unique())]
    if not claim.baselines:
        return [(label, "", 1, values[label], None) for label in labels]
    if len(programs):
        times = 1e-6 * programs.set_index("synthetic/" + programs["matrix"])["us"].reindex(values.index)
        return [(label, claim.baselines, 1, values[label], times) for label in labels]
    if "|" in claim.baselines:
        known = [label for words in claim.baselines.split("|") for label in _labels(of, words)[:1]]
        tried = run[run["label"].isin(known)].groupby("matrix", observed=True)["label"].nunique()
        fastest = values[known].min(axis=1).where(tried.reindex(values.index) == len(known))
        return [(label, f"fastest of {len(known)}", len(known), values[label], fastest) for label in labels if known]
    rivals = _labels(of, claim.baselines)
    return [(label, rival, 1, values[label], values[rival]) for label, rival in matching_kernels(labels, rivals)]


def _labels(of: pd.DataFrame, wanted: str) -> list[str]:
    """The first of these labels or keys that is verified, and the same with the authors' kernel, if verified."""
    there = set(of["label"].unique())
    for word in wanted.split():
        found = [word] if word in there else [] if "[" in word else labels_of(of, [word])
        if found:
            return both_kernels(of, found)
    return []


_COLUMNS = [
    Column("paper", "Paper"),
    Column("over", "Its rival"),
    Column("gpu", "Its GPU"),
    Column("matrices", "Its matrices", count),
    Column("printed_mean", "Its mean", None, "as the paper prints it, and which mean"),
    Column("least", "Its least", number, "least amount that the paper prints"),
    Column("max", "Its largest", number, "largest speed-up, or amount, that the paper prints"),
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
    Column("verdict", "Verdict", None, "whether the paper's number holds here, by direction and by size"),
    Column("reason", "Why it differs", None, "a number of this run that explains a difference"),
    Column("lacks", "Not at hand", None, "parts of the claim that cannot be had"),
]


def _show(found: pd.DataFrame, options: Options) -> list[Table]:
    of = zip(found["mean"], found["kind"], found["words"], strict=True)
    printed = [f"{mean:g} {kind}" if mean > 0 else words or "-" for mean, kind, words in of]
    found = found.assign(printed_mean=printed, shown_mean=found["alike"].fillna(found["geomean"]))
    return by_setting(found, _COLUMNS)


FIGURE = ReportFigure(
    "claims",
    "Claims: papers and this run",
    "Speed-ups of a paper's format over the formats that the paper compares it with, and amounts such as those of its "
    "preprocessing. First what the paper prints: the mean (and which mean), the largest, and the share of its "
    "matrices on which its format is faster; a dash if it prints none, or if its tables were not available. Then the "
    "measurements of this run, on matrices verified for both, for each kernel in the run, and the share of the run's "
    "matrices that these are. A claim holds if the measurement is on the same side of 1 and within a factor of "
    f"{verdicts.FACTOR} (a share within {100 * verdicts.SHARE:.0f} points), by direction if it is on that "
    "side alone; the reason of a difference is a number of "
    "this run. The last columns count the stand-ins among the matrices compared, and say which parts of a claim "
    "cannot be had.",
    65,
    measured,
    show=_show,
    papers="Liu & Vinter 2015; Merrill & Garland 2016; Niu et al. 2021; Chen 2022; Ji et al. 2022; Lu & Liu 2023; "
    "Hu et al. 2024; Zhang et al. 2026",
    nothing="no matrix is verified for a format of these papers and its rival",
    every_operation=True,  # claims about a sparse x and about searches, too
)
FIGURES = (FIGURE,)
