"""Source hashes of this project's formats and solvers: those of released revisions are in configs/sources.csv."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from spmvbench import formats, paths
from spmvbench.formats.two_copies import PLUS
from spmvbench.measure import operations


def table() -> Path:
    """The table of released sources: columns format, source_hash and revision."""
    return paths.configs() / "sources.csv"


@cache
def released() -> dict[tuple[str, str], str]:
    """The first revision with a source, by the key of a format, or the name of a solver, and source hash."""
    try:
        with open(table(), newline="", encoding="ascii") as file:
            return {(row["format"], row["source_hash"]): row["revision"] for row in csv.DictReader(file)}
    except FileNotFoundError:
        return {}


@cache
def installed(name: str) -> str:
    """The source hash of a format of this installation by its key, also of two with a plus, or of a solver by its name;
    empty if there is none.

    Formats of SPMVBENCH_FORMATS are not of this installation.
    """
    if name in solvers():
        return operations.get(operations.instances(name)[0]).source_hash
    return formats.source_hash(formats.get(name)) if _shipped().issuperset(name.split(PLUS)) else ""


@cache
def _shipped() -> frozenset[str]:
    return frozenset(formats.shipped())


def solvers() -> list[str]:
    """The names of the operations that have kernels of their own."""
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
    return not plus or any(_origin(name, of_solver) for name in solvers())


def _origin(key: str, digest: str) -> str:
    return released().get((key, digest)) or ("this installation" if digest and installed(key) == digest else "")
