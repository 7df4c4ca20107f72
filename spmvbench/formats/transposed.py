"""Launches of y += A^T x from the arrays of A: what formats with the same kind of storage share.

Most entries of a column are in different rows, so their products are added to y by atomics: sums are not reproducible.
"""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, cdiv, round_up
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


def by_slices(
    rows: int,
    height: int,
    width: int,
    threads: int,
    slice_ptr: Array,
    lengths: Array,
    perm: Array,
    columns: Array,
    values: Array,
    x: Array,
    y: Array,
    *,
    interleaved: bool,
) -> Launch:
    """For sliced ELLPACK of `rows` stored rows; arrays as in `ellpack.sell.SlicedEll`, x: (rows,), y: (cols,)."""
    types = f"{ctype(values)}, {ctype(slice_ptr)}, {height if len(slice_ptr) else 0}, {threads}"
    flags = ", ".join(map(cbool, (interleaved, len(lengths) > 0, len(perm) > 0)))
    size = np.uint32(rows), np.int64(height), np.int32(width)
    args = (*size, slice_ptr, lengths, perm, columns, values, x, y)
    grid = cdiv(round_up(rows, 32) * threads, BLOCK)
    return Launch(SOURCE, f"sell_transposed<{types}, {flags}>", grid, BLOCK, args)


def by_diagonals(shape: tuple[int, int], offset: Array, values: Array, x: Array, y: Array) -> Launch:
    """For diagonals of all rows, (diagonals, pitch); x: (rows,), y: (cols,). Reproducible: nothing is atomic."""
    (rows, cols), (diagonals, pitch) = shape, values.shape
    sizes = np.int32(rows), np.int32(cols), np.int32(diagonals), np.int64(pitch)
    return Launch(SOURCE, f"dia_transposed<{ctype(values)}>", *per_thread(cols, BLOCK), (*sizes, offset, values, x, y))


def by_hacks(shape: tuple[int, int], hack_ptr: Array, offset: Array, values: Array, x: Array, y: Array) -> Launch:
    """For diagonals of hacks of 32 rows; x: (rows,), y: (cols,)."""
    rows, cols = shape
    kernel = f"hdi_transposed<{ctype(values)}, {ctype(hack_ptr)}>"
    return Launch(
        SOURCE, kernel, *per_thread(rows, BLOCK), (np.int32(rows), np.int32(cols), hack_ptr, offset, values, x, y)
    )


def by_tiles(
    shape: tuple[int, int],
    tile: tuple[int, int],
    block_ptr: Array,
    block_col: Array,
    values: Array,
    perm: Array,
    x: Array,
    y: Array,
) -> Launch:
    """For tiles of r x c by rows, one after the other in block rows; x: (rows,), y: (cols,)."""
    (rows, cols), (r, c), block_rows = shape, tile, len(block_ptr) - 1
    lanes = lanes_by_mean(len(block_col) * c, block_rows)
    kernel = f"bsr_transposed<{ctype(values)}, {ctype(block_ptr)}, {r}, {c}, {lanes}>"
    sizes = np.int32(block_rows), np.int32(rows), np.int32(cols)
    args = (*sizes, block_ptr, block_col, values, perm, np.bool_(len(perm) > 0), x, y)
    return Launch(SOURCE, kernel, cdiv(block_rows * lanes, BLOCK), BLOCK, args)


def by_slices_of_tiles(
    shape: tuple[int, int],
    tile: tuple[int, int],
    together: int,
    slice_ptr: Array,
    block_col: Array,
    values: Array,
    perm: Array,
    x: Array,
    y: Array,
) -> Launch:
    """For tiles of r x c in slices of block rows; arrays as in `dense_blocks.tiled.Sliced`, x: (rows,), y: (cols,)."""
    (rows, cols), (r, c), height = shape, tile, block_col.shape[1]
    block_rows = cdiv(rows, r)
    kernel = f"block_sell_transposed<{ctype(values)}, {ctype(slice_ptr)}, {r}, {c}, {height}, {together}>"
    sizes = np.int32(block_rows), np.int32(rows), np.int32(cols)
    args = (*sizes, slice_ptr, block_col, values, perm, np.bool_(len(perm) > 0), x, y)
    return Launch(SOURCE, kernel, *per_thread(block_rows, BLOCK), args)
