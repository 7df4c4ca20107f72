"""The figures of TileSpMV: Niu, Lu, Dong, Jin, Liu & Tan, IPDPS 2021."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from spmvbench.analysis.cases import both_kernels
from spmvbench.reports import style
from spmvbench.reports.figures import Options, collected, verified_labels

METHODS = MEASURED = ("tile-csr", "tile", "tile-deferred-coo")  # the paper's TileSpMV_CSR, _ADPT and _DeferredCOO
RIVALS = ("merge-csr", "csr5", "cusparse-bsr")
is_paper_matrix, PAPER_MATRICES = collected, "the 2,757 matrices of TileSpMV's paper, the SuiteSparse collection"
SET = "tilespmv16"  # the named set of the paper's Table II


def compared_formats() -> Sequence[str]:
    """The formats (keys) that these figures compare."""
    return (*METHODS, *RIVALS)


def tile_methods(rows: pd.DataFrame, least: int = 1) -> list[str]:
    """Labels of the paper's methods that the run holds, simplest first. Raises LeftOut for fewer than `least`."""
    verified_labels(rows, METHODS)  # so that all figures of a run without any give one reason
    return verified_labels(rows, METHODS, least)


def compared(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The labels of the paper's most advanced method in the run, with both kernels, and those of its rivals.

    Raises LeftOut without either.
    """
    return both_kernels(rows, tile_methods(rows)[-1:]), both_kernels(rows, verified_labels(rows, RIVALS))


def marks_in(table: pd.DataFrame, options: Options) -> Mapping[str, style.Mark]:
    """Marks of the labels of a table, the methods first, in the order of the paper."""
    order = {key: place for place, key in enumerate((*RIVALS, *METHODS))}
    labels = sorted(set(table["label"]), key=lambda label: order.get(label.partition("[")[0], -1))
    return options.marks_of(labels)
