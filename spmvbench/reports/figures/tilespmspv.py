"""The figures of TileSpMSpV and TileBFS: Ji, Song, Lu, Jin, Tan & Liu, ICPP 2022."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.cases import both_kernels, hot, labels_of, matching_kernels, natural_products
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.ranking import ranked
from spmvbench.matrices.sets import members, short_name, stands_for
from spmvbench.reports import head_to_head, style
from spmvbench.reports.figures import (
    Family,
    LeftOut,
    Options,
    ReportFigure,
    bars,
    collected,
    missing_formats,
    over_nonzeros,
    panels,
    verified_labels,
)
from spmvbench.reports.figures.matrix_tables import matrix_table

SPARSE = "tile-spmspv"
# The paper's three, as far as they are here: TileSpMV, cuSPARSE's BSR, a bucket algorithm; and what it lacks, the
# plain push and the merge path.
TILE_SPMV = ("tile-deferred-coo", "tile", "tile-csr")
RIVALS = ("cusparse-bsr", "spmspv-bucket", "spmspv-csc-atomic", "merge-csr")
SEARCH = "tile-bfs"
SEARCHES = ("bfs-push", "bfs-do")  # stand-ins for Gunrock (push) and GSwitch (direction-optimizing)
COMPARED = (SPARSE, *TILE_SPMV, *RIVALS, SEARCH, *SEARCHES)
SET = "tilespmspv12"  # the named set of the paper's Table 2
FAMILY = Family(
    "tilespmspv",
    lambda: COMPARED,
    "the 2,757 matrices of TileSpMSpV's paper, the SuiteSparse collection",
    collected,
    SET,
)
MOST = 16  # matrices one by one
STEPS = (f"{SEARCH}[kernels=1]", f"{SEARCH}[kernels=12]", SEARCH)
LEVELS_OF = ("LAW/in-2004", "INPRO/msdoor", "Williams/cant", "SNAP/roadNet-TX")  # the paper's
KERNELS = {1: "o", 2: "s", 3: "^"}  # the marker of each
FEW = 60  # levels whose markers have room
CONVERSION, ONE_SEARCH = "conversion from CSR", "one search"
ENTERPRISE = "GHS_psdef/audikw_1"
_RATES = ["setting", "matrix", "label", "nnz", "gflops"]


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


def _searched(rows: pd.DataFrame, *formats: str) -> pd.DataFrame:
    """The hot rows of searches in A | A^T of these formats, variants included. Raises LeftOut without the first."""
    rows = rows[rows["op"] == "bfs"]
    verified_labels(rows, formats[:1])
    return hot(rows[rows["format"].isin(formats)])


def _one_by_one(rows: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """Ranked rows of these labels on the paper's matrices, in its order, then on those with the most nonzeros."""
    table = ranked(rows[rows["label"].isin(labels)])
    wanted = {matrix: place for place, matrix in enumerate(members(SET))}
    matrices = table.drop_duplicates("matrix")
    matrices = matrices.assign(
        place=matrices["matrix"].map(stands_for).map(wanted).fillna(len(wanted)), least=-matrices["nnz"]
    )
    order = matrices.sort_values(["place", "least", "matrix"])["matrix"].tolist()[:MOST]
    table = table[table["matrix"].isin(order)]
    table = table.assign(place=table["matrix"].map(order.index)).sort_values(["setting", "place", "label"])
    return table.reset_index(drop=True)


def _marks(table: pd.DataFrame, options: Options) -> Mapping[str, style.Mark]:
    return options.marks_of(table["label"], COMPARED)


def _bars(table: pd.DataFrame, shown: Mapping[str, style.Mark], missing: Sequence[str] = (), **more: Any) -> Figure:
    """`bars`, by default of GTEPS; above them the formats that the run lacks, and the paper's matrices."""
    figure = bars(table, **{"value": "gflops", "text": "GTEPS", "shown": shown} | more)
    lacking = [matrix for matrix in members(SET) if matrix not in set(table["matrix"].map(stands_for))]
    style.missing(figure, [*missing, *lacking])
    return figure


