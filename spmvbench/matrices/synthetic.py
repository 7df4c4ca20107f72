"""Generated matrices: a spec such as ``pde:100`` names one, the same everywhere for the same seed.

Each generator returns the row lengths first and then the columns of a range of rows, so that canonical CSR is written
in place, block by block: the peak memory is the matrix and one block. Values follow from the entries' positions
(values.by_position) unless the generator returns them. The generators of `applications` are in a package of their own.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean
from spmvbench.formats.arrays import INT32_MAX, index_dtype, offsets
from spmvbench.formats.imports import digest, imported
from spmvbench.matrices import (
    applications,  # noqa: F401 - importing lists them
    stand_ins,
    values,
)
from spmvbench.matrices.readers import checked
from spmvbench.matrices.structures import (
    BLOCK,
    KINDS,
    RULES,
    Structure,
    by_blocks,
    form,
    grid,
    needs,
    parameters,
    register,
)

STAND_IN = "like:"
_REQUIRED = re.compile(r'required\("(\w+)"(?:, "([\w-]+)")?\)')  # structures.required


def _on_grid(points: int, degrees: int = 1) -> bool:
    return points * degrees <= INT32_MAX


def is_spec(text: str) -> bool:
    """Whether a text has the form of a spec (valid or not), not of group/name or a file."""
    return text.startswith(STAND_IN) or re.fullmatch(r"\w+(:([^:/\\.]*|\d+\.\d*))+", text) is not None


def parse(spec: str) -> tuple[str, list[Any]]:
    """Kind and numbers of a spec; of a stand-in its matrix. Raises UsageError with the valid form."""
    if spec.startswith(STAND_IN):
        stand_ins.facts(spec.removeprefix(STAND_IN))
        return "like", [spec.removeprefix(STAND_IN)]
    kind, *texts = spec.split(":")
    if kind not in KINDS:
        hint = did_you_mean(kind, list(KINDS)) or f"; there are {', '.join(form(name) for name in KINDS)}"
        raise UsageError(f"there is no generator {kind!r}{hint}")
    if len(texts) != len(parameters(kind)) or not all(re.fullmatch(r"\d{1,10}(\.0*)?", text) for text in texts):
        raise UsageError(f"cannot read {spec!r}: write {form(kind)} with integers of at most 10 digits")
    numbers = [int(text.partition(".")[0]) for text in texts]
    if max(numbers) > INT32_MAX:
        raise UsageError(f"{spec} is too large: indices must fit in 32 bits")
    rule, text = RULES.get(kind, (lambda *_: True, ""))
    if not rule(*numbers):
        raise UsageError(f"{form(kind)} needs {text}")
    return kind, numbers


def canonical(spec: str) -> str:
    """The one spelling of a spec: ``pde:4`` for ``pde:04`` and ``pde:4.0``. Raises UsageError as `parse`."""
    kind, numbers = parse(spec)
    return ":".join([kind, *map(str, numbers)])


def generator_hash(kind: str) -> str:
    """SHA-256 (16 hex digits) of the generator of a kind: modules, their data, and versions of needed packages.

    Comments, docstrings and layout do not count.
    """
    data = getattr(sys.modules[KINDS[kind].__module__], "DATA", ())
    return _hash(kind, tuple(data() if callable(data) else data))


@cache
def _hash(kind: str, data: tuple[Path, ...]) -> str:
    module = sys.modules[KINDS[kind].__module__]
    assert module.__file__ is not None
    own = Path(module.__file__).resolve()
    parts = [digest(imported([Path(__file__).resolve(), own]))]
    parts += (hashlib.sha256(path.read_bytes()).hexdigest() for path in data)
    for name, package in sorted(set(_REQUIRED.findall(own.read_text(encoding="utf-8")))):
        try:
            parts.append(f"{package or name} {importlib.metadata.version(package or name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def has_rows(spec: str) -> bool:
    """Whether a spec has rows and columns: a size of 0 is valid, but probably a mistake."""
    kind, numbers = parse(spec)
    return all(number or name not in ("N", "R", "C") for name, number in zip(parameters(kind), numbers, strict=True))


def entries(spec: str, seed: int = 0) -> int:
    """Number of entries of the matrix of a spec, without generating them. Raises as `generate`."""
    return int(_structure(spec, seed).lengths.sum(dtype=np.int64))


def _structure(spec: str, seed: int) -> Structure:
    kind, numbers = parse(spec)
    needs_seed = "seed" in inspect.signature(KINDS[kind]).parameters
    try:
        return KINDS[kind](*numbers, **({"seed": seed} if needs_seed else {}))
    except MemoryError:
        raise SpmvbenchError(f"{spec} takes more memory than this machine has") from None


def generate(spec: str, seed: int = 0, size: tuple[int, int, int] | None = None) -> Any:
    """The matrix of a spec as a canonical scipy.sparse.csr_array, float64, indices int32 unless nnz needs int64.

    size: rows, columns and entries; None is returned without making entries if the matrix has another size.

    Raises UsageError for an unknown kind, a wrong number of parameters or invalid values, SpmvbenchError if the matrix
    exceeds this machine's memory.
    """
    import scipy.sparse as sp

    structure = _structure(spec, seed)
    row_ptr = offsets(structure.lengths)
    if size is not None and size != (*structure.shape, int(row_ptr[-1])):
        return None
    checked.size(*structure.shape, int(row_ptr[-1]), spec, hypersparse=True)
    col_idx = np.empty(row_ptr[-1], dtype=index_dtype(int(row_ptr[-1])))
    data = None if structure.coefficients is None else np.empty(len(col_idx))
    for first, last in _row_blocks(row_ptr, structure.unit):
        entries = slice(row_ptr[first], row_ptr[last])
        col_idx[entries] = structure.columns(first, last)
        if data is not None and structure.coefficients is not None:
            data[entries] = structure.coefficients(first, last)
    if data is None:
        data = values.by_position(row_ptr, col_idx, structure.shape[1], seed, symmetric=structure.symmetric)
    a = sp.csr_array((data, col_idx, row_ptr), shape=structure.shape)
    a.has_canonical_format = True
    return a


def hashes(a: Any) -> tuple[str, str]:
    """SHA-256 of a canonical CSR matrix's pattern (shape, row_ptr, col_idx as 64-bit integers), and of its values."""
    pattern = hashlib.sha256(np.array(a.shape, dtype="<i8").tobytes())
    for array in (a.indptr, a.indices):
        for start in range(0, len(array), BLOCK):
            pattern.update(array[start : start + BLOCK].astype("<i8").tobytes())
    return pattern.hexdigest(), hashlib.sha256(a.data.astype("<f8", copy=False).data).hexdigest()


