"""Head-to-head figures as in papers: GFLOPS over nonzeros, then the speed-up of each pair of formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.ranking import ranked
from spmvbench.analysis.speedup import pair_speedups, pair_summary
from spmvbench.matrices.sets import short_name
from spmvbench.reports import style
from spmvbench.reports.figures import over_nonzeros
from spmvbench.rows.schema import rate_unit

MOST_COLUMNS, LONGEST = 3, 28  # panels side by side, and letters of a matrix's name in one


def table(rows: pd.DataFrame, labels: Sequence[str], pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Columns setting, matrix, label, over, nnz, gflops, speedup.

    Rows of rates have an empty `over` and no speed-up, rows of pairs have no rate. Labels without a verified row are
    absent.
    """
    rates = ranked(rows[rows["label"].isin(labels)])[["setting", "matrix", "label", "nnz", "gflops"]].assign(over="")
    found = pd.concat([rates, pair_speedups(rows, pairs)], ignore_index=True)
    return found[["setting", "matrix", "label", "over", "nnz", "gflops", "speedup"]]


def draw(table: pd.DataFrame, shown: Mapping[str, style.Mark], missing: Sequence[str] = ()) -> Figure:
    """One or two rows of panels per setting: all rates, then one panel per pair with its wins and largest speed-up.

    shown: marks of all labels, in the order of the legend. missing: methods that the run lacks.
    """
    settings = list(table["setting"].unique())
    rates, speedups = table[table["over"] == ""], table[(table["over"] != "") & (table["nnz"] > 0)]
    pairs = list(speedups[["label", "over"]].drop_duplicates().itertuples(index=False, name=None))
    summary = pair_summary(speedups).set_index(["setting", "label", "over"])
    columns = min(1 + len(pairs), MOST_COLUMNS)
    each = columns * -(-(1 + len(pairs)) // columns)  # panels of a setting, those that stay empty too
    figure, axes = style.grid(len(settings) * each, columns, height=3.0)
    for place, setting in enumerate(settings):
        panels = iter(axes[place * each : (place + 1) * each])
        ax = next(panels)
        unit = rate_unit(str(setting))
        over_nonzeros(ax, rates[rates["setting"] == setting], "gflops", shown, title=str(setting), ylabel=unit)
        for label, over in pairs:
            ax = next(panels)
            of_pair = (speedups["label"] == label) & (speedups["over"] == over)
            part = speedups[of_pair & (speedups["setting"] == setting)]
            suffix = f", {setting}" if len(settings) > 1 else ""
            ax.set_title(f"{label}\nover {over}{suffix}", fontsize=8.5)
            ax.set(xlabel="nonzeros", ylabel="speed-up", yscale="log")
            outcome = "no matrix in common"
            if len(part):
                over_nonzeros(ax, part, "speedup", shown)
                outcome = _outcome(summary.loc[(setting, label, over)])
            ax.text(0.02, 0.98, outcome, transform=ax.transAxes, va="top", fontsize=7.5, in_layout=False)
            style.around_one(ax, above=2.2)  # room for the text
        for unused in panels:
            unused.set_visible(False)
    style.legend(figure, shown)
    style.missing(figure, missing)
    return figure


def _outcome(pair: pd.Series) -> str:
    best = short_name(pair["best"])
    best = best if len(best) <= LONGEST else f"{best[: LONGEST - 3]}..."
    return f"faster on {pair['wins']:,} of {pair['matrices']:,}\nat most {pair['max']:.2f}x ({best})"
