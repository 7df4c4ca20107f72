"""The figures of EHYB: Chen, Explicit caching HYB, 2022."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import NAMES, both_kernels, hot, labels_of, of_one_operation, verified
from spmvbench.analysis.ranking import ranked
from spmvbench.analysis.speedup import pair_speedups, pair_summary
from spmvbench.matrices.sets import is_stand_in, members, stands_for
from spmvbench.reports import style
from spmvbench.reports.figures import (
    Family,
    LeftOut,
    Options,
    ReportFigure,
    by_kernel,
    missing_formats,
    panels,
    verified_labels,
)
from spmvbench.reports.figures.matrix_tables import matrix_table
from spmvbench.reports.tables import Column, by_setting, number, percent

EHYB = ("ehyb", "ehyb-rcm")
# The paper's, in the order of its tables. yaSpMV's format is BCCOO; its program has single precision only.
RIVALS = ("bccoo", "hola", "csr5", "merge-csr", "cusparse-csr-alg1", "cusparse-csr-alg2")
SET = "ehyb92"  # the named set of the paper's Appendix B
FAMILY = Family(
    "ehyb",
    lambda: (*EHYB, *RIVALS),
    "the 92 matrices of EHYB's paper (the set ehyb92)",
    lambda matrices: matrices.isin(members(SET)),
    SET,
)
# What figures of all matrices show: both kernels, with x and y in the order in which the paper times them.
SHOWN = (
    ("ehyb[order=native]", "ehyb"),
    ("ehyb[kernel=paper,order=native]", "ehyb[kernel=paper]"),
    ("ehyb-rcm",),
)
MOST = 16  # matrices one by one
_STEPS = style.marks(["partitioning", "reordering"])

_COLUMNS = [
    Column("label", "EHYB"),
    Column("over", "Over"),
    Column("matrices", "Matrices", number, "matrices that are verified for both"),
    Column("won", "Faster", percent, "share of them on which EHYB is faster"),
    Column("max", "Max", number, "largest speed-up"),
    Column("min", "Min", number, "smallest speed-up"),
    Column("mean", "Mean", number, "arithmetic mean of the speed-ups"),
]
_SOLVER = [
    Column("cg", "CG", number, "arithmetic mean of the speed-ups in conjugate gradients"),
    Column("cg_matrices", "Matrices, CG", number, "matrices that are verified for both in conjugate gradients"),
]


def _methods(rows: pd.DataFrame) -> list[str]:
    """The labels of EHYB that the run holds, variants included. Raises LeftOut without any."""
    verified_labels(rows, EHYB)
    measured = verified(rows.filter(items=NAMES))
    return sorted(measured.loc[measured["format"].isin(EHYB), "label"].unique())


def _rates(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """GFLOPS of EHYB and its rivals on the matrices that EHYB holds, fewest nonzeros first.

    Columns setting, matrix, label, nnz, gflops.
    """
    every = _methods(rows)
    held_of = [next((label for label in choice if label in every), "") for choice in SHOWN]
    ours = [label for label in held_of if label] or every
    table = ranked(hot(rows[rows["label"].isin([*ours, *both_kernels(rows, labels_of(rows, RIVALS))])]))
    table = table[table["matrix"].isin(table.loc[table["label"].isin(ours), "matrix"].unique())]
    columns = ["setting", "matrix", "label", "nnz", "gflops"]
    return table.sort_values(["setting", "nnz", "matrix", "label"], ignore_index=True)[columns]


def _largest(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `_rates`, of MOST matrices at most in each setting, those of the paper first."""
    table = _rates(rows, options)
    matrices = table.drop_duplicates(["setting", "matrix"])
    matrices = matrices.assign(is_paper_matrix=matrices["matrix"].map(stands_for).isin(members(SET)))
    matrices = matrices.sort_values(["is_paper_matrix", "nnz", "matrix"]).groupby("setting", observed=True).tail(MOST)
    return table.merge(matrices[["setting", "matrix"]], on=["setting", "matrix"])


def _note_coverage(figure: Figure, matrices: Iterable[str], missing: Sequence[str] = ()) -> None:
    """Above the panels: how many of the paper's matrices they show, and which formats the run lacks."""
    wanted, matrices = set(members(SET)), set(matrices)
    stand_ins = len(wanted & {stands_for(matrix) for matrix in matrices if is_stand_in(matrix)})
    also = f", and stand-ins for {stand_ins}" if stand_ins else ""
    text = f"Of the paper's {len(wanted)} matrices the run holds {len(wanted & matrices)}{also}."
    style.missing(figure, missing, before=text)


def _draw_rates(table: pd.DataFrame, options: Options, *, lines: bool) -> Figure:
    """A panel per setting and kind of kernels: rates by matrix and label; both kernels of a key have one mark."""
    both = by_kernel(table)
    marks = options.marks_of(both.loc[both["kernels"] == both["kernels"].iloc[0], "label"], (*EHYB, *RIVALS))
    of_key = {label.partition("[")[0]: mark for label, mark in marks.items()}
    figure, found = panels(both, ["setting", "kernels"], 1, height=2.8)
    for ax, name, part in found:
        names = sorted(part["label"].unique(), key=lambda label: [*of_key].index(label.partition("[")[0]))
        shown = {label: marks.get(label, of_key[label.partition("[")[0]]) for label in names}
        rates = part.pivot(index="matrix", columns="label", values="gflops").reindex(part["matrix"].unique())
        if lines:
            style.dots(ax, rates, shown, lines=True)
            ax.set_yscale("log")
            style.plain_ticks(ax.yaxis)
        else:
            style.bars(ax, rates, shown)
        ax.set(title=name, ylabel="GFLOPS")
    style.below(figure, style.handles(marks, lines=True) if lines else ())
    _note_coverage(figure, table["matrix"], missing_formats(RIVALS, table["label"]))
    return figure


