"""Launches of y += A^T x from the arrays of A: what formats with the same kind of storage share.

Most entries of a column are in different rows, so their products are added to y by atomics: sums are not reproducible.
"""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.conversion import limits_of
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread
from spmvbench.formats.multivector import VECTORS

SOURCE = "transposed.cu"
BLOCK, SUMMING = (constant("transposed.cu", name) for name in ("BLOCK", "SUMMING"))  # threads
FEW = 2  # additions to y for one of a block's sums, at least: else atomics to y take less


def lanes_by_mean(nnz: int, lists: int, least: int = 1) -> int:
    """Threads for a list (a row, a column): the largest power of two up to the mean length, `least` to 32."""
    mean = nnz // max(lists, 1)
    return min(32, max(least, 1 << max(mean.bit_length() - 1, 0)))


def by_rows(row_ptr: Array, col_idx: Array, values: Array, x: Array, y: Array, rows: Array | None = None) -> Launch:
    """For CSR; x: (rows,), y: (cols,). rows: the row of each list of entries, if only some are stored."""
    places, listed = len(row_ptr) - 1, rows is not None
    lanes, limits = lanes_by_mean(len(values), places), limits_of(values)
    types = f"<{ctype(values)}, {ctype(row_ptr)}, {lanes}, {cbool(listed)}>"
    args = rows if listed else row_ptr[:0].view(np.int32), row_ptr, col_idx, values, x, y
    blocks = min(limits.multiprocessors, cdiv(places * lanes, SUMMING))
    if y.nbytes * VECTORS.get() <= limits.shared_bytes and len(values) >= FEW * blocks * len(y):
        sizes = np.int32(places), np.int32(len(y))
        return Launch(SOURCE, f"csr_transposed_sums{types}", blocks, SUMMING, (*sizes, *args), y.nbytes)
    return Launch(SOURCE, f"csr_transposed{types}", cdiv(places * lanes, BLOCK), BLOCK, (np.int32(places), *args))


def by_diagonals(shape: tuple[int, int], offset: Array, values: Array, x: Array, y: Array) -> Launch:
    """For diagonals of all rows, (diagonals, pitch); x: (rows,), y: (cols,). Reproducible: nothing is atomic."""
    (rows, cols), (diagonals, pitch) = shape, values.shape
    sizes = np.int32(rows), np.int32(cols), np.int32(diagonals), np.int64(pitch)
    return Launch(SOURCE, f"dia_transposed<{ctype(values)}>", *per_thread(cols, BLOCK), (*sizes, offset, values, x, y))
