"""What every case of a group starts from: the matrix as canonical CSR, its hash and features, the host's own SpMV."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from spmvbench.formats import Csr
from spmvbench.matrices import Matrix
from spmvbench.matrices.features import description, features
from spmvbench.matrices.sources import obtain
from spmvbench.measure import matrix_cache, timing
from spmvbench.rows.store import now


@lru_cache(maxsize=1)
def read(matrix: Matrix, seed: int, real_part: bool, per_host: str | None = None) -> matrix_cache.Reading:
    """A matrix as canonical CSR in float64, with its columns of a row and its description.

    Kept for the group of the next type. per_host: the folder in which processes of this host keep it for each other.
    """
    if per_host is None:
        return _read(matrix, seed, real_part)
    target = matrix_cache.place(Path(per_host), matrix, seed, real_part)
    return matrix_cache.kept(target, lambda: _read(_here(matrix), seed, real_part))


def _here(matrix: Matrix) -> Matrix:
    """A matrix that another host has named: fetched, where this one has a cache of its own."""
    there = matrix.source != "suitesparse" or matrix.path.exists()
    return matrix if there else obtain(matrix.id)


def _read(matrix: Matrix, seed: int, real_part: bool) -> matrix_cache.Reading:
    a = Csr.of(matrix.read(seed, "real" if real_part else "refuse")).astype(np.float64)
    identity = {"matrix_sha256": digest(a)}
    whose = identity | {"group": matrix.group, "name": matrix.name, "started_at": now()}
    return a, features(a) | identity, whose | description(a)


def digest(a: Csr) -> str:
    """The column `matrix_sha256` of a matrix as canonical CSR in float64."""
    found = hashlib.sha256(np.asarray(a.shape, np.int64).tobytes())
    for array in (a.row_ptr.astype(np.int64, copy=False), a.col_idx, a.values):
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def host_spmv(a: Csr) -> float:
    """Seconds of y = A x by SciPy, which runs on one thread: the best of three."""
    from scipy.sparse import csr_array

    x = np.ones(a.cols, a.dtype)
    matrix = csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)
    return min(timing.timed(lambda: matrix @ x)[1] for _ in range(3))
