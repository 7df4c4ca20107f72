"""Fig. 15: the roofline, its ceilings, and three points with their names."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.roofline import ceilings, intensity_bounds, points
from spmvbench.matrices.sets import short_name
from spmvbench.reports import style
from spmvbench.reports.figures import Options, by_setting
from spmvbench.reports.figures.roofline import measured_bandwidth, roof
from spmvbench.reports.figures.survey import formats, marks_in, printed, roles
from spmvbench.reports.tables import number

name = "survey-roofline"
title = "Survey, Fig. 15: roofline"
caption = (
    "The survey's formats under the roofline of the measured bandwidth, and its four ceilings: the arithmetic peak, a "
    "single multiprocessor, one thread of every warp (idle threads), and both. Named are the survey's three pairs if "
    "the run has them, else the pairs with the highest, the median and the lowest roofline efficiency. Published "
    "points lie at 2 flops over the bytes of Table 9, without x and y, as in the survey."
)
papers = "Filippone et al. 2017, Figure 15"
order = 170
performance = True

PAIRS = (("Janna/ML_Laplace", "ELL"), ("Schmid/thermal2", "ELL"), ("SNAP/web-Google", "HLL"))
OURS = "measured"


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, from (measured, or the name of published figures), matrix, label, name (the survey's),
    intensity, gflops, marked (whether the point gets its name). Raises LeftOut without any of the survey's formats.
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
    pairs = list(zip(part["matrix"], part["name"], strict=True))
    found = [place for place, pair in zip(part.index, pairs, strict=True) if pair in PAIRS]
    order = (part["gflops"] / part["intensity"]).sort_values(kind="stable").index
    others = [order[-1], order[len(order) // 2], order[0]]
    return list(dict.fromkeys([*found, *others]))[: len(PAIRS)]


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per setting. Raises LeftOut if the run has no measured bandwidth."""
    bandwidth = measured_bandwidth(options.environment)
    devices = {given.name: given for given in printed(options)}
    figure, panels = by_setting(table, height=4.4)
    labels = table[table["label"] != ""].drop_duplicates("name").set_index("name")["label"].to_dict()
    marks = marks_in(list(table["name"].unique()), labels, options)
    for ax, setting, part in panels:
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
