"""The result type of matrix generators, and the registry of all generators by kind (the first word of a spec)."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError

Fill = Callable[[int, int], np.ndarray]
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
    """Declare a condition on the numbers of a spec, which is checked before anything is generated."""

    def ruled(generator: Generator) -> Generator:
        RULES[generator.__name__] = rule, text
        return generator

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
