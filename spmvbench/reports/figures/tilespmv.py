"""The figures of TileSpMV: Niu, Lu, Dong, Jin, Liu & Tan, IPDPS 2021."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain, pairwise, product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import largest_footprints, setups
from spmvbench.analysis.cases import both_kernels, hot, labels_of, matching_kernels
from spmvbench.analysis.details import tile_shares
from spmvbench.analysis.ranking import BASELINES, ranked
from spmvbench.matrices.sets import members, stands_for
from spmvbench.reports import head_to_head, style
from spmvbench.reports.figures import (
    Family,
    Options,
    ReportFigure,
    bars,
    collected,
    missing_formats,
    verified_labels,
)
from spmvbench.reports.figures.matrix_tables import matrix_table

METHODS = ("tile-csr", "tile", "tile-deferred-coo")  # the paper's TileSpMV_CSR, _ADPT and _DeferredCOO
RIVALS = ("merge-csr", "csr5", "cusparse-bsr")
SET = "tilespmv16"  # the named set of the paper's Table II
FAMILY = Family(
    "tilespmv",
    lambda: (*METHODS, *RIVALS),
    "the 2,757 matrices of TileSpMV's paper, the SuiteSparse collection",
    collected,
    SET,
)
MOST = 150  # matrices in the figure of space
SERIAL = "SpMV by SciPy"  # on one host thread


def _methods(rows: pd.DataFrame, least: int = 1) -> list[str]:
    """Labels of the paper's methods that the run holds, simplest first. Raises LeftOut for fewer than `least`."""
    verified_labels(rows, METHODS)  # so that all figures of a run without any give one reason
    return verified_labels(rows, METHODS, least)


