"""Orders of rows and columns: a matrix is permuted before any format sees it, as solvers do before they iterate.

An order is one function. It takes a matrix and returns its rows and its columns in the new order; of a square matrix
both are one permutation, so that x and y stay in one basis. `run --order` takes the names of `names`. A module that
SPMVBENCH_FORMATS names can register more.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean
from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, index_dtype, inverse, offsets
from spmvbench.formats.cache_blocking.partition import graph, metis, reverse_cuthill_mckee
from spmvbench.formats.imports import digest, imported

NATURAL = "none"  # the order that the matrix comes in
PART = 2048  # vertices of a part of `metis`: its x takes 16 kB in double precision, a fraction of an L1
SECTIONS = 32  # of the columns, for Gray codes: a row's code fits a word

Permutation = Callable[[Any], Array]
Find = Callable[[Csr], tuple[Array, Array]]


@dataclass(frozen=True)
class Order:
    """An order. find: a matrix on the host to its rows and its columns in the new order, (rows,) and (cols,) integers;
    about: one sentence; reference: its source; method: the function that computes it.
    """

    name: str
    about: str
    reference: str
    find: Find
    method: Callable[..., Any]

    @property
    def source_hash(self) -> str:
        """SHA-256 (16 hex digits) of the code that computes it. Rows are measured again when it changes."""
        own = sys.modules[self.method.__module__].__file__
        assert own is not None
        return _hash((Path(__file__).resolve(), Path(own).resolve()))


ORDERS: dict[str, Order] = {}


def register(name: str, reference: str) -> Callable[[Find], Find]:
    """Registers a function of a matrix as the order `name`. Its docstring's first line says what it does."""

    def add(find: Find) -> Find:
        ORDERS[name] = Order(name, (find.__doc__ or "").partition("\n")[0], reference, find, find)
        return find

    return add


def of_graph(name: str, reference: str) -> Callable[[Permutation], Permutation]:
    """As `register`, for a function of a graph: its adjacency, a symmetric SciPy CSR array, to its vertices in order.

    The graph of a square matrix is the pattern of A + A^T without the diagonal. Otherwise rows and columns are its
    vertices, rows first, and entries its edges: each side keeps the order that it has among all.
    """

    def add(method: Permutation) -> Permutation:
        def find(a: Csr) -> tuple[Array, Array]:
            adjacency = graph(a.row_ptr, a.col_idx) if a.rows == a.cols else _bipartite(a)
            # Libraries divide by the number of edges.
            order = np.asarray(method(adjacency) if adjacency.nnz else np.arange(adjacency.shape[0]))
            if a.rows == a.cols:
                return order, order
            is_row = order < a.rows
            return order[is_row], order[~is_row] - a.rows

        ORDERS[name] = Order(name, (method.__doc__ or "").partition("\n")[0], reference, find, method)
        return method

    return add


def names() -> list[str]:
    """The names that `run --order` takes, the natural order first."""
    return [NATURAL, *ORDERS]


def get(name: str) -> Order:
    """An order by name. Raises UsageError with the nearest names for an unknown one."""
    if name not in ORDERS:
        hint = did_you_mean(name, names()) or f"; there are {', '.join(names())}"
        raise UsageError(f"there is no order {name!r}{hint}")
    return ORDERS[name]


def check(found: Iterable[str]) -> None:
    """Raises UsageError for a name that no order has."""
    for name in found:
        if name != NATURAL:
            get(name)


def source_hash(name: str) -> str:
    """Hash of the code that computes an order; empty for the natural one. Raises UsageError for an unknown name."""
    return "" if name == NATURAL else get(name).source_hash


def ordered(a: Csr, name: str) -> tuple[Csr, float]:
    """The matrix on the host in another order, and the seconds that the order took, without the permutation.

    Raises UsageError for an unknown name, SpmvbenchError if the function gives no permutation, Skip if a library is
    missing.
    """
    if name == NATURAL:
        return a, 0.0
    began = time.perf_counter()
    rows, cols = get(name).find(a)
    seconds = time.perf_counter() - began
    rows, cols = (_checked(order, n, name) for order, n in zip((rows, cols), a.shape, strict=True))
    if a.rows == a.cols and not np.array_equal(rows, cols):
        raise SpmvbenchError(f"order {name} permutes the rows and columns of a square matrix differently")
    return permuted(a, rows, cols), seconds


