"""Style of figures: marks of formats, panels, ticks, legends, reproducible image files."""

from __future__ import annotations

import base64
import html
import io
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import matplotlib as mpl
import matplotlib.text as mtext
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import get_registered_canvas_class
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.ticker import EngFormatter, Formatter, LogLocator, NullFormatter
from matplotlib.typing import LineStyleType
from PIL import Image

from spmvbench.analysis.trend import medians
from spmvbench.errors import counted
from spmvbench.matrices.sets import is_stand_in, short_name

WIDTH = 11.0  # inches of every figure, so that text has one size on the page
# Widths of figures in a paper, inches: the columns of the IEEE's and nearly those of the ACM's journals.
PAPER = {"one-column": 3.5, "two-column": 7.16}
POINTS = 8  # of text in a paper's figure; what is smaller on the page stays so
_PANEL = 3.0  # least inches of a panel in a paper
_NARROWEST = 1.75  # the same where rows of panels would be too high for a page
_STRIP, _NAMES = 1.2, 1.0  # the same of panels that share the names at the left, and of those names
_TALLEST = 8.0  # inches of the panels of a paper's figure
_TITLE_LETTER = 0.075  # inches of a letter of a bold title of POINTS
_HANDLE, _LETTER = 0.65, 0.062  # inches of a legend's handle with its gaps, and of a letter, in a paper
_NAME = 1.1  # inches of a matrix's name below an axis
_paper: ContextVar[float | None] = ContextVar("width of a paper's figures", default=None)
GREY, INK = "#b4b4b4", "#222222"
COUNTS = EngFormatter(sep="")  # 10k, 1M, 1G
PERCENT = "{x:.0%}"
_SECONDS = EngFormatter(unit="s")
# Okabe & Ito 2008 without yellow, which is hard to see on white, and two dark hues of Tol.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#332288")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")
LINES: Sequence[LineStyleType] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (6, 2, 1, 2)))
SHADED = "#ececec"  # behind stand-ins; flat, because bars are hatched
# Of bars, one for each series of a panel. Dots would be circles by the hundred in each file.
HATCHES = ("", "////", "||||", "xxxx", "----", "\\\\\\\\", "++++", "//||")
COLOR = _COLORS[0]  # of figures with one colour
EMULATED = "EMULATED"
MOST_NAMED = 16  # missing formats or matrices
_LINES_IN_SIGHT = 20  # lines of a panel from one axis; more have one above, too
NAMES_FIT = 40  # matrices named below an axis
_TREND = "_trend"  # label of trend lines
RASTER_FROM = 1000  # points beyond which a scatter is an image inside the vector file


@dataclass(frozen=True)
class Mark:
    """Colour, marker and line of a format. filled: whether the marker is filled or hollow."""

    color: str
    marker: str
    line: LineStyleType
    filled: bool = True

    @property
    def parts(self) -> tuple[str, str, LineStyleType]:
        """What each of tells it from others."""
        return self.color, self.marker, self.line

    @property
    def face(self) -> str:
        """The face colour of the marker."""
        return self.color if self.filled else "none"


