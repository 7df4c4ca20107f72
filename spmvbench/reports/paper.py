"""What a paper includes: the figures with captions, tables in LaTeX, and the entries of the formats' papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from spmvbench.paths import written_whole
from spmvbench.reports import bibliography, export
from spmvbench.reports.page import Drawn

BIBLIOGRAPHY, FIGURES, TABLES = "formats.bib", "figures.tex", "tables.tex"
_LABELS = ("label", "over", "baseline")  # columns of a figure's data that name formats


def write(
    out: Path, rows: pd.DataFrame, drawn: Sequence[Drawn], columns: str, references: Mapping[str, str]
) -> list[Path]:
    """Write formats.bib, figures.tex and tables.tex for figures that were written to a folder. Returns the paths.

    rows: as the report's. drawn: its figures, with a PDF and their data as CSV each. columns: ``one-column`` or
    ``two-column``. references: the reference of each installed key.
    """
    named = {figure.name: _named(figure) for figure in drawn}
    found = export.text(rows, "latex", "formats") + "\n" + export.text(rows, "latex", "matrices")
    labels = {label for of_figure in named.values() for label in of_figure} | set(rows["label"])
    contents = {
        BIBLIOGRAPHY: bibliography.bibtex(labels, references),
        FIGURES: "\n".join(
            _figure(figure, out, columns, named[figure.name], references)
            for figure in drawn
            if any(path.suffix == ".pdf" for path in figure.files)
        ),
        TABLES: found,
    }
    for name, text in contents.items():
        with written_whole(out / name) as file:
            file.write(text.encode())
    return [out / name for name in contents]


def _named(figure: Drawn) -> list[str]:
    """The labels that a figure's data name."""
    data = next((path for path in figure.files if path.suffix == ".csv"), None)
    if data is None:
        return []
    table = pd.read_csv(data, dtype=str, keep_default_na=False)
    return sorted({text for column in _LABELS if column in table for text in table[column]} - {""})


def _figure(figure: Drawn, out: Path, columns: str, named: Sequence[str], references: Mapping[str, str]) -> str:
    star = "*" if columns == "two-column" else ""
    image = next(path for path in figure.files if path.suffix == ".pdf").relative_to(out).as_posix()
    keys = {label.partition("[")[0].partition(" ")[0] for label in named}
    cited = sorted({paper for key in keys for paper in bibliography.cited(key, references.get(key, ""))})
    caption = export.latex_text(f"{figure.title}. {figure.caption}")
    if cited:
        caption += rf" Formats: \cite{{{','.join(cited)}}}."
    lines = [rf"\begin{{figure{star}}}", r"\centering", rf"\includegraphics{{{image}}}", rf"\caption{{{caption}}}"]
    return "\n".join([*lines, rf"\label{{fig:{figure.name}}}", rf"\end{{figure{star}}}"]) + "\n"