def _row_blocks(row_ptr: np.ndarray, unit: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows, whole units each, with about BLOCK entries (one unit if that has more)."""
    ends = row_ptr[unit::unit]
    first = 0
    while first < len(ends):
        last = int(np.searchsorted(ends, row_ptr[first * unit] + BLOCK, side="right"))
        last = min(max(last, first + 1), first + BLOCK)
        yield first * unit, last * unit
        first = last


def _distinct(rng: np.random.Generator, lengths: np.ndarray, low: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Ascending distinct columns: lengths[r] of low[r] .. low[r] + width[r] - 1 for each row r, row after row.

    Draws with repetition from a range that is shorter by lengths - 1, sorts, and adds 0, 1, 2, ...: near uniform over
    the subsets if rows are sparse, without rejected draws.
    """
    row = np.repeat(np.arange(len(lengths)), lengths)
    draw = (rng.random(len(row)) * (width - lengths + 1)[row]).astype(np.int64)
    key = (row << 32) | draw
    key.sort()
    rank = np.arange(len(row)) - offsets(lengths)[row]
    columns: np.ndarray = (key & 0xFFFF_FFFF) + rank + low[row]
    return columns


def _random_rows(shape: tuple[int, int], lengths: np.ndarray, seed: int, half_width: int | None = None) -> Structure:
    """Rows of the given lengths with distinct random columns, everywhere or within half_width of the diagonal."""
    cols = shape[1]

    def columns(first: int, last: int) -> np.ndarray:
        row = np.arange(first, last)
        low = np.zeros_like(row) if half_width is None else np.maximum(row - half_width, 0)
        high = np.full_like(row, cols) if half_width is None else np.minimum(row + half_width + 1, cols)
        return _distinct(np.random.default_rng([seed, first]), lengths[first:last], low, high - low)

    return Structure(shape, lengths, columns)


@needs("a grid of at most 2^31 - 1 unknowns: indices must fit in 32 bits", lambda N: _on_grid(N**3))
def pde(N: int) -> Structure:
    """Convection-diffusion on the unit cube, 7 points, N^3 grid; values nonsymmetric, pattern symmetric.

    Central differences, scaled to a diagonal of 6; the wind turns about the z axis and rises, with a cell Peclet number
    below 1 on every grid. N = 60, 80 and 100 have the sizes of the survey's pde060, pde080 and pde100.
    """

    def values(index: tuple[np.ndarray, ...]) -> np.ndarray:
        x, y, _ = (2 * (i + 1.0) / (N + 1) - 1 for i in index)
        u, v, w = 0.5 * y, -0.5 * x, np.full_like(x, 0.25)
        return np.stack([-1 - u, -1 - v, -1 - w, np.full_like(x, 6), -1 + w, -1 + v, -1 + u], axis=1)

    steps = [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]
    return grid((N, N, N), steps, values=values)


@needs(
    "N of at least 3, 1290 at most, and PERCENT of at most 100",
    lambda N, PERCENT: N not in (1, 2) and _on_grid(N**3) and PERCENT <= 100,
)
def stray(N: int, PERCENT: int, *, seed: int) -> Structure:
    """The pattern of pde:N and PERCENT per cent as many entries more, at random places off its seven diagonals.

    It shows how much slower formats of diagonals, blocks or short rows are on a matrix that is almost regular. All
    values come from the seed.
    """
    stencil = pde(N)
    size = N**3
    extra = int(stencil.lengths.sum(dtype=np.int64)) * PERCENT // 100
    rng, keys = np.random.default_rng(seed), np.empty(0, dtype=np.int64)  # row and column in one number
    while len(keys) < extra:
        row, col = rng.integers(0, size, (2, extra))
        off = ~np.isin(abs(col - row), (0, 1, N, N * N))
        keys = np.concatenate((keys, (row[off] << 32) | col[off]))
        keys = keys[np.sort(np.unique(keys, return_index=True)[1])]  # in the order drawn, so that none is preferred
    keys = np.sort(keys[:extra])

    def columns(first: int, last: int) -> np.ndarray:
        row = np.repeat(np.arange(first, last), stencil.lengths[first:last])
        strays = keys[slice(*np.searchsorted(keys, (first << 32, last << 32)))]
        return np.sort(np.concatenate(((row << 32) | stencil.columns(first, last), strays))) & 0xFFFF_FFFF

    lengths = stencil.lengths + np.bincount(keys >> 32, minlength=size)
    return Structure((size, size), lengths, columns)


@needs("a grid of at most 2^31 - 1 unknowns: indices must fit in 32 bits", lambda N: _on_grid(N**2))
def poisson2d(N: int) -> Structure:
    """The 5-point Laplacian on an N x N grid: 4 on the diagonal, -1 next to it."""
    steps = [(-1, 0), (0, -1), (0, 0), (0, 1), (1, 0)]
    return grid((N, N), steps, values=lambda index: np.tile([-1.0, -1.0, 4.0, -1.0, -1.0], (len(index[0]), 1)))


@needs("D of at least 1, and a grid of at most 2^31 - 1 unknowns", lambda N, D: D >= 1 and _on_grid(N**3, D))
def fem(N: int, D: int) -> Structure:
    """Trilinear finite elements on an N^3 grid: 27 points, dense D x D blocks, symmetric values from the seed."""
    return grid((N, N, N), list(itertools.product((-1, 0, 1), repeat=3)), degrees=D)


def _positive_definite(pattern: Structure, full: int, seed: int) -> Structure:
    """A symmetric positive definite matrix with the pattern of a connected grid, diagonal included.

    An entry off the diagonal is minus a weight in [0.5, 1), the same for (i, j) and (j, i), from the seed and its
    position. The diagonal is the sum of the row's weights and 1 for each entry that the row has fewer than `full`, as
    if the neighbours outside were held at 0. Weights are multiples of 2^-10, so that all sums are exact, in single
    precision too: the matrix is irreducibly diagonally dominant as stored (Horn, Johnson, Matrix Analysis, 2nd edition,
    corollary 6.2.27).
    """
    words = np.random.PCG64(seed).random_raw(pattern.shape[0])  # as in values.by_position

    def block(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        lengths, column = pattern.lengths[first:last], pattern.columns(first, last)
        row = np.repeat(np.arange(first, last), lengths)
        found = (((words[row] + words[column]) >> np.uint64(55)) + np.uint64(512)) * -(2.0**-10)
        on_diagonal = row == column
        found[on_diagonal] = 0
        found[on_diagonal] = full - lengths - np.add.reduceat(found, offsets(lengths)[:-1])
        return column, found

    return by_blocks(pattern.shape, pattern.lengths, block, pattern.unit)


@needs("a grid of at most 2^31 - 1 unknowns: indices must fit in 32 bits", lambda N: _on_grid(N**3))
def spd_pde(N: int, *, seed: int) -> Structure:
    """Diffusion on the unit cube with random coefficients, the pattern of pde:N; symmetric positive definite."""
    return _positive_definite(pde(N), 7, seed)


@needs("D of at least 1, and a grid of at most 2^31 - 1 unknowns", lambda N, D: D >= 1 and _on_grid(N**3, D))
def spd_fem(N: int, D: int, *, seed: int) -> Structure:
    """The pattern of fem:N:D, 27 points with dense D x D blocks; symmetric positive definite, values from the seed."""
    return _positive_definite(fem(N, D), 27 * D, seed)


@needs("K of at most W + 1 and at most N", lambda N, K, W: min(N, W + 1) >= K)
def band(N: int, K: int, W: int, *, seed: int) -> Structure:
    """N x N, K random distinct entries per row within W of the diagonal."""
    return _random_rows((N, N), np.full(N, K), seed, half_width=W)


@needs("K of at most N", lambda N, K: N >= K)
def uniform(N: int, K: int, *, seed: int) -> Structure:
    """N x N, K random distinct entries per row, anywhere."""
    return rect(N, N, K, seed=seed)


@needs("K of at most the number of columns", lambda R, C, K: C >= K)
def rect(R: int, C: int, K: int, *, seed: int) -> Structure:
    """R x C, K random distinct entries per row, anywhere."""
    return _random_rows((R, C), np.full(R, K), seed)


@register
def powerlaw(N: int, K: int, *, seed: int) -> Structure:
    """N x N, row lengths from a power law (Pareto II, exponent 2.5) with a mean near K, many rows empty."""
    lengths = np.minimum(np.random.default_rng(seed).pareto(1.5, N) * K / 2, N).astype(np.int64)
    return _random_rows((N, N), lengths, seed)


@register
def powerlaw_t(N: int, K: int, *, seed: int) -> Structure:
    """The transpose of powerlaw:N:K: rows of similar lengths, and columns that many rows share."""
    given = powerlaw(N, K, seed=seed)
    checked.memory(24 * int(given.lengths.sum()), form("powerlaw_t"), "sorts all entries")
    column = given.columns(0, N)
    row = np.repeat(np.arange(N, dtype=np.int32), given.lengths)[np.argsort(column, kind="stable")]
    lengths = np.bincount(column, minlength=N)
    row_ptr = offsets(lengths)
    return Structure((N, N), lengths, lambda first, last: row[row_ptr[first] : row_ptr[last]])


@needs("SCALE of at most 30", lambda SCALE, EF: SCALE <= 30)
def rmat(SCALE: int, EF: int, *, seed: int) -> Structure:
    """R-MAT graph, 2^SCALE vertices, EF edges per vertex drawn, repeated ones dropped, vertices in natural order.

    a, b, c, d = .57, .19, .19, .05 (Chakrabarti et al., SDM 2004; the parameters of Graph500).
    """
    size, rng = 1 << SCALE, np.random.default_rng(seed)
    checked.memory(8 * EF * size, form("rmat"), f"draws {EF * size:,} edges")
    keys = np.zeros(EF * size, dtype=np.int64)  # row and column in one number
    for start in range(0, len(keys), BLOCK):
        part = keys[start : start + BLOCK]
        for bit in range(SCALE):
            draw = rng.random(len(part), dtype=np.float32)
            lower = draw >= np.float32(0.76)
            right = ((draw >= np.float32(0.57)) ^ lower) | (draw >= np.float32(0.95))
            part |= (lower.astype(np.int64) << (bit + SCALE)) | (right.astype(np.int64) << bit)
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) != 0]
    lengths = np.bincount(keys >> SCALE, minlength=size)
    row_ptr = offsets(lengths)

    def columns(first: int, last: int) -> np.ndarray:
        found: np.ndarray = keys[row_ptr[first] : row_ptr[last]] & (size - 1)
        return found

    return Structure((size, size), lengths, columns)


