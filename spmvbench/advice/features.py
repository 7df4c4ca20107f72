"""Features of the model: numbers from the columns of a row, independent of the matrix's size if possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Columns = Mapping[str, Any]  # numbers of one matrix, or arrays of many
LARGE = 1_000_000  # entries; below, launch overhead dominates most SpMVs
SHORT = 0.1  # of the bound; if the longest row takes less than that, it does not matter how much less


def _log(x: Any) -> Any:
    return np.log2(np.maximum(x, 1e-9))


_FEATURES: dict[str, Callable[[Columns], Any]] = {
    "entries": lambda m: _log(m["nnz"]),
    "rows": lambda m: _log(m["rows"]),
    "shape": lambda m: _log(m["cols"] / m["rows"]),
    "row length": lambda m: _log(m["row_len_mean"]),
    "variation of row lengths": lambda m: _log(m["row_len_cv"] + 0.01),
    "longest row": lambda m: _log(m["row_len_max"] / np.maximum(m["row_len_mean"], 1e-9)),
    # If one thread or warp computes the longest row: whether the other rows or the launch take longer than that.
    "longest row of all entries": lambda m: _log(m["row_len_max"] / (m["nnz"] + LARGE)),
    "empty rows": lambda m: m["empty_rows"] / m["rows"],
    "share on full diagonals": lambda m: m["full_diagonal_share"],
    "contiguous runs": lambda m: _log(m["contiguous_run_mean"]),
    "repeated rows": lambda m: m["repeated_row_share"],
    "fill of slices of 32 rows": lambda m: m["ell_fill"],
}
NAMES = tuple(_FEATURES)
# Below the range of the training, these make a matrix no stranger: the launch overhead dominates there, too.
SIZES = ("entries", "rows")


def of(columns: Columns) -> np.ndarray:
    """The features in the order of NAMES: (features,) of one matrix, (matrices, features) of many."""
    return np.stack([np.asarray(feature(columns), dtype=float) for feature in _FEATURES.values()], axis=-1)


def of_formats(
    x: np.ndarray,
    nnz: Any,
    sizes: np.ndarray,
    bounds: np.ndarray,
    plain: np.ndarray,
    of_row: np.ndarray,
    formats: np.ndarray,
) -> np.ndarray:
    """Features of each matrix in each format, (matrices, K, features).

    x: (matrices, features), of the matrices. nnz: their entries. sizes, bounds: (matrices, K), bytes that an SpMV reads
    and writes, and its lower bound in seconds. plain: (matrices,), these bytes in CSR. of_row: (matrices, K), the time
    of the longest row divided by the bound. formats: (K, numbers).
    """
    each = (len(x), len(formats))
    entries = np.asarray(nnz, dtype=float)[:, None]
    ratios = sizes / entries, sizes / plain[:, None], bounds / sizes, np.maximum(of_row, SHORT)
    own = np.log(np.stack(ratios, axis=-1))
    return np.concatenate(
        [np.broadcast_to(x[:, None], (*each, x.shape[1])), np.broadcast_to(formats, (*each, formats.shape[1])), own],
        axis=-1,
    )


def words(name: str, m: Columns) -> str:
    """A feature of a matrix as words, used as a reason in advice."""
    rows, mean = m["rows"], m["row_len_mean"]
    same = m["row_len_min"] == m["row_len_max"]
    lengths = (
        f"rows of {m['row_len_max']:,} entries each"
        if same
        else (f"rows of {m['row_len_min']:,} to {m['row_len_max']:,} entries, {mean:.3g} on average")
    )
    texts = {
        "entries": f"{m['nnz']:,} entries",
        "rows": f"{rows:,} rows",
        "shape": f"{rows:,} x {m['cols']:,}",
        "empty rows": f"{100 * m['empty_rows'] / rows:.3g} % of the rows are empty"
        if m["empty_rows"]
        else "no row is empty",
        "share on full diagonals": _diagonals(m),
        "contiguous runs": f"runs of {m['contiguous_run_mean']:.3g} neighbouring columns",
        "repeated rows": f"{100 * m['repeated_row_share']:.3g} % of the rows have the columns of the row before",
        "fill of slices of 32 rows": f"slices of 32 rows would be {100 * m['ell_fill']:.3g} % full",
    }
    return texts.get(name, lengths)


def _diagonals(m: Columns) -> str:
    if not m["full_diagonals"]:
        return "no diagonal is half full"
    many = "1 diagonal holds" if m["full_diagonals"] == 1 else f"{m['full_diagonals']:,} diagonals hold"
    return f"{many} {100 * m['full_diagonal_share']:.3g} % of the entries"
