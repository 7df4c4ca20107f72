"""The tables of docs/reproduce.md: how much of five papers runs here, and the figures and tables that are drawn again.

They are made of configs/published: the survey's names (survey/names.csv), the named systems, kernels and rules of the
other papers (items.csv), and figures.csv, whose runs are named as far as the folder has them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from spmvbench import paths
from spmvbench.formats import survey
from spmvbench.publishing import in_page
from spmvbench.publishing.format_pages import grade

GRADES = {
    "paper": "By the paper",
    "reading": "With our reading",
    "part": "A part missing",
    "other": "Replaced",
    "none": "Not here",
}
SHOWN = {"as printed": "As printed", "partly": "Partly", "no": "Cannot be drawn"}
_OF_NAMES = {"A": "paper", "B": "reading", "C": "part"}


def published(name: str) -> pd.DataFrame:
    """A table of configs/published, all text."""
    return pd.read_csv(paths.configs() / "published" / f"{name}.csv", dtype=str, keep_default_na=False)


def items() -> pd.DataFrame:
    """Every named system, kernel and rule: columns paper, item, runs (a label) and grade (one of GRADES)."""
    names = [
        ("Survey", name.title, " ".join(name.keys), _OF_NAMES[grade(name)] if name.keys else "none")
        for name in survey.names()
    ]
    rest = published("items")[["paper", "item", "runs", "grade"]]
    return pd.concat([pd.DataFrame(names, columns=rest.columns), rest], ignore_index=True)


def figures() -> pd.DataFrame:
    """Figures and tables: the columns of figures.csv; measured: how many have measurements, shown: one of SHOWN."""
    found = published("figures")
    return found.assign(measured=pd.to_numeric(found["measured"].replace("", "0")))


def counts(found: pd.DataFrame, by: str, words: dict[str, str], weights: Sequence[int]) -> str:
    """A table of the sums of `weights` for each paper, and in all, in columns of these words."""
    sums = found.assign(n=weights).pivot_table("n", "paper", by, "sum", fill_value=0, sort=False)
    sums = sums.reindex(columns=list(words), fill_value=0).rename(columns=words).rename_axis("Paper")
    sums.loc["all"] = sums.sum()
    return in_page.frame(sums.assign(All=sums.sum(axis=1)))


def listed(found: pd.DataFrame, folder: Path, link: str) -> str:
    """The table of all figures and tables. found: as `figures`; folder: of the runs, which `link` leads to."""
    lines = []
    for row in found.itertuples():
        drawn = ", ".join(f"`{name}`" for name in row.figures.split())
        published = [run for run in row.runs.split() if (folder / run).is_dir()]
        runs = ", ".join(f"[{run}]({link}/{run})" for run in published)
        other = {"names": "[Names](formats/grades.md)", "every page": "every page"}.get(row.runs, "")
        lines.append([f"{row.paper}, {row.number}", drawn, runs or other, SHOWN.get(row.shown, ""), row.differs])
    return in_page.markdown(("Paper", "`--figures`", "Published page", "Drawn", "What differs, and why"), lines)


def _tables(given: argparse.Namespace) -> dict[str, str]:
    named, drawn = items(), figures()
    measured = drawn[drawn["measured"] > 0]
    return {
        "items": counts(named, "grade", GRADES, [1] * len(named)),
        "counts": counts(measured, "shown", SHOWN, list(measured["measured"])),
        "figures": listed(drawn, given.folder, in_page.link(given.folder, given.page)),
    }


main = in_page.command(_tables, in_page.FOLDER)
