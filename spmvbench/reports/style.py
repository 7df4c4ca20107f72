"""Style of figures: marks of formats, panels, ticks, legends, reproducible image files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, Formatter, LogLocator, NullFormatter
from matplotlib.typing import LineStyleType

from spmvbench.matrices.sets import is_stand_in

WIDTH = 11.0  # inches of every figure, so that text has one size on the page
GREY, INK = "#b4b4b4", "#222222"
COUNTS = EngFormatter(sep="")  # 10k, 1M, 1G
_SECONDS = EngFormatter(unit="s")
# Okabe & Ito 2008 without yellow, which is hard to see on white, and two dark hues of Tol.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#44AA99")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")  # templates/charts.js draws the same
_LINES: Sequence[LineStyleType] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (6, 2, 1, 2)))
HATCHED = "#bbbbbb"  # behind stand-ins
_HATCHES = ("", "////", "....", "xxxx")
COLOR = _COLORS[0]  # of figures with one colour
MOST_NAMED = 16  # missing formats or matrices
NAMES_FIT = 40  # matrices named below an axis
RASTER_FROM = 1000  # points beyond which a scatter is an image inside the vector file


@dataclass(frozen=True)
class Mark:
    """Colour, marker and line of a format. filled: whether the marker is filled or hollow."""

    color: str
    marker: str
    line: LineStyleType
    filled: bool = True

    @property
    def face(self) -> str:
        """The face colour of the marker."""
        return self.color if self.filled else "none"


OTHERS = Mark(GREY, "o", "-")
BASELINE = Mark("#000000", "*", "-")


# All pairs of colour and marker, filled ones first. Any one of colour, marker and line distinguishes the first eight.
_EVERY = [
    Mark(_COLORS[i], _MARKERS[(i + shift) % len(_MARKERS)], _LINES[(i + shift) % len(_LINES)], filled)
    for filled in (True, False)
    for shift in range(len(_MARKERS))
    for i in range(len(_COLORS))
]


def marks(labels: Sequence[str], baseline: str | None = None) -> dict[str, Mark]:
    """Marks of highlighted formats, best first, at most one per colour; the baseline is first and black."""
    others = [label for label in labels if label != baseline]
    found = dict(zip(others, _EVERY[: len(_COLORS)], strict=False))
    return found if baseline is None else {baseline: BASELINE} | found


def marks_of_all(
    labels: Iterable[str], first: Mapping[str, Mark], compared: Sequence[Sequence[str]] = ()
) -> dict[str, Mark]:
    """One mark for every format of a report, the same in all figures, with a distinct pair of colour and marker.

    first: given marks. compared: groups of formats (keys) that a figure compares; their colours differ as far as
    possible. Marks repeat beyond 192 formats.
    """
    found = dict(first)
    taken = set(found.values())
    order = {key: place for place, key in enumerate(key for keys in compared for key in keys)}
    rest = [label for label in dict.fromkeys(labels) if label not in found]
    for label in sorted(rest, key=lambda label: order.get(_key(label), len(order))):  # stable sort
        related = [key for keys in compared if _key(label) in keys for key in keys if key != _key(label)]
        near = [mark.color for other, mark in found.items() for key in related if key == _key(other)]
        found[label] = _free(taken, near)
        taken.add(found[label])
    return found


def _free(taken: Container[Mark], near: Sequence[str]) -> Mark:
    """The first free mark, of the colour that is least used among related formats."""
    free = [mark for mark in _EVERY if mark not in taken] or _EVERY
    return min(free, key=lambda mark: near.count(mark.color))


def _key(label: str) -> str:
    return label.partition("[")[0]


def marks_of(labels: Sequence[str], shown: Mapping[str, Mark]) -> dict[str, Mark]:
    """Marks for these formats: those in `shown`, free ones for the rest."""
    found = {label: shown[label] for label in labels if label in shown}
    for label in labels:
        if label not in found:
            found[label] = _free({*shown.values(), *found.values()}, [mark.color for mark in found.values()])
    return {label: found[label] for label in labels}


def missing(figure: Figure, names: Sequence[str], what: str = "No verified row in this run", before: str = "") -> None:
    """Writes above the panels the names of formats or matrices without a verified row, if there are any.

    before: a sentence in front of them.
    """
    text = before
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        text = f"{before} {what}: {', '.join(names[:MOST_NAMED])}{more}."
    if text:
        figure.suptitle(fill(text.strip(), 170), x=0.01, ha="left", fontsize=8, color=INK)


def names_below(axes: Axes, names: Sequence[str]) -> None:
    """Ticks of matrices at 0, 1, ...: names without group, or positions if they are too many. Stand-ins are hatched."""
    axes.grid(axis="x", visible=False)
    for place, name in enumerate(names):
        if is_stand_in(name):
            axes.axvspan(
                place - 0.5, place + 0.5, facecolor="none", edgecolor=HATCHED, hatch="...", linewidth=0, zorder=0
            )
    axes.set_xticks([])
    if len(names) <= NAMES_FIT:
        short = [("like:" if is_stand_in(name) else "") + name.rpartition("/")[2] for name in names]
        axes.set_xticks(range(len(names)), short, rotation=45, ha="right", rotation_mode="anchor", fontsize=7)
    else:
        places = np.linspace(0, len(names) - 1, 6).round().astype(int)
        axes.set_xticks(places, [f"{names[place].rpartition('/')[2]}" for place in places], fontsize=7)


def theme() -> AbstractContextManager[None]:
    """The settings of matplotlib for drawing and saving figures."""
    return mpl.rc_context(
        {
            "font.family": "DejaVu Sans",  # ships with matplotlib, so figures are the same everywhere
            "font.size": 9,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.labelsize": 9,
            "axes.edgecolor": "#777777",
            "axes.labelcolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#e4e4e4",
            "grid.linewidth": 0.6,
            "legend.frameon": False,
            "figure.facecolor": "white",
            "figure.constrained_layout.use": True,
            "savefig.dpi": 160,
            "svg.hashsalt": "spmvbench",
            "svg.fonttype": "path",
            "text.parse_math": False,  # names of matrices and runs may contain dollar signs
        }
    )


def rendered(figure: Figure, image: str) -> bytes:
    """A figure as an image file (svg, png, pdf), reproducible: without date and version."""
    nothing = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}
    file = io.BytesIO()
    figure.savefig(file, format=image, metadata=nothing[image])
    return _shorter(file.getvalue()) if image == "svg" else file.getvalue()


def _shorter(svg: bytes) -> bytes:
    """The same image with coordinates rounded to 0.01 points, which is a quarter smaller."""
    return re.sub(rb' (?:d|x|y)="[^"]*"', lambda place: re.sub(rb"(\.\d\d)\d+", rb"\1", place[0]), svg)


def grid(panels: int, columns: int, height: float = 3.6, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of `panels` axes in rows of `columns`; height of a row in inches. `options` as for plt.subplots."""
    rows = -(-panels // columns)
    figure = Figure(figsize=(WIDTH, rows * height + 0.6))
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for unused in axes[panels:]:
        unused.set_visible(False)
    return figure, axes[:panels]


def legend(
    figure: Figure, shown: Mapping[str, Mark], others: int = 0, *, lines: bool = False, columns: int = 5
) -> None:
    """One legend under all panels, of so many columns. others: formats drawn in grey."""
    entries = {label: (mark, label) for label, mark in shown.items()}
    if others:
        entries[""] = (OTHERS, f"{others} other format{'s' if others > 1 else ''}")
    handles = []
    for mark, text in entries.values():
        line = mark.line if lines else ""
        handles.append(Line2D([], [], color=mark.color, marker=mark.marker, linestyle=line, label=text))
        handles[-1].set_markerfacecolor(mark.face)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(columns, max(len(handles), 1)), handlelength=3)


