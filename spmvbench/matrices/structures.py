"""The result type of matrix generators, and the registry of all generators by kind (the first word of a spec)."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError

Fill = Callable[[int, int], np.ndarray]
Stencil = Callable[[tuple[np.ndarray, ...]], np.ndarray]  # indices of points -> (points, steps)
BLOCK = 1 << 20  # entries written at a time
_SOME = 1 << 20  # values rounded at a time


@dataclass(frozen=True, eq=False)
class Structure:
    """A generated matrix: shape, lengths of the rows, and a function that returns the columns of rows first..last-1.

    coefficients: the same for the values; without it values follow from positions and, if `symmetric`, are symmetric.
    unit: number of rows that are generated at a time; first and last are multiples of it.
    """

    shape: tuple[int, int]
    lengths: np.ndarray
    columns: Fill
    coefficients: Fill | None = None
    symmetric: bool = False
    unit: int = 1


@dataclass(frozen=True)
class Origin:
    """Origin of an application's matrix: domain, publication of the model, licence of the generated matrix."""

    domain: str
    source: str
    licence: str = "none needed: computed from the published model"


Generator = Callable[..., Structure]
KINDS: dict[str, Generator] = {}
RULES: dict[str, tuple[Callable[..., bool], str]] = {}
ORIGINS: dict[str, Origin] = {}


def register(generator: Generator) -> Generator:
    """Register a generator under its name. Its parameters except `seed` are the numbers of its spec."""
    KINDS[generator.__name__] = generator
    return generator


def needs(text: str, rule: Callable[..., bool]) -> Callable[[Generator], Generator]:
    """Register a generator with a condition on the numbers of its spec, checked before anything is generated."""

    def ruled(generator: Generator) -> Generator:
        RULES[generator.__name__] = rule, text
        return register(generator)

    return ruled


def application(domain: str, source: str, **licence: str) -> Callable[[Generator], Generator]:
    """Register a generator of an application's matrices with domain, publication of the model and licence."""

    def listed(generator: Generator) -> Generator:
        ORIGINS[generator.__name__] = Origin(domain, source, **licence)
        return register(generator)

    return listed


def parameters(kind: str) -> list[str]:
    """The names of the numbers of a spec."""
    return [name for name in inspect.signature(KINDS[kind]).parameters if name != "seed"]


def form(kind: str) -> str:
    """The form of a spec of this kind: ``band:N:K:W``."""
    return ":".join([kind, *parameters(kind)])


def description(kind: str) -> str:
    """The first line of the description of a kind."""
    return (inspect.getdoc(KINDS[kind]) or "").partition("\n")[0]


def grid(
    shape: tuple[int, ...],
    steps: Sequence[tuple[int, ...]],
    degrees: int = 1,
    values: Stencil | None = None,
) -> Structure:
    """A stencil on a grid: every point is coupled with those at `steps` (ascending) from it that lie on the grid.

    Points are numbered with the last index fastest; each carries `degrees` unknowns, coupled as dense blocks.
    values(index): the stencil's values at points of the given index arrays, (points, steps); for one unknown per point.
    """
    points = math.prod(shape)
    size = points * degrees
    offset = np.array(steps)
    shift = offset @ [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    # inside[d][i, s]: whether step s from index i of dimension d stays on the grid.
    places = [np.arange(n)[:, None] + offset[:, d] for d, n in enumerate(shape)]
    inside = [(place >= 0) & (place < n) for place, n in zip(places, shape, strict=True)]

    def stays(first: int, last: int) -> np.ndarray:
        """(points, steps): which steps from the points first..last-1 stay on the grid."""
        index = np.unravel_index(np.arange(first, last), shape)
        every: np.ndarray = np.logical_and.reduce([table[i] for table, i in zip(inside, index, strict=True)])
        return every

    def columns(first: int, last: int) -> np.ndarray:
        first, last = first // degrees, last // degrees
        point = np.arange(first, last)[:, None] + shift
        unknown = (point[:, :, None] * degrees + np.arange(degrees)).astype(np.int32)
        blocks = (last - first, degrees, len(steps), degrees)
        there = np.broadcast_to(stays(first, last)[:, None, :, None], blocks)
        found: np.ndarray = np.broadcast_to(unknown[:, None], blocks)[there]
        return found

    def coefficients_of(stencil: Stencil) -> Fill:
        return lambda first, last: np.asarray(
            stencil(np.unravel_index(np.arange(first, last), shape))[stays(first, last)]
        )

    counts = np.empty(points, dtype=np.int32)
    for first in range(0, points, BLOCK):
        counts[first : first + BLOCK] = stays(first, min(first + BLOCK, points)).sum(axis=1)
    lengths = np.repeat(counts * degrees, degrees)
    coefficients = coefficients_of(values) if values else None
    return Structure((size, size), lengths, columns, coefficients, symmetric=True, unit=degrees)


def by_blocks(
    shape: tuple[int, int],
    lengths: np.ndarray,
    block: Callable[[int, int], tuple[np.ndarray, np.ndarray]],
    unit: int = 1,
) -> Structure:
    """A structure from a function block(first, last) that returns columns and values."""
    kept: dict[tuple[int, int], np.ndarray] = {}

    def columns(first: int, last: int) -> np.ndarray:
        found, values = block(first, last)
        kept.clear()  # values of one block, which are used next
        kept[first, last] = values
        return found

    def coefficients(first: int, last: int) -> np.ndarray:
        return kept.pop((first, last)) if (first, last) in kept else block(first, last)[1]

    return Structure(shape, lengths, columns, coefficients, unit=unit)


def of_matrix(a: Any) -> Structure:
    """A structure of an existing scipy.sparse matrix in CSR, which becomes canonical.

    Values are rounded to 24 bits, and to 0 below 2^-44 of the largest, so that they rarely depend on the rounding of
    sums on a machine.
    """
    a.sum_duplicates()
    largest = abs(a.data).max(initial=0.0)
    for start in range(0, a.nnz, _SOME):
        some = a.data[start : start + _SOME]
        some[abs(some) < 2.0**-44 * largest] = 0.0
        mantissa, exponent = np.frexp(some)
        some[:] = np.ldexp(np.rint(np.ldexp(mantissa, 24)), exponent - 24)

    def part(values: np.ndarray) -> Fill:
        return lambda first, last: values[a.indptr[first] : a.indptr[last]]

    return Structure(a.shape, np.diff(a.indptr), part(a.indices), part(a.data))


def required(module: str, package: str = "") -> Any:
    """A module of the extra `applications`. Raises SpmvbenchError with what to install if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = package or module
        raise SpmvbenchError(
            f"this matrix needs {package}: pip install {package}, or spmvbench[applications]"
        ) from None
