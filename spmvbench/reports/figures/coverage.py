"""Coverage: statuses of all cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from spmvbench.reports import style
from spmvbench.reports.figures import Options
from spmvbench.rows.schema import STATUSES

name = "coverage"
title = "Coverage"
caption = (
    "Bars: the share of a format's cases that it could hold, by status; the rest of a line was skipped. At the right "
    "the verified cases (ok) and all cases. Formats with the fewest verified cases come first; those with all of them "
    "are counted in one line. Only cases with status ok enter other figures."
)
papers = ""
order = 5
performance = False

# The worse the status, the stronger the colour; hatches distinguish statuses without colour.
_LOOKS = {
    "ok": ("#0072B2", ""),
    "implausible": ("#009E73", "||||"),
    "oom": ("#CC79A7", "...."),
    "timeout": ("#E69F00", "////"),
    "crashed": ("#882255", "xxxx"),
    "error": ("#555555", "++++"),
    "wrong": ("#D55E00", "\\\\\\\\"),
}


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Number of cases by dtype, label and status, without matrices that could not be read."""
    readable = rows[rows["matrix_sha256"] != ""]
    return readable.groupby(["dtype", "label", "status"], as_index=False).size().rename(columns={"size": "cases"})


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per type, one bar per format that does not cover all cases; the last line counts all others."""
    types = sorted(table["dtype"].unique(), reverse=True)
    counts = table.pivot_table(index=["dtype", "label"], columns="status", values="cases", fill_value=0, aggfunc="sum")
    cases = counts.sum(axis=1)
    held = [status for status in STATUSES if status in counts and status != "skipped"]
    shares = counts.div(cases, axis=0)
    right = shares.get("ok", cases * 0.0).groupby("label").mean()
    whole = int((right == 1).sum())
    partly = right[right < 1].sort_values(kind="stable").index
    lines = [*partly, *([f"{whole} format{'s' if whole > 1 else ''}: every case ok"] if whole else [])]
    figure, axes = style.grid(len(types), len(types), height=0.9 + 0.21 * len(lines), sharey=True)
    for ax, dtype in zip(axes, types, strict=True):
        part = shares.loc[dtype].reindex(lines).fillna(0.0)
        left = np.zeros(len(lines))
        for status in held:
            color, hatch = _LOOKS[status]
            width = part[status] + ([0.0] * len(partly) + [1.0] * bool(whole) if status == "ok" else 0.0)
            ax.barh(
                range(len(lines)), width, left=left, color=color, hatch=hatch, edgecolor="white", linewidth=0,
                height=0.75, label=status,
            )  # fmt: skip
            left += width.to_numpy()
        for y, label in enumerate(partly):
            if (dtype, label) in cases.index:
                of = counts.loc[(dtype, label)]
                style.right_note(ax, y, f"{of.get('ok', 0):,} of {of.sum():,}")
        if len(partly):
            style.right_title(ax, "ok")
        ax.set(title=dtype, xlim=(0, 1), xlabel="share of cases", yticks=range(len(lines)), yticklabels=lines)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        ax.grid(axis="y", visible=False)
    handles, names = axes[0].get_legend_handles_labels()
    handles.append(Patch(facecolor="white", edgecolor=style.INK, linewidth=0.6))
    figure.legend(handles, [*names, "skipped"], loc="outside lower center", ncols=len(handles))
    return figure
