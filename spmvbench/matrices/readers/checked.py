"""Checks of what files declare: sizes against this machine's memory, indices against the shape."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from spmvbench.errors import SpmvbenchError, counted
from spmvbench.formats.arrays import INT32_MAX, index_dtype

MOST_EMPTY = 1000  # rows or columns per entry of large matrices; with more, a few bytes could declare gigabytes
LARGE = 1 << 24
EXACT = 1 << 53


def memory(needed: int, name: str, what: str) -> None:
    """Raise SpmvbenchError if this machine has less memory than `needed` bytes."""
    if needed > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise SpmvbenchError(f"{name} {what}, which takes {needed / 1e9:,.0f} GB: more memory than this machine has")


def size(rows: int, cols: int, entries: int, name: str, *, hypersparse: bool = False) -> None:
    """Raise SpmvbenchError if a size is invalid, does not fit 32-bit indices, or exceeds the memory.

    hypersparse: accept very few entries in very many rows.
    """
    what = f"declares {rows:,} x {cols:,} with {counted(f'{entries:,}', 'entry')}"
    if min(rows, cols, entries) < 0:
        raise SpmvbenchError(f"{name} {what}, which cannot be")
    if max(rows, cols) > INT32_MAX:
        raise SpmvbenchError(f"{name} {what}: indices must fit in 32 bits")
    if not hypersparse and max(rows, cols) > max(LARGE, MOST_EMPTY * entries):
        raise SpmvbenchError(
            f"{name} {what}: of so large a matrix, {MOST_EMPTY} rows or columns per entry are too many"
        )
    index = index_dtype(max(rows, cols, entries)).itemsize
    memory((max(rows, cols) + 1) * index + entries * (index + 8), name, what)


def matrix(a: Any, name: str) -> None:
    """Raise SpmvbenchError unless the sizes, pointers, indices and values of a SciPy sparse matrix are sound."""
    if a.ndim != 2:
        raise SpmvbenchError(f"{name} has {a.ndim} dimensions and not two")
    rows, cols = a.shape
    size(rows, cols, a.data.size, name)
    if a.data.dtype.kind not in "biufc":
        raise SpmvbenchError(f"{name} has values of type {a.data.dtype}")
    if a.format in ("csr", "csc", "bsr"):
        down, across = a.data.shape[1:] or (1, 1)
        major, minor = (cols, rows) if a.format == "csc" else (rows // down, cols // across)
        compressed(major, minor, a.indptr, a.indices, len(a.data), name)
    elif a.format == "coo":
        row, col = a.coords
        coordinates(rows, cols, row, col, len(a.data), name)
    elif a.format == "dia":
        diagonals(rows, cols, a.offsets, len(a.data), name)
    else:
        raise SpmvbenchError(f"{name} is of the layout {a.format}: save it as csr, csc, coo or bsr")


def exact(data: np.ndarray, name: str, rounded: np.ndarray | None = None) -> None:
    """Raise SpmvbenchError if integers are outside of the range that float64 represents exactly.

    rounded: the same sums in float64, which show where those of int64 have overflown.
    """
    if data.dtype.kind not in "iu" or not data.size:
        return
    if data.max() > EXACT or data.min() < -EXACT or (rounded is not None and abs(rounded).max() > 2 * EXACT):
        raise SpmvbenchError(f"{name} holds integers beyond 2^53, which double precision would change")


def compressed(major: int, minor: int, pointers: np.ndarray, indices: np.ndarray, stored: int, name: str) -> None:
    """Raise SpmvbenchError unless pointers (major + 1,) rise from 0 over indices in 0..minor-1 with `stored` values."""
    sound = (
        _whole(pointers, indices)
        and len(pointers) == major + 1
        and pointers[0] == 0
        and bool((pointers[1:] >= pointers[:-1]).all())
        and pointers[-1] == len(indices) == stored
        and _within(indices, minor)
    )
    if not sound:
        raise SpmvbenchError(f"{name} is malformed: its pointers or indices leave the matrix")


def coordinates(rows: int, cols: int, row: np.ndarray, col: np.ndarray, stored: int, name: str) -> None:
    """Raise SpmvbenchError unless row and col are the places of `stored` values in the matrix."""
    sound = _whole(row, col) and len(row) == len(col) == stored and _within(row, rows) and _within(col, cols)
    if not sound:
        raise SpmvbenchError(f"{name} is malformed: its indices leave the {rows} x {cols} matrix")


def diagonals(rows: int, cols: int, offsets: np.ndarray, stored: int, name: str) -> None:
    """Raise SpmvbenchError unless offsets (col - row) name `stored` different diagonals, each of them in the matrix."""
    sound = _whole(offsets) and len(offsets) == stored == len(np.unique(offsets))
    if not sound or (stored and not -rows < offsets.min() <= offsets.max() < cols):
        raise SpmvbenchError(f"{name} is malformed: its diagonals are not those of a {rows} x {cols} matrix")


def _whole(*arrays: np.ndarray) -> bool:
    return all(array.ndim == 1 and array.dtype.kind in "iu" for array in arrays)


def _within(indices: np.ndarray, n: int) -> bool:
    return not len(indices) or (indices.min() >= 0 and indices.max() < n)
