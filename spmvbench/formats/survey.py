"""The names of the survey (Filippone et al. 2017): those of its Table 2, those of its text, and the keys that run them.

They are data, configs/published/survey/names.csv and table2.toml; a test holds these and the registered formats
together.
"""

from __future__ import annotations

import csv
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache

from spmvbench import paths

# What was read of a name for its formats here, the best first: its authors' code, their paper, the paper's abstract, or
# nothing but what the survey says. A format of the last is our reading of a few sentences, not the authors' program.
CONFIDENCE = ("authors' code", "paper", "abstract", "survey's sentence alone")


@dataclass(frozen=True)
class Name:
    """One name of the survey.

    title: the name, with its reference's number where several share it (``CSR optimization [13]``). section: where the
    survey has it. references: numbers in its bibliography. in_table2: False if only its text has the name. keys:
    the formats that run it. to_come: keys planned for it. reason: why it will have none. confidence: what was read of
    it, one of CONFIDENCE; of several formats the least. contribution: what its paper adds to what was known. lacks:
    what of that its formats do not have, and what stands in for it; empty if they have all. issues: of its base format
    in Table 2, with that; available: whether its source code was, to the survey's authors.
    """

    title: str
    name: str
    section: str
    references: tuple[str, ...]
    in_table2: bool
    keys: tuple[str, ...]
    to_come: tuple[str, ...]
    reason: str
    confidence: str
    contribution: str
    lacks: str
    issues: str
    available: bool

    @property
    def why_not(self) -> str:
        """Why what is missing is missing; empty if nothing is."""
        return self.reason or (f"still to come, as {' and '.join(self.to_come)}" if self.to_come else "")

    def called(self, words: str) -> bool:
        """Whether these are its name, with a reference's number or without, whatever the case."""
        known = {self.name, self.title, *(f"{self.name} [{number}]" for number in self.references)}
        return words.lower() in {name.lower() for name in known}


@cache
def names() -> tuple[Name, ...]:
    """Every name, in the survey's order."""
    folder = paths.configs() / "published" / "survey"
    with open(folder / "names.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table2 = tomllib.loads((folder / "table2.toml").read_text(encoding="utf-8"))
    shared = Counter(row["name"] for row in rows)
    titles = [f"{row['name']} [{row['references']}]" if shared[row["name"]] > 1 else row["name"] for row in rows]
    return tuple(
        Name(
            title=title,
            name=row["name"],
            section=row["section"],
            references=tuple(row["references"].split()),
            in_table2=row["in_table2"] == "yes",
            keys=tuple(row["keys"].split()),
            to_come=tuple(row["to_come"].split()),
            reason=row["reason"],
            confidence=row["confidence"],
            contribution=row["contribution"],
            lacks=row["lacks"],
            issues=table2["issues"].get(row["section"][:3], "") if row["in_table2"] == "yes" else "",
            available=title in table2["available"],
        )
        for row, title in zip(rows, titles, strict=True)
    )


def count() -> tuple[int, int]:
    """How many names of Table 2 have a format that runs them, and how many there are."""
    listed = [name for name in names() if name.in_table2]
    return sum(bool(name.keys) for name in listed), len(listed)


def confidence(key: str) -> str:
    """What was read of a format's names, one of CONFIDENCE, of several the least; empty for one of no name."""
    found = {name.confidence for name in names() if key in name.keys}
    return max(found, key=CONFIDENCE.index, default="")


def lacks(key: str) -> str:
    """What of its paper's contribution a format does not have; empty for one that has all, or is of no name."""
    return "; ".join(name.lacks for name in names() if key in name.keys and name.lacks)


def by_confidence() -> dict[str, int]:
    """How many names of Table 2 have a format that runs them, by what was read of them, in the order of CONFIDENCE."""
    found = Counter(name.confidence for name in names() if name.in_table2 and name.keys)
    return {words: found[words] for words in CONFIDENCE}


def shares() -> str:
    """`by_confidence` as words: 21 after the authors' code, 13 after the abstract, and so on."""
    return ", ".join(f"{n} after the {words}" for words, n in by_confidence().items() if n)
