"""The survey's figures: row lengths and patterns of matrices, performance profiles and the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.profiles import performance_profile
from spmvbench.analysis.roofline import ceilings, intensity_bounds, points
from spmvbench.matrices.sets import short_name, stands_for
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, ReportFigure, panels, rankings
from spmvbench.reports.figures.rooflines import measured_bandwidth, roof
from spmvbench.reports.figures.survey import FAMILY, formats, marks_in, named, printed, roles
from spmvbench.reports.tables import number

LENGTHS_OF = ("Williams/webbase-1M", "SNAP/wiki-Talk")  # matrices of the survey's figures
PATTERNS_OF = ("Botonakis/FEM_3D_thermal2", "SNAP/roadNet-CA", "Williams/webbase-1M")
MOST_LENGTHS, MOST_PATTERNS = 12, 6  # matrices
LONG = 100  # entries of a row, from which on axes are logarithmic
PAIRS = (("Janna/ML_Laplace", "ELL"), ("Schmid/thermal2", "ELL"), ("SNAP/web-Google", "HLL"))
OURS = "measured"


def _described(
    rows: pd.DataFrame, options: Options, wanted: Sequence[str], most: int
) -> tuple[pd.DataFrame, list[str]]:
    """The descriptions of `most` matrices of the run, from even to uneven rows, and the matrices that have none.

    Those of `wanted` that the run has, then others at equal steps of the order. Columns matrix, nnz, row_len_cv and
    those of rows.schema.MATRIX_COLUMNS. Raises LeftOut if the run has no descriptions.
    """
    about = rows[(rows["matrix_sha256"] != "") & (rows["nnz"] > 0)].drop_duplicates("matrix")
    about = about[["matrix", "matrix_sha256", "nnz", "row_len_cv"]].sort_values(["row_len_cv", "matrix"])
    kept = options.matrices
    if kept is None or not set(kept["matrix_sha256"]) & set(about["matrix_sha256"]):
        raise LeftOut("the run has no descriptions of its matrices (matrices.parquet): older versions wrote none")
    found = about.merge(kept.drop_duplicates("matrix_sha256"), on="matrix_sha256")
    chosen = found.index[found["matrix"].map(stands_for).isin(wanted)][:most]
    rest = found.index.difference(chosen)
    steps = np.linspace(0, len(rest) - 1, min(most - len(chosen), len(rest))).round().astype(int)
    missing = sorted(set(about["matrix"].unique()) - set(found["matrix"].unique()))
    return found.loc[sorted([*chosen, *rest[steps]])], missing


def _row_lengths(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, row_len_cv, length, rows; a matrix without a description has NaN."""
    found, missing = _described(rows, options, LENGTHS_OF, MOST_LENGTHS)
    table = found[["matrix", "row_len_cv", "row_lengths", "row_counts"]].explode(["row_lengths", "row_counts"])
    table = table.rename(columns={"row_lengths": "length", "row_counts": "rows"})
    return pd.concat([table, pd.DataFrame({"matrix": missing})], ignore_index=True)


def _draw_row_lengths(table: pd.DataFrame, options: Options) -> Figure:
    known = table.dropna(subset="rows").astype({"length": int, "rows": int})
    matrices = list(known["matrix"].unique())
    figure, axes = style.grid(len(matrices), min(4, len(matrices)), height=2.3)
    for ax, matrix in zip(axes, matrices, strict=True):
        part = known[known["matrix"] == matrix]
        ax.set_title(f"{short_name(matrix)}, CV {part['row_len_cv'].iloc[0]:.2g}", fontsize=9)
        ax.set(xlabel="entries of a row", ylabel="rows")
        if part["length"].max() > LONG:
            ax.scatter(part["length"], part["rows"], s=7, color=style.COLOR, linewidths=0)
            ax.set_xscale("symlog", linthresh=1)
            ax.set_yscale("log")
            ax.set_xlim(-0.3, part["length"].max() * 1.6)
            style.count_ticks(ax.yaxis)
            ax.xaxis.set_major_formatter(style.COUNTS)
        else:
            ax.bar(part["length"], part["rows"], width=0.8, color=style.COLOR)
            ax.set_xlim(part["length"].min() - 1, part["length"].max() + 1)
            ax.locator_params(axis="x", integer=True)
            ax.yaxis.set_major_formatter(style.COUNTS)
    style.missing(figure, list(table.loc[table["rows"].isna(), "matrix"]), "Measured before runs kept this")
    return figure