def permuted(a: Csr, rows: Array, cols: Array) -> Csr:
    """The matrix with row rows[i] as its i-th and column cols[j] as its j-th."""
    from scipy.sparse import csr_array

    ptr = offsets(a.row_lengths[rows])
    entry = np.arange(a.nnz, dtype=a.row_ptr.dtype) + np.repeat(a.row_ptr[:-1][rows] - ptr[:-1], np.diff(ptr))
    columns = inverse(cols.astype(index_dtype(a.cols)))[a.col_idx[entry]].astype(np.int32, copy=False)
    found = csr_array((a.values[entry], columns, ptr), shape=a.shape)
    found.sort_indices()
    return Csr(a.shape, found.indptr.astype(a.row_ptr.dtype), found.indices.astype(np.int32), found.data)


def _checked(order: Array, n: int, name: str) -> Array:
    """The order, if it is a permutation of n. Raises SpmvbenchError."""
    order = np.asarray(order)
    whole = order.shape == (n,) and order.dtype.kind in "iu"
    if not whole or (n and not np.array_equal(np.sort(order), np.arange(n))):
        raise SpmvbenchError(f"order {name} is no permutation of {n:,}")
    return order


def _bipartite(a: Csr) -> Any:
    """The graph of rows and columns, rows first: a symmetric SciPy CSR array."""
    from scipy.sparse import block_array, csr_array

    pattern = csr_array((np.ones(a.nnz, np.int8), a.col_idx, a.row_ptr), shape=a.shape)
    return csr_array(block_array([[None, pattern], [pattern.T, None]]))


@cache
def _hash(files: tuple[Path, ...]) -> str:
    return hashlib.sha256(digest(imported(files)).encode()).hexdigest()[:16]


@of_graph("rcm", "Cuthill & McKee 1969; George 1971")
def bandwidth(adjacency: Any) -> Array:
    """Reverse Cuthill-McKee: neighbours next to each other, a narrow band."""
    return reverse_cuthill_mckee(adjacency)


@of_graph("metis", "Karypis & Kumar 1998; METIS 5 by pymetis")
def kway(adjacency: Any) -> Array:
    """METIS's k-way partition in parts of about 2,048 vertices, one part after the other.

    The size of a part is this project's; in a part the order is the natural one.
    """
    return metis(adjacency, max(1, -(-adjacency.shape[0] // PART)))[0]


@of_graph("nd", "Karypis & Kumar 1998; METIS 5 by pymetis")
def nested_dissection(adjacency: Any) -> Array:
    """METIS's nested dissection: two halves, each in this order, then the vertices that separate them."""
    try:
        import pymetis
    except ImportError:
        raise Skip("nested dissection needs pymetis: pip install 'spmvbench[partition]'") from None

    number = pymetis.zero_copy_dtype()
    arrays = pymetis.CSRAdjacency(adjacency.indptr.astype(number), adjacency.indices.astype(number))
    return np.asarray(pymetis.nested_dissection(arrays)[0])


@of_graph("degree", "this project")
def by_degree(adjacency: Any) -> Array:
    """Vertices by falling degree, those of one degree in natural order."""
    return np.argsort(-np.diff(adjacency.indptr), kind="stable")


@of_graph("hub", "Zhang, Kiriansky, Mendis, Amarasinghe & Zaharia, IEEE Big Data 2017 (hub sorting)")
def hubs_first(adjacency: Any) -> Array:
    """Vertices of more than the mean degree first, by falling degree; all others after them in natural order."""
    degree = np.diff(adjacency.indptr)
    return np.argsort(-np.where(degree > degree.mean() if len(degree) else degree, degree, 0), kind="stable")


@of_graph("random", "this project")
def at_random(adjacency: Any) -> Array:
    """Vertices in random order, the same for each number of them: what is left if an order has no locality."""
    return np.random.default_rng(0).permutation(adjacency.shape[0])


@register("gray", "Zhao, Xia, Li, Zhao, Zheng & Ren, ICCD 2020")
def gray(a: Csr) -> tuple[Array, Array]:
    """Rows by the Gray code of which of 32 sections of columns they have entries in.

    Neighbouring rows then differ in few sections. A square matrix has its columns in the same order; of another one
    they stay. Sections of equal width, and long rows treated as others, are our reading.
    """
    section = a.col_idx.astype(np.int64) * SECTIONS // max(a.cols, 1)
    code = np.zeros(a.rows, dtype=np.uint32)
    np.bitwise_or.at(code, a.row_idx, np.uint32(1) << (SECTIONS - 1 - section).astype(np.uint32))
    for shift in (1, 2, 4, 8, 16):  # the place of a Gray code among all
        code ^= code >> np.uint32(shift)
    rows = np.argsort(code, kind="stable")
    return rows, rows if a.rows == a.cols else np.arange(a.cols)