def _speedups(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.speedup.pair_summary`, every EHYB over every rival, of y = A x.

    With rows of `cg@N` there are two more columns: cg, the mean of the speed-up in them, and cg_matrices, on which both
    are verified there.
    """
    products = of_one_operation(rows)
    ours, rivals = _methods(products), both_kernels(products, verified_labels(products, RIVALS))
    pairs = [(label, rival) for label in ours for rival in rivals]
    found = pair_speedups(hot(products), pairs)
    if found.empty:
        raise LeftOut("no matrix is verified for both EHYB and a rival")
    solved = pair_speedups(hot(rows[rows["op"].str.startswith("cg@")]), pairs)
    if solved.empty:
        return pair_summary(found)
    # The settings of y = A x lack the name of the operation.
    solved = solved.assign(setting=solved["setting"].astype(str).str.replace(r" cg@\d+", "", regex=True))
    by_pair = solved.groupby(["setting", "label", "over"])
    means = by_pair["speedup"].mean().rename("cg").to_frame().assign(cg_matrices=by_pair["matrix"].nunique())
    summary = pair_summary(found)
    of_pairs = means.reindex(pd.MultiIndex.from_frame(summary[["setting", "label", "over"]].astype(str)))
    return summary.assign(**{name: of_pairs[name].to_numpy() for name in of_pairs})


def _preprocessing(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, matrix, nnz, partitioning, reordering (in SpMVs), the largest matrices of each label."""
    labels = _methods(rows)
    table = verified(hot(rows))
    table = table[table["label"].isin(labels) & (table["t_median"] > 0)]
    table = table.assign(
        partitioning=table["detail"].map(lambda detail: json.loads(detail)["partition_s"]) / table["t_median"],
        reordering=table["t_convert_device"].fillna(table["t_convert_host"]) / table["t_median"],
    )
    order = ["setting", "label", "nnz", "matrix"]
    table = table.sort_values(order, ignore_index=True).groupby(["setting", "label"], observed=True).tail(MOST)
    return table[["setting", "label", "matrix", "nnz", *_STEPS]]


def _draw_preprocessing(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table, ["label", "setting"], height=2.6)
    for ax, title, part in found:
        style.bars(ax, part.set_index("matrix")[list(_STEPS)], _STEPS, stacked=True)
        ax.set(title=title, ylabel="SpMVs")
        ax.yaxis.set_major_formatter(style.COUNTS)
    style.below(figure)
    _note_coverage(figure, table["matrix"])
    return figure


_figure = partial(ReportFigure, family=FAMILY)
FIGURES = (
    matrix_table(FAMILY, "EHYB, Appendix B: the 92 matrices", "Chen 2022, Appendix B", 305, EHYB),
    _figure(
        "ehyb-lines",
        "EHYB, Fig. 2 and 4: GFLOPS over all matrices",
        "GFLOPS on every matrix that EHYB holds, by rising nonzeros. EHYB permutes x and y and computes its extra rows "
        "in every SpMV. With order=native, x and y are already permuted, as in the paper's timing; the paper's program "
        "computes the extra rows in the first SpMV only. The paper, on a V100: faster than all rivals on every one of "
        "its 94 matrices, except yaSpMV, than which it is faster on 60.6 % of them in single precision.",
        310,
        _rates,
        partial(_draw_rates, lines=True),
        papers="Chen 2022, Figures 2 and 4",
    ),
    _figure(
        "ehyb-bars",
        "EHYB, Fig. 3 and 5: matrices one by one",
        "GFLOPS on the 16 matrices with the most nonzeros, those of the paper's set first; the paper does not name the "
        "16 matrices of its figure.",
        320,
        _largest,
        partial(_draw_rates, lines=False),
        papers="Chen 2022, Figures 3 and 5",
    ),
    _figure(
        "ehyb-speedups",
        "EHYB, Tables 1 and 2: speed-up over each rival",
        "On the matrices verified for both: the share on which EHYB is faster, and the largest, smallest and "
        "arithmetic mean speed-up, as in the paper. The paper, on a V100, means: csr5 1.53 in single and 1.38 in "
        "double precision, merge path 1.52 and 1.41, cuSPARSE ALG1 1.52 and 1.45, ALG2 1.90 and 1.59, hola 1.30 and "
        "1.50, yaSpMV (here bccoo) 1.13 in single precision, 1.15 in its text; faster on all matrices, than yaSpMV on "
        "60.6 % of them. If the run has rows of conjugate gradients, the column CG is the arithmetic mean of the "
        "speed-up of a whole solver.",
        330,
        _speedups,
        show=lambda found, options: by_setting(found, _COLUMNS + (_SOLVER if "cg" in found else [])),
        papers="Chen 2022, Tables 1 and 2",
        every_operation=True,  # compares SpMV with a solver
    ),
    _figure(
        "ehyb-preprocessing",
        "EHYB, Fig. 6: preprocessing",
        "Partitioning, on one host thread, and reordering, the rest of the conversion, over the time of one SpMV in "
        "the same format, on the 16 matrices with the most nonzeros. A cached partition counts with the time that it "
        "took originally. The paper, METIS with 16 threads: partitioning 400 to 1,500 SpMVs, reordering 50 to 400.",
        340,
        _preprocessing,
        _draw_preprocessing,
        papers="Chen 2022, Figure 6",
    ),
)
