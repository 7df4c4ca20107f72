"""Several reports as one site: pages with a shared library, and their index."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from spmvbench.analysis.cases import emulated, latest_cases, of_one_operation
from spmvbench.analysis.ranking import by_mean_slowdown
from spmvbench.errors import SpmvbenchError
from spmvbench.paths import written_whole
from spmvbench.reports import page
from spmvbench.rows import store

INDEX, SHARED = "index.html", "shared"
README = 100_000  # most characters read of a README
BEST = 5  # formats named for each run


@dataclass(frozen=True)
class Entry:
    """A run in the index. link: relative path of its page. about: the first paragraph of its README, if it has one.

    best: the formats with the lowest mean slowdown; empty if nothing was timed on a GPU.
    """

    name: str
    link: str
    about: str
    devices: Sequence[str]
    days: Sequence[str]
    settings: Sequence[str]
    matrices: int
    formats: int
    cases: int
    ok: int
    best: Sequence[str]


def shared(site: Path, out: Path) -> tuple[str, str]:
    """Write the shared files of a site; returns the relative paths from a page in `out` to them and to the index."""
    page.write_shared(site / SHARED)
    return f"{_way(site / SHARED, out)}/", _way(site / INDEX, out)


def write_index(site: Path) -> Path:
    """Write the index of all runs in a folder that have a page and can be read, the newest first."""
    entries = []
    for folder in store.runs(site):
        if (folder / "report" / page.PAGE).is_file():
            try:
                entries.append(entry(folder, site))
            except (SpmvbenchError, OSError) as error:
                print(f"Warning: the index leaves out {folder.name}: {error}", file=sys.stderr)
    entries.sort(key=lambda found: (found.days[-1:], found.name), reverse=True)
    text = page.templates().get_template("site.html").render(entries=entries, shared=f"{SHARED}/")
    with written_whole(site / INDEX) as file:
        file.write(text.encode(errors="backslashreplace"))
    return site / INDEX


def entry(folder: Path, site: Path) -> Entry:
    """The entry of a run in the index. Raises SpmvbenchError as `store.load`."""
    rows = latest_cases(store.load(folder))
    read = rows[rows["matrix_sha256"] != ""]
    timed = of_one_operation(rows[~emulated(rows)])
    return Entry(
        name=folder.name,
        link=quote(_way(folder / "report" / page.PAGE, site)),
        about=_about(folder / "README.md"),
        devices=sorted(set(rows["device_name"]) - {""}) or sorted(set(rows["device"])),
        days=sorted(set(rows["started_at"].str.slice(0, 10)) - {""}),
        settings=[str(setting) for setting in read["setting"].cat.remove_unused_categories().cat.categories],
        matrices=read["matrix"].nunique(),
        formats=read["format"].nunique(),
        cases=int(read["cases"].sum()),
        ok=int(read.loc[read["status"] == "ok", "cases"].sum()),
        best=by_mean_slowdown(timed)[:BEST],
    )


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


def _way(to: Path, start: Path) -> str:
    """A relative path for links."""
    return Path(os.path.relpath(to, start)).as_posix()