def corners(marker: str) -> list[list[float]]:
    """The corners of a marker around (0, 0) in a square of width 2, y pointing down; none of a circle."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    points = np.asarray(path.to_polygons()[0])[:-1] if marker != "o" else np.empty((0, 2))
    return [[round(2 * x, 3), round(-2 * y, 3)] for x, y in points.tolist()]


OTHERS = Mark(GREY, "o", "-")
BASELINE = Mark("#000000", "*", "-")


# All pairs of colour and marker, filled ones first. Any one of colour, marker and line distinguishes the first eight.
_EVERY = [
    Mark(_COLORS[i], _MARKERS[(i + shift) % len(_MARKERS)], LINES[(i + shift) % len(LINES)], filled)
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
        near = [mark for o, mark in found.items() for keys in compared if _key(label) in keys and _key(o) in keys]
        found[label] = _free(taken, near)
        taken.add(found[label])
    return found


def _free(taken: Container[Mark], near: Sequence[Mark]) -> Mark:
    """The first free mark, of the colour and then of the marker and line that are least used among related formats."""
    free = [mark for mark in _EVERY if mark not in taken] or _EVERY
    used = Counter(part for mark in near for part in mark.parts)
    return min(free, key=lambda mark: (used[mark.color], used[mark.marker] + used[mark.line]))


def _key(label: str) -> str:
    return label.partition("[")[0]


def marks_of(labels: Sequence[str], shown: Mapping[str, Mark]) -> dict[str, Mark]:
    """Marks for these formats: those in `shown`, free ones for the rest.

    Of as many formats as there are colours, one whose colour another has already gets a free one.
    """
    found: dict[str, Mark] = {}
    given = [shown[label] for label in labels if label in shown]
    for label in labels:
        mark, drawn = shown.get(label), [*found.values()]
        if mark is None or (len(labels) <= len(_COLORS) and mark.color in [other.color for other in drawn]):
            mark = _free({*shown.values(), *drawn}, [*drawn, *given])
        found[label] = mark
    return found


def missing(figure: Figure, names: Sequence[str], what: str = "No verified row in this run", before: str = "") -> None:
    """Writes above the panels the names of formats or matrices without a verified row, if there are any.

    before: a sentence in front of them.
    """
    text = before
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        text = f"{before} {what}: {', '.join(names[:MOST_NAMED])}{more}."
    if text:
        lines = fill(text.strip(), int(170 * width() / WIDTH), break_on_hyphens=False)
        figure.suptitle(lines, x=0.01, ha="left", fontsize=8, color=INK)


def names_below(axes: Axes, names: Sequence[str]) -> None:
    """Ticks of matrices at 0, 1, ...: names without group, or positions if they are too many. Stand-ins are shaded."""
    axes.grid(axis="x", visible=False)
    for place, name in enumerate(names):
        if is_stand_in(name):
            axes.axvspan(place - 0.5, place + 0.5, color=SHADED, linewidth=0, zorder=0)
    axes.set_xticks([])
    if len(names) <= names_fit():
        short = [short_name(name) for name in names]
        axes.set_xticks(range(len(names)), short, rotation=45, ha="right", rotation_mode="anchor", fontsize=7)
    else:
        places = np.linspace(0, len(names) - 1, min(6, int(width() / _NAME))).round().astype(int)
        axes.set_xticks(places, [short_name(names[place]) for place in places], fontsize=7)


@contextmanager
def paper(columns: str) -> Iterator[None]:
    """Figures drawn in this block, by this thread, are for a paper; columns: a name of PAPER.

    They have the paper's width, fewer panels side by side, and text of POINTS.
    """
    token = _paper.set(PAPER[columns])
    try:
        yield
    finally:
        _paper.reset(token)


def width() -> float:
    """Inches of a figure: WIDTH, or that of the paper."""
    return _paper.get() or WIDTH


def names_fit() -> int:
    """Matrices named below an axis as wide as the figure."""
    return int(NAMES_FIT * width() / WIDTH)


def theme() -> AbstractContextManager[None]:
    """The settings of matplotlib for drawing and saving figures: its defaults and these, none of the user's.

    The backend stays, which no figure here uses.
    """
    size = POINTS if _paper.get() else None
    defaults: dict[Any, Any] = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    return mpl.rc_context(
        defaults
        | {
            "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
            "ps.fonttype": 42,
            "font.family": "DejaVu Sans",  # ships with matplotlib, so figures are the same everywhere
            "font.size": size or 9,
            "axes.titlesize": size or 10,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.labelsize": size or 9,
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
            "svg.fonttype": "none",  # a letter each would be half of a file's bytes, and no one could search or copy it
            "text.parse_math": False,  # names of matrices and runs may contain dollar signs
        }
    )


def rendered(figure: Figure, image: str) -> bytes:
    """A figure as an image file (svg, png, pdf), reproducible: without date and version."""
    nothing = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}
    if _paper.get():
        fit(figure)
    file = io.BytesIO()
    with _laid_out(figure, image) as canvas:
        getattr(canvas, f"print_{image}")(file, metadata=nothing[image])
    return _shorter(file.getvalue().decode()).encode() if image == "svg" else file.getvalue()


def fit(figure: Figure) -> None:
    """Give the texts of a figure for a paper their size, and those of a panel the lines that it has room for.

    The figure grows by these lines. Call it before the figure is laid out.
    """
    for text in figure.findobj(mtext.Text):
        if isinstance(text, mtext.Text) and float(text.get_fontsize()) > POINTS and text.get_text() != EMULATED:
            text.set_fontsize(POINTS)
    added: dict[int, int] = {}  # lines, by the row of the grid
    for ax in figure.axes:
        if spec := ax.get_subplotspec():
            letters = max(8, int((width() / spec.get_gridspec().ncols - 0.5) / _TITLE_LETTER))
            title, label = (_wrapped(text, letters) for text in (ax.get_title(loc="left"), ax.get_xlabel()))
            lines = title.count("\n") - ax.get_title(loc="left").count("\n") + label.count("\n")
            added[spec.rowspan.start] = max(lines, added.get(spec.rowspan.start, 0))
            ax.set_title(title, loc="left")
            ax.set_xlabel(label)
            for text in ax.texts:
                if text.get_transform() == ax.transAxes and not text.get_rotation():
                    text.set_text(_wrapped(text.get_text(), letters))
    figure.set_figheight(figure.get_figheight() + sum(added.values()) * 1.3 * POINTS / 72)


@contextmanager
def _laid_out(figure: Figure, image: str) -> Iterator[Any]:
    """A figure laid out on the canvas of a kind of image. `savefig` draws all of it once more, only to lay it out."""
    engine, canvas, dpi = figure.get_layout_engine(), figure.canvas, figure.dpi
    found = get_registered_canvas_class(image)(figure)  # widths of texts are those of the kind
    resolution = figure.dpi = mpl.rcParams["savefig.dpi"]
    try:
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine("none")
            figure.dpi = resolution  # also of images in vector graphics, for whose own it was changed
        yield found
    finally:
        if engine is not None:
            figure.set_layout_engine(engine)
        figure.set_canvas(canvas)
        figure.dpi = dpi


def _wrapped(text: str, letters: int) -> str:
    return "\n".join(fill(line, letters) for line in text.split("\n"))


def titled(artist: Artist, text: str) -> None:
    """Gives an artist a text that browsers show under the pointer."""
    artist.set_gid(f"{_TITLE}{text}")


_TITLE = "title of "
_FONTS = "DejaVu Sans,Verdana,Bitstream Vera Sans,sans-serif"  # of similar width


def _shorter(svg: str) -> str:
    """The same image in a third of the bytes: coordinates rounded to 0.1 points, no names, groups and styles in vain.

    Names that begin with _TITLE become titles.
    """
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(?<=data:image/png;base64,)[^\"]+", lambda png: _palette(png[0]), svg)
    svg = re.sub(r' (?:d|x|y|points)="[^"]*"', lambda at: _coarser(at[0]), svg)
    svg = re.sub(rf'<g id="{_TITLE}([^"]*)">', r'<g class="titled"><title>\1</title>', svg)
    names = dict.fromkeys(re.findall(r'(?:href="|url\()#([^")]*)', svg))
    places = {name: f"i{place}" for place, name in enumerate(names)}
    svg = re.sub(r' id="([^"]*)"', lambda at: f' id="{places[at[1]]}"' if at[1] in places else "", svg)
    svg = re.sub(r'((?:href="|url\()#)([^")]*)', lambda at: at[1] + places[at[2]], svg)
    svg = re.sub(r' style="([^"]*)"', _plain_style, svg)
    styles = dict(re.findall(r'<path id="(\w+)" d="[^"]*" (style="[^"]*")', svg))
    svg = re.sub(
        r'<use xlink:href="#(\w+)"([^>]*?) (style="[^"]*")',
        lambda at: f'<use xlink:href="#{at[1]}"{at[2]}{"" if styles.get(at[1]) == at[3] else f" {at[3]}"}',
        svg,
    )
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"', "", svg)
    svg = _ungrouped(re.sub(r">\s+<", "><", svg)).replace("<defs></defs>", "").replace("<defs/>", "")
    style = f'font-family="{_FONTS}" stroke-linejoin="round" stroke-linecap="butt"'
    return svg.replace("<svg ", f"<svg {style} ", 1)


def _coarser(attribute: str) -> str:
    attribute = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), attribute)
    return re.sub(r"\s*([MLQCHVz\"])\s*", r"\1", attribute) if " d=" in attribute else attribute


def _palette(png: str) -> str:
    """The same image with 256 colours, in base64."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        image.quantize(256, method=Image.Quantize.FASTOCTREE).save(file, "png", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def _ungrouped(svg: str) -> str:
    """The same image without groups that have no attribute."""
    kept: list[bool] = []
    found: list[str] = []
    for part in re.split(r"(<g(?: [^>]*)?/?>|</g>)", svg):
        if part == "</g>":
            part = part if kept.pop() else ""
        elif part.startswith("<g") and not part.endswith("/>"):
            kept.append(part != "<g>")
            part = part if kept[-1] else ""
        found.append("" if part == "<g/>" else part)
    return "".join(found)


