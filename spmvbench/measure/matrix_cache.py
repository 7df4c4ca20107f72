"""Per-host matrix cache: one process reads a matrix, the others memory-map it.

If several processes of a host measure, they share a folder below `home()`. It holds matrices as canonical CSR with
their features, and lock files for work that only one process may do at a time. The last process removes the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.formats import Csr
from spmvbench.matrices import Matrix, cache

CONVERTING = "converting.lock"  # lock of timed conversions on the host

Reading = tuple[Csr, dict[str, Any], dict[str, Any]]


def per_host(token: str) -> Path:
    """The folder that the processes of one invocation share on this host."""
    return paths.home() / "per-host" / token


def cache_path(folder: Path, matrix: Matrix, seed: int, real_part: bool) -> Path:
    """The path of a matrix in the cache."""
    identity = json.dumps([matrix.id, matrix.file_sha256, seed, real_part, matrix.order])
    return folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.csr"


def preparation_lock(folder: Path, matrix: Matrix, seed: int, real_part: bool) -> Path:
    """The lock that a process holds while it prepares formats for a matrix (`Format.prepare`)."""
    return cache_path(folder, matrix, seed, real_part).with_suffix(".preparing")


def load_or_make(target: Path, make: Callable[[], Reading]) -> Reading:
    """The result of `reading.read` from `target`; if missing, made and stored there while other processes wait.

    It is not stored if the disk is full.
    """
    with paths.locked(target.with_suffix(".lock")):
        kept = cache.load(target)
        if kept is None:
            found = a, known, about = make()
            csr = {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}
            facts, arrays = split(known, about)
            cache.save(target, {"shape": a.shape, "facts": facts}, csr | arrays)
            return found
    facts, arrays = kept
    a = Csr(tuple(facts["shape"]), arrays.pop("row_ptr"), arrays.pop("col_idx"), arrays.pop("values"))
    return a, *joined(facts["facts"], arrays)


def split(known: Mapping[str, Any], about: Mapping[str, Any]) -> tuple[cache.Facts, cache.Arrays]:
    """Columns of a matrix and its description as facts and arrays for the cache; their names begin with 0 and 1."""
    named = {f"{i} {name}": value for i, part in enumerate((known, about)) for name, value in part.items()}
    arrays = {name: value for name, value in named.items() if isinstance(value, np.ndarray)}
    return {name: value for name, value in named.items() if name not in arrays}, arrays


def joined(facts: cache.Facts, arrays: cache.Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `split` has split."""
    known, about = ({name[2:]: value for name, value in (facts | arrays).items() if name[0] == part} for part in "01")
    return known, about


def remove_unneeded(folder: Path, needed: Iterable[Path]) -> None:
    """Remove the matrices that are not in `needed`. Processes that have mapped one keep their mapping."""
    for target in {*folder.glob("*.csr")} - set(needed):
        with paths.locked(target.with_suffix(".lock"), lambda: True) as had:
            if had:
                target.unlink(missing_ok=True)
