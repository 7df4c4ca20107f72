"""One format against another in a report: tables, a figure, and rows of another run as a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import emulated, latest_cases
from spmvbench.analysis.duel import duel, duel_summary
from spmvbench.errors import UsageError
from spmvbench.paths import written_whole
from spmvbench.reports import export, style, tables
from spmvbench.reports.tables import Column, Table

NAME = "duel"


def write(rows: pd.DataFrame, label: str, over: str, out: Path, images: Sequence[str]) -> list[Path]:
    """Write duel.csv (matrix by matrix), duel.tex and the figure as `images`. Returns the paths.

    rows: those of a GPU count, or those of the emulated device if there are no others. Raises UsageError if no matrix
    has a verified time of both.
    """
    rows = measured(rows)
    table = duel(rows, label, over)
    if table.empty:
        raise UsageError(f"no matrix has a verified time of both {label} and {over}")
    contents = {
        f"{NAME}.csv": tables.csv(table.assign(label=label, over=over), "%.6g").encode(),
        f"{NAME}.tex": export.written(duel_tables(rows, label, over), "latex").encode(),
    }
    with style.theme():
        drawing = draw(table, label, over)
        if emulated(rows).any():
            style.emulated_across(drawing)
        contents |= {f"{NAME}.{image}": style.rendered(drawing, image) for image in images}
    for name, content in contents.items():
        with written_whole(out / name) as file:
            file.write(content)
    return [out / name for name in contents]


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """The latest rows of GPUs; if there are none, those of the emulated device."""
    rows = latest_cases(rows)
    of_gpu = rows[~emulated(rows)]
    return of_gpu if len(of_gpu) else rows


def draw(table: pd.DataFrame, label: str, over: str) -> Figure:
    """The speed-up of each matrix in falling order, one panel per setting, and the interval of the geometric mean.

    table: as `analysis.duel.duel`.
    """
    settings = [setting for setting in table["setting"].unique() if (table["setting"] == setting).any()]
    summary = duel_summary(table).set_index("setting")
    figure, axes = style.grid(len(settings), min(2, len(settings)), height=3.2)
    for ax, setting in zip(axes, settings, strict=True):
        part, of = table[table["setting"] == setting], summary.loc[setting]
        ax.plot(range(len(part)), part["speedup"], linestyle="", marker="o", color=style.COLOR, markersize=4)
        if not np.isnan(of["low"]):
            ax.axhspan(of["low"], of["high"], color=style.GREY, alpha=0.4, linewidth=0)
        ax.axhline(of["geomean"], color=style.INK, linestyle="--", linewidth=1)
        ax.set(title=str(setting), ylabel=f"time of {over} over {label}", yscale="log")
        style.around_one(ax)
        style.names_below(ax, list(part["matrix"]))
        counts = f"{of['wins']:.0f} wins, {of['ties']:.0f} ties, {of['losses']:.0f} losses"
        ax.set_xlabel(f"{counts}; geometric mean {of['geomean']:.3f}")
    return figure


def duel_tables(rows: pd.DataFrame, label: str, over: str) -> list[Table]:
    """A summary with a row for each setting, and for each setting a table with a row for each matrix."""
    table = duel(rows, label, over)

    def times(value: float) -> str:
        return tables.NONE if pd.isna(value) else f"{value:.3f}"

    summary = [
        Column("setting", "Setting"),
        Column("matrices", "Matrices", tables.number),
        Column("wins", "Wins", tables.number, f"matrices on which {label} is faster, beyond 0.5 %"),
        Column("ties", "Ties", tables.number),
        Column("losses", "Losses", tables.number),
        Column("geomean", "Speed-up", times, f"geometric mean of the time of {over} over that of {label}"),
        Column("low", "Low", times, "lower end of its 95 % interval over matrices"),
        Column("high", "High", times, "upper end"),
    ]
    each = [
        Column("matrix", "Matrix"),
        Column("nnz", "Nonzeros", lambda n: f"{n:,}"),
        Column("t_label", label, tables.seconds),
        Column("t_over", over, tables.seconds),
        Column("speedup", "Speed-up", times),
        Column("outcome", "Outcome"),
    ]
    found = [tables.table(f"{label} against {over}", duel_summary(table), summary)]
    for setting, part in table.groupby("setting", observed=True):
        found.append(tables.table(f"{label} against {over}, {setting}", part, each))
    return found


def beside(rows: pd.DataFrame, others: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows, and those of another run of the same matrices, types, modes and operations; their labels name the run.

    others: rows of a run, as `store.load`. A label ``csr5`` of it becomes ``csr5 (name)``. Rows of both must be of one
    model of GPU. Raises UsageError if they are not, and if no case fits.
    """
    case = ["matrix_sha256", "dtype", "mode", "op"]
    wanted = pd.MultiIndex.from_frame(rows.loc[rows["matrix_sha256"] != "", case]).unique()
    found = others[pd.MultiIndex.from_frame(others[case]).isin(wanted)]
    if found.empty:
        raise UsageError(f"{name} has no row of these matrices, types and modes")
    mine, theirs = (set(part["device_name"]) for part in (rows, found))
    if not theirs <= mine:
        raise UsageError(
            f"{name} was measured on {', '.join(sorted(theirs))}, these rows on {', '.join(sorted(mine))}: times of "
            "different GPUs are not compared"
        )
    suffix = f" ({name})"
    about = rows.drop_duplicates("matrix_sha256").set_index("matrix_sha256")
    renamed = {column: found["matrix_sha256"].map(about[column]) for column in ("group", "name", "file_sha256")}
    # Its programs are not those of these rows: the same kernel in two runs is two results.
    return pd.concat(
        [
            rows,
            found.assign(
                **renamed,
                label=found["label"] + suffix,
                alias_of=found["alias_of"].where(found["alias_of"] == "", found["alias_of"] + suffix),
                program=found["program"].where(found["program"] == "", found["program"] + suffix),
            ),
        ],
        ignore_index=True,
    )
