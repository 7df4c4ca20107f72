"""What a reader asked to compare: two formats of a report, and two cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis import cards
from spmvbench.analysis.cases import counted, gpus, latest_cases
from spmvbench.analysis.ranking import TIE, by_mean_slowdown
from spmvbench.analysis.speedup import against_summary, with_outcomes
from spmvbench.errors import UsageError
from spmvbench.reports import head_to_head, style, tables
from spmvbench.reports.figures import LeftOut, Options, ReportFigure, panels
from spmvbench.reports.tables import Column, Table


def _two_formats(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `head_to_head.table`, of the only two formats: the better one over the other."""
    rows = counted(rows)
    labels = by_mean_slowdown(rows)
    if len(labels) != 2:
        raise LeftOut("the report has not exactly two formats (--formats A,B)")
    found = head_to_head.table(rows, labels, [(labels[0], labels[1])])
    if not (found["over"] != "").any():
        raise LeftOut(f"no matrix has a verified time of both {labels[0]} and {labels[1]}")
    return found


def _outcomes(table: pd.DataFrame, options: Options) -> list[Table]:
    pair = table[table["over"] != ""]
    label, over = pair[["label", "over"]].iloc[0]
    columns = [
        Column("setting", "Setting"),
        Column("matrices", "Matrices", tables.count),
        Column("wins", "Faster", tables.count, f"matrices on which {label} is"),
        Column("ties", "As fast", tables.count, f"within {100 * (TIE - 1):.1f} %"),
        Column("losses", "Slower", tables.count),
        Column("geomean", "Speed-up", tables.number, "geometric mean over the matrices"),
        Column("low", "From", tables.number, "95 % interval over the matrices"),
        Column("high", "To", tables.number),
    ]
    return [tables.table(f"{label} compared with {over}", against_summary(with_outcomes(pair)), columns)]


def differ(rows: pd.DataFrame, others: pd.DataFrame) -> bool:
    """Whether the rows are of one model of GPU each, and not of the same."""
    here, there = gpus(rows), gpus(others)
    return len(here) == len(there) == 1 and here != there


def bandwidth_ratio(environment: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Read bandwidth of the first run's device over that of the other's, as measured; NaN if a run has none."""
    here, there = (about.get("read_bandwidth_gbps") for about in (environment, other))
    return float(here) / float(there) if here and there else np.nan


def compared(rows: pd.DataFrame, others: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, str]]:
    """`analysis.cards.ratios`, and the names of the cards. Raises UsageError if no case is verified on both."""
    pair = gpus(rows)[0], gpus(others)[0]
    table = cards.ratios(latest_cases(rows), latest_cases(others))
    if table.empty:
        raise UsageError(f"no case was verified on both {pair[0]} and {pair[1]}: matrices, formats or types differ")
    return table, pair


def _cards(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `compared`, with the columns here, there (names of the cards) and bandwidths (their ratio, NaN if unknown)."""
    if options.other is None:
        raise LeftOut("no run of another card was named (--beside RUN)")
    others, about = options.other
    table, (here, there) = compared(rows, others)
    return table.assign(here=here, there=there, bandwidths=bandwidth_ratio(options.environment, about))


def _draw_cards(table: pd.DataFrame, options: Options) -> Figure:
    """A dot for each format over its matrix, the median of each matrix, and the ratio of bandwidths as a dashed line.

    One panel for each setting.
    """
    here, there, bandwidths = table[["here", "there", "bandwidths"]].iloc[0]
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
            ax.axhline(bandwidths, color=style.strong(style.OTHERS), linestyle="--", linewidth=1.5, label=label)
        ax.set(title=setting, ylabel=f"time on {there} / {here}", yscale="log", xlabel="matrix")
        style.around_one(ax)
        style.names_below(ax, matrices)
        ax.legend(fontsize="small")
    style.missing(figure, [], before=f"{here} and {there}.")
    return figure


def _plain(value: float) -> str:
    return tables.NONE if pd.isna(value) else f"{value:.3f}"


def summary(over: pd.DataFrame, here: str, there: str) -> Table:
    """A row for each setting and matrix: how the ranks agree, the ratios, and what the best format loses there."""
    columns = [
        Column("setting", "Setting"),
        Column("matrix", "Matrix"),
        Column("formats", "Formats", tables.number),
        Column("rank_correlation", "Rank correlation", _plain, "Spearman's, of the times"),
        Column("low", "Smallest ratio", _plain, f"time on {there} over time on {here}"),
        Column("middle", "Median ratio", _plain),
        Column("high", "Largest ratio", _plain),
        Column("best", f"Best on {here}"),
        Column("lost", "Its loss", tables.percent, f"its time on {there} over the best time there, minus 1"),
    ]
    return tables.table(f"{here} and {there}", over, columns)


FIGURES = (
    ReportFigure(
        "two-formats",
        "Two formats",
        "GFLOPS of both, and the time of one over that of the other on every matrix on which both are verified: above "
        "the line the first is faster.",
        3,
        _two_formats,
        lambda table, options: head_to_head.draw(table, options.marks_of(dict.fromkeys(table["label"]))),
        _outcomes,
    ),
    ReportFigure(
        "cards",
        "Two cards",
        "The time of every format on the second card over that on the first, matrix by matrix, for the same content of "
        "the matrix, parameters, types, mode and order. A format on the dashed line takes as much longer as the second "
        "card reads slower. Programs that are another today are left out.",
        4,
        _cards,
        _draw_cards,
        lambda table, options: [summary(cards.carried_over(table), *table[["here", "there"]].iloc[0])],
        every_operation=True,
        keeps_stand_ins=True,
    ),
)
