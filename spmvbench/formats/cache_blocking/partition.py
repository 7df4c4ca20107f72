"""Partitions of a square matrix's graph, made on the host and cached in memory and on disk.

The graph has a vertex per row, and an edge for every entry, or its transpose, that couples two rows.
"""

from __future__ import annotations

import hashlib
import logging
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spmvbench.formats.admission import MissingLibrary
from spmvbench.formats.arrays import Array, Csr, offsets, on_host
from spmvbench.paths import home, load_arrays, save_arrays

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows (and columns) in parts.

    order: (n,), int32, the rows, part after part. begin: (parts + 1,), int32, where parts begin in it. seconds: what
    the graph and the partition took when they were made. cached: whether they came from the disk.
    """

    order: Array
    begin: Array
    seconds: float
    cached: bool


def graph(row_ptr: np.ndarray, col_idx: np.ndarray) -> Any:
    """The pattern of A + A^T without the diagonal, a SciPy CSR array on the host."""
    from scipy.sparse import csr_array

    n = len(row_ptr) - 1
    row_idx = np.repeat(np.arange(n, dtype=np.int32), np.diff(row_ptr))
    coupled = np.flatnonzero(row_idx != col_idx)
    lengths = np.bincount(row_idx[coupled], minlength=n)
    pattern = csr_array((np.ones(len(coupled), np.int8), col_idx[coupled], offsets(lengths)), shape=(n, n))
    return pattern + pattern.T


def metis(adjacency: Any, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Order and begins of METIS's k-way partition: parts of n / parts rows within 0.5 %, few entries between them.

    EHYB's authors ask for 0.1 %, of which nothing comes where parts are small: of the entries of fem:27:3 in 132 parts
    17 % are inside of a part then, 71 % with 0.5 %.

    Raises MissingLibrary if pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError:
        raise MissingLibrary("partitioning needs pymetis: pip install 'spmvbench[partition]'") from None

    number = pymetis.zero_copy_dtype()
    arrays = pymetis.CSRAdjacency(adjacency.indptr.astype(number), adjacency.indices.astype(number))
    options = pymetis.Options(ufactor=5, seed=0)
    part = np.asarray(pymetis.part_graph(parts, arrays, recursive=False, options=options).vertex_part)
    return np.argsort(part, kind="stable"), offsets(np.bincount(part, minlength=parts))


def reverse_cuthill_mckee(adjacency: Any) -> np.ndarray:
    """The reverse Cuthill-McKee order, int32, of the vertices of a graph. Cuthill & McKee 1969; George 1971.

    adjacency: as `graph` gives it. The connected components come one after the other, each searched from a vertex of
    lowest degree on; of equal degrees the lower index is first. SciPy's function of the same name leaves equal degrees
    to NumPy's sort, which orders them by the processor's instructions, so that two machines make two programs.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    n = adjacency.shape[0]
    if n == 0:
        return np.zeros(0, np.int32)
    by_degree = np.argsort(np.diff(adjacency.indptr), kind="stable")
    _, component = connected_components(adjacency, directed=False)
    first = np.unique(component[by_degree], return_index=True)[1]  # of each component, the first place in by_degree
    # A search takes neighbours in the order in which they are stored: each column, which is a row, by degree. A root
    # that leads to the first vertex of every component makes one search of all, and a stable sort parts them again.
    neighbours = adjacency[by_degree].tocsc()
    indices = by_degree[np.concatenate([neighbours.indices, first])]
    indptr = np.append(neighbours.indptr, len(indices))
    rooted = csr_array((np.ones(len(indices)), indices.astype(np.int32), indptr), shape=(n + 1, n + 1))
    found = breadth_first_order(rooted, n, return_predecessors=False)[1:]
    found = found[np.argsort(first[component[found]], kind="stable")]
    return np.asarray(found[::-1], np.int32)


def rcm(adjacency: Any, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Order and begins of equal parts of the reverse Cuthill-McKee order."""
    return reverse_cuthill_mckee(adjacency), np.arange(parts + 1) * adjacency.shape[0] // parts


METHODS: dict[str, Callable[[Any, int], tuple[np.ndarray, np.ndarray]]] = {"metis": metis, "rcm": rcm}
# What the files of partitions begin with. A method that makes other ones than before takes another name.
FILES = {"metis": "metis", "rcm": "rcm-by-index"}

_kept: dict[tuple[int, int, str, int], Partition] = {}  # while the index arrays of its matrix live


def partition(a: Csr, method: str, parts: int) -> Partition:
    """A matrix's rows in `parts` parts by a method of METHODS, on the array module of `a`.

    Made once for a pattern, then read from `home()/partitions`; asked again with the same index arrays, not even that.
    Raises MissingLibrary if the method's library is not installed.
    """
    key = (id(a.row_ptr), id(a.col_idx), method, parts)
    if key not in _kept:
        found = _load_or_make(on_host(a.row_ptr), on_host(a.col_idx), method, parts)
        _kept[key] = replace(found, order=a.xp.asarray(found.order), begin=a.xp.asarray(found.begin))
        for array in (a.row_ptr, a.col_idx):
            weakref.finalize(array, _kept.pop, key, None)
    return _kept[key]


def _load_or_make(row_ptr: np.ndarray, col_idx: np.ndarray, method: str, parts: int) -> Partition:
    n = len(row_ptr) - 1
    if parts == 1:
        return Partition(np.arange(n, dtype=np.int32), np.array([0, n], np.int32), 0.0, False)
    digest = hashlib.sha256(row_ptr.astype(np.int64, copy=False).tobytes())
    digest.update(np.ascontiguousarray(col_idx).data)
    file = home() / "partitions" / f"{FILES[method]}-{parts}-{digest.hexdigest()[:32]}.npz"
    kept = load_arrays(file)
    if kept is not None:
        found = Partition(kept["order"], kept["begin"], float(kept["seconds"]), True)
        if len(found.order) == n and len(found.begin) == parts + 1:
            return found
        log.warning("%s is damaged (its arrays have other lengths) and is made again", file)
    began = time.perf_counter()
    order, begin = METHODS[method](graph(row_ptr, col_idx), parts)
    seconds = time.perf_counter() - began
    found = Partition(order.astype(np.int32), begin.astype(np.int32), seconds, False)
    save_arrays(file, {"order": found.order, "begin": found.begin, "seconds": np.float64(found.seconds)})
    return found
