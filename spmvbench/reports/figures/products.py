"""Time to N products: conversion and N SpMVs, for several ways of choosing a format."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.products import ADVISED, CUPY, MEASURED, ORACLE, SINGLE, VENDOR, products
from spmvbench.analysis.ranking import VENDORS
from spmvbench.reports import style, tables
from spmvbench.reports.advised import choices
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.tables import Table

name = "products"
title = "Time to N products"
caption = (
    "Time of conversion and N SpMVs. Left: geometric mean over the matrices of the time over that of the oracle, "
    "which takes the format with the least time on each matrix. Right: share of the matrices on which the time is at "
    "most 1.05 times that of cuSPARSE's CSR, its preprocessing included. The best single format is chosen for each N "
    "on these matrices. A matrix that the chosen format does not hold counts as 10 times the oracle. The advised one "
    "is shown if the run's GPU has a model and the run holds all formats that are advised, on the matrices of the "
    "model's evaluation: each was predicted without the matrices of its family; with few measured, the best of five "
    "by the model, cuSPARSE's and the fallback is taken, and the time of measuring them does not count. CuPy's "
    "default is shown if the run has rows of cupy-csr: calls of csr @ x from the host, while SpMVs of formats are "
    "timed in a CUDA graph. Converted on the device if that was measured, else on the host."
)
papers = ""
order = 92
performance = True

_MARKS = style.marks([ADVISED, MEASURED, SINGLE, VENDOR, ORACLE, CUPY])


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.products.products`, of hot settings if there are any. Raises LeftOut without cuSPARSE's CSR."""
    found = products(hot(rows), choices(rows))
    if found.empty:
        raise LeftOut(f"no verified row of {' or '.join(VENDORS)} with the time of its conversion")
    return found


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting: slowdown at the left, share of matrices at the right."""
    settings = list(table["setting"].unique())
    figure, axes = style.grid(2 * len(settings), 2, height=3.1)
    for i, setting in enumerate(settings):
        part = table[table["setting"] == setting]
        for ax, value, text in (
            (axes[2 * i], "slowdown", "time over the oracle's"),
            (axes[2 * i + 1], "within", "share within 1.05 of cuSPARSE"),
        ):
            for chooser, mark in _MARKS.items():
                line = part[part["chooser"] == chooser]
                ax.plot(
                    line["spmvs"], line[value], color=mark.color, linestyle=mark.line, marker=mark.marker, markersize=5
                )
            ax.set(xscale="log", xlabel="N, SpMVs", ylabel=text, title=str(setting))
            style.count_ticks(ax.xaxis)
        axes[2 * i].set_yscale("log")
        style.plain_ticks(axes[2 * i].yaxis)
        axes[2 * i + 1].set_ylim(0, 1.05)
    drawn = set(table["chooser"])
    style.legend(figure, {chooser: mark for chooser, mark in _MARKS.items() if chooser in drawn}, lines=True)
    return figure


def show(table: pd.DataFrame, options: Options) -> list[Table]:
    """One row for each setting, way of choosing and number of SpMVs."""
    return [tables.products(table)]
