"""Two cards side by side: the ratio of times by format and matrix, and the ratio of bandwidths as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis import cards
from spmvbench.analysis.cases import emulated, latest_cases
from spmvbench.errors import UsageError
from spmvbench.paths import written_whole
from spmvbench.reports import export, style, tables
from spmvbench.reports.figures import panels
from spmvbench.reports.tables import Column, Table

NAME = "cards"


def names(rows: pd.DataFrame) -> list[str]:
    """The models of GPU of these rows."""
    return sorted(set(rows.loc[~emulated(rows), "device_name"]) - {""})


def differ(rows: pd.DataFrame, others: pd.DataFrame) -> bool:
    """Whether the rows are of one model of GPU each, and not of the same."""
    here, there = names(rows), names(others)
    return len(here) == len(there) == 1 and here != there


def bandwidth_ratio(environment: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Read bandwidth of the first run's device over that of the other's, as measured; NaN if a run has none."""
    here, there = (about.get("read_bandwidth_gbps") for about in (environment, other))
    return float(here) / float(there) if here and there else np.nan


def write(
    rows: pd.DataFrame, others: pd.DataFrame, bandwidths: float, out: Path, images: Sequence[str]
) -> tuple[pd.DataFrame, list[Path]]:
    """Write cards.csv (matrix by matrix and format by format), cards.tex and the figure as `images`.

    bandwidths: as `bandwidth_ratio`, NaN if unknown. Returns the table of `analysis.cards.carried_over` and the paths.
    Raises UsageError if no case is verified on both cards.
    """
    table, pair = compared(rows, others)
    over = cards.carried_over(table)
    told = table.assign(here=pair[0], there=pair[1], bandwidths=bandwidths)
    contents = {
        f"{NAME}.csv": tables.csv(told, "%.6g").encode(),
        f"{NAME}.tex": export.written([summary(over, *pair)], "latex").encode(),
    }
    with style.theme():
        drawing = draw(table, bandwidths, *pair)
        contents |= {f"{NAME}.{image}": style.rendered(drawing, image) for image in images}
    for name, content in contents.items():
        with written_whole(out / name) as file:
            file.write(content)
    return over, [out / name for name in contents]


def compared(rows: pd.DataFrame, others: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, str]]:
    """`analysis.cards.ratios`, and the names of the cards. Raises UsageError if no case is verified on both."""
    pair = names(rows)[0], names(others)[0]
    table = cards.ratios(latest_cases(rows), latest_cases(others))
    if table.empty:
        raise UsageError(f"no case was verified on both {pair[0]} and {pair[1]}: matrices, formats or types differ")
    return table, pair


def draw(table: pd.DataFrame, bandwidths: float, here: str, there: str) -> Figure:
    """A dot for each format over its matrix, the median of each matrix, and the ratio of bandwidths as a dashed line.

    table: as `analysis.cards.ratios`. One panel for each setting.
    """
    figure, found = panels(table)
    for ax, setting, part in found:
        matrices = list(dict.fromkeys(part.sort_values("nnz")["matrix"]))
        at = part["matrix"].map(matrices.index)
        ax.plot(
            at, part["ratio"], linestyle="", marker="o", markersize=3, alpha=0.4, color=style.COLOR, label="a format"
        )
        middle = part.groupby(at)["ratio"].median()
        ax.plot(middle.index, middle, linestyle="", marker="_", markersize=14, color=style.INK, label="median")
        if not np.isnan(bandwidths):
            label = f"bandwidths: {bandwidths:.2f}"
            ax.axhline(bandwidths, color=style.INK, linestyle="--", linewidth=1, label=label)
        ax.set(title=setting, ylabel=f"time on {there} / {here}", yscale="log")
        style.around_one(ax)
        style.names_below(ax, matrices)
        ax.legend(fontsize="small")
    return figure


def summary(over: pd.DataFrame, here: str, there: str) -> Table:
    """A row for each setting and matrix: how the ranks agree, the ratios, and what the best format loses there."""

    def plain(value: float) -> str:
        return tables.NONE if pd.isna(value) else f"{value:.3f}"

    def percent(value: float) -> str:
        return f"{100 * value:.1f} %"

    columns = [
        Column("setting", "Setting"),
        Column("matrix", "Matrix"),
        Column("formats", "Formats", tables.number),
        Column("rank_correlation", "Rank correlation", plain, "Spearman's, of the times"),
        Column("low", "Smallest ratio", plain, f"time on {there} over time on {here}"),
        Column("middle", "Median ratio", plain),
        Column("high", "Largest ratio", plain),
        Column("best", f"Best on {here}"),
        Column("lost", "Its loss", percent, f"its time on {there} over the best time there, minus 1"),
    ]
    return tables.table(f"{here} and {there}", over, columns)
