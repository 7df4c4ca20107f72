"""Distributions over the matrices, a format a row: bytes, conversion, break-even and energy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import footprints, of_one_path, overheads, setups
from spmvbench.analysis.cases import hot, one_per_matrix
from spmvbench.analysis.details import gflops_per_watt
from spmvbench.errors import percent
from spmvbench.reports import style
from spmvbench.reports.figures import Options, ReportFigure

AT_ONCE, NEVER = 0.5, 3e6


def conversions(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, label, dtype, path, nnz, setup (seconds), setup_per_million (seconds for 1e6 nonzeros)."""
    table = setups(one_per_matrix(rows))
    table = table[table["nnz"] > 0]
    table = table.assign(setup_per_million=table["setup"] / table["nnz"] * 1e6)
    return table[["matrix", "label", "dtype", "path", "nnz", "setup", "setup_per_million"]]


def _draw_conversions(table: pd.DataFrame, options: Options) -> Figure:
    table = table.assign(panel=table["dtype"] + ", on the " + table["path"])
    table = table[table["setup_per_million"] > 0]
    figure = style.ranges(table, "setup_per_million", "panel", options.marks, "time for a million nonzeros")
    for ax in figure.axes:
        style.time_ticks(ax.xaxis)
        style.keep_apart(ax)
    return figure


def breakeven(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.breakeven.overheads`, of hot settings if there are any."""
    return of_one_path(overheads(hot(rows), options.required_baseline))


def _never(rows: pd.DataFrame) -> str:
    share = np.isinf(rows["value"]).mean()
    return percent(share) if share else ""


def _draw_breakeven(table: pd.DataFrame, options: Options) -> Figure:
    texts = {"spmvs": "in SpMVs", "break_even": "break-even"}
    long = pd.concat(
        [
            table[["label"]].assign(panel=table["setting"].astype(str) + f", {text}", value=table[column])
            for column, text in texts.items()
        ]
    ).dropna(subset="value")
    long = long[(long["label"] != options.baseline) | ~long["panel"].str.endswith("break-even")]
    panels = [f"{setting}, {text}" for text in texts.values() for setting in table["setting"].unique()]
    long["panel"] = pd.Categorical(long["panel"], panels, ordered=True)
    long["clipped"] = long["value"].clip(AT_ONCE, NEVER)
    figure = style.ranges(long, "clipped", "panel", options.marks, "SpMVs", note=_never, note_title="never")
    for ax in figure.axes:
        ax.set_xlim(AT_ONCE / 2, NEVER * 2)
        ticks = {1: "1", 1e2: "100", 1e4: "10k"}
        if ax.get_title(loc="left").endswith("break-even"):
            ticks = {AT_ONCE: "at once", 1e2: "100", 1e4: "10k", NEVER: "never"}
        ticks = ticks if style.width() > 2 * len(figure.axes) else {x: ticks[x] for x in (min(ticks), max(ticks))}
        ax.set_xticks(list(ticks), list(ticks.values()))
        ax.set_xticks([], minor=True)
    return figure


FIGURES = (
    ReportFigure(
        "bytes",
        "Bytes per nonzero",
        "Bytes of the allocated arrays over the nonzeros: median, middle half, and 5 to 95 % of the matrices that the "
        "format holds, whose number is at the right. CSR takes a little over 12 bytes in f64 and 8 in f32 if rows are "
        "long.",
        70,
        lambda rows, options: footprints(rows),
        lambda table, options: style.ranges(
            table, "bytes_per_nnz", "dtype", options.marks, "bytes per nonzero", note=style.matrices
        ),
        papers="Filippone et al. 2017, Table 9",
        by="bytes_per_nnz",
        performance=False,
    ),
    ReportFigure(
        "conversion",
        "Conversion from CSR",
        "Time per million nonzeros from canonical CSR to the format, ready to multiply: median, middle half, and 5 to "
        "95 % of the matrices. Converted on the host and copied to the device, or converted on the device.",
        80,
        conversions,
        _draw_conversions,
        by="setup_per_million",
        papers="Filippone et al. 2017, Table 10",
        performance=False,
    ),
    ReportFigure(
        "energy",
        "GFLOPS a watt",
        "Flops of an SpMV over its energy, hot: median, middle half, and 5 to 95 % of the matrices whose energy was "
        "measured (`run --energy`), whose number is at the right. The energy is that of the whole device, what it uses "
        "idle included. The last format needs least.",
        85,
        lambda rows, options: gflops_per_watt(rows),
        lambda table, options: style.ranges(
            table, "gflops_per_watt", "setting", options.marks, "GFLOPS a watt", note=style.matrices
        ),
        by="-gflops_per_watt",
    ),
    ReportFigure(
        "breakeven",
        "Conversion in SpMVs, and break-even",
        "Conversion time in SpMVs of the format, and SpMVs after which the format breaks even with {baseline}: median, "
        "middle half, and 5 to 95 % of the matrices, with the share that never breaks even. Break-even is the "
        "difference of setup times over the difference of SpMV times. A slower format never breaks even; a faster one "
        "whose setup is not slower does so at once. Converted on the device if that was measured, else on the host.",
        90,
        breakeven,
        _draw_breakeven,
        by="break_even",
        papers="Filippone et al. 2017, Table 10",
    ),
)
