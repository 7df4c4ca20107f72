"""Features and pictures of a matrix (`rows.schema`), with NumPy or CuPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, offsets, on_host

TILE = 16
CELLS = 128  # along the longer side of the pictures that a run keeps
BLOCK = 1 << 22  # entries processed at a time: bounds the work arrays of a matrix with 1e8 nonzeros
SAMPLE = 1 << 17  # approximate number of entries in a sample of a matrix
GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples modulo 1 are evenly distributed
STRETCH = 96  # consecutive rows of a sample: whole slices of 32 rows, whole blocks of 2, 3, 4 and 8


def features(csr: Csr) -> dict[str, Any]:
    """The matrix columns of rows.schema.COLUMNS, `rows` to `ell_fill`, as Python numbers.

    The coefficient of variation and the Gini coefficient are of the row lengths and 0 where there are no entries.
    """
    diagonals, full, in_full = _diagonals(csr)
    return _of_rows(csr) | {
        "stored_zeros": csr.nnz - int(csr.xp.count_nonzero(csr.values)),
        "empty_cols": _empty_cols(csr),
        "diagonals": diagonals,
        "pattern_symmetry": pattern_symmetry(csr),
        "tiles": _tiles(csr),
        "full_diagonals": full,
        "full_diagonal_share": in_full / csr.nnz if csr.nnz else 0.0,
        **_neighbours(csr),
    }


def quick_features(csr: Csr, sampled: tuple[Csr, Array]) -> dict[str, Any]:
    """The `features` that follow from all row lengths and from a sample of the rows, in the time of a few SpMVs.

    sampled: result of `sample` for the matrix.
    """
    part, rows = sampled
    full, in_full = _full_diagonals(csr, part, rows)
    return _of_rows(csr) | {
        "full_diagonals": full,
        "full_diagonal_share": in_full / part.nnz if part.nnz else 0.0,
        **_neighbours(part),
    }


def sample(csr: Csr) -> tuple[Csr, Array]:
    """Groups of consecutive rows from the whole matrix with about SAMPLE entries, as a matrix; and the rows' numbers.

    A matrix with at most SAMPLE entries is returned unchanged.
    """
    xp = csr.xp
    if csr.nnz <= SAMPLE:
        return csr, xp.arange(csr.rows)
    stretches = cdiv(csr.rows, STRETCH)
    wanted = min(max(cdiv(SAMPLE * csr.rows, csr.nnz * STRETCH), 16), stretches)
    place = xp.arange(wanted)
    # One at a varying position in each of equal parts: equal distances could be in step with a periodic pattern.
    first = STRETCH * ((place + (0.5 + place * GOLDEN) % 1) * stretches / wanted).astype(np.int64)
    rows = (first[:, None] + xp.arange(STRETCH)).ravel()
    rows = rows[rows < csr.rows]
    row_ptr = offsets(csr.row_lengths[rows])
    nnz = int(row_ptr[-1])
    entry = xp.arange(nnz) + (csr.row_ptr[rows] - row_ptr[:-1])[expand(row_ptr, nnz)]
    return Csr((len(rows), csr.cols), row_ptr, csr.col_idx[entry], csr.values[entry]), rows


def _of_rows(csr: Csr) -> dict[str, Any]:
    """The columns that follow from the row pointers and from the first and last entries of rows."""
    lengths = csr.row_lengths
    some = csr.rows > 0
    std = float(lengths.std()) if some else 0.0
    return {
        "rows": csr.rows,
        "cols": csr.cols,
        "nnz": csr.nnz,
        "row_len_min": int(lengths.min()) if some else 0,
        "row_len_median": float(csr.xp.median(lengths)) if some else 0.0,
        "row_len_mean": csr.row_len_mean,
        "row_len_max": csr.row_len_max,
        "row_len_std": std,
        "row_len_cv": std / csr.row_len_mean if csr.nnz else 0.0,
        "row_len_gini": gini(lengths),
        "empty_rows": csr.rows - int(csr.xp.count_nonzero(lengths)),
        "bandwidth": _bandwidth(csr),
        "ell_fill": _ell_fill(lengths),
    }


def is_spd(a: Any) -> bool:
    """Whether a scipy.sparse.csr_array is symmetric and positive definite, in the arithmetic of float64.

    A symmetric matrix with a positive diagonal is positive definite if its rows are diagonally dominant, and one in
    each connected component strictly (Taussky 1949); else if Gaussian elimination without pivoting has positive pivots.
    """
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import splu

    if a.shape[0] != a.shape[1] or not a.nnz:
        return False
    diagonal = a.diagonal()
    if (diagonal <= 0).any() or (a != a.T).nnz:
        return False
    slack = 2 * diagonal - abs(a).sum(axis=1)
    if (slack >= 0).all():
        count, component = connected_components(a, directed=False)
        if (np.bincount(component, slack > 0, count) > 0).all():
            return True
    try:
        factors = splu(a.tocsc(), "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # a pivot is zero
        return False
    return bool((factors.perm_r == factors.perm_c).all() and (factors.U.diagonal() > 0).all())


def gini(counts: Array) -> float:
    """Gini coefficient of non-negative counts: 0 if all are equal, near 1 if one has everything."""
    n, total = len(counts), int(counts.sum())
    if not total:
        return 0.0
    xp = array_module(counts)
    # The i-th smallest of n weighs 2 i - n - 1, i from 1.
    weights = 2 * xp.arange(1, n + 1, dtype=np.float64) - (n + 1)
    return float(weights @ xp.sort(counts).astype(np.float64)) / (n * total)


def pattern_symmetry(csr: Csr) -> float:
    """Share of the off-diagonal entries (i, j) for which (j, i) is stored too.

    NaN for a matrix that is not square, 1 if there are no off-diagonal entries.
    """
    if csr.rows != csr.cols:
        return math.nan
    pattern = _pattern(csr.row_ptr, csr.col_idx, csr.cols)
    transposed = pattern.T.tocsr()
    both, on_diagonal = 0, 0
    for first, block in csr.row_blocks(TILE, BLOCK):
        rows = slice(first, first + block.rows)
        both += pattern[rows].multiply(transposed[rows]).nnz
        on_diagonal += int(csr.xp.count_nonzero(block.col_idx == block.row_idx + first))
    return (both - on_diagonal) / (csr.nnz - on_diagonal) if csr.nnz > on_diagonal else 1.0


def _pattern(row_ptr: Array, col_idx: Array, cols: int) -> Any:
    """Entries of 1 as a scipy.sparse.csr_array, which transposes by counting: several times faster than a sort."""
    import scipy.sparse as sp

    entries = np.ones(len(col_idx), dtype=np.int8), on_host(col_idx), on_host(row_ptr)
    return sp.csr_array(entries, shape=(len(row_ptr) - 1, cols))


def description(csr: Csr) -> dict[str, Any]:
    """The columns `row_lengths` to `zoom_density` of rows.schema.MATRIX_COLUMNS: row lengths and two pictures.

    One picture shows the whole matrix, the other an enlarged square around the fullest cell. The square is as wide as a
    cell, but at least CELLS positions, because nothing is smaller than one position.
    """
    lengths, counts = row_length_counts(csr)
    found = {"row_lengths": on_host(lengths), "row_counts": on_host(counts)}
    if not csr.nnz:
        return found
    whole = density(csr, *grid(csr.shape))
    found |= {"down": whole.shape[0], "across": whole.shape[1], "density": on_host(whole.ravel())}
    if max(csr.shape) <= CELLS:
        return found
    side = max(max(csr.shape) // CELLS, CELLS)
    fullest = divmod(int(whole.argmax()), whole.shape[1])
    tall, wide = (min(side, n) for n in csr.shape)
    row, col = (
        min(max((2 * cell + 1) * n // (2 * cells) - extent // 2, 0), n - extent)
        for cell, cells, n, extent in zip(fullest, whole.shape, csr.shape, (tall, wide), strict=True)
    )
    enlarged = density(part(csr, row, col, tall, wide), *grid((tall, wide)))
    return found | {
        "zoom_row": row,
        "zoom_col": col,
        "zoom_rows": tall,
        "zoom_cols": wide,
        "zoom_down": enlarged.shape[0],
        "zoom_across": enlarged.shape[1],
        "zoom_density": on_host(enlarged.ravel()),
    }


def row_length_counts(csr: Csr) -> tuple[Array, Array]:
    """The row lengths that occur, ascending, and the number of rows of each."""
    counts = csr.xp.bincount(csr.row_lengths)
    lengths = csr.xp.flatnonzero(counts)
    return lengths, counts[lengths]


def row_length_histogram(csr: Csr) -> list[tuple[int, int, int]]:
    """(shortest, longest, rows) by powers of two: 0, 1, 2 to 3, 4 to 7, ... up to the longest row."""
    lengths, counts = row_length_counts(csr)
    bins = [(0, 0)]
    while bins[-1][1] < csr.row_len_max:
        bins.append((bins[-1][1] + 1, 2 * bins[-1][1] + 1))
    return [(low, high, int(counts[(lengths >= low) & (lengths <= high)].sum())) for low, high in bins]


def grid(shape: tuple[int, int], most: int = CELLS) -> tuple[int, int]:
    """Cells down and across for a picture of a matrix: `most` along its longer side, and as square as they can be."""
    longest = max(shape)
    down, across = (max(1, n * min(longest, most) // longest) for n in shape)
    return down, across


def part(csr: Csr, row: int, col: int, rows: int, cols: int) -> Csr:
    """The entries in `rows` rows from `row` on and `cols` columns from `col` on, as a matrix of that shape."""
    stripe = csr.rows_between(row, row + rows)
    inside = stripe.where((stripe.col_idx >= col) & (stripe.col_idx < col + cols))
    return Csr((rows, cols), inside.row_ptr, inside.col_idx - col, inside.values)


def density(csr: Csr, down: int, across: int) -> Array:
    """Share of stored entries in each cell of a grid laid over the matrix, (down, across); neither may be 0.

    Rows r with r * down // rows == i make up cell row i, columns likewise: cells differ by at most one row and column.
    """
    xp = csr.xp
    counts = xp.zeros(down * across, dtype=np.int64)
    for first, block in csr.row_blocks(TILE, BLOCK):
        row = (block.row_idx.astype(np.int64) + first) * down // csr.rows
        col = block.col_idx.astype(np.int64) * across // csr.cols
        counts += xp.bincount(row * across + col, minlength=down * across)
    tall, wide = (xp.bincount(xp.arange(n) * m // n, minlength=m) for n, m in ((csr.rows, down), (csr.cols, across)))
    density: Array = counts.reshape(down, across) / (tall[:, None] * wide)
    return density


def _empty_cols(csr: Csr) -> int:
    seen = csr.xp.zeros(csr.cols, dtype=bool)
    seen[csr.col_idx] = True
    return csr.cols - int(csr.xp.count_nonzero(seen))


def _bandwidth(csr: Csr) -> int:
    """Largest |col - row|: at the first or the last entry of a row."""
    xp = csr.xp
    row = xp.flatnonzero(csr.row_lengths)
    if not len(row):
        return 0
    left = row - csr.col_idx[csr.row_ptr[row]]
    right = csr.col_idx[csr.row_ptr[row + 1] - 1] - row
    return max(int(abs(left).max()), int(abs(right).max()))


def _diagonals(csr: Csr) -> tuple[int, int, int]:
    """Numbers of diagonals with an entry, of diagonals at least half full, and of entries on the latter."""
    xp = csr.xp
    counts = xp.zeros(csr.rows + csr.cols, dtype=np.int64)
    for first, block in csr.row_blocks(TILE, BLOCK):
        found = block.col_idx.astype(np.int64) - block.row_idx + (csr.rows - 1 - first)
        low = int(found.min()) if len(found) else 0  # a block of rows touches a part of the diagonals
        part = xp.bincount(found - low)
        counts[low : low + len(part)] += part
    places = xp.arange(1, len(counts) + 1)
    lengths = xp.minimum(xp.minimum(places, places[::-1] - 1), min(csr.shape))
    full = (counts > 0) & (2 * counts >= lengths)
    return int(xp.count_nonzero(counts)), int(xp.count_nonzero(full)), int(counts[full].sum())


def _full_diagonals(csr: Csr, part: Csr, rows: Array) -> tuple[int, int]:
    """Numbers of diagonals that are at least half full in these rows of a matrix, and of entries on them."""
    if not part.nnz:
        return 0, 0
    xp = csr.xp
    place = part.col_idx - rows[part.row_idx]
    low = int(place.min())
    counts = xp.bincount(place - low)
    found = xp.flatnonzero(counts)
    counts, place = counts[found], found + low
    crossed = xp.searchsorted(rows, xp.minimum(csr.rows, csr.cols - place)) - xp.searchsorted(rows, -place)
    full = 2 * counts >= crossed
    return int(xp.count_nonzero(full)), int(counts[full].sum())


def _neighbours(csr: Csr) -> dict[str, Any]:
    """How entries lie beside each other: contiguous_run_mean, mean length of runs of consecutive columns in a row;
    repeated_row_share, share of the rows with the columns of the row before; column_step_log2, mean log2 of the step
    from an entry's column to the next of its row.
    """
    xp = csr.xp
    runs, alike, bits, steps = 0, 0, 0.0, 0
    for first, block in csr.row_blocks(TILE, BLOCK):
        begins = xp.zeros(block.nnz, dtype=bool)
        begins[block.row_ptr[:-1][block.row_lengths > 0]] = True
        step = xp.diff(block.col_idx)[~begins[1:]]
        runs += block.nnz - int(xp.count_nonzero(step == 1))
        bits += float(xp.log2(step.astype(np.float64)).sum())
        steps += len(step)
        # In a row as long as the one before, an entry is that many positions after its counterpart.
        lengths = csr.row_lengths[first : first + block.rows]
        same = lengths > 0
        same[1:] &= lengths[1:] == lengths[:-1]
        same[:1] &= (lengths[:1] == csr.row_lengths[first - 1]) if first else False
        entry = xp.flatnonzero(same[block.row_idx])
        row = block.row_idx[entry]
        before = entry + int(csr.row_ptr[first]) - lengths[row]
        same[row[csr.col_idx[before] != block.col_idx[entry]]] = False
        alike += int(xp.count_nonzero(same))
    return {
        "contiguous_run_mean": csr.nnz / runs if csr.nnz else 0.0,
        "repeated_row_share": alike / csr.rows if csr.rows else 0.0,
        "column_step_log2": bits / steps if steps else 0.0,
    }


def _ell_fill(lengths: Array) -> float:
    """Entries divided by slots if rows are padded to the longest of each 32; 1 without entries."""
    xp = array_module(lengths)
    padded = xp.zeros(cdiv(len(lengths), 32) * 32, dtype=np.int64)
    padded[: len(lengths)] = lengths
    slots = 32 * int(padded.reshape(-1, 32).max(axis=1).sum()) if len(padded) else 0
    return int(padded.sum()) / slots if slots else 1.0


def _tiles(csr: Csr) -> int:
    """Non-empty TILE x TILE tiles."""
    found = 0
    for _, block in csr.row_blocks(TILE, BLOCK):
        ends = csr.xp.append(block.row_ptr[:-1:TILE], block.row_ptr[-1:])  # of 16 rows as one, which names tiles again
        tiles = _pattern(ends, block.col_idx // TILE, cdiv(csr.cols, TILE)).T.tocsr()  # each tile's entries together
        changed = np.diff(tiles.indices, prepend=-1) != 0
        changed[tiles.indptr[:-1][np.diff(tiles.indptr) > 0]] = True
        found += int(np.count_nonzero(changed))
    return found
