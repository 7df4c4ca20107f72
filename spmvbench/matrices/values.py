"""Values for entries without values: of pattern matrices and of generated structures."""

from __future__ import annotations

import numpy as np

_KEEP = np.uint64(0x800F_FFFF_FFFF_FFFF)  # sign and mantissa of an IEEE double
_HALF = np.uint64(0x3FE0_0000_0000_0000)  # the exponent of [0.5, 1)


def by_position(
    row_ptr: np.ndarray, col_idx: np.ndarray, cols: int, seed: int, *, symmetric: bool = False
) -> np.ndarray:
    """A value for each entry, (nnz,) float64, uniform in [0.5, 1) with a random sign.

    It depends on the seed and on the entry's row and column alone, not on the other entries or on any order. With
    `symmetric`, (i, j) and (j, i) get the same value; the matrix must be square. Simple tabulation hashing: a random
    word for each row plus one for each column (Patrascu and Thorup, J. ACM 59(3), 2012).
    """
    words = np.random.PCG64(seed)  # the raw stream is the one that NumPy promises to keep
    of_row = words.random_raw(len(row_ptr) - 1)
    of_col = of_row if symmetric else words.random_raw(cols)
    bits = np.repeat(of_row, np.diff(row_ptr))
    step = 1 << 16  # stays in the cache
    for start in range(0, len(bits), step):
        part = bits[start : start + step]
        part += of_col.take(col_idx[start : start + step])
        part &= _KEEP
        part |= _HALF
    return bits.view(np.float64)