def _patterns(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Two rows per matrix: columns matrix, part (whole or enlarged), first_row, first_col, rows, cols (of the part),
    down, across (cells) and density, the share of each cell, row by row, with spaces between.

    A matrix without a description has NaN, one that is shown whole place by place no second row.
    """
    found, missing = _described(rows, options, PATTERNS_OF, MOST_PATTERNS)
    shapes = rows.drop_duplicates("matrix").set_index("matrix")[["rows", "cols"]]
    columns = ["matrix", "part", "first_row", "first_col", "rows", "cols", "down", "across", "density"]
    table = []
    for m in found.itertuples():
        table.append((m.matrix, "whole", 0, 0, *shapes.loc[m.matrix], m.down, m.across, _text(m.density)))
        place = (m.zoom_row, m.zoom_col, m.zoom_rows, m.zoom_cols, m.zoom_down, m.zoom_across)
        if m.zoom_rows:
            table.append((m.matrix, "enlarged", *place, _text(m.zoom_density)))
    return pd.concat([pd.DataFrame(table, columns=columns), pd.DataFrame({"matrix": missing})], ignore_index=True)


def _text(shares: np.ndarray) -> str:
    return " ".join(f"{share:.3g}" for share in shares)


def _draw_patterns(table: pd.DataFrame, options: Options) -> Figure:
    known = table.dropna(subset="part")
    shares = known["density"].map(lambda text: np.array(text.split(), dtype=float))
    known = known.assign(density=shares).astype(dict.fromkeys(known.columns[2:-1], int))
    every = np.concatenate(list(known["density"]))
    norm = LogNorm(every[every > 0].min(), 1)
    matrices = list(known["matrix"].unique())
    # In less height, the titles of a single row are cut off.
    figure, axes = style.grid(4 * -(-len(matrices) // 2), 4, height=3.0)
    for place, matrix in enumerate(matrices):
        pair = axes[2 * place : 2 * place + 2]
        for ax, part in zip(pair, known[known["matrix"] == matrix].itertuples(), strict=False):
            cells = part.density.reshape(part.down, part.across)
            style.density(ax, cells, norm, (part.first_row, part.first_col), (part.rows, part.cols))
            ax.set_title(short_name(matrix) if part.part == "whole" else "enlarged", fontsize=9)
            for axis, first, count in ((ax.xaxis, part.first_col, part.cols), (ax.yaxis, part.first_row, part.rows)):
                axis.set_ticks([first, first + count])  # more of six digits touch in a paper's column
                axis.set_major_formatter(style.COUNTS)
            if part.part == "enlarged":
                middle = (part.first_col + part.cols / 2, part.first_row + part.rows / 2)
                pair[0].plot(
                    *middle, "s", markersize=9, markerfacecolor="none", markeredgecolor="#c00000", clip_on=False
                )
    for ax in axes:
        ax.set_visible(bool(ax.images))
    style.colorbar(figure, ScalarMappable(norm, "viridis_r"), "share of places with an entry", shrink=0.4)
    style.missing(figure, list(table.loc[table["part"].isna(), "matrix"]), "Measured before runs kept this")
    return figure


def _profile(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, tau, rho, name (the survey's): the run's curves, then those of published figures."""
    found = roles(rows)
    ours = hot(rows)
    table = rankings.profile(ours[ours["label"].isin(found.values())], options)
    table = table.assign(name=table["label"].map({label: name for name, label in found.items()}))
    curves = [table.astype({"setting": str})]
    for given in printed(options):
        curve = performance_profile(given.rows).rename(columns={"format": "name"})
        curves.append(curve.assign(setting=given.title, label=curve["name"].map(found).fillna("")))
    return pd.concat(curves, ignore_index=True)


def _draw_profile(table: pd.DataFrame, options: Options) -> Figure:
    """As `rankings.draw_profile`, with the survey's names."""
    labels = table[table["label"] != ""].drop_duplicates("name").set_index("name")["label"]
    text = named(labels.to_dict())
    names = {name: text.get(labels.get(name), name) for name in formats() if name in set(table["name"])}
    marks = {names[name]: mark for name, mark in marks_in(list(names), labels.to_dict(), options).items()}
    shown = table.assign(label=table["name"].map(names))
    figure = rankings.draw_profile(shown, replace(options, marks=marks))
    style.missing(figure, [name for name in formats() if name not in labels])
    return figure


def _roofline(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, from (measured, or the name of published figures), matrix, label, name (the survey's),
    intensity, gflops, marked (whether the point gets its name).
    """
    found = roles(rows)
    ours = points(hot(rows))
    ours = ours[ours["label"].isin(found.values())].astype({"setting": str})
    ours = ours.assign(name=ours["label"].map({label: name for name, label in found.items()}), **{"from": OURS})
    tables = [ours]
    for given in printed(options):
        placed = given.rows.rename(columns={"format": "name"}).dropna(subset=["gflops", "bytes_per_nnz"])
        placed = placed.assign(
            setting=given.title, intensity=2 / placed["bytes_per_nnz"], label="", **{"from": given.name}
        )
        tables.append(placed)
    table = pd.concat(tables, ignore_index=True)
    marked = [place for _, part in table.groupby("setting", sort=False) for place in _chosen(part)]
    table = table.assign(marked=table.index.isin(marked))
    return table[["setting", "from", "matrix", "label", "name", "intensity", "gflops", "marked"]]


def _chosen(part: pd.DataFrame) -> list[int]:
    """The rows to name: the survey's pairs, filled up to three by roofline efficiency."""
    pairs = list(zip(part["matrix"].map(stands_for), part["name"], strict=True))
    found = [place for place, pair in zip(part.index, pairs, strict=True) if pair in PAIRS]
    order = (part["gflops"] / part["intensity"]).sort_values(kind="stable").index
    others = [order[-1], order[len(order) // 2], order[0]]
    return list(dict.fromkeys([*found, *others]))[: len(PAIRS)]


def _draw_roofline(table: pd.DataFrame, options: Options) -> Figure:
    bandwidth = measured_bandwidth(options.environment)
    devices = {given.name: given for given in printed(options)}
    figure, found = panels(table, height=4.4)
    labels = table[table["label"] != ""].drop_duplicates("name").set_index("name")["label"].to_dict()
    marks = marks_in(list(table["name"].unique()), labels, options)
    for ax, setting, part in found:
        given = devices.get(part["from"].iloc[0])
        if given is None:
            dtype, speed, known = setting.split()[0], bandwidth, "measured"
            properties = options.environment.get("properties", {})
        else:
            dtype, speed, known = given.paper.dtype, given.device["bandwidth_gbps"], "as published"
            properties = given.device
        limits = ceilings(properties, dtype)["gflops"]
        roof(ax, part, speed, known, properties, dtype, 4 * limits.max() / speed if len(limits) else 2.0)
        style.scatter(ax, part.assign(label=part["name"]), "intensity", "gflops", marks)
        _name(ax, part[part["marked"]], limits, max(intensity_bounds(dtype).values()))
        ax.set_title(setting)
    style.legend(figure, marks)
    measured = set(table.loc[table["from"] == OURS, "name"])
    style.missing(figure, [name for name in formats() if name not in measured])
    return figure


def _name(ax: Axes, marked: pd.DataFrame, taken: pd.Series, last: float) -> None:
    """Rings around the points, and their names at the right, near their heights, clear of the ceilings.

    last: the intensity of the last vertical, whose label is there too.
    """
    rows = marked.sort_values("gflops", ascending=False)
    ax.scatter(rows["intensity"], rows["gflops"], s=90, facecolors="none", edgecolors="black", linewidths=1, zorder=5)
    bottom, top = np.log(ax.get_ylim())
    low, high = np.log(ax.get_xlim())
    across = max(0.55, (np.log(last) - low) / (high - low) + 0.04)
    height, ceiling = ((np.log(values) - bottom) / (top - bottom) for values in (rows["gflops"], taken))
    free = [y for y in np.arange(0.8, 0, -0.05) if not ceiling.between(y - 0.06, y + 0.02).any()]
    for left, (row, own) in zip(range(len(rows))[::-1], zip(rows.itertuples(), height, strict=True), strict=True):
        if not free:
            return
        place = int(np.argmin(np.abs(np.array(free[: max(len(free) - left, 1)]) - own)))
        ax.annotate(
            f"{short_name(row.matrix)}, {row.name}: {number(row.gflops)}",
            (row.intensity, row.gflops), (across, free[place]), textcoords="axes fraction", fontsize=7.5, va="center",
            bbox={"color": "white", "alpha": 0.85, "pad": 1},
            arrowprops={"arrowstyle": "-", "color": "#555555", "linewidth": 0.7, "relpos": (0, 0.5)}, zorder=6,
        )  # fmt: skip
        free = free[place + 1 :]


_figure = partial(ReportFigure, family=FAMILY)
FIGURES = (
    _figure(
        "survey-row-lengths",
        "Survey, Fig. 9 and 11: row lengths",
        "Number of rows by length, from the matrix with the most even rows to that with the most uneven ones (by the "
        "coefficient of variation, CV): those of the survey's figures that the run has, and others at equal steps. "
        "Both axes are logarithmic if rows are longer than 100 entries; empty rows are drawn at 0.",
        140,
        _row_lengths,
        _draw_row_lengths,
        papers="Filippone et al. 2017, Figures 9 and 11",
        performance=False,
        any_matrix=True,  # matrices of their own worth
    ),
    _figure(
        "survey-patterns",
        "Survey, Fig. 10 and 12: sparsity patterns",
        "Share of places with an entry, in the cells of a grid over the whole matrix (left) and over the part around "
        "its fullest cell (right; a red square marks its position), which is as wide as a cell of the left grid, or "
        "128 places. The matrices of the survey's figures that the run has, and others at equal steps from even to "
        "uneven rows.",
        150,
        _patterns,
        _draw_patterns,
        papers="Filippone et al. 2017, Figures 10 and 12",
        performance=False,
        any_matrix=True,
    ),
    _figure(
        "survey-profile",
        "Survey, Fig. 13 and 14: performance profiles",
        "Share of matrices on which a format is within a factor tau of the fastest of the survey's formats, as a whole "
        "and near the best. The survey: all formats are best on some matrix; HYB and CSR handle every matrix, so that "
        "their curves reach 1; HYB and HLL rise fastest, CSR late, and HDI is for the few matrices that suit it.",
        160,
        _profile,
        _draw_profile,
        papers="Filippone et al. 2017, Figures 13 and 14",
    ),
    _figure(
        "survey-roofline",
        "Survey, Fig. 15: roofline",
        "The survey's formats under the roofline of the measured bandwidth, and its four ceilings: the arithmetic "
        "peak, a single multiprocessor, one thread of every warp (idle threads), and both. Named are the survey's "
        "three pairs if the run has them, else the pairs with the highest, the median and the lowest roofline "
        "efficiency. Published points lie at 2 flops over the bytes of Table 9, without x and y, as in the survey.",
        170,
        _roofline,
        _draw_roofline,
        papers="Filippone et al. 2017, Figure 15",
    ),
)
