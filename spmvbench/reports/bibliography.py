"""BibTeX entries for the papers of formats, from configs/bibliography.csv and the formats' references."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from spmvbench import paths
from spmvbench.formats import survey

_FIELD = {"article": "journal", "inproceedings": "booktitle", "misc": "howpublished"}
_SPECIAL = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": "", "}": "", "\\": "", "~": " ", "^": ""}


@dataclass(frozen=True)
class Paper:
    """An entry. survey: its number in the survey's bibliography. named: texts by which references name it."""

    id: str
    type: str
    authors: str
    title: str
    venue: str
    year: str
    survey: str
    named: tuple[str, ...]


@cache
def papers() -> tuple[Paper, ...]:
    """All entries of configs/bibliography.csv."""
    with open(paths.configs() / "bibliography.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return tuple(Paper(**row | {"named": tuple(filter(None, row["named"].split(";")))}) for row in rows)


def cited(key: str, reference: str) -> list[str]:
    """The identifiers of a format's papers: those of its names in the survey, and those that its reference names.

    A format whose papers are not in the file has an identifier of its own, unless it is of this project alone.
    """
    numbers = {number for name in survey.names() if key in name.keys for number in name.references}
    known = [
        paper.id for paper in papers() if paper.survey in numbers or any(text in reference for text in paper.named)
    ]
    own = [f"spmvbench-{re.sub('[^a-z0-9-]', '', key.lower())}"]
    return known or ([] if not reference or reference.startswith("this project") else own)


def bibtex(labels: Iterable[str], references: Mapping[str, str]) -> str:
    """The entries of the papers of these labels, sorted, each with a comment that names its formats.

    references: the reference of each installed key. Labels of other keys are ignored.
    """
    keys = sorted({label.partition("[")[0].partition(" ")[0] for label in labels})
    of: dict[str, list[str]] = {}
    for key in keys:
        for identifier in cited(key, references.get(key, "")):
            of.setdefault(identifier, []).append(key)
    known = {paper.id: paper for paper in papers()}
    found = []
    for identifier, named in sorted(of.items()):
        if paper := known.get(identifier):
            fields = {"author": paper.authors, "title": paper.title, _FIELD[paper.type]: paper.venue}
            fields["year"] = paper.year
        else:
            reference = references[named[0]]
            years = re.findall(r"\b(?:19|20)\d\d\b", reference)
            fields = {"howpublished": reference, "year": years[-1] if years else ""}
        found.append(f"% {', '.join(named)}\n" + _written(paper.type if paper else "misc", identifier, fields))
    return "\n".join(found)


def _written(entry: str, identifier: str, fields: Mapping[str, str]) -> str:
    lines = [f"@{entry}{{{identifier},"]
    for name, text in fields.items():
        if text:
            escaped = "".join(_SPECIAL.get(letter, letter) for letter in text)
            lines.append(f"  {name} = {{{{{escaped}}}}}," if name == "title" else f"  {name} = {{{escaped}}},")
    return "\n".join([*lines, "}"]) + "\n"
