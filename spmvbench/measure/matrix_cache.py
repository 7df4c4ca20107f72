"""Matrices that are read once a host: one process reads or generates, the others map what it has kept.

Where several processes of a host measure, they share a folder in `home()` (`per_host`): matrices as canonical CSR with
what is known of them, and the locks of what only one of them may do at a time. It goes with the last of them.
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

CONVERTING = "converting.lock"  # held while a conversion on the host is timed

Reading = tuple[Csr, dict[str, Any], dict[str, Any]]


def per_host(token: str) -> Path:
    """The folder that the processes of one session share on this host."""
    return paths.home() / "per-host" / token


def place(folder: Path, matrix: Matrix, seed: int, real_part: bool) -> Path:
    """Where a matrix is kept."""
    identity = json.dumps([matrix.id, matrix.file_sha256, seed, real_part])
    return folder / hashlib.sha256(identity.encode()).hexdigest()[:32]


def kept(target: Path, make: Callable[[], Reading]) -> Reading:
    """What `reading.read` gives, from `target`, or made and kept there while others wait; not kept on a full disk."""
    with paths.turn(target.with_suffix(".lock")):
        try:
            return _load(target)
        except FileNotFoundError:
            found = make()
            with suppress(OSError):
                _save(target, found)
            return found


def _save(target: Path, reading: Reading) -> None:
    a, known, about = reading
    temporary = target.with_suffix(".tmp")  # what a killed process has left is written over
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
    # Private pages: what a format writes to them stays its process's own.
    arrays = (np.load(target / f"{name}.npy", mmap_mode="c") for name in ("row_ptr", "col_idx", "values"))
    return Csr(shape, *(array.view(np.ndarray) for array in arrays)), known, about


def forget(folder: Path, needed: Iterable[Path]) -> None:
    """Remove the matrices that nobody needs any more. Who has mapped one keeps it."""
    for target in {path for path in folder.glob("*") if path.is_dir() and not path.suffix} - set(needed):
        with paths.turn(target.with_suffix(".lock"), lambda: True) as had:
            if had:
                shutil.rmtree(target, ignore_errors=True)
