"""The figures of EHYB: Chen, Explicit caching HYB, 2022."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spmvbench.analysis.cases import both_kernels, hot, labels_of, verified
from spmvbench.analysis.ranking import ranked
from spmvbench.matrices.sets import is_stand_in, members, stands_for
from spmvbench.reports import style
from spmvbench.reports.figures import Options, by_setting, missing_formats, verified_labels

EHYB = MEASURED = ("ehyb", "ehyb-rcm")
# The paper's, in the order of its tables. yaSpMV's format is BCCOO; its program has single precision only.
RIVALS = ("bccoo", "hola", "csr5", "merge-csr", "cusparse-csr-alg1", "cusparse-csr-alg2")
SET = "ehyb92"  # the named set of the paper's Appendix B
PAPER_MATRICES = "the 92 matrices of EHYB's paper (the set ehyb92)"
# What figures of all matrices show: both kernels, with x and y in the order in which the paper times them.
SHOWN = (
    ("ehyb[order=native]", "ehyb"),
    ("ehyb[kernel=paper,order=native]", "ehyb[kernel=paper]"),
    ("ehyb-rcm",),
)


def compared_formats() -> Sequence[str]:
    """The formats (keys) that these figures compare."""
    return (*EHYB, *RIVALS)


def is_paper_matrix(matrices: pd.Series) -> pd.Series:
    """Which of these matrices are of the paper's set."""
    return matrices.isin(members(SET))


def methods(rows: pd.DataFrame) -> list[str]:
    """The labels of EHYB that the run holds, variants included. Raises LeftOut without any."""
    verified_labels(rows, EHYB)
    measured = verified(rows)
    return sorted(measured.loc[measured["format"].isin(EHYB), "label"].unique())


def rates(rows: pd.DataFrame) -> pd.DataFrame:
    """GFLOPS of EHYB and its rivals on the matrices that EHYB holds, fewest nonzeros first.

    Columns setting, matrix, label, nnz, gflops. Raises LeftOut without EHYB.
    """
    every = methods(rows)
    held_of = [next((label for label in choice if label in every), "") for choice in SHOWN]
    ours = [label for label in held_of if label] or every
    table = ranked(hot(rows[rows["label"].isin([*ours, *both_kernels(rows, labels_of(rows, RIVALS))])]))
    table = table[table["matrix"].isin(table.loc[table["label"].isin(ours), "matrix"])]
    columns = ["setting", "matrix", "label", "nnz", "gflops"]
    return table.sort_values(["setting", "nnz", "matrix", "label"], ignore_index=True)[columns]


def marks_in(labels: Iterable[str], options: Options) -> Mapping[str, style.Mark]:
    """Marks of these labels, EHYB first, then the rivals in the order of the paper."""
    place = {key: at for at, key in enumerate((*EHYB, *RIVALS))}
    ordered = sorted(set(labels), key=lambda label: (place.get(label.partition("[")[0], len(place)), label))
    return options.marks_of(ordered[:12])


def panels(
    table: pd.DataFrame,
    options: Options,
    height: float,
    draw: Callable[[Axes, pd.DataFrame, Mapping[str, style.Mark]], None],
) -> tuple[Figure, Mapping[str, style.Mark]]:
    """The figure and its marks: one panel per setting, what `rates` gives by matrix and label, shown by `draw`."""
    shown = marks_in(table["label"], options)
    figure, found = by_setting(table, 1, height=height)
    for ax, setting, part in found:
        draw(ax, part.pivot(index="matrix", columns="label", values="gflops").reindex(part["matrix"].unique()), shown)
        ax.set(title=setting, ylabel="GFLOPS")
    note_coverage(figure, table["matrix"], missing_formats(RIVALS, table["label"]))
    return figure, shown


def note_coverage(figure: Figure, matrices: Iterable[str], missing: Sequence[str]) -> None:
    """Above the panels: how many of the paper's matrices they show, and which formats the run lacks."""
    wanted, matrices = set(members(SET)), set(matrices)
    stand_ins = len(wanted & {stands_for(matrix) for matrix in matrices if is_stand_in(matrix)})
    also = f", and stand-ins for {stand_ins}" if stand_ins else ""
    text = f"Of the paper's {len(wanted)} matrices the run holds {len(wanted & matrices)}{also}."
    style.missing(figure, missing, before=text)
