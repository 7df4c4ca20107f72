"""The figures of TileSpMSpV and TileBFS: Ji, Song, Lu, Jin, Tan & Liu, ICPP 2022."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot, natural_products
from spmvbench.analysis.ranking import ranked
from spmvbench.matrices.sets import members, stands_for
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, by_setting, collected, verified_labels

EVERY_OPERATION = True  # compares SpMV with SpMSpV
SPARSE = "tile-spmspv"
# The paper's three, as far as they are here: TileSpMV, cuSPARSE's BSR, a bucket algorithm; and what it lacks, the
# plain push and the merge path.
TILE_SPMV = ("tile-deferred-coo", "tile", "tile-csr")
RIVALS = ("cusparse-bsr", "spmspv-bucket", "spmspv-csc-atomic", "merge-csr")
SEARCH = "tile-bfs"
SEARCHES = ("bfs-push", "bfs-do")  # stand-ins for Gunrock (push) and GSwitch (direction-optimizing)
SET = "tilespmspv12"  # the named set of the paper's Table 2
MOST = 16  # matrices one by one
is_paper_matrix, PAPER_MATRICES = collected, "the 2,757 matrices of TileSpMSpV's paper, the SuiteSparse collection"


def compared_formats() -> Sequence[str]:
    """The formats (keys) that these figures compare."""
    return (SPARSE, *TILE_SPMV, *RIVALS, SEARCH, *SEARCHES)


def beside_dense(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of SpMSpV, and in each of their settings those of SpMV of the same type and mode on the same device.

    The time of a product with a dense x does not depend on how dense another is. Settings by falling density.
    """
    sparse, dense = rows[rows["op"].str.startswith("spmspv@")], natural_products(rows)
    same = ["dtype", "mode", "device_name"]
    settings = sparse[["setting", "op", *same]].drop_duplicates()
    density = -settings["op"].str.partition("@")[2].astype(float)
    order = settings.assign(density=density).sort_values(["density", "setting"])["setting"].astype(str).tolist()
    both = [sparse, settings.drop(columns="op").merge(dense.drop(columns="setting"), on=same)]
    found = pd.concat([part.assign(setting=part["setting"].astype(str)) for part in both], ignore_index=True)
    found = found.assign(setting=pd.Categorical(found["setting"], list(dict.fromkeys(order)), ordered=True))
    return found.sort_values(["setting", "matrix", "label"], ignore_index=True)


def searched(rows: pd.DataFrame, formats: Sequence[str]) -> pd.DataFrame:
    """The hot rows of searches in A | A^T of these formats, variants included. Raises LeftOut without the first."""
    rows = rows[rows["op"] == "bfs"]
    verified_labels(rows, formats[:1])
    return hot(rows[rows["format"].isin(formats)])


def representative(rows: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """Rates of these labels on the paper's matrices, in its order, then on those of the run with the most nonzeros.

    Columns setting, matrix, label, nnz, gflops, t_median, t_convert_device, t_convert_host, t_transfer.
    """
    table = ranked(rows[rows["label"].isin(labels)])
    wanted = {matrix: place for place, matrix in enumerate(members(SET))}
    matrices = table.drop_duplicates("matrix")
    matrices = matrices.assign(
        place=matrices["matrix"].map(stands_for).map(wanted).fillna(len(wanted)), least=-matrices["nnz"]
    )
    order = matrices.sort_values(["place", "least", "matrix"])["matrix"].tolist()[:MOST]
    table = table[table["matrix"].isin(order)]
    table = table.assign(place=table["matrix"].map(order.index)).sort_values(["setting", "place", "label"])
    columns = ["setting", "matrix", "label", "nnz", "gflops", "t_median"]
    return table[[*columns, "t_convert_device", "t_convert_host", "t_transfer"]].reset_index(drop=True)


def marks_in(table: pd.DataFrame, options: Options) -> Mapping[str, style.Mark]:
    """Marks of the labels of a table, in the order of `compared_formats`."""
    place = {key: at for at, key in enumerate(compared_formats())}
    labels = sorted(set(table["label"]), key=lambda label: (place.get(label.partition("[")[0], -1), label))
    return options.marks_of(labels)


def bars(
    table: pd.DataFrame,
    value: str,
    text: str,
    shown: Mapping[str, style.Mark],
    missing: Sequence[str] = (),
    **axes: Any,
) -> Figure:
    """One panel per setting, one group of bars per matrix, one bar per label; missing matrices of the paper are named.

    missing: formats that the run lacks. axes: more for the axes, such as yscale.
    """
    figure, panels = by_setting(table, 1, height=2.6)
    for ax, setting, part in panels:
        heights = part.pivot(index="matrix", columns="label", values=value).reindex(part["matrix"].unique())
        style.bars(ax, heights, shown)
        ax.set(title=setting, ylabel=text, **axes)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(5, len(shown)))
    lacking = [matrix for matrix in members(SET) if matrix not in set(table["matrix"].map(stands_for))]
    style.missing(figure, [*missing, *lacking])
    return figure


def variants(rows: pd.DataFrame, labels: Sequence[str]) -> list[str]:
    """Those of these labels that have a verified row. Raises LeftOut for fewer than two."""
    there = set(rows.loc[rows["status"] == "ok", "label"])
    found = [label for label in labels if label in there]
    if len(found) < 2:
        raise LeftOut(f"no verified row of {', '.join(label for label in labels if label not in there)}")
    return found
