"""What became of all cases, and where their time goes: statuses, shares of kernels, conversion and N products."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from spmvbench.analysis.cases import hot
from spmvbench.analysis.details import kernel_times
from spmvbench.analysis.products import ADVISED, CUPY, MEASURED, ORACLE, SINGLE, VENDOR, products
from spmvbench.analysis.ranking import VENDORS
from spmvbench.errors import counted, percent
from spmvbench.reports import style, tables
from spmvbench.reports.advised import choices
from spmvbench.reports.figures import Options, ReportFigure
from spmvbench.rows.schema import STATUSES

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
_HATCHES = ("", "////", "||||", "xxxx", "----")
_CHOOSERS = style.marks([ADVISED, MEASURED, SINGLE, VENDOR, ORACLE, CUPY])


def _statuses(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Number of cases by dtype, label and status, without matrices that could not be read."""
    readable = rows[rows["matrix_sha256"] != ""]
    return readable.groupby(["dtype", "label", "status"], as_index=False).size().rename(columns={"size": "cases"})


def _draw_statuses(table: pd.DataFrame, options: Options) -> Figure:
    """One panel per type, one bar per format that does not cover all cases; the last line counts all others."""
    types = sorted(table["dtype"].unique(), reverse=True)
    counts = table.pivot_table(index=["dtype", "label"], columns="status", values="cases", fill_value=0, aggfunc="sum")
    cases = counts.sum(axis=1)
    held = [status for status in STATUSES if status in counts and status != "skipped"]
    shares = counts.div(cases, axis=0)
    right = shares.get("ok", cases * 0.0).groupby("label").mean()
    whole = int((right == 1).sum())
    partly = right[right < 1].sort_values(kind="stable").index
    lines = [*partly, *([f"{counted(whole, 'format')}: every case ok"] if whole else [])]
    figure, axes = style.grid(len(types), len(types), height=0.9 + 0.21 * len(lines), lines=True, sharey=True)
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
        ax.set(title=dtype, xlim=(0, 1), xlabel="share of cases")
        style.lines(ax, lines)
        if len(partly):
            style.right_title(ax, "ok")
        ax.xaxis.set_major_formatter(style.PERCENT)
    handles = axes[0].get_legend_handles_labels()[0]
    handles.append(Patch(facecolor="white", edgecolor=style.INK, linewidth=0.6, label="skipped"))
    style.below(figure, handles, len(handles))
    return figure


