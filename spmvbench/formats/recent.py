"""Formats and kernels named since the survey, to 2026, and the keys that run them.

They are data, configs/published/recent/names.csv; a test compares that file with the registered formats.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from spmvbench import paths

COUNTED = ("storage", "kernel")  # kinds of names that a format can run


@dataclass(frozen=True)
class Name:
    """One name.

    reference: the paper or the program. kind: storage, kernel, autotuner, mixed precision or reordering. gpu, exact:
    whether it is for GPUs, and whether it gives double precision exactly. keys: the formats that run it. to_come:
    keys planned for it. reason: why it will have none. note: what else there is to say. confidence: what was read of
    it, one of `survey.CONFIDENCE`; empty if nothing runs it. source: where the name is from.
    """

    name: str
    reference: str
    kind: str
    gpu: bool
    exact: bool
    keys: tuple[str, ...]
    to_come: tuple[str, ...]
    reason: str
    note: str
    confidence: str
    source: str

    @property
    def counts(self) -> bool:
        """Whether it is an exact storage or kernel for GPUs."""
        return self.gpu and self.exact and self.kind in COUNTED

    @property
    def why_not(self) -> str:
        """Why nothing runs it; empty if something does, and for what does not count."""
        return self.reason or (f"still to come, as {' and '.join(self.to_come)}" if self.to_come else "")


@cache
def names() -> tuple[Name, ...]:
    """Every name, in the order of the file."""
    path = paths.configs() / "published" / "recent" / "names.csv"
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        Name(
            name=row["name"],
            reference=row["reference"],
            kind=row["kind"],
            gpu=row["gpu"] == "yes",
            exact=row["exact_f64"] == "yes",
            keys=tuple(row["keys"].split()),
            to_come=tuple(row["to_come"].split()),
            reason=row["reason"],
            note=row["note"],
            confidence=row["confidence"],
            source=row["source"],
        )
        for row in rows
    )


def count() -> tuple[int, int]:
    """How many of the names that count have a format that runs them, and how many there are."""
    listed = [name for name in names() if name.counts]
    return sum(bool(name.keys) for name in listed), len(listed)
