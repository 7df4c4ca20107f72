"""Rates, profiles and speed-ups of all formats, and the fastest format of each matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.profiles import performance_profile
from spmvbench.analysis.ranking import best_formats, ranked
from spmvbench.analysis.roofline import roofs
from spmvbench.analysis.speedup import speedup_summary, speedups
from spmvbench.errors import percent
from spmvbench.reports import style
from spmvbench.reports.figures import Options, ReportFigure, others, over_nonzeros, panels
from spmvbench.rows.schema import rate_unit

ZOOM = 2.0  # end of the enlarged part of a profile
MOST = 40  # fastest formats that all have their marks; of more, only those highlighted


def profile(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """The points of every curve: columns setting, label, tau, rho."""
    curves = [
        performance_profile(part, by="label").assign(setting=setting)
        for setting, part in rows.groupby("setting", observed=True)
    ]
    return pd.concat(curves, ignore_index=True)[["setting", "label", "tau", "rho"]]


def draw_profile(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: the whole profile at the left, the part near the best at the right."""
    settings = list(table["setting"].unique())
    figure, axes = style.grid(2 * len(settings), 2, height=3.3)
    far = max(table["tau"].max(), ZOOM) * 1.15
    curves = dict(list(table.groupby(["setting", "label"])))
    for setting, whole, zoomed in zip(settings, axes[::2], axes[1::2], strict=True):
        part = table[table["setting"] == setting]
        for ax, limit in ((whole, far), (zoomed, ZOOM)):
            for label in style.order_of(part, options.marks):
                curve, mark = curves[setting, label], options.marks.get(label, style.OTHERS)
                near = curve[curve["tau"] <= limit]
                near = near.iloc[style.coarse(*(np.log(v) for v in (near["tau"].to_numpy(), 1.0, limit)))]
                marked: dict[str, Any] = {"linewidth": 0.8}
                if mark is not style.OTHERS:
                    every = (0.02 * list(options.marks).index(label), 0.18)
                    marked = {"linewidth": 1.7, "marker": mark.marker, "markevery": every, "markersize": 5}
                ax.step(
                    np.append(near["tau"], limit), np.append(near["rho"], near["rho"].iloc[-1]), where="post",
                    color=mark.color, linestyle=mark.line, **marked,
                )  # fmt: skip
            ax.set(ylim=(0, 1.02), xlim=(1, limit), xlabel="tau: time over the best time")
        whole.set(xscale="log", title=setting, ylabel="share of matrices within tau")
        style.plain_ticks(whole.xaxis)
        zoomed.set(title=f"{setting}, near the best")
    style.legend(figure, options.marks, others(table, options.marks), lines=True)
    return figure


def _draw_rates(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table)
    for ax, setting, part in found:
        over_nonzeros(ax, part, "gflops", options.marks, title=setting, ylabel=rate_unit(setting))
        bounds = roofs(setting, options.environment)
        if bounds:  # room for the text above the highest
            low, high = ax.get_ylim()
            ax.set_ylim(low, max(high, low * (max(bounds.values()) / low) ** 1.14))
        for place, (text, rate) in enumerate(bounds.items()):
            side, away = ("top", -2) if place else ("bottom", 1)  # the second is the lower one
            ax.axhline(rate, color=style.INK, linestyle=":", linewidth=1)
            ax.annotate(
                f"{text}: {rate:,.0f}", (0.01, rate), xycoords=ax.get_yaxis_transform(), va=side, fontsize=7,
                xytext=(0, away), textcoords="offset points",
            )  # fmt: skip
    style.legend(figure, options.marks, others(table, options.marks))
    return figure


def _draw_speedups(table: pd.DataFrame, options: Options) -> Figure:
    shown = {label: mark for label, mark in options.marks.items() if label != options.baseline}
    figure, found = panels(table[table["nnz"] > 0])
    for ax, setting, part in found:
        over_nonzeros(ax, part, "speedup", shown, title=setting, ylabel=f"speed-up over {options.baseline}")
        ax.axhline(1, color="black", linewidth=1)
    style.legend(figure, shown, others(table, shown))
    return figure


