"""Slowdown of every format on every matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from spmvbench.analysis.coverage import FAILED
from spmvbench.analysis.ranking import SLOWDOWN_CAP, TIE, ratios
from spmvbench.matrices.sets import short_name
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, ReportFigure

# From dark to light, also without hues: the best is the darkest.
_COLORS = colormaps["YlGnBu_r"]
_NORM = LogNorm(1, SLOWDOWN_CAP, clip=True)
_NOT_VERIFIED = {"skipped": "-", "wrong": "x"} | dict.fromkeys(FAILED, "!")
_POINTS = 6.5  # 8 pixels if the figure is 1,000 pixels wide
_LINE, _LETTER, _CELL = 0.125, 0.055, 0.2  # inches: height of a line, width of a letter and of a cell with a number
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
_MOST_PANELS, _SHORT = 3, 20  # most panels in a row, and least lines of one


class _Line(NamedTuple):
    """A line of a panel: a format, or the heading of a family if it has no label."""

    text: str
    label: str = ""


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """The first setting, of few formats all. Families continue through panels side by side, as many as leave room for
    numbers in cells.
    """
    settings = list(table.loc[table["ratio"].notna(), "setting"].unique())
    settings = settings[: None if table["label"].nunique() <= _SHORT else 1]
    table = table[table["setting"].isin(settings)]
    matrices = sorted(table["matrix"].unique())
    names = [short_name(matrix) for matrix in matrices]
    left, above = (_LETTER * max(map(len, texts)) for texts in (table["label"], names))
    labels = table.drop_duplicates("label")
    room = int(style.width() // (left + _CELL * len(matrices)))
    panels = _panels(labels, max(1, min(room, _MOST_PANELS, -(-len(labels) // _SHORT))))
    height = max(map(len, panels))
    with_numbers = style.width() / len(panels) - left >= _CELL * len(matrices)
    every = [(setting, place, lines) for setting in settings for place, lines in enumerate(panels)]
    figure, axes = style.grid(len(every), len(panels), height=_LINE * height + 0.15 + above * with_numbers, lines=True)
    for ax, (setting, place, lines) in zip(axes, every, strict=True):
        _cells(ax, table[table["setting"] == setting], lines, matrices, with_numbers=with_numbers)
        ax.set(ylim=(height, 0), title=f"{setting}, continued" if place else setting)
        ax.set_xlabel("matrix", fontsize=_POINTS)
        if with_numbers:
            ax.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90, fontsize=_POINTS)
        else:
            ax.set_xticks([])
    style.colorbar(
        figure,
        ScalarMappable(_NORM, _COLORS),
        "slowdown: time over the best time on the matrix",
        extend="max",
        pad=0.01,
    )
    return figure


def _panels(labels: pd.DataFrame, most: int) -> list[list[_Line]]:
    """The labels, one line each, in at most `most` panels of about equal height, none with a heading at its end.

    labels: columns family, label and project_kernel, in order. Rows of older versions have no family and no heading.
    """
    families = [(family, part) for family, part in labels.groupby("family", sort=False)]
    headed = [family for family, _ in families if family]
    height = -(-(len(labels) + len(headed)) // most) + 1  # a family that continues repeats its heading
    panels: list[list[_Line]] = [[]]
    for family, part in families:
        heading = family or ("Other" if headed else "")
        for place, (label, project) in enumerate(zip(part["label"], part["project_kernel"], strict=True)):
            if len(panels[-1]) + (2 if heading and not place else 1) > height and len(panels) < most:
                panels.append([])
            if heading and (not place or not panels[-1]):
                panels[-1].append(_Line(f"{heading}, continued" if place else heading))
            panels[-1].append(_Line(f"{label} (project)" if project else label, label))
    return panels


def _cells(axes: Axes, table: pd.DataFrame, lines: list[_Line], matrices: list[str], *, with_numbers: bool) -> None:
    """The lines' texts, and a cell for each line with a label and each matrix."""
    rows = {line.label: y for y, line in enumerate(lines) if line.label}
    columns = {matrix: x for x, matrix in enumerate(matrices)}
    here = table[table["label"].isin(rows)]
    x, y = here["matrix"].map(columns).to_numpy(), here["label"].map(rows).to_numpy()
    grid = np.full((len(lines), len(matrices)), np.nan)
    grid[y, x] = here["ratio"]
    axes.pcolormesh(
        np.ma.masked_invalid(grid), norm=_NORM, cmap=_COLORS, edgecolors="white" if with_numbers else "none",
        linewidth=0.5, rasterized=grid.size > style.RASTER_FROM,
    )  # fmt: skip
    for column, row, ratio, status in zip(x, y, here["ratio"], here["status"], strict=True) if with_numbers else ():
        axes.text(
            column + 0.5, row + 0.53, _NOT_VERIFIED.get(status, "") if np.isnan(ratio) else _two_digits(ratio),
            color=style.INK if np.isnan(ratio) else _on(ratio), fontsize=_POINTS, ha="center", va="center",
            weight="bold" if ratio <= TIE else "normal", in_layout=False,
        )  # fmt: skip
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_yticks([y + 0.53 for y in range(len(lines))], [line.text for line in lines], fontsize=_POINTS)
    for text, line in zip(axes.get_yticklabels(), lines, strict=True):
        text.set_fontweight("normal" if line.label else "bold")
    axes.tick_params(length=0, pad=2)
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()


def _two_digits(ratio: float) -> str:
    """A ratio of at least 1 to two significant digits, in at most four characters: 1.0, 12, 340, 4.4k, 2.0M."""
    rounded = float(f"{ratio:.2g}")
    factor, prefix = next(pair for pair in _PREFIXES if rounded >= pair[0])
    rounded /= factor
    return f"{rounded:.1f}{prefix}" if rounded < 10 else f"{rounded:.0f}{prefix}"


def _on(ratio: float) -> str:
    """A text colour with enough contrast on the colour of this ratio."""
    red, green, blue, _ = _COLORS(_NORM(ratio))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else style.INK


def _ratios(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    table = ratios(rows)
    if table["ratio"].isna().all():
        raise LeftOut("no verified row has a rate")
    return table


FIGURES = (
    ReportFigure(
        "ratios",
        "Every format on every matrix",
        "Slowdown: time over the best time on the matrix. Image files of more than 20 formats show the run's first "
        f"setting alone. 1.0 is the best; values within {100 * (TIE - 1):.1f} % of it are bold; k and M are thousands "
        "and millions. Families are in the order of their best formats, the formats of a family in the order of their "
        "mean slowdown. Not verified: - skipped, x wrong, ! failed (out of memory, timeout, crash, error); blank: not "
        "tried, or the matrix has no entries. (project): the kernel is this project's and not the paper's. If there "
        "are too many matrices for numbers, only colours are shown.",
        8,
        _ratios,
        draw,
    ),
)