@register
def denserow(N: int) -> Structure:
    """Tridiagonal with a full middle row: the worst case of one thread per row and of padding to the longest row."""
    chain, middle = tridiag(N), N // 2
    lengths = chain.lengths.copy()
    lengths[middle : middle + 1] = N

    def columns(first: int, last: int) -> np.ndarray:
        if not first <= middle < last:
            return chain.columns(first, last)
        parts = chain.columns(first, middle), np.arange(N, dtype=np.int32), chain.columns(middle + 1, last)
        return np.concatenate(parts)

    return Structure((N, N), lengths, columns)


@needs("N a multiple of B", lambda N, B: B >= 1 and N % B == 0)
def blocks(N: int, B: int, *, seed: int) -> Structure:
    """N x N of dense aligned B x B blocks, four distinct ones at random in each row of blocks; N a multiple of B."""
    block_rows = N // B
    across = min(4, block_rows)

    def columns(first: int, last: int) -> np.ndarray:
        count = (last - first) // B
        whole = np.full(count, block_rows)
        block = _distinct(np.random.default_rng([seed, first]), np.full(count, across), np.zeros(count, int), whole)
        column = block.reshape(count, across, 1) * B + np.arange(B)
        return np.repeat(column.reshape(count, 1, across * B), B, axis=1).reshape(-1)

    return Structure((N, N), np.full(N, across * B), columns, unit=B)


@register
def diag(N: int) -> Structure:
    """Diagonal, N x N."""
    return grid((N,), [(0,)])


@register
def tridiag(N: int) -> Structure:
    """Tridiagonal, N x N, symmetric values from the seed."""
    return grid((N,), [(-1,), (0,), (1,)])


@register
def dense(R: int, C: int) -> Structure:
    """R x C with every entry stored."""
    return Structure((R, C), np.full(R, C), lambda first, last: np.tile(np.arange(C), last - first))


@register
def empty(R: int, C: int) -> Structure:
    """R x C without entries; either may be 0."""
    return Structure((R, C), np.zeros(R, dtype=np.int64), lambda first, last: np.empty(0))
