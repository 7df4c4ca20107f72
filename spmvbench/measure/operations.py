"""Operations: y = A x, and the others that are timed and verified in the same way.

An operation defines which A, x and y a format gets, the reference for y, and the amount of work. Its name includes
every parameter, so that rows with different names are never compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

import numpy as np

from spmvbench.devices import Device
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats import Csr, Format, Skip, epilogue, multivector
from spmvbench.formats.arrays import Array, on_host, round_up
from spmvbench.formats.dependencies import hash_of_files
from spmvbench.formats.kernels import headers, kernel_path
from spmvbench.formats.launches import Step, in_part
from spmvbench.formats.parameters import cached
from spmvbench.formats.vectors import SparseVector
from spmvbench.measure import solver_references, verify
from spmvbench.measure.verify import Checks, Reference, Verdict
from spmvbench.solvers import conjugate_gradients, fixed, iteration, power_method, primal_dual

VECTORS = (2, 4, 8, 16, 32)  # of a product of several, by default
DRAWN = 4  # vectors of X that are drawn; the others are multiples of them
DENSITIES = (0.1, 0.01, 0.001, 0.0001)  # of x, those of Ji et al. (ICPP 2022)
SOURCES = 8
PADDED = 32  # elements: 128 bytes of single precision
INTEGER_CHECKS = 16  # maximum number of integer x in the checks of a sparse product


@dataclass(frozen=True)
class Operation:
    """An operation with its parameter.

    name: as in rows. Class attributes: key (the value of `Format.op`), streams (whether it reads the whole matrix for
    any x, so that bytes over time are a bandwidth), pattern (whether values are ignored, so that one type is enough),
    gathers (whether a share of the rows needs the elements of x that its entries name, so that the gather bound holds),
    product (the name of the operation that each iteration of a solver runs, and that is verified too; else empty),
    kernels (files in kernels/ that it launches from beside the format's), modules (those that make these launches).
    """

    name: str

    key: ClassVar[str]
    streams: ClassVar[bool] = False
    pattern: ClassVar[bool] = False
    gathers: ClassVar[bool] = True
    product: ClassVar[str] = ""
    kernels: ClassVar[tuple[str, ...]] = ()
    modules: ClassVar[tuple[ModuleType, ...]] = ()

    def refusal(self, cls: type[Format]) -> str:
        """Why a format cannot run it on any matrix; empty if it may."""
        return ""

    @property
    def parameter(self) -> str:
        """The part of the name after the ``@``; empty without a parameter."""
        return self.name.partition("@")[2]

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of rows that follow from the name."""
        return {}

    @property
    def gathered(self) -> dict[str, Any]:
        """What `bounds.Fetched.by` has to know of x."""
        return {}

    @property
    def iterations(self) -> int:
        """How many products a run makes."""
        return 1

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
        return self.flops(*a.shape, a.nnz), {}

    def flops(self, rows: int, cols: int, nnz: int) -> int:
        """Flops of a run on a matrix of so many rows and entries, if they follow from these."""
        return 2 * nnz

    def vector_elements(self, rows: int, cols: int) -> int:
        """Elements of vectors that each product, or each iteration of a solver, has to read or write, each once."""
        return rows + cols

    def launches(self, fmt: Format, x: Any, y: Array, checks: Checks, device: Device) -> list[Step]:
        """All that is timed: what one run enqueues. x, y: as `vectors` gives them, on the device."""
        return list(fmt.launches(x, y))

    @property
    def source_hash(self) -> str:
        """SHA-256 (16 hex digits) of `modules` and `kernels`, as `formats.source_hash`; empty without kernels."""
        return _source_hash(type(self)) if self.kernels else ""


@dataclass(frozen=True)
class Spmv(Operation):
    """y = A x with a dense x; two flops per entry."""

    key = "spmv"
    streams = True

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        return np.zeros(a.cols, a.dtype), np.zeros(a.rows, a.dtype)

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        return verify.checks(a, device_a, device, seed, fresh)


@dataclass(frozen=True)
class SpmvTransposed(Spmv):
    """y = A^T x with a dense x; two flops per entry. ``spmv-t@1``: from the arrays of A, so that one copy of the matrix
    serves both products; ``spmv-t@2``: from a second copy, which is A^T in the same format.

    The conversion that a row of ``spmv-t@2`` times begins with A^T in CSR.
    """

    gathers = False

    @property
    def copies(self) -> int:
        """How many copies of the matrix y = A x and y = A^T x take together."""
        return int(self.parameter)

    def refusal(self, cls: type[Format]) -> str:
        """A format without kernels for A^T is skipped with one copy."""
        return "" if self.copies == 2 or cls.transposes() else "no kernel multiplies with A^T from its arrays"

    def matrix(self, a: Csr) -> Csr:
        return transpose(a) if self.copies == 2 else a

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        x, y = super().vectors(a)
        return (x, y) if self.copies == 2 else (y, x)

    def launches(self, fmt: Format, x: Any, y: Array, checks: Checks, device: Device) -> list[Step]:
        """The format's y = A^T x. Raises Skip if a part of it has none."""
        return list(fmt.launches(x, y) if self.copies == 2 else fmt.transposed(x, y))

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Those of A^T. Without the integer test if the longest row of A allows other integers than that of A^T."""
        if self.copies == 2:
            return super().checks(a, device_a, device, seed, fresh)
        return _of_transpose(super().checks, a, device, seed, fresh)


def _of_transpose(checks: Callable[..., Checks], a: Csr, device: Device, seed: int, fresh: int) -> Checks:
    """The checks of A^T, for a product from the arrays of A."""
    flipped = transpose(a)
    found = checks(flipped, flipped.on(device.xp), device, seed, fresh)
    same = verify.integer_values(a) == verify.integer_values(flipped)
    return found if same else replace(found, integer=[])


def transpose(a: Csr) -> Csr:
    """A^T of a matrix on the host, in canonical CSR."""
    from scipy.sparse import csr_array

    flipped = csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape).T.tocsr()
    flipped.sort_indices()
    cols, rows = a.shape[1], a.shape[0]
    return Csr((cols, rows), flipped.indptr.astype(a.row_ptr.dtype), flipped.indices.astype(np.int32), flipped.data)


@dataclass(frozen=True)
class Pair(Spmv):
    """y = A x and z = A^T w, one after the other, with dense x and w; four flops per entry.

    From the arrays of A, so that one copy serves both, or from a format of two copies (``irregular+csr-lanes``). What
    the benchmark has as x is x and then w, as y it has y and then z.
    """

    gathers = False

    def refusal(self, cls: type[Format]) -> str:
        return get("spmv-t@1").refusal(cls)

    def matrix(self, a: Csr) -> Csr:
        """The matrix, with empty rows and columns added up to a multiple of PADDED: w and z begin on addresses on which
        an allocation begins.
        """
        rows, cols = (round_up(n, PADDED) for n in a.shape)
        row_ptr = np.append(a.row_ptr, np.full(rows - a.rows, a.row_ptr[-1], a.row_ptr.dtype))
        return replace(a, shape=(rows, cols), row_ptr=row_ptr)

    def flops(self, rows: int, cols: int, nnz: int) -> int:
        return 4 * nnz

    def vector_elements(self, rows: int, cols: int) -> int:
        return 2 * (round_up(rows, PADDED) + round_up(cols, PADDED))

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        n = a.rows + a.cols
        return np.zeros(n, a.dtype), np.zeros(n, a.dtype)

    def launches(self, fmt: Format, x: Any, y: Array, checks: Checks, device: Device) -> list[Step]:
        """Those of both products, each a part. Raises Skip if a part of the format has no A^T."""
        rows, cols = fmt.shape
        plain, transposed = fmt.launches(x[:cols], y[:rows]), fmt.transposed(x[cols:], y[rows:])
        return [*in_part(primal_dual.SPMV, plain), *in_part(primal_dual.SPMV_T, transposed)]

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Those of both products side by side; the sparse ones of one product after the other."""
        plain = super().checks(a, device_a, device, seed, fresh)
        flipped = _of_transpose(super().checks, a, device, seed + (1 << 32), fresh + (1 << 32))
        xp = device.xp

        def joined(first: Reference, second: Reference) -> Reference:
            def both(*arrays: Any) -> Array:
                return xp.concatenate(arrays)

            bounds = [xp.broadcast_to(r.bound, r.y.shape) for r in (first, second)]
            return Reference(both(first.x, second.x), both(first.y, second.y), both(*bounds))

        def shifted(reference: Reference) -> Reference:
            assert reference.columns is not None
            assert reference.rows is not None
            return replace(reference, columns=reference.columns + a.cols, rows=reference.rows + a.rows)

        most = max(len(plain.dense), len(flipped.dense))
        dense = zip(*((each.dense * 2)[:most] for each in (plain, flipped)), strict=True)
        return Checks(
            [joined(*each) for each in dense],
            [joined(*each) for each in zip(plain.integer, flipped.integer, strict=False)],
            [*plain.sparse, *map(shifted, flipped.sparse)],
            *self.work_and_details(a, seed),
        )


@dataclass(frozen=True)
class Spmm(Spmv):
    """Y = A X with k dense vectors; two flops per entry and vector. ``spmm@8``: X and Y lie in memory by rows,
    ``spmm-column@8``: by columns.

    x and y are X and Y as they lie there, (cols * k,) and (rows * k,). Of X the first DRAWN vectors are drawn. The
    others are these times a power of two, another one in each round of them, so that no two vectors of Y are equal and
    all have exact references.
    """

    kernels = (multivector.KERNEL,)
    modules = (multivector,)

    @property
    def k(self) -> int:
        return int(self.parameter)

    @property
    def layout(self) -> str:
        return "column" if kind(self.name) == "spmm-column" else "row"

    @property
    def columns(self) -> dict[str, Any]:
        return {"k": self.k, "layout": self.layout}

    @property
    def gathered(self) -> dict[str, Any]:
        return {"vectors": self.k, "by_row": self.layout == "row"}

    def flops(self, rows: int, cols: int, nnz: int) -> int:
        return 2 * nnz * self.k

    def vector_elements(self, rows: int, cols: int) -> int:
        return (rows + cols) * self.k

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        x, y = super().vectors(a)
        return np.zeros(len(x) * self.k, x.dtype), np.zeros(len(y) * self.k, y.dtype)

    def launches(self, fmt: Format, x: Any, y: Array, checks: Checks, device: Device) -> list[Step]:
        """The format's Y = A X. Raises Skip if it multiplies one vector alone."""
        return list(fmt.multiplied(x, y, self.k, self.layout))

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Those of one vector for each that is drawn; the sparse ones for one vector after the other."""
        sources = [(seed + (index << 32), fresh + (index << 32)) for index in range(min(self.k, DRAWN))]
        each = verify.references_of_each(a, sources)
        first = super().checks(a, device_a, device, seed, fresh)
        drawn, integer = [first.dense], [first.integer]
        for index, dense in enumerate(each[1:], 1):
            drawn.append([reference.moved(device) for reference in dense])
            integer.append(verify.integer_references(device_a, np.random.default_rng((fresh, 2, index))))
        return Checks(
            [self._side_by_side(same, device_a) for same in zip(*drawn, strict=True)],
            [self._side_by_side(same, device_a) for same in zip(*integer, strict=True)],
            [self._alone(reference, i % self.k, device_a) for i, reference in enumerate(first.sparse)],
            *self.work_and_details(a, seed),
        )

    def _side_by_side(self, drawn: Sequence[Reference], a: Csr) -> Reference:
        """The reference for all vectors, from those that are drawn."""
        xp = a.xp
        scale = [2.0 ** -(j // len(drawn)) for j in range(self.k)]
        each = [drawn[j % len(drawn)] for j in range(self.k)]
        # What a bound allows for numbers below the smallest normal one does not shrink with the vector.
        below = 2.0 * a.row_lengths * float(np.finfo(a.dtype).smallest_normal)
        bounds = [r.bound * s + below * (1 - s) for r, s in zip(each, scale, strict=True)]

        def laid(vectors: Iterable[Array]) -> Array:
            stacked = xp.stack(list(vectors), axis=int(self.layout == "row"))
            return cast(Array, xp.ascontiguousarray(stacked).ravel())

        dense = [cast(Array, r.x) for r in each]
        x = laid(x * x.dtype.type(s) for x, s in zip(dense, scale, strict=True))
        y = laid(r.y * s for r, s in zip(each, scale, strict=True))
        return Reference(x, y, drawn[0].bound if len(drawn[0].bound) != a.rows else laid(bounds))

    def _alone(self, reference: Reference, j: int, a: Csr) -> Reference:
        """The sparse reference of a vector for the j-th of several, all others being zero."""

        def laid(places: Array, n: int) -> Array:
            places = places.astype(np.int64)
            return places * self.k + j if self.layout == "row" else places + j * n

        assert reference.columns is not None
        assert reference.rows is not None
        return replace(reference, columns=laid(reference.columns, a.cols), rows=laid(reference.rows, a.rows))


@dataclass(frozen=True)
class SpmmTransposed(Spmm):
    """Y = A^T X from the arrays of A, X and Y by rows; ``spmm-t@8``."""

    gathers = False

    def refusal(self, cls: type[Format]) -> str:
        return get("spmv-t@1").refusal(cls)

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        x, y = super().vectors(a)
        return y, x

    def launches(self, fmt: Format, x: Any, y: Array, checks: Checks, device: Device) -> list[Step]:
        """The format's Y = A^T X, by its launches of y = A^T x. Raises Skip if a kernel multiplies one vector alone."""
        return list(fmt.by_vectors(fmt.transposed, x, y, self.k, self.layout))

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        return _of_transpose(super().checks, a, device, seed, fresh)


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
        return self.flops(*a.shape, a.nnz), {
            "entries_x": self.entries(a.cols),
            "products": int(np.count_nonzero(met[a.col_idx])),
        }

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


def _require_square(a: Csr, needing: str, empty: str) -> None:
    """Raise Skip, by these words, for a matrix that is not square or has no rows."""
    if a.rows != a.cols:
        raise Skip(f"{needing} a square matrix, this one is {a.rows} x {a.cols}")
    if not a.rows:
        raise Skip(empty)


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
        _require_square(a, "a search needs", "a graph without vertices has nothing to search")
        a = a.where(a.row_idx != a.col_idx)
        if kind(self.name) == "bfs":
            from scipy.sparse import csr_array

            arcs = csr_array((np.ones(a.nnz, np.int8), a.col_idx, a.row_ptr), shape=a.shape)
            a = Csr.of((arcs + arcs.T.tocsr()).astype(np.float32))
        return Csr(a.shape, a.row_ptr, a.col_idx, np.ones(a.nnz, np.float32))

    def vectors(self, a: Csr) -> tuple[Array, Array]:
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


@dataclass(frozen=True)
class _Solver(Operation):
    """A solver with a fixed number of iterations, each with one y = A x; the parameter is that number."""

    key = "spmv"
    streams = True
    product = "spmv"
    flops_of_row: ClassVar[int]  # of an iteration, beside two per entry
    elements_of_row: ClassVar[int]  # of vectors that an iteration reads or writes

    @property
    def iterations(self) -> int:
        return int(self.parameter)

    def flops(self, rows: int, cols: int, nnz: int) -> int:
        return self.iterations * (2 * nnz + self.flops_of_row * rows)

    def vector_elements(self, rows: int, cols: int) -> int:
        return self.elements_of_row * rows

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        return np.zeros(a.rows, a.dtype), np.zeros(a.rows, a.dtype)

    def work_and_details(self, a: Csr, seed: int) -> tuple[int, dict[str, Any]]:
        return self.flops(*a.shape, a.nnz), {"iterations": self.iterations}


@dataclass(frozen=True)
class Cg(_Solver):
    """Conjugate gradients with a Jacobi preconditioner, from 0, a fixed number of iterations; ``cg@100``.

    x is the right side, y the solution. Each iteration is two flops per entry and 12 per row: two for each of three
    scalar products and three updates of vectors. The preconditioner's one is not counted.
    """

    flops_of_row = 12
    elements_of_row = 5  # p, A p, the residual, the solution and the inverse diagonal
    kernels = (conjugate_gradients.KERNEL,)
    modules = (fixed, iteration, conjugate_gradients)

    def matrix(self, a: Csr) -> Csr:
        """The matrix itself. Raises Skip unless it is square and symmetric, with a positive diagonal.

        Whether it is positive definite is not tested here: `checks` refuses it if p^T A p is not positive in an
        iteration on the host.
        """
        _require_square(a, "conjugate gradients need", "a matrix without rows has nothing to solve")
        matrix = solver_references.matrix_of(a, a.dtype)
        if different := (matrix != matrix.T.tocsr()).nnz:
            raise Skip(
                f"conjugate gradients need a symmetric matrix, in this one {different:,} entries differ from A^T"
            )
        if bad := int((~(matrix.diagonal() > 0)).sum()):
            raise Skip(
                f"conjugate gradients need a positive definite matrix, in this one {bad:,} of {a.rows:,} elements of "
                "the diagonal are not positive"
            )
        return a

    def launches(self, fmt: Format, x: Array, y: Array, checks: Checks, device: Device) -> list[Step]:
        assert checks.scaling is not None
        return fixed.cg_steps(fmt, x, y, checks.scaling, self.iterations, device)

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Two right sides of both signs, with the residuals that a host's iterations leave.

        Iterates that are rounded differently drift apart. So the norm of b - A y in float64 is judged: it is at most
        twice the host's, and what rounding adds. Raises Skip if the host's iterations end before the last.
        """
        verify.reference_of(a)  # refuses entries that are not finite
        exact = solver_references.matrix_of(a)
        with np.errstate(over="ignore"):
            inverse = conjugate_gradients.inverse_diagonal(exact.diagonal(), a.dtype)
        if not np.isfinite(inverse).all():
            raise Skip(f"the inverse of the diagonal overflows {a.dtype}")
        dense, facts = [], {}
        for index, source in enumerate((fresh, seed)):
            b = verify.both_signs(a.rows, np.random.default_rng((source, index)), a.dtype)
            with np.errstate(over="ignore", invalid="ignore"):  # then it ends with a number that is not finite
                solved = solver_references.conjugate_gradients(a, b, inverse, self.iterations)
            if solved.ended:
                raise Skip(solved.ended)
            judge, norm = _residual_judge(a, exact, b, solved.x, self.iterations)
            facts = {"residual_host": norm / float(np.linalg.norm(b.astype(np.float64)))}
            reference = Reference(b, solved.x.astype(np.float64), np.zeros(1), judge=judge)
            dense.append(reference.moved(device))
        work, details = self.work_and_details(a, seed)
        return Checks(dense, [], [], work, details | facts, device.to_device(inverse))


def _residual_judge(
    a: Csr, exact: Any, b: np.ndarray, x: np.ndarray, iterations: int
) -> tuple[Callable[[Array], Verdict], float]:
    """What judges a solution by its residual, and the norm of the host's. exact: the matrix in float64. x: the host's
    solution.
    """
    norm = solver_references.residual_norm(exact, b, x)
    most = 2 * norm + solver_references.residual_allowance(a, b, x, iterations)

    def judge(y: Array) -> Verdict:
        found = solver_references.residual_norm(exact, b, on_host(y))
        ratio = found / most if math.isfinite(found) else math.inf
        return Verdict(ratio, -1, found, norm, most, "norm of b - A y")

    return judge, norm


@dataclass(frozen=True)
class Pagerank(_Solver):
    """PageRank by the power method with a damping of 0.85, a fixed number of iterations; ``pagerank@50``.

    x are the ranks to begin with, y those after the last iteration. An entry (i, j) is an arc from j to i whose weight
    is its absolute value. Each iteration is two flops per entry and 6 per row.
    """

    flops_of_row = 6
    elements_of_row = 4  # the ranks, p, A p and the inverse weights
    kernels = (power_method.KERNEL,)
    modules = (fixed, iteration, power_method)

    def matrix(self, a: Csr) -> Csr:
        """The absolute values of a square matrix. Raises Skip for another one."""
        _require_square(a, "PageRank needs", "a graph without vertices has nothing to rank")
        return Csr(a.shape, a.row_ptr, a.col_idx, np.abs(a.values))

    def launches(self, fmt: Format, x: Array, y: Array, checks: Checks, device: Device) -> list[Step]:
        assert checks.scaling is not None
        return fixed.pagerank_steps(fmt, x, y, checks.scaling, self.iterations, device)

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Two vectors of first ranks whose sums are about 1, with bounds by `solver_references.page_ranks`."""
        verify.reference_of(a)  # refuses entries that are not finite
        with np.errstate(over="ignore"):
            inverse = power_method.inverse_weights(a.rows, a.col_idx, a.values, a.dtype)
        if not np.isfinite(inverse).all():
            raise Skip(f"the inverse of the weights overflows {a.dtype}")
        firsts = []
        for index, source in enumerate((fresh, seed)):
            positive = np.abs(verify.both_signs(a.rows, np.random.default_rng((source, index)), np.dtype(np.float64)))
            firsts.append((positive * (4 / 3 / a.rows)).astype(a.dtype))
        additions = iteration.additions(a.rows, device)
        solved = solver_references.page_ranks(a, firsts, inverse, fixed.DAMPING, self.iterations, additions)
        dense = [Reference(first, y, bound).moved(device) for first, (y, bound) in zip(firsts, solved, strict=True)]
        return Checks(dense, [], [], *self.work_and_details(a, seed), device.to_device(inverse))


@dataclass(frozen=True)
class Pdhg(_Solver):
    """Primal-dual hybrid gradient for a linear program, min c^T x, A x = b, x >= 0, a fixed number of iterations from
    0; ``pdhg@20``.

    x are c and then b, y the primal and then the dual solution. Each iteration has the products of ``pair``, 4 flops
    per column and 5 per row. Steps: `primal_dual.steps`, of Pock and Chambolle (ICCV 2011) with alpha = 1.
    """

    product = "pair"
    gathers = False
    kernels = (primal_dual.KERNEL, epilogue.KERNEL)
    modules = (epilogue, fixed, iteration, primal_dual)

    def refusal(self, cls: type[Format]) -> str:
        return get(self.product).refusal(cls)

    def matrix(self, a: Csr) -> Csr:
        """As of ``pair``. Raises Skip for a matrix without entries."""
        if not a.nnz:
            raise Skip("a linear program without entries has nothing to solve")
        return get(self.product).matrix(a)

    def flops(self, rows: int, cols: int, nnz: int) -> int:
        return self.iterations * (4 * nnz + 5 * round_up(rows, PADDED) + 4 * round_up(cols, PADDED))

    def vector_elements(self, rows: int, cols: int) -> int:
        """Elements of c and x; of b, y and what the next y begins with."""
        return 2 * round_up(cols, PADDED) + 3 * round_up(rows, PADDED)

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        return get(self.product).vectors(a)

    def launches(self, fmt: Format, x: Array, y: Array, checks: Checks, device: Device) -> list[Step]:
        assert checks.scaling is not None
        return fixed.pdhg_steps(fmt, x, y, checks.scaling, self.iterations)

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
        """Two feasible and bounded linear programs, with the iterates of a host in float64.

        The distance from these is judged, in the norm of `solver_references.PrimalDual`.
        """
        verify.reference_of(a)  # refuses entries that are not finite
        method = solver_references.PrimalDual(a)
        dense = []
        for index, source in enumerate((fresh, seed)):
            given = method.program(np.random.default_rng((source, index)))
            found, bound = method.iterates(given, self.iterations)
            judge = partial(method.verdict, found, bound)
            dense.append(Reference(given, found, np.zeros(1), judge=judge).moved(device))
        return Checks(dense, [], [], *self.work_and_details(a, seed), device.to_device(method.steps))


@cached
def _source_hash(cls: type[Operation]) -> str:
    modules = [Path(str(module.__file__)) for module in cls.modules]
    kernels = dict.fromkeys(path for file in map(kernel_path, cls.kernels) for path in (file, *headers(file)))
    return hash_of_files(modules, kernels)


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


OPERATIONS: dict[str, type[Operation]] = {
    "spmv": Spmv,
    "spmv-t": SpmvTransposed,
    "pair": Pair,
    "spmm": Spmm,
    "spmm-column": Spmm,
    "spmm-t": SpmmTransposed,
    "spmspv": Spmspv,
    "bfs": Bfs,
    "bfs-directed": Bfs,
    "cg": Cg,
    "pagerank": Pagerank,
    "pdhg": Pdhg,
}
MAX_ITERATIONS = 1000  # of a solver: each is a few launches in a list, and nodes of a graph
# By kind: the parameters that the kind alone stands for, the least and the largest one, and what they are.
_VECTORS = (VECTORS, 1, multivector.MOST, f"number of vectors: write {{0}}@8, from 1 to {multivector.MOST}")
_SOURCE = (range(SOURCES), 0, 1e9 - 1, "source: write {0}@0 for the vertex of highest degree, {0}@1 and on")
_ITERATIONS = f"number of iterations: write {{0}}@%d, from 1 to {MAX_ITERATIONS:,}"
_PARAMETERS: dict[str, tuple[Iterable[float], float, float, str]] = {
    "spmv-t": ((1, 2), 1, 2, "number of copies: write {0}@1 or {0}@2"),
    **dict.fromkeys(("spmm", "spmm-column", "spmm-t"), _VECTORS),
    "spmspv": (DENSITIES, math.ulp(0.0), 1, "density of x: write {0}@0.01, up to 1"),
    **dict.fromkeys(("bfs", "bfs-directed"), _SOURCE),
    "cg": ((100,), 1, MAX_ITERATIONS, _ITERATIONS % 100),
    "pagerank": ((50,), 1, MAX_ITERATIONS, _ITERATIONS % 50),
    "pdhg": ((20,), 1, MAX_ITERATIONS, _ITERATIONS % 20),
}


def kind(name: str) -> str:
    """An operation's name without its parameter. Operations of one kind share a matrix and the converted formats."""
    return name.partition("@")[0]


def group_of(name: str) -> str:
    """What the operations of a group share: their kind. A solver has a group for each number of iterations, because it
    refuses a matrix for the last of them; ``spmv-t`` for each number of copies, because they convert two matrices;
    a product of several vectors for each number of them, because their y have other sizes.
    """
    return name if issubclass(OPERATIONS[kind(name)], _Solver | SpmvTransposed | Spmm) else kind(name)


def instances(word: str) -> list[str]:
    """The names that a word stands for: ``spmspv`` for its four densities, ``spmspv@.05`` for ``spmspv@0.05``.

    A solver without a number of iterations is ``cg@100`` or ``pagerank@50``.

    Raises UsageError.
    """
    base, at, parameter = word.partition("@")
    if base not in OPERATIONS or (at and base not in _PARAMETERS):
        hint = did_you_mean(word, list(OPERATIONS)) or f": use {', '.join(OPERATIONS)}"
        raise UsageError(f"there is no operation {word!r}{hint}")
    if base not in _PARAMETERS:
        return [base]
    known, least, most, what = _PARAMETERS[base]
    if not at:
        return [f"{base}@{each:g}" for each in known]
    with suppress(ValueError):
        if least <= (number := float(parameter)) <= most:
            if base == "spmspv":
                return [f"{base}@{number:g}"]
            if re.fullmatch(r"\d{1,9}", parameter, re.ASCII):
                return [f"{base}@{int(parameter)}"]
    raise UsageError(f"{word!r} names no {what.format(base)}")


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