def _densities(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    rows = hot(rows)
    ours = both_kernels(rows, verified_labels(rows, (SPARSE,)))
    rivals = [*labels_of(rows, TILE_SPMV)[:1], *labels_of(rows, RIVALS)] or verified_labels(rows, (*TILE_SPMV, *RIVALS))
    rivals = both_kernels(rows, rivals)
    return head_to_head.table(beside_dense(rows), [*ours, *rivals], matching_kernels(ours, rivals))


def _draw_densities(table: pd.DataFrame, options: Options) -> Figure:
    """One column per density; for each type a row of rates, and one of speed-ups a kernel, with the rivals' marks."""
    shown = _marks(table, options)
    place = table["setting"].astype(str).str.extract(r"(?P<type>.*?) spmspv@(?P<density>\S+)(?P<device>.*)")
    table = table.assign(row=place["type"] + place["device"], density=place["density"])
    kernels = table.loc[table["over"] != "", "label"].unique()
    found = list(product(table["row"].unique(), ("", *kernels), table["density"].unique()))
    figure, axes = style.grid(len(found), table["density"].nunique(), height=2.5)
    for ax, (row, kernel, density) in zip(axes, found, strict=True):
        part = table[(table["row"] == row) & (table["density"] == density) & ((table["over"] == "") == (not kernel))]
        if not kernel:
            over_nonzeros(ax, part, "gflops", shown, title=f"{row}, {density}", ylabel="GFLOPS")
        else:
            part = part[part["label"] == kernel]
            means = part.groupby("over", sort=False)["speedup"].agg(geometric_mean)
            over_nonzeros(ax, part.assign(label=part["over"]), "speedup", shown, ylabel="speed-up")
            ax.set_title(f"{kernel}\nover rivals, {density}", fontsize=8.5)
            style.around_one(ax, above=1.8 ** len(means))  # room for the text
            text = "\n".join(f"{mean:.2f}x {over}" for over, mean in means.items())
            ax.text(0.02, 0.98, text, transform=ax.transAxes, va="top", fontsize=7, in_layout=False)
    style.legend(figure, shown)
    missing = missing_formats(RIVALS, table["label"])
    if len(missing_formats(TILE_SPMV, table["label"])) == len(TILE_SPMV):
        missing = [TILE_SPMV[0], *missing]
    style.missing(figure, missing)
    return figure


def _rivals(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    rows = _searched(rows, SEARCH, *SEARCHES)
    ours, rivals = both_kernels(rows, labels_of(rows, (SEARCH,))), verified_labels(rows, SEARCHES)
    return head_to_head.table(rows, [*ours, *rivals], list(product(ours, rivals)))


def _representative(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, nnz, gflops (GTEPS)."""
    rows = _searched(rows, SEARCH, *SEARCHES)
    return _one_by_one(rows, both_kernels(rows, labels_of(rows, (SEARCH, *SEARCHES))))[_RATES]


def _draw_representative(table: pd.DataFrame, options: Options) -> Figure:
    missing = missing_formats(SEARCHES, table["label"])
    return _bars(table, _marks(table, options), missing, ticks=style.plain_ticks, yscale="log")


def _kernels(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, nnz, gflops (GTEPS), of TileBFS with fewer and all kernels."""
    rows = _searched(rows, SEARCH)
    there = set(rows.loc[rows["status"] == "ok", "label"])
    if len(there & set(STEPS)) < 2:
        raise LeftOut(f"no verified row of {', '.join(label for label in STEPS if label not in there)}")
    return _one_by_one(rows, STEPS)[_RATES]


def _draw_kernels(table: pd.DataFrame, options: Options) -> Figure:
    labels = [label for label in STEPS if label in set(table["label"].unique())]
    return _bars(table, options.marks_of(labels), [step for step in STEPS if step not in labels])


def _levels(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, label, level, seconds, kernel, found (vertices): the paper's matrices first, four in all."""
    rows = _searched(rows, SEARCH, *SEARCHES)
    rows = rows[(rows["status"] == "ok") & rows["detail"].str.contains('"level_seconds"', regex=False)]
    if rows.empty:
        raise LeftOut("no verified row keeps the levels of a search")
    there = rows.sort_values(["nnz", "matrix"], ascending=False)["matrix"].unique()
    place = {matrix: number for number, matrix in enumerate(LEVELS_OF)}
    chosen = sorted(there, key=lambda matrix: place.get(stands_for(matrix), len(place)))
    tables = []
    for matrix in chosen[: len(LEVELS_OF)]:
        for row in rows[rows["matrix"] == matrix].sort_values("label").itertuples():
            detail = json.loads(row.detail)
            columns = {name: detail[f"level_{name}"] for name in ("seconds", "kernel", "found")}
            least = min(map(len, columns.values()))
            columns = {name: values[:least] for name, values in columns.items()}
            levels = {"matrix": matrix, "label": row.label, "level": range(1, least + 1)}
            tables.append(pd.DataFrame(levels | columns))
    return pd.concat(tables, ignore_index=True)


def _draw_levels(table: pd.DataFrame, options: Options) -> Figure:
    marks = _marks(table, options).items()  # markers tell the kernel of a level here
    shown = {label: replace(mark, line=style.LINES[n % len(style.LINES)]) for n, (label, mark) in enumerate(marks)}
    figure, found = panels(table, "matrix", height=3.0)
    for ax, matrix, of_matrix in found:
        for label, mark in shown.items():
            part = of_matrix[of_matrix["label"] == label]
            ax.plot(part["level"], part["seconds"], color=mark.color, linewidth=0.8, linestyle=mark.line)
            for kernel, of_kernel in part.groupby("kernel"):
                ax.plot(
                    of_kernel["level"], of_kernel["seconds"], color=mark.color, linestyle="",
                    marker=KERNELS.get(kernel, "D"), markersize=4.5 if len(part) <= FEW else 2,
                )  # fmt: skip
        ax.set(title=short_name(matrix), xlabel="level", ylabel="time of the level", yscale="log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.time_ticks(ax.yaxis)
    lines = [Line2D([], [], color=mark.color, linestyle=mark.line, label=label) for label, mark in shown.items()]
    style.below(figure, lines, len(lines))
    style.missing(figure, [matrix for matrix in LEVELS_OF if matrix not in set(table["matrix"].map(stands_for))])
    return figure


def _preprocessing(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, work (conversion, or one search), seconds."""
    rows = _searched(rows, SEARCH)
    table = _one_by_one(rows, both_kernels(rows, labels_of(rows, (SEARCH,))))
    table = table.assign(**{CONVERSION: ready(table), ONE_SEARCH: table["t_median"]})
    table = table.melt(["setting", "matrix", "label"], [CONVERSION, ONE_SEARCH], "work", "seconds")
    return table.dropna(subset="seconds")


def _draw_preprocessing(table: pd.DataFrame, options: Options) -> Figure:
    table = table.assign(work=table["work"] + ", " + table["label"])
    marks = style.marks(list(table["work"].unique()))
    return _bars(table, marks, value="seconds", text="time", label="work", ticks=style.time_ticks, yscale="log")


def _enterprise(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, nnz, gflops (GTEPS)."""
    rows = _searched(rows, SEARCH, *SEARCHES)
    table = ranked(rows[rows["label"].isin(both_kernels(rows, labels_of(rows, (SEARCH, *SEARCHES))))])
    return table.loc[table["matrix"].map(stands_for) == ENTERPRISE, _RATES]


_figure = partial(ReportFigure, family=FAMILY, every_operation=True)  # compares SpMV with SpMSpV
FIGURES = (
    matrix_table(FAMILY, "TileSpMSpV, Table 2: the 12 matrices", "Ji et al. 2022, Table 2", 505, every_operation=True),
    _figure(
        "tilespmspv-densities",
        "TileSpMSpV, Fig. 6: a sparse x",
        "GFLOPS, of all 2 nnz flops whatever x holds, and the speed-up of TileSpMSpV over each rival, by the density "
        "of x: above the line TileSpMSpV is faster, with geometric means. TileSpMV, BSR and the merge path take a "
        "dense x; their rows are those of SpMV. The bucket algorithm is ours after Azad and Buluc, as is the plain "
        "push over columns. The paper, on an RTX 3090 at densities of 0.1, 0.01, 0.001 and 0.0001: in the geometric "
        "mean 1.10, 1.65, 2.20 and 2.38 times as fast as TileSpMV, 7.58, 13.78, 22.43 and 24.95 times as cuSPARSE's "
        "BSR, 13.46, 14.85, 20.06 and 20.43 times as its bucket algorithm; at most 79.43 GFLOPS (trans5).",
        510,
        _densities,
        _draw_densities,
        papers="Ji et al. 2022, Figure 6",
    ),
    _figure(
        "tilespmspv-searches",
        "TileBFS, Fig. 7: compared with searches over adjacency lists",
        "GTEPS: arcs that leave reached vertices over the mean time from all sources, and the speed-up of TileBFS. "
        "Gunrock and GSwitch, the paper's rivals, do not run here; this project's push-only and direction-optimizing "
        "searches are compared instead. The paper, on an RTX 3090 over 2,081 matrices: in the geometric mean 2.74 "
        "times as fast as Gunrock (faster on 93.99 % of them, at most 21.01 times) and 4.69 times as fast as GSwitch "
        "(68.6 %, at most 1164.35 times).",
        520,
        _rivals,
        lambda table, options: head_to_head.draw(
            table, _marks(table, options), missing_formats(SEARCHES, table["label"])
        ),
        papers="Ji et al. 2022, Figure 7",
    ),
    _figure(
        "tilespmspv-representative",
        "TileBFS, Fig. 8: 12 representative matrices",
        "GTEPS on the matrices of the paper's Table 2, in its order, then on those of the run with the most nonzeros. "
        "The paper: 2.33 times as fast as Gunrock and 2.65 times as fast as GSwitch, which do not run here, in the "
        "mean over its matrices.",
        530,
        _representative,
        _draw_representative,
        papers="Ji et al. 2022, Figure 8",
    ),
    _figure(
        "tilespmspv-kernels",
        "TileBFS, Fig. 9: one, two and three kernels",
        "GTEPS with Push-CSC alone, with Push-CSC and Push-CSR, and with Pull-CSC as well, selected by the rule. The "
        "paper: on dielFilterV2clx faster by 2.32 and by 7.91 times (it does not say than what).",
        540,
        _kernels,
        _draw_kernels,
        papers="Ji et al. 2022, Figure 9",
    ),
    _figure(
        "tilespmspv-levels",
        "TileBFS, Fig. 10: level by level",
        "Time of every level of one search from the vertex of highest degree, measured by the device's clock in "
        "separate runs. Circles are levels of Push-CSC, squares of Push-CSR, triangles of a pull, diamonds of another "
        "kernel. The paper: on in-2004 and msdoor TileBFS has no peak at the levels at which Gunrock and GSwitch have "
        "theirs; on msdoor and cant a late level of Pull-CSC may take longer; on roadNet-TX, with many sparse tiles, "
        "it is slower than GSwitch.",
        550,
        _levels,
        _draw_levels,
        papers="Ji et al. 2022, Figure 10",
    ),
    _figure(
        "tilespmspv-preprocessing",
        "TileBFS, Fig. 11: conversion and one search",
        "Time of the conversion of the graph from CSR to tiles of bits, on the device, or on the host and copied if "
        "that was not measured, and mean time of one search. The paper says both that conversion takes no longer than "
        "one search in normal cases and that it takes no more than ten in most.",
        560,
        _preprocessing,
        _draw_preprocessing,
        papers="Ji et al. 2022, Figure 11",
    ),
    _figure(
        "tilespmspv-enterprise",
        "TileBFS, Fig. 12: a matrix of Enterprise's paper",
        "GTEPS on audikw_1, the one of the figure's six matrices that the paper's text names. Enterprise does not run "
        "here; as released it never goes bottom-up, so that the search that pushes alone is the nearest to it. The "
        "paper: 1.39 times as fast as Enterprise in the mean and at most 2.31 times.",
        570,
        _enterprise,
        lambda table, options: bars(table, "gflops", "GTEPS", _marks(table, options)),
        papers="Ji et al. 2022, Figure 12",
        nothing=f"no verified row of {ENTERPRISE}, the matrix of Enterprise's paper that TileBFS's names",
    ),
)
