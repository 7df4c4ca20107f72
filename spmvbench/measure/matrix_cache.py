"""Per-host matrix cache: one process reads a matrix, the others memory-map it.

If several processes of a host measure, they share a folder below `home()`. It holds matrices as canonical CSR with
their features, and lock files for work that only one process may do at a time. The last process removes the folder.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.formats import Csr
from spmvbench.matrices import Matrix

CONVERTING = "converting.lock"  # lock of timed conversions on the host

Reading = tuple[Csr, dict[str, Any], dict[str, Any]]


def per_host(token: str) -> Path:
    """The folder that the processes of one invocation share on this host."""
    return paths.home() / "per-host" / token


def cache_path(folder: Path, matrix: Matrix, seed: int, real_part: bool) -> Path:
    """The path of a matrix in the cache."""
    identity = json.dumps([matrix.id, matrix.file_sha256, seed, real_part, matrix.order])
    return folder / hashlib.sha256(identity.encode()).hexdigest()[:32]


def preparation_lock(folder: Path, matrix: Matrix, seed: int, real_part: bool) -> Path:
    """The lock that a process holds while it prepares formats for a matrix (`Format.prepare`)."""
    return cache_path(folder, matrix, seed, real_part).with_suffix(".preparing")


def load_or_make(target: Path, make: Callable[[], Reading]) -> Reading:
    """The result of `reading.read` from `target`; if missing, made and stored there while other processes wait.

    It is not stored if the disk is full.
    """
    with paths.locked(target.with_suffix(".lock")):
        try:
            return _load(target)
        except FileNotFoundError:
            found = make()
            with suppress(OSError):
                _save(target, found)
            return found


def _save(target: Path, reading: Reading) -> None:
    a, known, about = reading
    temporary = target.with_suffix(".tmp")  # what a killed process has left is overwritten
    try:
        temporary.mkdir(exist_ok=True)
        for name in ("row_ptr", "col_idx", "values"):
            np.save(temporary / f"{name}.npy", getattr(a, name))
        (temporary / "facts").write_bytes(pickle.dumps((a.shape, known, about)))
        temporary.rename(target)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _load(target: Path) -> Reading:
    shape, known, about = pickle.loads((target / "facts").read_bytes())
    # Private pages: what a format writes to them does not reach other processes.
    arrays = (np.load(target / f"{name}.npy", mmap_mode="c") for name in ("row_ptr", "col_idx", "values"))
    return Csr(shape, *(array.view(np.ndarray) for array in arrays)), known, about


def remove_unneeded(folder: Path, needed: Iterable[Path]) -> None:
    """Remove the matrices that are not in `needed`. Processes that have mapped one keep their mapping."""
    for target in {path for path in folder.glob("*") if path.is_dir() and not path.suffix} - set(needed):
        with paths.locked(target.with_suffix(".lock"), lambda: True) as had:
            if had:
                shutil.rmtree(target, ignore_errors=True)