def _kernels(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, kernel, share (mean over matrices, 0 to 1), matrices."""
    table = kernel_times(rows)
    # Some formats have one kernel for each width or length that occurs in a matrix.
    table["kernel"] = table["kernel"].str.replace(r"_\d+$", "", regex=True)
    keys = ["setting", "label"]
    matrices = table.groupby(keys, observed=True)["matrix"].nunique().rename("matrices")
    sums = table.groupby([*keys, "kernel"], observed=True, sort=False)["share"].sum().reset_index()
    found = sums.join(matrices, on=keys)
    found["share"] /= found["matrices"]
    return found.sort_values(keys, kind="stable", ignore_index=True)


def _draw_kernels(table: pd.DataFrame, options: Options) -> Figure:
    settings, kernels = list(table["setting"].unique()), list(table["kernel"].unique())
    labels = sorted(set(table["label"].unique()))
    height = 0.9 + 0.24 * len(labels)
    figure, axes = style.grid(len(settings), min(2, len(settings)), height=height, lines=True, sharey=True)
    colors = [mark.color for mark in style.marks(kernels).values()]
    for ax, setting in zip(axes, settings, strict=True):
        of_setting = table[table["setting"] == setting]
        shares = of_setting.pivot(index="label", columns="kernel", values="share")
        shares = shares.reindex(index=labels, columns=kernels).fillna(0.0)
        left = pd.Series(0.0, index=labels)
        for place, kernel in enumerate(kernels):
            there = shares[kernel] > 0  # a bar without width takes as many bytes in the file
            bars = ax.barh(
                np.flatnonzero(there), shares[kernel][there], left=left[there], height=0.7,
                color=colors[place % len(colors)], edgecolor="white", linewidth=0,
                hatch=_HATCHES[place % len(_HATCHES)], label=kernel,
            )  # fmt: skip
            for bar in bars:
                style.titled(bar, f"{kernel}: {percent(bar.get_width())}")
            left += shares[kernel]
        for label, count in of_setting.groupby("label")["matrices"].first().items():
            style.right_note(ax, labels.index(label), f"{count:,}")
        ax.set(title=str(setting), xlabel="share of the time of all kernels", xlim=(0, 1))
        style.lines(ax, labels)
        ax.xaxis.set_major_formatter(style.PERCENT)
    style.below(figure, columns=8)
    return figure


def _draw_products(table: pd.DataFrame, options: Options) -> Figure:
    settings = list(table["setting"].unique())
    figure, axes = style.grid(2 * len(settings), 2, height=3.1)
    for setting, left, right in zip(settings, axes[::2], axes[1::2], strict=True):
        part = table[table["setting"] == setting]
        for ax, value, text in (
            (left, "slowdown", "time over the oracle's"),
            (right, "within", "share within 1.05 of cuSPARSE"),
        ):
            for chooser, mark in _CHOOSERS.items():
                line = part[part["chooser"] == chooser]
                ax.plot(
                    line["spmvs"], line[value], color=mark.color, linestyle=mark.line, marker=mark.marker, markersize=5
                )
            ax.set(xscale="log", xlabel="N, SpMVs", ylabel=text, title=str(setting))
            style.count_ticks(ax.xaxis)
        left.set_yscale("log")
        style.plain_ticks(left.yaxis)
        right.set_ylim(0, 1.05)
    drawn = set(table["chooser"])
    style.legend(figure, {chooser: mark for chooser, mark in _CHOOSERS.items() if chooser in drawn}, lines=True)
    return figure


FIGURES = (
    ReportFigure(
        "coverage",
        "Coverage",
        "The share of a format's cases that it could hold, by status; the rest of a line was skipped. At the "
        "right the verified cases (ok) and all cases. Formats with the fewest verified cases come first; those with "
        "all of them are counted in one line. Only cases with status ok enter other figures.",
        5,
        _statuses,
        _draw_statuses,
        performance=False,
    ),
    ReportFigure(
        "kernels",
        "Kernel breakdown",
        "Share of each kernel in the time of an SpMV, mean over matrices, for formats with several named kernels. Each "
        "kernel is timed on its own with a warm L2, so that the times need not add up to the whole; shares are of "
        "their sum. Kernels whose names differ only in a number, a width or a length, count as one. The number of "
        "matrices is at the right.",
        45,
        _kernels,
        _draw_kernels,
        papers="Filippone et al. 2017, section 3.5",
    ),
    ReportFigure(
        "products",
        "Time to N products",
        "Time of conversion and N SpMVs: geometric mean over the matrices of the time over that of the oracle, which "
        "takes the format with the least time on each matrix (left), and share of the matrices on which the time is at "
        "most 1.05 times that of cuSPARSE's CSR, its preprocessing included (right). The best single format is chosen "
        "for each N on these matrices. A matrix that the chosen format does not hold counts as 10 times the oracle. "
        "The advised one is shown if the run's GPU has a model and the run holds all formats that are advised, on the "
        "matrices of the model's evaluation: each was predicted without the matrices of its family; with few measured, "
        "the best of five by the model, cuSPARSE's and the fallback is taken, and the time of measuring them does not "
        "count. CuPy's default is shown if the run has rows of cupy-csr: calls of csr @ x from the host, while SpMVs "
        "of formats are timed in a CUDA graph. Converted on the device if that was measured, else on the host.",
        92,
        lambda rows, options: products(hot(rows), choices(rows)),
        _draw_products,
        lambda table, options: [tables.products(table)],
        nothing=f"no verified row of {' or '.join(VENDORS)} with the time of its conversion",
    ),
)
