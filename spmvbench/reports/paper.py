"""What a paper includes: figures with captions, tables and a sentence on formats in LaTeX, and BibTeX of their papers.

Floats are as wide as a column at most, whatever the class, and need graphicx and booktabs alone. Papers are cited in
the sentence, once.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from spmvbench import errors
from spmvbench.analysis.cases import counted, gpus, latest_cases, verified
from spmvbench.analysis.ranking import SLOWDOWN_CAP, TIE, best_formats, by_mean_slowdown
from spmvbench.paths import written_whole
from spmvbench.reports import bibliography, export, tables
from spmvbench.reports.page import Drawn
from spmvbench.rows.schema import rate_unit

BIBLIOGRAPHY, FIGURES, TABLES, FORMATS = "formats.bib", "figures.tex", "tables.tex", "formats.tex"
SERIES = 12  # formats that a figure of a paper can tell apart
MOST_ROWS, MOST_COLUMNS = 40, 9  # of a table: longer ones are continued, wider ones are left to `export`
RULE = "the baseline, those that are highlighted, the best of each family by mean slowdown, then the next best"
_COLUMNS = 6  # of the table of formats
_WORDS = {"f64": "double precision", "f32": "single precision", "hot": "warm cache", "cold": "flushed cache"}
_SPEED = (
    "Slowdown: time over the best of these formats, geometric mean over the matrices, "
    f"{SLOWDOWN_CAP:g} where not verified. "
    "Bytes per nonzero, and conversion in SpMVs: geometric means. "
    f"Wins: matrices on which no other was within {100 * (TIE - 1):.1f} %."
)
# Shrinks what is wider than the column or higher than most of the page.
_FIT = r"""\providecommand{\spmvbenchfit}[1]{\sbox0{#1}%
  \ifdim\wd0>\linewidth\sbox0{\resizebox{\linewidth}{!}{\usebox0}}\fi
  \ifdim\ht0>.75\textheight\sbox0{\resizebox{!}{.75\textheight}{\usebox0}}\fi
  \usebox0}
"""


def series(rows: pd.DataFrame, baseline: str | None, highlighted: Iterable[str]) -> list[str]:
    """At most SERIES labels by RULE, highlighted ones all. rows: as `store.load`."""
    rows = counted(latest_cases(rows))
    families = rows.drop_duplicates("label").set_index("label")["family"]
    first = dict.fromkeys([*([baseline] if baseline else []), *highlighted])
    order = by_mean_slowdown(rows)
    best = families[order].drop_duplicates().index
    found = dict.fromkeys([*first, *best, *order])
    return list(found)[: max(SERIES, len(first))]


def write(
    out: Path, rows: pd.DataFrame, drawn: Sequence[Drawn], columns: str, references: Mapping[str, str], tried: int
) -> list[Path]:
    """Write formats.bib, formats.tex, figures.tex and tables.tex for figures that were written to a folder.

    rows: as the report's. drawn: its figures, with a PDF and their data as CSV each. columns: ``one-column`` or
    ``two-column``. references: the reference of each installed key. tried: formats that were measured. Returns the
    paths.
    """
    rows = latest_cases(rows)
    star = "*" if columns == "two-column" else ""
    labels = sorted(set(rows["label"].unique()))
    printed = [figure for figure in drawn if any(path.suffix == ".pdf" for path in figure.files)]
    made = [*_formats(rows), *_matrices(rows)]
    for figure in drawn:
        told = [table for table in figure.tables if len(table.columns) <= MOST_COLUMNS]
        made += [(f"{figure.name} {place or ''}", table) for place, table in enumerate(told)]
    contents = {
        BIBLIOGRAPHY: bibliography.bibtex(labels, references),
        FORMATS: _sentence(labels, references, tried),
        FIGURES: "\n".join([_FIT, *(_figure(figure, out, star, rows) for figure in printed)]),
        TABLES: "\n".join([_FIT, *(part for name, table in made for part in _floats(name, table, star))]),
    }
    for name, text in contents.items():
        with written_whole(out / name) as file:
            file.write(text.encode())
    return [out / name for name in contents]


def _sentence(labels: Sequence[str], references: Mapping[str, str], tried: int) -> str:
    """Which formats are shown, each cited where it is first named."""
    seen: set[str] = set()
    named = []
    for label in labels:
        key = label.partition("[")[0].partition(" ")[0]
        papers = [paper for paper in bibliography.cited(key, references.get(key, "")) if paper not in seen]
        seen.update(papers)
        named.append(export.latex_text(label) + (rf"~\cite{{{','.join(papers)}}}" if papers else ""))
    text = ", ".join(named[:-1]) + (" and " if len(named) > 1 else "") + named[-1]
    return rf"\begin{{sloppypar}}The formats are {text}, of {tried} that were measured.\end{{sloppypar}}" + "\n"


def _circumstances(rows: pd.DataFrame, data: pd.DataFrame) -> str:
    """GPU, precision, mode and matrices of a figure's or a table's data, or of all rows where it does not say."""
    models = gpus(rows) or ["EMULATED, times say nothing about a GPU"]
    column = next((name for name in ("setting", "dtype") if name in data), None)
    settings = (rows["setting"] if column is None else data[column]).astype(str).unique()
    parts = itertools.zip_longest(*(setting.split(" ", 1) for setting in settings))  # types, modes with operations
    words = [" and ".join(_WORDS.get(word, word) for word in dict.fromkeys(part) if word) for part in parts]
    matrices = (data["matrix"] if "matrix" in data else verified(rows)["matrix"]).nunique()
    return "; ".join([", ".join(models), *words, errors.counted(f"{matrices:,}", "matrix")]) + "."


def _figure(figure: Drawn, out: Path, star: str, rows: pd.DataFrame) -> str:
    """The caption: the title, the first sentence of the page's, and the circumstances."""
    image = next(path for path in figure.files if path.suffix == ".pdf").relative_to(out).as_posix()
    data = pd.read_csv(next(path for path in figure.files if path.suffix == ".csv"), keep_default_na=False)
    first = re.split(r"(?<=\.)\s+(?=[A-Z0-9])", figure.caption)[0]
    caption = export.latex_text(f"{figure.title}. {first} {_circumstances(rows, data)}")
    lines = [
        rf"\begin{{figure{star}}}",
        r"\centering",
        rf"\spmvbenchfit{{\includegraphics{{{image}}}}}",
        rf"\caption{{{caption}}}",
    ]
    return "\n".join([*lines, rf"\label{{fig:{figure.name}}}", rf"\end{{figure{star}}}"]) + "\n"


def _formats(rows: pd.DataFrame) -> Iterator[tuple[str, tables.Table]]:
    """The first columns of the page's ranking, for each setting."""
    speed = len(verified(rows)) > 0
    for table in tables.formats(rows, speed=speed):
        about = _circumstances(rows[rows["setting"] == table.caption], pd.DataFrame())
        first = [row[:_COLUMNS] for row in table.rows]
        caption = f"Formats. {about} {_SPEED if speed else ''}"
        yield f"formats {table.caption}", replace(table, caption=caption, columns=table.columns[:_COLUMNS], rows=first)


def _matrices(rows: pd.DataFrame) -> Iterator[tuple[str, tables.Table]]:
    """The fastest format of each matrix, for each setting."""
    nnz = rows.drop_duplicates("matrix").set_index("matrix")["nnz"]
    for setting, part in best_formats(rows).groupby("setting", observed=True):
        data = part.assign(nnz=part["matrix"].map(nnz))
        columns = [
            tables.Column("matrix", "Matrix"),
            tables.Column("nnz", "Nonzeros", tables.number),
            tables.Column("label", "Fastest"),
            tables.Column("gflops", rate_unit(str(setting)), tables.number),
            tables.Column("margin", "Next", tables.number),
        ]
        after = "Next: time of the second over that of the fastest."
        caption = f"The fastest of these formats. {_circumstances(rows, data)} {after}"
        yield f"matrices {setting}", tables.table(caption, data, columns)


def _floats(name: str, table: tables.Table, star: str) -> Iterator[str]:
    """A table as floats of MOST_ROWS rows each."""
    for start in range(0, len(table.rows), MOST_ROWS):
        caption = table.caption + (" Continued." if start else "")
        part = replace(table, rows=table.rows[start : start + MOST_ROWS], caption=caption)
        body = rf"\setlength{{\tabcolsep}}{{3pt}}\spmvbenchfit{{{export.tabular(part)}}}"
        yield export.in_float(part, f"{name} {start or ''}", body, star, r"\centering\small") + "\n"
