"""The figures of FastLoad: Hu, Luo, Jiang, Xiao & Li, TPDS 2024."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from spmvbench import paths
from spmvbench.analysis.cases import both_kernels, labels_of, verified
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, verified_labels
from spmvbench.reports.figures import collected as every_collected

FASTLOAD = ("fastload", "fastload-opt")  # the second has equal rows added up within a warp
IMPROVED = ("fastload-opt", "fastload[optimized=true]")  # two names of one format
# The paper's rivals, and the formats that correspond to each, the most similar first. Of cuSPARSE it names no
# algorithm; its text gives the basic CSC a warp a column, its program a thread.
RIVALS = {
    "cuSPARSE": ("cusparse-csr-alg1", "cusparse-csr-alg2"),
    "basic CSC": ("csc-warp", "csc-thread", "csc-atomic"),
    "CSR5": ("csr5",),
    "TileSpMV": ("tile-deferred-coo", "tile", "tile-csr"),
}
is_paper_matrix = every_collected
PAPER_MATRICES = "the 2,757 matrices of FastLoad's paper, the SuiteSparse collection"
PROJECT = ", project kernel"  # suffix of a rival's name, if the run has both this project's and the authors' kernel
HEIGHTS = ("none", "1", "2", "4", "8", "16", "32", "improved")
DEFAULT_HEIGHT = "1"  # of the label without parameters
MATRICES = 2757  # of the SuiteSparse collection, in the paper


def compared_formats() -> Sequence[str]:
    """The formats (keys) that these figures compare."""
    return (*FASTLOAD, *(keys[0] for keys in RIVALS.values()))


def most_advanced(rows: pd.DataFrame) -> str:
    """The label of FastLoad in the run: with both improvements if measured, else the default. Raises LeftOut."""
    best = verified_labels(rows, FASTLOAD)[0]
    measured = set(verified(rows)["label"])
    return next((label for label in IMPROVED if label in measured), best)


def variants(rows: pd.DataFrame) -> dict[str, str]:
    """Labels of FastLoad in the run and the height of each (improved: equal rows summed), in the paper's order.

    With this project's kernel, or with the authors' if the run has no other. Raises LeftOut if there is none.
    """
    verified_labels(rows, FASTLOAD)
    measured = verified(rows)
    measured = measured[measured["format"].isin(FASTLOAD)].drop_duplicates("label")
    settings = {row.label: json.loads(row.params) for row in measured.itertuples()}
    ours = {label: given for label, given in settings.items() if given.get("kernel") != "paper"}
    settings = ours or settings
    heights = {label: "improved" if given["optimized"] else given["height"] for label, given in settings.items()}
    return {label: heights[label] for label in sorted(heights, key=lambda label: HEIGHTS.index(heights[label]))}


def rival_labels(rows: pd.DataFrame, names: Iterable[str] = tuple(RIVALS)) -> dict[str, str]:
    """The label in the run for each of these rivals. Raises LeftOut if there is none.

    If the run has the authors' kernel, it is that one's, and this project's kernel follows as the name + PROJECT.
    """
    found: dict[str, str] = {}
    for name in names:
        ours = labels_of(rows, RIVALS[name])[:1]
        *_, found[name] = both_kernels(rows, ours) or [""]
        if ours and found[name] != ours[0]:
            found[name + PROJECT] = ours[0]
    found = {name: label for name, label in found.items() if label}
    if not found:
        raise LeftOut(f"no verified row of {', '.join(RIVALS[name][0] for name in names)}")
    return found


def missing_formats(labels: Iterable[str], names: Iterable[str] = tuple(RIVALS)) -> list[str]:
    """The rivals without any of these labels."""
    keys = {label.partition("[")[0] for label in labels}
    return [name for name in names if not keys & set(RIVALS[name])]


def marks_in(labels: Iterable[str], options: Options) -> Mapping[str, style.Mark]:
    """Marks of these labels, the rivals first, in the order of the paper."""
    order = [key for keys in RIVALS.values() for key in keys]
    place = {key: at for at, key in enumerate(order)}
    ordered = sorted(set(labels), key=lambda label: (place.get(label.partition("[")[0], len(order)), label))
    return options.marks_of(ordered)


def collected(matrices: pd.Series) -> int:
    """How many different ones of these matrices (group/name) are of the collection."""
    return int(every_collected(pd.Series(matrices.unique())).sum())


def note_coverage(figure: Figure, held: int, missing: Sequence[str] = ()) -> None:
    """Above the panels: how many of the collection's matrices they show, and which rivals the run lacks."""
    style.missing(
        figure, missing, before=f"Shown are {held:,} matrices of the collection, in the paper all {MATRICES:,}."
    )


def published(table: str) -> pd.DataFrame:
    """A table that the paper printed, from configs/published/fastload."""
    return pd.read_csv(paths.configs() / "published" / "fastload" / f"{table}.csv")


def four(rows: pd.DataFrame) -> list[str]:
    """The largest matrices of the four kinds with the largest, by nonzeros rising; of fewer where there are fewer.

    The paper takes four matrices of different kinds, and its text does not name them.
    """
    sizes = rows.drop_duplicates("matrix").sort_values(["nnz", "matrix"])
    return list(sizes.drop_duplicates("kind", keep="last")["matrix"].tail(4))
