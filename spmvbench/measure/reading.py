"""Input of a group: the matrix as canonical CSR, its hash and features, and the time of SciPy's SpMV."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import orders, paths
from spmvbench.formats import Csr, imports
from spmvbench.matrices import Matrix
from spmvbench.matrices import cache as cache_file
from spmvbench.matrices.features import description, features
from spmvbench.matrices.lookup import obtain
from spmvbench.measure import matrix_cache, timing
from spmvbench.rows.store import now


@lru_cache(maxsize=1)
def read(matrix: Matrix, seed: int, real_part: bool, per_host: str | None = None) -> matrix_cache.Reading:
    """A matrix as canonical CSR in float64, with its columns of a row and its description.

    The last result is cached, for a group of the same matrix in another type. per_host: folder of the per-host matrix
    cache.
    """
    if per_host is None:
        return _read(matrix, seed, real_part)
    target = matrix_cache.cache_path(Path(per_host), matrix, seed, real_part)
    return matrix_cache.load_or_make(target, lambda: _read(_fetched_here(matrix), seed, real_part))


def _fetched_here(matrix: Matrix) -> Matrix:
    """A matrix that another host has named: downloaded if this host has a cache of its own."""
    is_here = matrix.source != "suitesparse" or matrix.unavailable or (matrix.path is not None and matrix.path.exists())
    return matrix if is_here else obtain(matrix.id)


def _read(matrix: Matrix, seed: int, real_part: bool) -> matrix_cache.Reading:
    a = Csr.of(matrix.read(seed, "real" if real_part else "refuse")).astype(np.float64)
    a, seconds = orders.ordered(a, matrix.order)
    sha256 = digest(a)
    known, about = _kept_facts(a, sha256)
    identity: dict[str, Any] = {"matrix_sha256": sha256}
    if matrix.order != orders.NATURAL:
        identity["t_order"] = seconds
    identified = {
        "matrix_sha256": sha256,
        "group": matrix.group,
        "name": matrix.name,
        "started_at": now(),
    }
    return a, known | identity, identified | about


def _kept_facts(a: Csr, sha256: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Features and description of a matrix, on the disk from the first time on: they take as long as to generate it.

    The file is named by the hash of the matrix and that of the code.
    """
    file = paths.home() / "features" / f"{sha256[:32]}-{_code_hash()}.csr"
    if kept := cache_file.load(file):
        facts, arrays = kept
        return matrix_cache.joined(facts["facts"], arrays)
    found = features(a), description(a)
    facts, arrays = matrix_cache.split(*found)
    cache_file.save(file, {"facts": facts}, arrays)
    return found


@cache
def _code_hash() -> str:
    return imports.digest(imports.imported([Path(inspect.getfile(features))]))[:16]


def digest(a: Csr) -> str:
    """The column `matrix_sha256`: SHA-256 of a matrix as canonical CSR in float64."""
    found = hashlib.sha256(np.asarray(a.shape, np.int64).tobytes())
    for array in (a.row_ptr.astype(np.int64, copy=False), a.col_idx, a.values):
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def host_spmv(a: Csr) -> float:
    """Seconds of y = A x with SciPy, which uses one thread: the best of three."""
    from scipy.sparse import csr_array

    x = np.ones(a.cols, a.dtype)
    matrix = csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)
    return min(timing.timed(lambda: matrix @ x)[1] for _ in range(3))
