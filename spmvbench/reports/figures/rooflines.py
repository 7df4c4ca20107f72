"""The roofline with measured bandwidth and the survey's ceilings, and every measured rate over its bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spmvbench.analysis.roofline import attainable, ceilings, efficiency, gather_bounds, intensity_bounds, points
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, ReportFigure, others, panels

GATHERS = 3  # most gather bounds in a panel, the lowest ones: more would cover the points
OVER_LINES: dict[str, Any] = {"bbox": {"color": "white", "alpha": 0.85, "pad": 1}, "zorder": 5}


def _points(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.roofline.points`, and `gather_gflops`: the bound of a gather-bound matrix, else NaN."""
    bounds = gather_bounds(rows).rename(columns={"gflops": "gather_gflops"})
    return points(rows).merge(bounds, on=["setting", "matrix"], how="left")


def measured_bandwidth(environment: Mapping[str, Any]) -> float:
    """The measured read bandwidth in GB/s. Raises LeftOut if the run has none."""
    bandwidth = environment.get("read_bandwidth_gbps")
    if not bandwidth:
        raise LeftOut("the run has no measured bandwidth, which is the roof")
    return float(bandwidth)


def _draw_roofline(table: pd.DataFrame, options: Options) -> Figure:
    bandwidth = measured_bandwidth(options.environment)
    figure, found = panels(table, height=4.2)
    for ax, setting, part in found:
        dtype = setting.split()[0]
        right = max(intensity_bounds(dtype).values()) * 2.5
        roof(ax, part, bandwidth, "measured", options.environment.get("properties", {}), dtype, right)
        style.scatter(ax, part, "intensity", "gflops", options.marks)
        left = min(intensity_bounds(dtype).values()) / 1.2  # next to the labels of the verticals
        gathers = part.dropna(subset="gather_gflops").drop_duplicates("matrix").nsmallest(GATHERS, "gather_gflops")
        for row in gathers.itertuples():
            ax.axhline(row.gather_gflops, color=style.INK, linestyle=":", linewidth=1)
            text = f"{row.matrix.partition('/')[2]}: gather bound"
            ax.annotate(
                text, (left, row.gather_gflops), ha="right", va="bottom", fontsize=7, color="#333333", **OVER_LINES
            )
        ax.set_title(setting)
    style.legend(figure, options.marks, others(table, options.marks))
    return figure


def roof(
    ax: Axes,
    part: pd.DataFrame,
    bandwidth: float,
    known: str,
    properties: Mapping[str, Any],
    dtype: str,
    right: float,
) -> None:
    """The roof, the survey's ceilings, and the upper bounds on the intensity of general formats.

    part: the points, columns intensity and gflops. bandwidth: GB/s; known: its origin, in a word. properties: as for
    `analysis.roofline.ceilings`. right: end of the axis of intensities; the peak is drawn if it is visible.
    """
    bounds, limits = intensity_bounds(dtype), ceilings(properties, dtype)
    peak = limits["gflops"].max() if len(limits) else np.inf
    wide = peak <= right * bandwidth  # then the peak is visible, and there is room for text at the right
    x = np.geomspace(part["intensity"].quantile(0.005, interpolation="lower") / 2, right, 100)
    low = min([part["gflops"].quantile(0.01, interpolation="lower") / 2, *limits["gflops"] / 1.5])
    ax.plot(x, attainable(x, bandwidth, peak), color="black", linewidth=2)
    text = f"roof: {bandwidth:,.0f} GB/s {known}"
    ax.text(0.02, 0.88 if wide else 0.97, text, transform=ax.transAxes, va="top", fontsize=8, **OVER_LINES)
    for text, bound in bounds.items():
        ax.axvline(bound, color=style.INK, linestyle=":", linewidth=1)
        ax.text(
            bound, low * 1.1, f"{text}: 1/{1 / bound:.0f}", rotation=90, ha="center", va="bottom", fontsize=7.5,
            **OVER_LINES,
        )  # fmt: skip
    for row in limits[(limits["ceiling"] != "peak") | wide].itertuples():
        ax.axhline(row.gflops, color="#555555", linestyle="--", linewidth=0.9)
        ax.text(
            x[-1 if wide else 0], row.gflops * 1.08, f" {row.ceiling}: {row.gflops:,.0f} ",
            ha="right" if wide else "left", va="bottom", fontsize=7.5, color="#333333", **OVER_LINES,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="arithmetic intensity, flop/byte", ylabel="GFLOPS")
    ax.set(xlim=(x[0], x[-1]), ylim=(low, None))
    style.plain_ticks(ax.xaxis)
    style.plain_ticks(ax.yaxis)


def _draw_bounds(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table, height=4.2)
    for ax, setting, part in found:
        high = part["bound_gflops"].max() * 1.3
        bottom = max(part["gflops"].min(), high / 300) / 1.3
        low = max(part["bound_gflops"].min() / 1.3, bottom)  # points further left lie below the figure
        ends = np.array([low, high])
        ax.plot(ends, ends, color="black", linewidth=2)
        ax.plot(ends, ends / 2, color=style.INK, linewidth=1, linestyle=":")
        style.scatter(ax, part, "bound_gflops", "gflops", options.marks)
        ax.set(xscale="log", yscale="log", xlabel="bound, GFLOPS", ylabel="GFLOPS", title=setting, xlim=(low, high))
        ax.set_ylim(bottom, high)
        style.plain_ticks(ax.xaxis)
        style.plain_ticks(ax.yaxis)
    style.legend(figure, options.marks, others(table, options.marks))
    return figure


FIGURES = (
    ReportFigure(
        "roofline",
        "Roofline",
        "GFLOPS over arithmetic intensity: 2 nnz over the bytes of the format, of x and of y. The roof is the "
        "bandwidth measured by reading on this device, because SpMV writes little; hot points may lie above it if L2 "
        "serves them. Dotted horizontals are the bounds of gather-bound matrices. Dotted verticals are upper bounds on "
        "the intensity: values alone, and values with 32-bit indices. Dashed lines are arithmetic peaks if one "
        "multiprocessor works, one thread of each warp, or one thread in all.",
        30,
        _points,
        _draw_roofline,
        papers="Williams et al. 2009; Filippone et al. 2017, Figure 15",
    ),
    ReportFigure(
        "bounds",
        "Roofline efficiency",
        "Measured GFLOPS (y) and their bound (x), the lower of two bounds. Reading: the bytes of the format, of x and "
        "of y, at the bandwidth of memory, or of the cache if they fit. Gathering: the distinct 32-byte sectors of x "
        "that each multiprocessor needs if it has an equal share of the entries in row order, at the gather rate of an "
        "x of that size. Both rates were measured on this device for many sizes. On the line the efficiency is 1, on "
        "the dotted line 0.5.",
        32,
        lambda rows, options: efficiency(rows),
        _draw_bounds,
        nothing="no row has a bound: rows of older versions have none",
    ),
)
