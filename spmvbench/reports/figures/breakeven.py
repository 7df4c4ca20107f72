"""Conversion in SpMVs, and the break-even against the baseline."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import of_one_path, overheads
from spmvbench.analysis.cases import hot
from spmvbench.reports import style
from spmvbench.reports.figures import Options

name = "breakeven"
title = "Conversion in SpMVs, and break-even"
caption = (
    "Left: conversion time in SpMVs of the format. Right: SpMVs after which the format breaks even with {baseline}: "
    "difference of setup times over difference of SpMV times. A slower format never breaks even; a faster one whose "
    "setup is not slower does so at once. Median, middle half, and 5 to 95 % of the matrices; the share that never "
    "breaks even is at the right. Converted on the device if that was measured, else on the host."
)
papers = "Filippone et al. 2017, Table 10"
order = 90
performance = True

AT_ONCE, NEVER = 0.5, 3e6


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.breakeven.overheads`, of hot settings if there are any."""
    return of_one_path(overheads(hot(rows), options.required_baseline))


def _never(rows: pd.DataFrame) -> str:
    share = np.isinf(rows["value"]).mean()
    return f"{share:.0%}" if share else ""


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per format, two panels per setting."""
    settings = list(table["setting"].unique())
    kinds = {"spmvs": "in SpMVs", "break_even": "break-even"}
    long = pd.concat(
        [
            table[["label"]].assign(panel=table["setting"].astype(str) + f", {text}", value=table[kind])
            for kind, text in kinds.items()
        ]
    ).dropna(subset="value")
    long = long[(long["label"] != options.baseline) | ~long["panel"].str.endswith("break-even")]
    panels = [f"{setting}, {text}" for text in kinds.values() for setting in settings]
    long["panel"] = pd.Categorical(long["panel"], panels, ordered=True)
    long["clipped"] = long["value"].clip(AT_ONCE, NEVER)
    figure = style.ranges(
        long, "clipped", "panel", options.marks, "SpMVs",
        note=_never, note_title="never",
    )  # fmt: skip
    for ax in figure.axes:
        ax.set_xlim(AT_ONCE / 2, NEVER * 2)
        paying = ax.get_title(loc="left").endswith("break-even")
        ticks = (
            {AT_ONCE: "at once", 1e2: "100", 1e4: "10k", NEVER: "never"} if paying else {1: "1", 1e2: "100", 1e4: "10k"}
        )
        ax.set_xticks(list(ticks), list(ticks.values()))
        ax.set_xticks([], minor=True)
    return figure
