"""The runs of a site: their rows with run and revision, and what is no longer as today."""

from __future__ import annotations

import bisect
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from spmvbench import formats
from spmvbench.analysis.cases import emulated, imported, latest_cases, of_one_operation
from spmvbench.analysis.older import changed
from spmvbench.analysis.ranking import by_mean_slowdown
from spmvbench.analysis.totals import Totals, read, totals
from spmvbench.errors import SpmvbenchError, counted
from spmvbench.formats.two_copies import PLUS
from spmvbench.reports import page
from spmvbench.rows import store

PROGRAMS = "Programs"  # the family of `programs.base.Program`

README = 100_000  # most characters read of a README
BEST = 5  # formats named for each run
REVISION = 12  # digits of a revision


@dataclass(frozen=True)
class Run:
    """A run with a page. link: relative path of the page. about: the first paragraph of its README, if it has one.

    rows: as `cases.latest_cases`, with the columns run, revision and changed (as `changed`). matrices: descriptions, as
    `store.matrices`. devices: their names; days: on which it was measured, ascending; settings: such as f64 hot; best:
    the formats with the lowest mean slowdown, empty if nothing was timed on a GPU. The last two are the functions' of
    these names.
    """

    name: str
    link: str
    about: str
    rows: pd.DataFrame
    matrices: pd.DataFrame
    totals: Totals
    devices: Sequence[str]
    days: Sequence[str]
    settings: Sequence[str]
    best: Sequence[str]
    notices: Sequence[str]
    source_changes: str


def all_runs(site: Path) -> list[Run]:
    """The runs in a folder that have a page and can be read, the newest first. The others are named on stderr."""
    found = []
    for folder in store.runs(site):
        if (folder / "report" / page.PAGE).is_file():
            try:
                found.append(_run(folder, site))
            except (SpmvbenchError, OSError) as error:
                print(f"Warning: the index leaves out {folder.name}: {error}", file=sys.stderr)
    return sorted(found, key=lambda run: (list(run.days[-1:]), run.name), reverse=True)


def _run(folder: Path, site: Path) -> Run:
    rows = latest_cases(store.load(folder))
    sessions = store.environment(folder)["sessions"]
    rows = rows.assign(run=folder.name, revision=_revisions(rows["started_at"], sessions), changed=changed(rows))
    link = quote(Path(os.path.relpath(folder / "report" / page.PAGE, site)).as_posix())
    return Run(
        folder.name,
        link,
        _about(folder / "README.md"),
        rows,
        store.matrices(folder),
        totals(rows),
        devices=sorted(set(rows["device_name"].unique()) - {""}) or sorted(set(rows["device"].unique())),
        days=sorted(set(rows["started_at"].str.slice(0, 10)) - {""}),
        settings=list(map(str, read(rows)["setting"].cat.remove_unused_categories().cat.categories)),
        best=by_mean_slowdown(of_one_operation(rows[~emulated(rows)]))[:BEST],
        notices=notices(rows),
        source_changes=source_changes(rows),
    )


def _revisions(started: pd.Series, sessions: Sequence[Mapping[str, Any]]) -> pd.Series:
    """The revision of the invocation that measured each row: the last one that began before it; empty if unknown."""
    began = sorted((one["started"], str(one.get("git") or "")) for one in sessions)
    starts = [start for start, _ in began]

    def revision(start: str) -> str:
        place = bisect.bisect_right(starts, start) - 1
        return began[place][1].removesuffix("-dirty")[:REVISION] if place >= 0 else ""

    return started.map(revision)


def _about(readme: Path) -> str:
    """The first paragraph that is not a heading, list, table or code; empty if there is none."""
    if not readme.is_file():
        return ""
    with open(readme, encoding="utf-8", errors="replace") as file:
        text = file.read(README)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    found = next((part for part in parts if part and part[0] not in "#|-*!<"), "")
    return re.sub(r"\[([^]]*)\]\([^)]*\)|`([^`]*)`", lambda words: words[1] or words[2] or "", found)


@cache
def _sources_today() -> dict[str, str]:
    return {key: formats.source_hash(formats.get(key)) for key in formats.keys()}  # noqa: SIM118 - a function


def notices(rows: pd.DataFrame) -> list[str]:
    """Sentences on imported rows, and on those whose labels or programs are not those of this version: a banner of
    pages that show them.
    """
    found = [f"{text}."] if (text := store.imported(rows)) else []
    rows = rows[~imported(rows)]
    own = rows[["format", "source_hash"]].drop_duplicates()
    pairs = own.assign(today=changed(own))[["format", "today"]].drop_duplicates()
    renamed = pairs[pairs["today"].str.endswith(" today") & (pairs["today"] != "another program today")]
    if len(renamed):
        names = ", ".join(f"{row.format} here is {row.today}" for row in renamed.sort_values("format").itertuples())
        found.append(f"Labels are those of an older version: {names}.")
    replaced = sorted(pairs.loc[pairs["today"] == "another program today", "format"])
    if replaced:
        found.append(f"These keys run another program today: {', '.join(replaced)}.")
    own = read(rows[rows["family"] != PROGRAMS])  # programs of other projects are in no version
    missing = sorted({word for key in set(own["format"].unique()) for word in key.split(PLUS)} - set(formats.keys()))
    if missing:
        found.append(f"This version has no format {', '.join(missing)}.")
    return found


def source_changes(rows: pd.DataFrame) -> str:
    """A sentence on formats whose sources have changed since; empty if none has."""
    today, known = _sources_today(), read(rows)[["format", "source_hash"]].drop_duplicates()
    other = known[known["format"].isin(list(today)) & (known["source_hash"] != known["format"].map(today))]
    if other.empty:
        return ""
    of = counted(known["format"].nunique(), "format")
    return (
        f"The sources of {other['format'].nunique()} of {of}, or modules that they use, "
        "have changed since these rows were measured. Only a run on the same GPU tells whether their times have."
    )