def emulated_across(figure: Figure) -> None:
    """Writes EMULATED across a figure with times of the emulated device."""
    height = figure.get_size_inches()[1]
    for y in np.linspace(0, 1, max(2, round(height / 4) + 1))[:-1] + 0.5 / max(1, max(2, round(height / 4) + 1) - 1):
        figure.text(
            0.5, y, "EMULATED", fontsize=64, color="#c00000", alpha=0.13, rotation=16, ha="center", va="center",
            weight="bold", zorder=10,
        )  # fmt: skip


def plain_ticks(axis: Axis, formatter: str | Formatter | Callable[[float, Any], str] = "{x:g}") -> None:
    """Plain numbers on a logarithmic axis, with more ticks if it spans few powers of ten."""
    low, high = axis.get_view_interval()
    subs = (1, 1.5, 2, 3, 4, 5, 7) if high < 5 * low else (1, 2, 5) if high < 300 * low else (1,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(NullFormatter())


def count_ticks(axis: Axis) -> None:
    """The same for counts: 10k, 1M, 1G."""
    plain_ticks(axis, COUNTS)


def time_ticks(axis: Axis) -> None:
    """The same for seconds: 5 us, 20 ms, 1 s."""
    plain_ticks(axis, lambda seconds, _: _SECONDS(seconds).replace("\N{MICRO SIGN}", "u"))


def byte_ticks(axis: Axis) -> None:
    """The same for bytes: 20 MB."""
    plain_ticks(axis, EngFormatter(unit="B"))


def coarse(values: np.ndarray, low: float, high: float, parts: int = 200) -> np.ndarray:
    """Indices of the last of rising values in each of `parts` equal parts of low..high, to draw fewer points."""
    part = np.floor((values - low) / (high - low) * parts)
    return np.flatnonzero(np.append(part[1:] != part[:-1], True))


def order_of(table: pd.DataFrame, shown: Mapping[str, Mark]) -> list[str]:
    """Formats of a table in drawing order: grey ones first, below the others."""
    present = set(table["label"])
    return sorted(present - set(shown)) + [label for label in reversed(list(shown)) if label in present]


def bars(axes: Axes, heights: pd.DataFrame, shown: Mapping[str, Mark]) -> None:
    """Grouped bars: one group per matrix (row of `heights`), one bar per label (column)."""
    width = 0.8 / len(shown)
    for place, (label, mark) in enumerate(shown.items()):
        left = np.arange(len(heights)) - 0.4 + (place + 0.5) * width
        axes.bar(
            left, heights.reindex(columns=[label])[label], width, color=mark.color, label=label, edgecolor="white",
            linewidth=0, hatch=_HATCHES[place % len(_HATCHES)],
        )  # fmt: skip
    axes.set_xlabel("matrix")
    names_below(axes, list(heights.index))


def dots(axes: Axes, values: pd.DataFrame, shown: Mapping[str, Mark]) -> None:
    """One dot per label (column of `values`) and matrix (row), matrices from left to right.

    No lines between them: matrices side by side have nothing to do with one another.
    """
    for label, mark in shown.items():
        axes.plot(
            range(len(values)), values.reindex(columns=[label])[label], color=mark.color, marker=mark.marker,
            linestyle="", markersize=4.5 if len(values) <= NAMES_FIT else 3, markerfacecolor=mark.face,
        )  # fmt: skip
    axes.set_xlabel("matrices, most nonzeros last")
    names_below(axes, list(values.index))


def around_one(axes: Axes) -> None:
    """A logarithmic y axis that includes 1, with a line there. To be called after drawing the ratios."""
    axes.axhline(1, color="black", linewidth=1)
    low, high = axes.dataLim.intervaly
    if low > 0:
        axes.set_ylim(min(low, 1) / 1.3, max(high, 1) * 1.3)
    plain_ticks(axes.yaxis)


def scatter(axes: Axes, table: pd.DataFrame, x: str, y: str, shown: Mapping[str, Mark]) -> None:
    """Points of all formats. More than RASTER_FROM are drawn as one image below the grid, for small files."""
    size = float(np.clip(7000 / max(len(table), 1), 8, 30))
    zorder, alpha = 2, 0.75
    if len(table) > RASTER_FROM:
        zorder, alpha = -1, 0.4
        axes.set_rasterization_zorder(0)
    groups = dict(list(table.groupby(table["label"].where(table["label"].isin(shown.keys()), ""))))
    for label in ["", *reversed(list(shown))]:
        if label in groups:
            mark = shown.get(label, OTHERS)
            axes.scatter(
                groups[label][x], groups[label][y], s=size * {OTHERS: 0.6, BASELINE: 1.7}.get(mark, 1),
                linewidths=0 if mark.filled else 1, facecolors=mark.face, edgecolors=mark.color, marker=mark.marker,
                alpha=0.3 if mark is OTHERS else alpha, zorder=zorder,
            )  # fmt: skip


def density(
    axes: Axes, shares: np.ndarray, norm: LogNorm, corner: tuple[int, int], shape: tuple[int, int]
) -> AxesImage:
    """The sparsity pattern of a matrix or of a part of it.

    shares: (down, across), of the places of each cell that hold an entry. corner: first row and column of the part;
    shape: its rows and columns. Much longer parts than wide ones, or the other way, are not drawn to scale.
    """
    (top, left), (rows, cols) = corner, shape
    axes.set_aspect("auto" if max(shape) > 8 * min(shape) else "equal")
    axes.grid(visible=False)
    axes.set(xlabel="column", ylabel="row")
    return axes.imshow(
        np.ma.masked_equal(shares, 0), norm=norm, cmap="viridis_r", extent=(left, left + cols, top + rows, top),
        interpolation="nearest", aspect=axes.get_aspect(),
    )  # fmt: skip


def trend(axes: Axes, table: pd.DataFrame, x: str, y: str, shown: Mapping[str, Mark], least: int = 8) -> None:
    """Trend lines of highlighted formats: medians of y in bins of x with at least `least` points."""
    edges = np.geomspace(table[x].min(), table[x].max() * 1.001, 15)
    middles = np.sqrt(edges[1:] * edges[:-1])
    for label, part in table[table["label"].isin(shown.keys())].groupby("label"):
        mark = shown[label]
        groups = part.groupby(np.digitize(part[x], edges) - 1)[y]
        medians = groups.median()[groups.size() >= least]
        if len(medians) > 2:
            axes.plot(
                middles[medians.index], medians, color=mark.color, linestyle=mark.line, marker=mark.marker,
                markersize=5, linewidth=1.8, markeredgecolor="white", markeredgewidth=0.6, zorder=4,
            )  # fmt: skip


def ranges(
    table: pd.DataFrame,
    value: str,
    panel: str,
    shown: Mapping[str, Mark],
    xlabel: str,
    *,
    note: Callable[[pd.DataFrame], str] | None = None,
    note_title: str = "",
) -> Figure:
    """Distribution of a value over matrices: one row per format, one panel per value of the column `panel`.

    The dot is the median, the thick line the middle half, the thin line 5 to 95 %. Quantiles are values that occur, so
    that infinite ones may be among them. note: a text for the right margin from the rows of one format.
    """
    panels = list(table[panel].cat.categories) if isinstance(table[panel].dtype, pd.CategoricalDtype) else None
    panels = [p for p in panels or sorted(table[panel].unique(), reverse=True) if (table[panel] == p).any()]
    order = table.groupby("label")[value].median().sort_values(kind="stable").index
    places = {label: y for y, label in enumerate(order)}
    figure, axes = grid(len(panels), len(panels), height=0.9 + 0.21 * len(order), sharey=True)
    for ax, name in zip(axes, panels, strict=True):
        for label, rows in table[table[panel] == name].groupby("label"):
            y, mark = places[label], shown.get(label, OTHERS)
            color = "#8a8a8a" if mark is OTHERS else mark.color
            low, q1, middle, q3, high = rows[value].quantile([0.05, 0.25, 0.5, 0.75, 0.95], interpolation="nearest")
            ax.plot([low, high], [y, y], color=color, linewidth=1, solid_capstyle="butt")
            ax.plot([q1, q3], [y, y], color=color, linewidth=5, alpha=0.45, solid_capstyle="butt")
            ax.plot(middle, y, color=color, marker=mark.marker, markerfacecolor=_face(mark, color), markersize=5)
            if note is not None:
                right_note(ax, y, note(rows))
        if any(text.get_text() for text in ax.texts):
            right_note(ax, -0.95, note_title)
        ax.set(title=str(name), xlabel=xlabel, xscale="log", yticks=range(len(order)), yticklabels=order)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        plain_ticks(ax.xaxis)
        keep_apart(ax)
    return figure


def _face(mark: Mark, color: str) -> str:
    return color if mark.filled else "white"


def right_note(axes: Axes, y: float, text: str) -> None:
    """Writes a text to the right of a panel, at height y."""
    axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=INK)


def keep_apart(axes: Axes, most: int = 4) -> None:
    """Reduces the ticks of the logarithmic x axis of a narrow panel, so that labels do not overlap."""
    low, high = axes.get_xlim()
    tens = np.log10(high / low)
    if tens > most:
        axes.xaxis.set_major_locator(LogLocator(base=10.0 ** np.ceil(tens / most)))
