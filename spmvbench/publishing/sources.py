"""Adds the source hashes of this checkout to configs/sources.csv: before a release, and before a published run.

``python -m spmvbench.publishing sources`` needs a clean checkout, whose revision it writes.
"""

from __future__ import annotations

import tomllib

import pandas as pd

from spmvbench import formats, paths
from spmvbench.bundles import sources
from spmvbench.errors import UsageError
from spmvbench.formats.two_copies import PLUS
from spmvbench.publishing.in_page import parser
from spmvbench.runner.session import host


def with_installed(revision: str) -> str:
    """The text of the table with this installation's hashes added, sorted; known ones keep their revision."""
    names = (*formats.shipped(), *pairs(), *sources.solvers())
    here = {(name, sources.installed(name)): revision for name in names}
    rows = sorted((*source, first) for source, first in (here | sources.released()).items())
    table = pd.DataFrame(rows, columns=["format", "source_hash", "revision"])
    return str(table.to_csv(index=False, lineterminator="\n"))


def pairs() -> list[str]:
    """The keys of two formats with a plus in the configurations of published runs."""
    found: set[str] = set()
    for file in (paths.configs() / "runs").glob("*.toml"):
        listed = tomllib.loads(file.read_text(encoding="utf-8")).get("formats", [])
        named = [text for text in ([listed] if isinstance(listed, str) else listed) if PLUS in text]
        found |= {cls.key for cls, _ in formats.parse(",".join(named))}
    return sorted(found)


def main() -> None:
    """Add the hashes of this checkout to the table, under its revision. Raises UsageError if it has changes."""
    parser(__name__).parse_args()
    revision = host()["git"]
    if not revision or revision.endswith("-dirty"):
        raise UsageError("released sources need a clean checkout: commit first")
    text = with_installed(revision[:12])
    with paths.written_whole(sources.table()) as file:
        file.write(text.encode("ascii"))
    print(f"{sources.table()}: {len(text.splitlines()) - 1} sources")
