"""Named sets of matrices: configs/sets/*.toml, each with a title, its source (paper and table) and the matrices."""

from __future__ import annotations

import csv
import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spmvbench import paths
from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean

FILES = "SPMVBENCH_FILES"  # environment variable: the folder of the files of sets
SUFFIXES = (".mps", ".mps.gz")
STAND_INS = "-like"  # ends the name of a set with stand-ins for its matrices that are not at hand
STAND_IN = "synthetic/like:"  # begins the name of a stand-in's rows


@dataclass(frozen=True)
class MatrixSet:
    """A named set. matrices: group/name ids and generated specs in the order of the source. files: in their place, the
    names of files in the folder of FILES, without their suffix.
    """

    name: str
    title: str
    source: str
    matrices: tuple[str, ...]
    files: tuple[str, ...]

    def at_hand(self) -> dict[str, Path]:
        """Those of `files` that are there, by name."""
        if not (folder := os.environ.get("SPMVBENCH_FILES")):
            return {}
        places = {name: [Path(folder, f"{name}{suffix}") for suffix in SUFFIXES] for name in self.files}
        return {name: path for name, paths in places.items() if (path := next(filter(Path.is_file, paths), None))}


def names() -> list[str]:
    """The names of all sets, sorted."""
    return sorted(path.stem for path in (paths.configs() / "sets").glob("*.toml"))


def get(name: str) -> MatrixSet:
    """A set by name. Raises UsageError with the nearest names for an unknown one, SpmvbenchError for a bad file."""
    known = names()
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise UsageError(f"there is no set {name!r}{hint}")
    path = paths.configs() / "sets" / f"{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        matrices, listed = (tuple(table.pop(key, ())) for key in ("matrices", "files"))
        return MatrixSet(name=name, matrices=matrices, files=listed, **table)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise SpmvbenchError(f"{path} is no set of matrices: {error}") from None


def members(name: str) -> list[str]:
    """All matrices of a set; of one of files those that are at hand. Raises UsageError for an unknown set, and for one
    of files if none is there.

    If `-like` follows the name, a stand-in replaces each matrix that is not at hand and whose facts are known.
    """
    if not name.endswith(STAND_INS):
        known = get(name)
        here = known.at_hand()
        if known.files and not here:
            first = f"{known.files[0]}{SUFFIXES[0]}"
            raise UsageError(f"the set {name} is of files: {FILES} names no folder with {first} or another of them")
        return [*known.matrices, *map(str, here.values())]
    from spmvbench.matrices import stand_ins, suitesparse

    facts = stand_ins.known()
    return [
        f"like:{matrix}" if matrix in facts and not suitesparse.at_hand(*matrix.split("/")) else matrix
        for matrix in get(name.removesuffix(STAND_INS)).matrices
    ]


def is_stand_in(matrix: str) -> bool:
    """Whether the name of a matrix in rows (group/name) is that of a stand-in."""
    return matrix.startswith(STAND_IN)


def stands_for(matrix: str) -> str:
    """The matrix that a name in rows stands for: its own, if it is no stand-in."""
    return matrix.removeprefix(STAND_IN).partition(":")[0] if is_stand_in(matrix) else matrix


def short_name(matrix: str) -> str:
    """The name of a matrix without its group, for figures; that of a stand-in begins with `like:`."""
    return ("like:" if is_stand_in(matrix) else "") + matrix.rpartition("/")[2]


@cache
def listed_entries() -> dict[str, int]:
    """Entries of the generated matrices that sets list with their sizes (configs/sets/*.csv), by spec."""
    found: dict[str, int] = {}
    for path in sorted((paths.configs() / "sets").glob("*.csv")):
        with open(path, newline="", encoding="utf-8") as file:
            found |= {row["spec"]: int(row["entries"]) for row in csv.DictReader(file)}
    return found