def _compared(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The labels of the paper's most advanced method in the run, with both kernels, and those of its rivals."""
    return both_kernels(rows, _methods(rows)[-1:]), both_kernels(rows, verified_labels(rows, RIVALS))


def _marks(table: pd.DataFrame, options: Options) -> Mapping[str, style.Mark]:
    return options.marks_of(table["label"], (*BASELINES, *RIVALS, *METHODS))


def _steps(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    methods = [both_kernels(rows, [label]) for label in _methods(rows, least=2)]
    pairs = [pair for worse, better in pairwise(methods) for pair in matching_kernels(better, worse)]
    return head_to_head.table(hot(rows), [*chain(*methods)], pairs)


def _rivals(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    ours, rivals = _compared(rows)
    return head_to_head.table(hot(rows), [*ours, *rivals], matching_kernels(ours, rivals))


def _draw_head_to_head(table: pd.DataFrame, options: Options, formats: tuple[str, ...]) -> Figure:
    return head_to_head.draw(table, _marks(table, options), missing_formats(formats, table["label"]))


def _shares(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.details.tile_shares`, of `tile` or `tile-deferred-coo`, which select the same."""
    _methods(rows)
    return tile_shares(rows[rows["label"] == verified_labels(rows, METHODS[1:])[0]])


def _draw_shares(table: pd.DataFrame, options: Options) -> Figure:
    formats = list(table["tile_format"].unique())
    matrices = list(table["matrix"].unique())
    figure, axes = style.grid(2, 1, height=2.8 if len(matrices) <= style.NAMES_FIT else 3.4)
    colors = style.marks(formats)
    edges = np.arange(len(matrices) + 1) - 0.5
    for ax, letter, counted in zip(axes, "ab", ("tiles", "nonzeros"), strict=True):
        shares = table.pivot(index="matrix", columns="tile_format", values=counted).loc[matrices, formats].to_numpy()
        below = np.zeros(len(matrices))
        for label, hatch, share in zip(formats, style.HATCHES, shares.T, strict=False):
            ax.stairs(
                below + share, edges, baseline=below, fill=True, facecolor=colors[label].color, hatch=hatch,
                edgecolor="white", linewidth=0, label=label, rasterized=len(table) > style.RASTER_FROM,
            )  # fmt: skip
            below += share
        ax.set(title=f"({letter}) {counted}", ylabel=f"share of the {counted}", xlabel="matrices, most nonzeros last")
        ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1))
        ax.yaxis.set_major_formatter(style.PERCENT)
        style.names_below(ax, matrices)
    style.below(figure, columns=len(formats))
    return figure


def _representative(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    ours, rivals = _compared(rows)
    table = ranked(hot(rows[rows["label"].isin([*ours, *rivals])]))
    return table.loc[
        table["matrix"].map(stands_for).isin(members(SET)), ["setting", "matrix", "label", "nnz", "gflops"]
    ]


def _draw_representative(table: pd.DataFrame, options: Options) -> Figure:
    wanted = members(SET)
    order = table["matrix"].map(stands_for).map(wanted.index)
    shown = _marks(table, options)
    figure = bars(table.loc[order.sort_values(kind="stable").index], "gflops", "GFLOPS", shown)
    measured = set(table["matrix"].map(stands_for))
    style.missing(figure, [*missing_formats(RIVALS, shown), *(matrix for matrix in wanted if matrix not in measured)])
    return figure


def _space(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.breakeven.largest_footprints`, over the first plain CSR that the run holds."""
    _methods(rows)
    labels = [verified_labels(rows, BASELINES)[0], *verified_labels(rows, METHODS[:2])]
    types = rows.loc[rows["label"].isin(labels[1:]), "dtype"].unique()  # a run may hold tiles in one type only
    return largest_footprints(rows[rows["label"].isin(labels) & rows["dtype"].isin(types)], labels[0], MOST)


def _draw_space(table: pd.DataFrame, options: Options) -> Figure:
    shown = _marks(table, options)
    values = {"bytes_format": "bytes", "ratio": "bytes over those of CSR"}
    panels = list(product(table["dtype"].unique(), values.items()))
    figure, axes = style.grid(len(panels), 2, height=2.8)
    for ax, (dtype, (column, text)) in zip(axes, panels, strict=True):
        part = table[table["dtype"] == dtype]
        by_matrix = part.pivot(index="matrix", columns="label", values=column)
        style.dots(ax, by_matrix.reindex(part["matrix"].unique()), shown)
        ax.set(title=f"{dtype}, {text}", ylabel=text, yscale="log")
        if column == "ratio":
            style.around_one(ax)
        else:
            style.byte_ticks(ax.yaxis)
    style.legend(figure, shown)
    style.missing(figure, missing_formats(METHODS[:2], shown))
    return figure


def _preprocessing(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, path, matrix, work (a label, or SERIAL), seconds; the paper's matrices, then the largest."""
    labels = both_kernels(rows, [*_methods(rows)[-1:], *labels_of(rows, ("csr5",))])
    table = setups(hot(rows[rows["label"].isin(labels)]))
    place = {matrix: at for at, matrix in enumerate(members(SET))}
    table = table.assign(place=table["matrix"].map(stands_for).map(place).fillna(len(place)))
    table = table.sort_values(["setting", "path", "place", "nnz"], ascending=[True, False, True, False], kind="stable")
    first = table.drop_duplicates(["setting", "path", "matrix"]).groupby(["setting", "path"], observed=True)
    table = table.merge(first.head(len(place))[["setting", "path", "matrix"]])
    serial = table.drop_duplicates(["setting", "path", "matrix"]).assign(label=SERIAL, setup=lambda t: t["t_spmv_host"])
    both = pd.concat([table, serial]).rename(columns={"label": "work", "setup": "seconds"}).dropna(subset="seconds")
    return both[["setting", "path", "matrix", "work", "seconds"]]


def _draw_preprocessing(table: pd.DataFrame, options: Options) -> Figure:
    works = [work for work in table["work"].unique() if work != SERIAL]
    shown = {**options.marks_of(works, (*METHODS, "csr5")), SERIAL: style.BASELINE}
    table = table.assign(path="converted on the " + table["path"])
    by = ["setting", "path"]
    return bars(table, "seconds", "time", shown, by=by, label="work", ticks=style.time_ticks, yscale="log")


_figure = partial(ReportFigure, family=FAMILY)
FIGURES = (
    matrix_table(FAMILY, "TileSpMV, Table II: the 16 matrices", "Niu et al. 2021, Table II", 205, METHODS),
    _figure(
        "tilespmv-methods",
        "TileSpMV, Fig. 6: the three methods",
        "Every tile in CSR (tile-csr), in the best of seven formats (tile), and with the very sparse part deferred to "
        "CSR5 (tile-deferred-coo; below 1.8 million nonzeros it is tile). The paper, in double precision on Titan RTX "
        "and A100: tile up to 6.75 times as fast as tile-csr, the more the larger the matrix; tile-deferred-coo up to "
        "7.02 times as fast as tile.",
        210,
        _steps,
        partial(_draw_head_to_head, formats=METHODS),
        papers="Niu et al. 2021, Figure 6",
    ),
    _figure(
        "tilespmv-shares",
        "TileSpMV, Fig. 7: shares of the tile formats",
        "(a) Share of the tiles and (b) share of the nonzeros in each tile format, matrices in the order of their "
        "nonzeros, before anything is deferred; padding does not count as nonzeros. The paper: COO has most tiles and "
        "far fewer of the nonzeros; TSOPF_RS_b2383 has 905 DnsRow and 2,885 DnsCol tiles, and over 80 % of exdata_1 is "
        "Dns.",
        220,
        _shares,
        _draw_shares,
        papers="Niu et al. 2021, Figure 7",
        performance=False,
    ),
    _figure(
        "tilespmv-rivals",
        "TileSpMV, Fig. 8: against merge path, CSR5 and BSR",
        "GFLOPS, and the speed-up of TileSpMV over each rival: above the line TileSpMV is faster. The paper, in double "
        "precision: faster than merge-csr on 1,813, than csr5 on 2,040 and than cuSPARSE's BSR of 4 x 4 blocks on "
        "1,638 of 2,757 matrices, up to 2.61 (exdata_1), 3.96 (rel8) and 426.59 times (lp_osa_60); at most 288 GFLOPS "
        "on an A100 (TSOPF_RS_b2383), where merge-csr stays below 200 and csr5 reaches 210.",
        230,
        _rivals,
        partial(_draw_head_to_head, formats=RIVALS),
        papers="Niu et al. 2021, Figure 8",
    ),
    _figure(
        "tilespmv-representative",
        "TileSpMV, Fig. 9: 16 representative matrices",
        "GFLOPS on the matrices of the paper's Table II, in its order. The paper, in double precision on an A100: 288 "
        "GFLOPS on TSOPF_RS_b2383, 1.88 times those of merge-csr and 1.63 times those of csr5.",
        240,
        _representative,
        _draw_representative,
        papers="Niu et al. 2021, Figure 9",
        family=FAMILY,
        nothing=f"no verified row of a matrix of the set {SET}",
    ),
    _figure(
        "tilespmv-space",
        "TileSpMV, Fig. 10: space",
        "Bytes allocated for CSR, for tiles in CSR and for tiles in the best format, on the 150 matrices with the most "
        "nonzeros: in all, and over those of CSR. The paper: tile-csr takes as much as CSR or less on most matrices "
        "and far more if tiles are very sparse; tile takes less than tile-csr, on some still more than CSR.",
        250,
        _space,
        _draw_space,
        papers="Niu et al. 2021, Figure 10",
        performance=False,
    ),
    _figure(
        "tilespmv-preprocessing",
        "TileSpMV, Fig. 11: preprocessing",
        "Time of the conversion from CSR, on the host (and copied to the device) or on the device, and of one SpMV by "
        "SciPy on one host thread, on the 16 matrices of the paper's figure, in its order, then on the largest. The "
        "paper, converting on a CPU: from less than one serial SpMV (ldoor) to less than 10 (mip1).",
        260,
        _preprocessing,
        _draw_preprocessing,
        papers="Niu et al. 2021, Figure 11",
    ),
)
