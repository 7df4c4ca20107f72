"""Operations: y = A x, and the others that are timed and verified in the same way.

An operation defines which A, x and y a format gets, the reference for y, and the amount of work. Its name includes
every parameter, so that rows with different names are never compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from spmvbench.devices import Device
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats import Csr, Skip
from spmvbench.formats.arrays import Array
from spmvbench.formats.vectors import SparseVector
from spmvbench.measure import verify
from spmvbench.measure.verify import Checks, Reference

DENSITIES = (0.1, 0.01, 0.001, 0.0001)  # of x, those of Ji et al. (ICPP 2022)
SOURCES = 8
INTEGER_CHECKS = 16  # maximum number of integer x in the checks of a sparse product


@dataclass(frozen=True)
class Operation:
    """An operation with its parameter.

    name: as in rows. Class attributes: key (the value of `Format.op`), streams (whether it reads the whole matrix for
    any x, so that bytes over time are a bandwidth), pattern (whether values are ignored, so that one type is enough).
    """

    name: str

    key: ClassVar[str]
    streams: ClassVar[bool] = False
    pattern: ClassVar[bool] = False

    @property
    def parameter(self) -> str:
        """The part of the name after the ``@``; empty without a parameter."""
        return self.name.partition("@")[2]

    def matrix(self, a: Csr) -> Csr:
        """The matrix that formats convert, from the one that was read, in the case's type. Raises Skip if there is
        none.
        """
        return a

    def vectors(self, a: Csr) -> tuple[Any, Array]:
        """An x and a y on the host, of the sizes and types that launches are bound to."""
        raise NotImplementedError

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """All references for y, from the result of `matrix` on the host and on the device.

        seed: of everything that is equal in all runs. fresh: seed of what no format can know. Raises Skip if there is
        no correct result.
        """
        raise NotImplementedError

    def work_and_details(self, a: Csr, seed: int) -> tuple[int, dict[str, Any]]:
        """The work of the timed run, and details for its rows, from the matrix and `seed`.

        a: the result of `matrix`, on the host.
        """
        return 2 * a.nnz, {}


@dataclass(frozen=True)
class Spmv(Operation):
    """y = A x with a dense x; two flops per entry."""

    key = "spmv"
    streams = True

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        """Both dense."""
        return np.zeros(a.cols, a.dtype), np.zeros(a.rows, a.dtype)

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """See `verify.checks`."""
        return verify.checks(a, device_a, device, seed, fresh)


@dataclass(frozen=True)
class Spmspv(Operation):
    """y = A x with a sparse x of random positions, and a dense y; ``spmspv@0.01`` names the density of x.

    The work is that of the whole matrix, two flops per entry, as Ji et al. count it: rates compare with those of a
    dense x. A row stores the actual number of products in `detail`. Rows of A without products must be exactly 0.
    """

    key = "spmspv"

    def entries(self, cols: int) -> int:
        """Number of entries of x: its share of the columns, at least one."""
        return min(max(math.floor(float(self.parameter) * cols), 1), cols)

    def vectors(self, a: Csr) -> tuple[SparseVector, Array]:
        """A sparse x and a dense y."""
        k = self.entries(a.cols)
        x = SparseVector(np.arange(k, dtype=np.int32), np.zeros(k, a.dtype), a.cols)
        return x, np.zeros(a.rows, a.dtype)

    def places(self, a: Csr, source: int, index: int) -> np.ndarray:
        """Positions of an x, rising, drawn from a seed and the number of the x."""
        return np.sort(np.random.default_rng((source, index)).permutation(a.cols)[: self.entries(a.cols)])

    def work_and_details(self, a: Csr, seed: int) -> tuple[int, dict[str, Any]]:
        """Two flops per entry of A; the entries of x, and the number of entries of A that meet one."""
        met = np.zeros(a.cols, bool)
        met[self.places(a, seed, 1)] = True
        return 2 * a.nnz, {"entries_x": self.entries(a.cols), "products": int(np.count_nonzero(met[a.col_idx]))}

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Two x with results by SciPy; then integer x at shuffled positions, which cover as many columns as possible.

        The positions of the timed x come from the run's seed; its values and all other x come from `fresh`.
        """
        reference_for, k = verify.reference_of(a), self.entries(a.cols)

        def chosen(places: np.ndarray, values: np.ndarray) -> SparseVector:
            index, value = map(device.to_device, (np.sort(places).astype(np.int32), values))
            return SparseVector(index, value, a.cols)

        dense = []
        for index, source in enumerate((fresh, seed)):
            places = self.places(a, source, index)
            values = verify.both_signs(k, np.random.default_rng((fresh, 2 + index)), a.dtype)
            x = np.zeros(a.cols, a.dtype)
            x[places] = values
            reference = reference_for(x)
            moved = Reference(np.zeros(0), reference.y, reference.bound).moved(device)
            dense.append(replace(moved, x=chosen(places, values)))

        rng, integer = np.random.default_rng((fresh, 4)), []
        largest, shuffled = verify.largest_integer(a), rng.permutation(a.cols)
        most = min(INTEGER_CHECKS, verify.SPARSE_WORK // max(a.nnz, 1), -(-a.cols // max(k, 1)))
        for first in range(0, max(most, 2) * k, max(k, 1)) if largest else ():
            places = shuffled[np.arange(first, first + k) % a.cols]
            sparse = chosen(places, rng.integers(1, largest, k, endpoint=True).astype(a.dtype))
            integer.append(replace(verify.integer_answer(device_a, sparse.dense()), x=sparse))
        return Checks(dense, integer, [], *self.work_and_details(a, seed))


@dataclass(frozen=True)
class Bfs(Operation):
    """Breadth-first search: the level of each vertex from one source, -1 if it is unreachable; ``bfs@0``.

    Source 0 is the first vertex of highest degree. The others are random vertices that it reaches, by the run's seed.
    The graph of ``bfs`` is A | A^T; that of ``bfs-directed`` has an arc from i to j for each entry (i, j). Neither has
    the diagonal. Work is the number of arcs that leave reached vertices, each as stored: in an undirected graph twice
    the count of Graph500.
    """

    key = "bfs"
    pattern = True

    def matrix(self, a: Csr) -> Csr:
        """The square matrix without its diagonal, as ones; arcs go both ways unless the graph is directed."""
        if a.rows != a.cols:
            raise Skip(f"a search needs a square matrix, this one is {a.rows} x {a.cols}")
        if not a.rows:
            raise Skip("a graph without vertices has nothing to search")
        a = a.where(a.row_idx != a.col_idx)
        if kind(self.name) == "bfs":
            from scipy.sparse import csr_array

            arcs = csr_array((np.ones(a.nnz, np.int8), a.col_idx, a.row_ptr), shape=a.shape)
            a = Csr.of((arcs + arcs.T.tocsr()).astype(np.float32))
        return Csr(a.shape, a.row_ptr, a.col_idx, np.ones(a.nnz, np.float32))

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        """The source, and one level per vertex."""
        return np.zeros(1, np.int32), np.zeros(a.rows, np.int32)

    def source(self, a: Csr, seed: int) -> int:
        """The vertex at which the search starts."""
        hub = int(a.row_lengths.argmax())
        reached = np.flatnonzero(levels(a, hub) > 0)
        number = int(self.parameter)
        if not number or not len(reached):
            return hub
        return int(np.random.default_rng(seed).permutation(reached)[(number - 1) % len(reached)])

    def work_and_details(self, a: Csr, seed: int) -> tuple[int, dict[str, Any]]:
        """The arcs that the search visits; its source, number of levels and of reached vertices, and all arcs."""
        source = self.source(a, seed)
        found = levels(a, source)
        arcs = int(a.row_lengths[found >= 0].sum())
        return arcs, {
            "source": source,
            "levels": int(found.max()) + 1,
            "reached": int((found >= 0).sum()),
            "arcs": a.nnz,
        }

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Levels from the host, for this source and for one that no format can know."""
        source = self.source(a, seed)
        other = int(np.random.default_rng(fresh).integers(a.rows))
        dense = [
            Reference(np.full(1, start, np.int32), levels(a, start).astype(np.float64), np.zeros(1)).moved(device)
            for start in (other, source)
        ]
        return Checks(dense, [], [], *self.work_and_details(a, seed))


@lru_cache(maxsize=3)  # every source needs those of the hub
def levels(a: Csr, source: int) -> np.ndarray:
    """The level of each vertex, (rows,) int32, -1 if unreachable: by SciPy's search on the host.

    a: an arc from i to j for each entry (i, j).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    graph = csr_array((a.values.astype(np.float64), a.col_idx, a.row_ptr), shape=a.shape)
    order, parent = breadth_first_order(graph, source, directed=True)
    place = np.empty(a.rows, np.int64)
    place[order] = np.arange(len(order))
    before = place[parent[order[1:]]]  # rising: vertices are visited in the order in which they were found
    found = np.full(a.rows, -1, np.int32)
    found[source] = 0
    level, begin, end = 0, 0, 1
    while end < len(order):  # the next level: vertices whose parents are of this one
        begin, end, level = end, 1 + int(np.searchsorted(before, end)), level + 1
        found[order[begin:end]] = level
    return found


OPERATIONS: dict[str, type[Operation]] = {"spmv": Spmv, "spmspv": Spmspv, "bfs": Bfs, "bfs-directed": Bfs}
_PARAMETERS = {
    "spmv": ("",),
    "spmspv": tuple(f"@{density:g}" for density in DENSITIES),
    "bfs": tuple(f"@{source}" for source in range(SOURCES)),
    "bfs-directed": tuple(f"@{source}" for source in range(SOURCES)),
}


def kind(name: str) -> str:
    """An operation's name without its parameter. Operations of one kind share a matrix and the converted formats."""
    return name.partition("@")[0]


def instances(word: str) -> list[str]:
    """The names that a word stands for: ``spmspv`` for its four densities, ``spmspv@.05`` for ``spmspv@0.05``.

    Raises UsageError.
    """
    base, at, parameter = word.partition("@")
    if base not in OPERATIONS or (at and base == "spmv"):
        hint = did_you_mean(word, list(OPERATIONS)) or f": use {', '.join(OPERATIONS)}"
        raise UsageError(f"there is no operation {word!r}{hint}")
    if not at:
        return [base + each for each in _PARAMETERS[base]]
    if base == "spmspv":
        try:
            density = float(parameter)
        except ValueError:
            density = math.nan
        if not 0 < density <= 1:
            raise UsageError(f"{word!r} names no density of x: write spmspv@0.01, up to 1")
        return [f"{base}@{density:g}"]
    if not re.fullmatch(r"\d{1,9}", parameter, re.ASCII):
        raise UsageError(f"{word!r} names no source: write {base}@0 for the vertex of highest degree, {base}@1 and on")
    return [f"{base}@{int(parameter)}"]


def parse(words: Iterable[str]) -> list[str]:
    """The names of all that the words stand for, without repeats, those of one kind next to each other. Raises
    UsageError.
    """
    names = dict.fromkeys(name for word in words for name in instances(word))
    order = list(dict.fromkeys(map(kind, names)))
    return sorted(names, key=lambda name: order.index(kind(name)))


@cache
def get(name: str) -> Operation:
    """The operation of a name, as `instances` returns it. Raises UsageError."""
    if instances(name) != [name]:
        raise UsageError(f"{name!r} names several operations: {', '.join(instances(name))}")
    return OPERATIONS[kind(name)](name)