def inline(svg: str, name: str, title: str) -> str:
    """A file of `rendered` as an element of a page that holds several, named by its title.

    name: letters and dashes, in front of the names in it.
    """
    element = svg[svg.index("<svg ") :]
    element = re.sub(r' xmlns(?::xlink)?="[^"]*"| version="1.1"', "", element)
    element = re.sub(r'( id="|"#|url\(#)(i\d+)', rf"\1{name}-\2", element).replace("xlink:href", "href")
    return element.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)


def _plain_style(style: re.Match[str]) -> str:
    """A style without spaces and without the font of the whole image."""
    text = re.sub(r"font: (?:(\w+) )?([\d.]+)px 'DejaVu Sans'", r"font-size: \2px; font-weight: \1", style[1])
    parts = [part for part in re.split(r"; ?", text) if part and part not in _DEFAULTS]
    return f' style="{";".join(part.replace(": ", ":") for part in parts)}"' if parts else ""


_DEFAULTS = ("font-weight: ", "font-family: 'DejaVu Sans'", "text-anchor: start", "stroke-linejoin: miter")


def grid(
    panels: int, columns: int, height: float = 3.6, *, lines: bool = False, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of `panels` axes in rows of `columns`; height of a row in inches. `options` as for plt.subplots.

    lines: whether panels have a line of text for each format, so that a paper's are no lower.
    """
    if _paper.get():
        across = max(1, min(columns, int((width() - _NAMES) / _STRIP if options.get("sharey") else width() / _PANEL)))
        height = height if lines else max(2.0, min(height, 0.75 * width() / across))
        while across < min(columns, int(width() / _NARROWEST)) and height * -(-panels // across) > _TALLEST:
            across += 1
        columns = across
    rows = -(-panels // columns)
    if _paper.get():
        height = min(height, _TALLEST / rows)
    figure = Figure(figsize=(width(), rows * height + 0.6))
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
        entries[""] = (OTHERS, counted(others, "other format"))
    found = handles({text: mark for mark, text in entries.values()}, lines=lines)
    if any(line.get_label() == _TREND for axes in figure.axes for line in axes.lines):
        found.append(Line2D([], [], color=INK, linewidth=1.8, label="line: median of similar sizes"))
    below(figure, found, columns, handlelength=3)


def below(figure: Figure, handles: Sequence[Any] = (), columns: int = 5, **options: Any) -> None:
    """One legend under all panels, of at most so many columns, in a paper as many as have room.

    handles: with labels; by default those of the first panel.
    """
    found = handles or figure.axes[0].get_legend_handles_labels()[0]
    if _paper.get():
        longest = max((len(str(handle.get_label())) for handle in found), default=0)
        columns = min(columns, max(1, int(width() / (_HANDLE + _LETTER * longest))))
    figure.legend(handles=found, loc="outside lower center", ncols=max(1, min(columns, len(found))), **options)


def handles(shown: Mapping[str, Mark], *, lines: bool = False) -> list[Line2D]:
    """The entries of a legend of marks."""
    return [
        Line2D(
            [], [], color=mark.color, marker=mark.marker, linestyle=mark.line if lines else "", label=text,
            markerfacecolor=mark.face,
        )
        for text, mark in shown.items()
    ]  # fmt: skip


def colorbar(figure: Figure, of: Any, text: str, **options: Any) -> None:
    """The scale of colours under all panels, which is logarithmic."""
    shown: dict[str, Any] = {"location": "bottom", "shrink": 0.35, "aspect": 40} | options
    if _paper.get():
        shown["shrink"] = 0.9  # its labels need a column's width
    bar = figure.colorbar(of, ax=[ax for ax in figure.axes if ax.get_visible()], **shown)
    bar.set_label(fill(text, int(10 * width())), fontsize=8)
    bar.ax.tick_params(labelsize=8)
    plain_ticks(bar.ax.xaxis)


def emulated_across(figure: Figure) -> None:
    """Writes EMULATED across a figure with times of the emulated device."""
    height = figure.get_size_inches()[1]
    for y in np.linspace(0, 1, max(2, round(height / 4) + 1))[:-1] + 0.5 / max(1, max(2, round(height / 4) + 1) - 1):
        figure.text(
            0.5, y, EMULATED, fontsize=64 * width() / WIDTH, color="#c00000", alpha=0.13, rotation=16, ha="center",
            va="center", weight="bold", zorder=10,
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
    present = set(table["label"].unique())
    return sorted(present - set(shown)) + [label for label in reversed(list(shown)) if label in present]


def bars(axes: Axes, heights: pd.DataFrame, shown: Mapping[str, Mark], *, stacked: bool = False) -> None:
    """Bars of each matrix (row of `heights`), one per label (column), side by side or stacked."""
    width = 0.8 / (1 if stacked else len(shown))
    below = np.zeros(len(heights))
    for place, (label, mark) in enumerate(shown.items()):
        left = np.arange(len(heights)) + (0 if stacked else (place + 0.5) * width - 0.4)
        values = heights.reindex(columns=[label])[label]
        axes.bar(
            left, values, width, below if stacked else 0, color=mark.color, label=label, edgecolor="white", linewidth=0,
            hatch=HATCHES[place % len(HATCHES)],
        )  # fmt: skip
        below += values.fillna(0)
    axes.set_xlabel("matrix")
    names_below(axes, list(heights.index))


def dots(axes: Axes, values: pd.DataFrame, shown: Mapping[str, Mark], *, lines: bool = False) -> None:
    """One dot per label (column of `values`) and matrix (row), matrices from left to right.

    lines: connected, as a paper draws them, although matrices side by side have nothing to do with one another. More
    than RASTER_FROM dots are an image.
    """
    for label, mark in shown.items():
        axes.plot(
            range(len(values)), values.reindex(columns=[label])[label], color=mark.color, marker=mark.marker,
            linestyle=mark.line if lines else "", linewidth=0.9, markerfacecolor=mark.face,
            markersize=4.5 if len(values) <= names_fit() else 3, rasterized=values.size > RASTER_FROM,
        )  # fmt: skip
    axes.set_xlabel("matrices, most nonzeros last")
    names_below(axes, list(values.index))


def around_one(axes: Axes, above: float = 1.3) -> None:
    """A logarithmic y axis that includes 1, with a line there. To be called after drawing the ratios.

    above: end of the axis over the largest of them.
    """
    axes.axhline(1, color="black", linewidth=1)
    low, high = axes.dataLim.intervaly
    if low > 0:
        axes.set_ylim(min(low, 1) / 1.3, max(high, 1) * above)
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
            dots = axes.scatter(
                groups[label][x], groups[label][y], s=size * {OTHERS: 0.6, BASELINE: 1.7}.get(mark, 1),
                linewidths=0 if mark.filled else 1, facecolors=mark.face, edgecolors=mark.color, marker=mark.marker,
                alpha=0.3 if mark is OTHERS else alpha, zorder=zorder,
            )  # fmt: skip
            titled(dots, label or "other formats")


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


def trend(axes: Axes, table: pd.DataFrame, x: str, y: str, shown: Mapping[str, Mark]) -> None:
    """Trend lines of highlighted formats, as `analysis.trend.medians`; the legend explains them if there are any."""
    lines = medians(table, x, y)
    for label, part in lines[lines["label"].isin(shown.keys())].groupby("label"):
        mark = shown[label]
        axes.plot(
            part[x], part[y], color=mark.color, linestyle=mark.line, marker=mark.marker, markersize=5, linewidth=1.8,
            markeredgecolor="white", markeredgewidth=0.6, zorder=4, label=_TREND,
        )  # fmt: skip


def ranges(
    table: pd.DataFrame,
    value: str,
    panel: str,
    shown: Mapping[str, Mark],
    xlabel: str,
    *,
    note: Callable[[pd.DataFrame], str] | None = None,
    note_title: str = "matrices",
) -> Figure:
    """Distribution of a value over matrices: one row per format, one panel per value of the column `panel`.

    The dot is the median, the thick line the middle half, the thin line 5 to 95 %. Quantiles are values that occur, so
    that infinite ones may be among them. note: a text for the right margin from the rows of one format.
    """
    panels = list(table[panel].cat.categories) if isinstance(table[panel].dtype, pd.CategoricalDtype) else None
    panels = [p for p in panels or sorted(table[panel].unique(), reverse=True) if (table[panel] == p).any()]
    order = table.groupby("label")[value].median().sort_values(kind="stable").index
    places = {label: y for y, label in enumerate(order)}
    figure, axes = grid(len(panels), len(panels), height=0.9 + 0.21 * len(order), lines=True, sharey=True)
    for ax, name in zip(axes, panels, strict=True):
        for label, rows in table[table[panel] == name].groupby("label"):
            y, mark = places[label], shown.get(label, OTHERS)
            color = strong(mark)
            low, q1, middle, q3, high = rows[value].quantile([0.05, 0.25, 0.5, 0.75, 0.95], interpolation="nearest")
            ax.plot([low, high], [y, y], color=color, linewidth=1, solid_capstyle="butt")
            ax.plot([q1, q3], [y, y], color=color, linewidth=5, alpha=0.45, solid_capstyle="butt")
            face = color if mark.filled else "white"
            (dot,) = ax.plot(middle, y, color=color, marker=mark.marker, markerfacecolor=face, markersize=5)
            held = counted(f"{len(rows):,}", "matrix")
            titled(dot, f"{label}: median {middle:.3g}, middle half {q1:.3g} to {q3:.3g}, {held}")
            if note is not None:
                right_note(ax, y, note(rows))
        ax.set(title=str(name), xlabel=xlabel, xscale="log")
        lines(ax, order)
        if any(text.get_text() for text in ax.texts):
            right_title(ax, note_title)
        plain_ticks(ax.xaxis)
        keep_apart(ax)
    return figure


def matrices(rows: pd.DataFrame) -> str:
    """A note of `ranges`: the number of matrices."""
    return f"{len(rows):,}"


def strong(mark: Mark) -> str:
    """The colour of a line of `ranges`: grey ones are darker than points are."""
    return "#8a8a8a" if mark is OTHERS else mark.color


def lines(axes: Axes, labels: Sequence[str]) -> None:
    """One line of a panel for each format, from above."""
    axes.set(yticks=range(len(labels)), yticklabels=labels, ylim=(len(labels) - 0.4, -0.6))
    axes.tick_params("x", top=len(labels) > _LINES_IN_SIGHT, labeltop=len(labels) > _LINES_IN_SIGHT)
    axes.grid(axis="y", visible=False)


def right_note(axes: Axes, y: float, text: str) -> None:
    """Writes a text to the right of a panel, at height y."""
    axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=INK)


def right_title(axes: Axes, text: str) -> None:
    """Writes what the notes to the right of a panel are, above them."""
    above = 16 if axes.xaxis.get_tick_params()["labeltop"] else 5
    axes.annotate(text, (1.02, 1), xycoords="axes fraction", xytext=(0, above), textcoords="offset points", fontsize=7)


def keep_apart(axes: Axes) -> None:
    """Reduces the ticks of the logarithmic x axis of a narrow panel, so that labels do not overlap."""
    low, high = axes.get_xlim()
    tens = np.log10(high / low)
    most = 4 if width() > _PANEL + 1 else 2
    if tens > most:
        axes.xaxis.set_major_locator(LogLocator(base=10.0 ** np.ceil(tens / most)))