def _draw_means(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table, height=0.9 + 0.21 * table["setting"].value_counts().max(), lines=True)
    for ax, setting, rows in found:
        part = rows.sort_values("geomean", ascending=False, kind="stable")
        for y, row in enumerate(part.itertuples()):
            mark = options.marks.get(row.label, style.OTHERS)
            color = style.strong(mark)
            ax.plot([row.min, row.max], [y, y], color=color, linewidth=1)
            ax.plot([1, row.geomean], [y, y], color=color, linewidth=7, alpha=0.45, solid_capstyle="butt")
            (dot,) = ax.plot(row.geomean, y, color=color, marker=mark.marker, markersize=5)
            style.titled(dot, f"{row.label}: {row.geomean:.2f}x, from {row.min:.2f}x to {row.max:.2f}x")
            style.right_note(ax, y, f"{row.geomean:.2f}x, {percent(row.coverage)}")
        ax.axvline(1, color="black", linewidth=1)
        ax.set(title=setting, xscale="log", xlabel=f"speed-up over {options.baseline}")
        style.lines(ax, part["label"])
        style.right_title(ax, "mean, share")
        style.plain_ticks(ax.xaxis)
        style.keep_apart(ax)
    return figure


def _winners(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    lengths = rows.drop_duplicates(["setting", "matrix"])[["setting", "matrix", "row_len_mean", "row_len_cv"]]
    return best_formats(rows).merge(lengths, on=["setting", "matrix"])


def _draw_winners(table: pd.DataFrame, options: Options) -> Figure:
    winners = table["label"].value_counts()
    shown = options.marks_of([label for label in winners.index if label in options.marks or len(winners) <= MOST])
    figure, found = panels(table)
    for ax, setting, part in found:
        style.scatter(ax, part, "row_len_mean", "row_len_cv", shown)
        ax.set(title=setting, xlabel="mean row length, entries", ylabel="coefficient of variation", xscale="log")
        ax.set_yscale("symlog", linthresh=0.1)
        ax.set_ylim(-0.01, max(0.1, table["row_len_cv"].max()) * 1.5)  # in this order: it may be NaN
        style.plain_ticks(ax.xaxis)
        ax.yaxis.set_major_formatter("{x:g}")
    style.legend(figure, shown, others(table, shown))
    return figure


FIGURES = (
    ReportFigure(
        "profile",
        "Performance profile",
        "Share of matrices on which a format is within a factor tau of the fastest. The value at tau = 1 is the share "
        "on which no format was faster. Failed and skipped matrices are never within tau, so a curve ends at the "
        "format's coverage. Formats that are not highlighted are grey.",
        10,
        profile,
        draw_profile,
        papers="Dolan & More 2002; Filippone et al. 2017, Figures 13 and 14",
    ),
    ReportFigure(
        "gflops",
        "GFLOPS over nonzeros",
        "2 nnz over the median time; padding does not count as nonzeros. Dotted bounds, if the run measured its "
        "bandwidth: what memory allows if values alone are read, and values with 32-bit indices. Hot points may lie "
        "above them if L2 serves them. Times of small matrices are dominated by launch overhead and idle "
        "multiprocessors.",
        20,
        lambda rows, options: ranked(rows)[["setting", "label", "matrix", "nnz", "gflops", "near_launch_overhead"]],
        _draw_rates,
        papers="Niu et al. 2021; Filippone et al. 2017, Figures 5 to 12",
    ),
    ReportFigure(
        "speedup",
        "Speed-up, matrix by matrix",
        "Time of {baseline} over time of the format, for every matrix on which both are verified; above the line the "
        "format is faster.",
        40,
        lambda rows, options: speedups(rows, options.required_baseline).drop(columns=["t_base", "t_median"]),
        _draw_speedups,
        papers="Niu et al. 2021; Ji et al. 2022",
    ),
    ReportFigure(
        "speedup-mean",
        "Mean speed-up",
        "Geometric mean of the speed-up over {baseline} (bar and first number), smallest to largest (thin line), and "
        "the share of all solved matrices in the mean (second number). The largest mean comes first. Means over "
        "different matrices are not comparable: read both numbers together.",
        50,
        lambda rows, options: speedup_summary(rows, options.required_baseline),
        _draw_means,
        by="-geomean",
        papers="Fleming & Wallace 1986; Gao et al. 2022 (EHYB)",
    ),
    ReportFigure(
        "winners",
        "Fastest format by row lengths",
        "Every matrix once, with the mark of its fastest format, by mean and coefficient of variation of the row "
        "lengths (0: all rows are equally long). Of formats within 0.5 % of each other the one with the lowest mean "
        "slowdown is shown; the file names the others.",
        60,
        _winners,
        _draw_winners,
        papers="Filippone et al. 2017, section 5.5",
    ),
)
