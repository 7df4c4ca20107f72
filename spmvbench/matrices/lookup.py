"""Matrices by name: of the collection, generated ones, files and named sets."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spmvbench import untrusted
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.matrices import files, stand_ins, structures, suitesparse, synthetic
from spmvbench.matrices import sets as named_sets
from spmvbench.matrices.conditions import ANY, Conditions
from spmvbench.matrices.download import Unreachable
from spmvbench.matrices.features import is_spd
from spmvbench.matrices.suitesparse import Entry


@dataclass(frozen=True)
class Matrix:
    """A matrix that can be read without the network.

    source: "suitesparse", "synthetic" or "file". Generated matrices are of group "synthetic" and named by their spec,
    files of group "file". path: None for generated ones. nnz: stored entries that the index expects, None if unknown.
    file_sha256: of the bytes of a file, which may be edited; empty for others. generator_hash: of the generator's code,
    which may be edited, too; empty for others. order: the order of rows and columns that it is measured in; `read`
    gives the natural one ("none") all the same. order_hash: of the code that computes the order; empty for "none".
    part: the name of one of several matrices in a file, else empty. unavailable: why it cannot be had, which `read`
    raises; empty if it can.
    """

    group: str
    name: str
    kind: str
    source: str
    path: Path | None = None
    nnz: int | None = None
    file_sha256: str = ""
    generator_hash: str = ""
    order: str = "none"
    order_hash: str = ""
    part: str = ""
    unavailable: str = ""

    @property
    def id(self) -> str:
        """``group/name``, its name in rows and commands."""
        return f"{self.group}/{self.name}"

    @property
    def typed(self) -> str:
        """What selects the matrix on the command line."""
        return {"synthetic": self.name, "file": _joined(str(self.path), self.part)}.get(self.source, self.id)

    def entries(self, seed: int = 0) -> int:
        """Number of stored entries; a file is read if the number is not known otherwise. Raises SpmvbenchError."""
        if self.nnz is not None:
            return self.nnz
        if self.path is None and seed == 0 and (listed := named_sets.listed_entries().get(self.name)) is not None:
            return listed  # counting can take as long as generating
        return synthetic.entries(self.name, seed) if self.path is None else self.read(seed, "real").nnz

    def is_complex(self) -> bool:
        """Whether it has complex values. Raises as `read`."""
        try:
            self.read()
        except files.Complex:
            return True
        return False

    def read(self, seed: int = 0, complex_values: files.ComplexValues = "refuse") -> Any:
        """The matrix as a canonical scipy.sparse.csr_array of float64; see files.read and synthetic.generate.

        Raises UsageError for a named file that cannot be read, SpmvbenchError for a damaged fetched file, for complex
        values, and for a file that was changed after its hash was computed.
        """
        if self.unavailable:
            raise SpmvbenchError(self.unavailable)
        if self.path is None:
            return synthetic.generate(self.name, seed)
        try:
            a = files.read(self.path, name=self.part, seed=seed, complex_values=complex_values)
        except files.Complex:
            raise
        except SpmvbenchError as error:
            raise (UsageError if self.source == "file" else SpmvbenchError)(str(error)) from None
        if self.file_sha256 and self.file_sha256 != _digest(self.path):
            raise SpmvbenchError(
                f"{self.name} was edited after the run began: the same command measures what it is now"
            )
        return a


def resolve(
    matrices: Iterable[str] = (),
    *,
    groups: Iterable[str] = (),
    sets: Iterable[str] = (),
    conditions: Conditions = ANY,
    limit: int | None = None,
    seed: int = 0,
) -> tuple[list[Matrix], list[str]]:
    """The selected matrices that are available, and the ids of those of the collection that are not fetched.

    matrices: `group/name`, a name that only one group has, globs, specs, files; `like:` before a glob means the
    stand-ins of the matrices whose facts are known. The conditions apply to all of them (a
    file is read for that, and has no kind; an unreadable file passes). If nothing is named, they select from the whole
    collection. limit: at most this many, fetched or not. seed: of generated matrices. Named matrices keep their order;
    those of globs, groups and conditions follow, in the order of the index. Files with the same name are distinguished
    by their folders. Raises UsageError for unknown names, with the nearest known ones.
    """
    items = [*matrices, *(name for of in sets for name in named_sets.members(of))]
    items = [name for item in items for name in _stand_ins(item)]
    groups = list(groups)
    if "" in items or not (items or groups or conditions):
        raise UsageError("no matrix is named: give group/name, a generated spec, a file, --group or --set")
    chosen: dict[str, Matrix | Entry] = {}
    searched = []
    all_own = {item: _own(item) for item in items}
    entries = _entries([item for item in items if all_own[item] is None and not (conditions or _is_glob(item))])
    for item in items:
        mine = all_own[item]
        if mine is not None:
            if _meets(conditions, mine, seed):
                chosen.setdefault(mine.typed, mine)
        elif item in entries:
            chosen.setdefault(entries[item].id, entries[item])
        else:
            searched.append(item)
    if searched or groups or (conditions and not items):
        selected = suitesparse.search(searched, groups=groups, conditions=conditions)
        chosen |= {entry.id: entry for entry in selected if entry.id not in chosen}
    here, missing = [], []
    for found in list(chosen.values())[:limit]:
        matrix = found if isinstance(found, Matrix) else _fetched(found)
        if matrix is None:
            missing.append(found.id)
        else:
            here.append(matrix)
    return _distinguished(here), missing


def require_readable(matrices: Sequence[Matrix], seed: int = 0, complex_values: files.ComplexValues = "refuse") -> None:
    """Raise the error of the first matrix if none of them can be read, because nothing could be measured.

    Matrices that were read are in the cache for the measurement.
    """
    wrong = None
    for matrix in matrices:
        if matrix.path is None:
            return
        try:
            matrix.read(seed, complex_values)
            return
        except SpmvbenchError as error:
            wrong = wrong or error
    if wrong:
        raise wrong


def name_of(given: Any) -> str | None:
    """The name of a matrix that is given as text, as a path, or as an object of the collection or of ssgetpy.

    None for anything else.
    """
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    of_ssgetpy = type(given).__module__.partition(".")[0] == "ssgetpy" and not isinstance(given, list)
    if isinstance(given, Entry | Matrix) or of_ssgetpy:
        return f"{given.group}/{given.name}"
    return None


def obtain(name: str | os.PathLike[str]) -> Matrix:
    """One matrix by name, fetched if it is missing. Raises UsageError or SpmvbenchError."""
    name = os.fspath(name)
    own = _own(name)
    if own is not None:
        return own
    if _is_glob(name):
        raise UsageError(f"{name} is a glob: name one matrix")
    entry = _entries([name])[name]
    matrix = _fetched(entry)
    if matrix is not None:
        return matrix
    outcome = suitesparse.fetch([entry])
    matrix = _fetched(entry)
    if matrix is None:
        reason = outcome.failed[0][1] if outcome.failed else "the source does not hold it"
        raise SpmvbenchError(f"cannot fetch {entry.id}: {reason}")
    return matrix


def load(name: Any, seed: int = 0, complex_values: files.ComplexValues = "refuse") -> Any:
    """A matrix by name (`HB/1138_bus`, `pde:60`, a file, `pair.mat:A`) as a scipy.sparse.csr_array, fetched if missing.

    name: also a path, or what `search` returns. seed: for generated values and for those of patterns. complex_values:
    see files.read. Raises TypeError for what is none of these, UsageError and SpmvbenchError for a matrix that cannot
    be read.
    """
    found = name_of(name)
    if found is None:
        raise TypeError(f"a matrix is loaded by its name or file, not by {type(name).__name__}")
    return obtain(found).read(seed, complex_values)


def _stand_ins(item: str) -> list[str]:
    """The stand-ins that `like:` before a glob means; of other items that itself. Raises UsageError for none."""
    if not (item.startswith(synthetic.STAND_IN) and _is_glob(item)):
        return [item]
    found = fnmatch.filter(stand_ins.known(), item.removeprefix(synthetic.STAND_IN))
    if not found:
        raise UsageError(
            f"no facts are known of matrices {item} to generate stand-ins from (SPMVBENCH_FACTS names more)"
        )
    return [synthetic.STAND_IN + name for name in found]


def _is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


# What conditions are about, of a generated matrix or a file; a pattern is real, because it is given values.
_FACTS: dict[str, Callable[[Matrix, int], Any]] = {
    "kind": lambda matrix, seed: matrix.kind,
    "name": lambda matrix, seed: matrix.name,
    "nnz": lambda matrix, seed: matrix.entries(seed),
    "rows": lambda matrix, seed: matrix.read(seed, "real").shape[0],
    "cols": lambda matrix, seed: matrix.read(seed, "real").shape[1],
    "spd": lambda matrix, seed: is_spd(matrix.read(seed, "real")),
    "dtype": lambda matrix, seed: "complex" if matrix.is_complex() else "real",
}


def _meets(conditions: Conditions, matrix: Matrix, seed: int) -> bool:
    """Whether a generated matrix or a file meets the conditions; a file that cannot be read does."""
    try:
        return conditions.meets(lambda fact: _FACTS[fact](matrix, seed) if fact in _FACTS else None)
    except SpmvbenchError:
        return True


def _own(text: str) -> Matrix | None:
    """The matrix of a spec (with or without its group) or a file, None for one of the collection."""
    spec = text.removeprefix("synthetic/")
    if synthetic.is_spec(spec):
        spec = synthetic.canonical(spec)
        kind = spec.partition(":")[0]
        if kind != "empty" and not synthetic.has_rows(spec):
            raise UsageError(f"{spec} has no rows or no columns; a matrix without entries is empty:R:C")
        nnz = stand_ins.facts(spec.removeprefix(synthetic.STAND_IN)).entries if kind == "like" else None
        return Matrix("synthetic", spec, kind, "synthetic", nnz=nnz, generator_hash=synthetic.generator_hash(kind))
    before, _, name = text.rpartition(":")
    for file, part in ((text, ""), (before, name)):
        if os.path.isfile(file) and (not part or files.is_matrix_file(file)):  # no error for invalid file names
            path = Path(file)
            return Matrix("file", untrusted.file_name(_joined(path.name, part)), "", "file", path.resolve(), part=part)
    if absent := next(filter(files.is_matrix_file, (before, text)), ""):
        raise UsageError(f"there is no file {absent}")
    return None


def is_own(text: str) -> bool:
    """Whether a text names a generated matrix or a file, not one of the collection. Raises UsageError."""
    return _stand_ins(text) != [text] or _own(text) is not None


def _entries(names: Sequence[str]) -> dict[str, Entry]:
    """The index entries of exact names. Fetched matrices need neither index nor network; the others one look at it."""
    bare = {name: Entry(*name.partition("/")[::2]) for name in names if "/" in name}
    found = {name: entry for name, entry in bare.items() if _fetched(entry)}
    if found:
        found |= {entry.id: entry for entry in suitesparse.index(network=False) if entry.id in found}
    missing = [name for name in names if name not in found]
    for name in missing:
        require_no_other(name)
    if missing:
        try:
            entries = suitesparse.search(missing)
        except Unreachable:
            if not bare.keys() >= set(missing):
                raise
            return found | {name: bare[name] for name in missing}  # not fetched, and no index to look them up
        known = {key: entry for entry in entries for key in (entry.name, entry.id)}
        found |= {name: known[name] for name in missing}
    return found


def require_no_other(name: str) -> None:
    """Raise UsageError, before the network is asked, for a name that nearly is one of a file or a generated matrix."""
    meant = _meant(name)
    if meant and not suitesparse.is_known(name):
        raise UsageError(f"there is no matrix {name}{meant}")


def _meant(name: str) -> str:
    """The end of a sentence that says what a name may stand for; empty if nothing is near."""
    for file in sorted(glob.glob(f"{glob.escape(name)}.*")):
        if files.is_matrix_file(file):
            return f", but the file {file} is here: write {file}"
    for kind in structures.KINDS:
        number = name.removeprefix(kind)
        if number != name and (not number or number.isdecimal()):
            spec = structures.form(kind)
            return f"; a generated one is written {f'{kind}:{number}' if number and spec.count(':') == 1 else spec}"
    return ""


def _distinguished(matrices: Sequence[Matrix]) -> list[Matrix]:
    """The matrices, files with hashes. Files of the same name get the shortest distinguishing ends of their paths."""
    paths = {matrix.path for matrix in matrices if matrix.source == "file" and matrix.path is not None}
    found = list(matrices)
    for place, matrix in enumerate(found):
        if matrix.source == "file" and matrix.path is not None:
            short = _short(matrix.path, [path for path in paths if path.name == matrix.path.name])
            name = untrusted.file_name(_joined(short, matrix.part))
            found[place] = replace(matrix, name=name, file_sha256=_digest(matrix.path))
    return found


def _short(path: Path, others: Sequence[Path]) -> str:
    """The shortest end of a path that none of the others has; `others` holds the path itself."""
    depth = next(n for n in itertools.count(1) if sum(other.parts[-n:] == path.parts[-n:] for other in others) == 1)
    return str(Path(*path.parts[-depth:]))


def _joined(file: str, part: str) -> str:
    """A file and the name of one of its matrices, as `_own` takes them."""
    return f"{file}:{part}" if part else file


def _digest(path: Path) -> str:
    """SHA-256 of a file's bytes; empty if it cannot be read, which reading the matrix will report."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _fetched(entry: Entry) -> Matrix | None:
    path = suitesparse.cached(entry.group, entry.name)
    if path is None:
        return None
    return Matrix(entry.group, entry.name, entry.kind, "suitesparse", path, entry.stored or entry.nnz)
