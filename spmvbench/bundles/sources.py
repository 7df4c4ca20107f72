"""Source hashes of this project's formats and solvers: those of released revisions are kept in configs/sources.csv.

``python -m spmvbench.bundles.sources`` adds those of the present checkout: before a release, and before a run that will
be published.
"""

from __future__ import annotations

import csv
import io
from functools import cache
from pathlib import Path

from spmvbench import formats, paths
from spmvbench.measure import operations

FIELDS = ("format", "source_hash", "revision")


def _path() -> Path:
    return paths.configs() / "sources.csv"


@cache
def released() -> dict[tuple[str, str], str]:
    """The first revision with a source, by the key of a format, or the name of a solver, and source hash."""
    try:
        with open(_path(), newline="", encoding="ascii") as file:
            return {(row["format"], row["source_hash"]): row["revision"] for row in csv.DictReader(file)}
    except FileNotFoundError:
        return {}


@cache
def installed(name: str) -> str:
    """The source hash of a format of this installation by its key, or of a solver by its name; empty if there is none.

    Formats of SPMVBENCH_FORMATS are not of this installation.
    """
    if name in _solvers():
        return operations.get(operations.instances(name)[0]).source_hash
    return formats.source_hash(formats.get(name)) if name in _shipped() else ""


@cache
def _shipped() -> frozenset[str]:
    return frozenset(formats.shipped())


def _solvers() -> list[str]:
    return [name for name, operation in operations.OPERATIONS.items() if operation.kernels]


def of_format(source_hash: str) -> str:
    """The part of a row's source hash that is the format's; a row of a solver has the solver's after a ``+``."""
    return source_hash.partition("+")[0]


def known(key: str, source_hash: str) -> str:
    """The origin of the source of a format's row: a revision, ``this installation``, or empty.

    Of a solver's row the solver's source has to be known, too; the origin is the format's.
    """
    return _origin(key, of_format(source_hash)) if solver_known(source_hash) else ""


def solver_known(source_hash: str) -> bool:
    """Whether the solver's part of a row's source hash is a release's or this installation's; true without one."""
    _, plus, of_solver = source_hash.partition("+")
    return not plus or any(_origin(name, of_solver) for name in _solvers())


def _origin(key: str, digest: str) -> str:
    return released().get((key, digest)) or ("this installation" if digest and installed(key) == digest else "")


def with_installed(revision: str) -> str:
    """The text of the table with this installation's hashes added, sorted; known ones keep their revision."""
    here = {(name, installed(name)): revision for name in (*formats.shipped(), *_solvers())}
    rows = here | released()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows((key, digest, first) for (key, digest), first in sorted(rows.items()))
    return text.getvalue()


def main() -> None:
    """Add the hashes of this checkout to the table, under its revision."""
    from spmvbench.errors import UsageError
    from spmvbench.runner.session import host

    revision = host()["git"]
    if not revision or revision.endswith("-dirty"):
        raise UsageError("released sources need a clean checkout: commit first")
    text = with_installed(revision[:12])
    with paths.written_whole(_path()) as file:
        file.write(text.encode("ascii"))
    print(f"{_path()}: {len(text.splitlines()) - 1} sources")


if __name__ == "__main__":
    main()
