"""Small pictures for the pages: the pattern of a matrix, its row lengths, and the arrays of a format."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from matplotlib.image import imsave

from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Skip
from spmvbench.formats.arrays import Csr
from spmvbench.formats.format import Format

# An 8 x 8 matrix with a long row, an empty one and a full diagonal but for that: every idea shows on it.
EXAMPLE = ("x.x....x", "xx......", ".xx..x..", "........", "xxxxxxxx", "...x.x..", "......x.", "x.....xx")
ACROSS, MOST = 32, 96  # cells of an array side by side, and drawn at all
LEAST = 1e-6  # lowest share of a pattern's scale


@dataclass(frozen=True)
class Cell:
    """An element of an array. row: of the matrix, for a stored value, else -1. padding: a zero among the values."""

    text: str
    row: int = -1
    padding: bool = False


@dataclass(frozen=True)
class Drawn:
    """An array of a format on the example. lines: its elements. more: how many are not drawn."""

    name: str
    shape: str
    about: str
    lines: list[list[Cell]]
    more: int


def example() -> Csr:
    """The matrix of EXAMPLE; the entry of row i and column j, counted from 1, has the value 10 i + j."""
    row_idx, col_idx = np.nonzero([[sign == "x" for sign in row] for row in EXAMPLE])
    row_ptr = np.concatenate([[0], np.cumsum(np.bincount(row_idx, minlength=len(EXAMPLE)))])
    values = 10.0 * (row_idx + 1) + col_idx + 1
    return Csr((len(EXAMPLE), len(EXAMPLE[0])), row_ptr.astype(np.int32), col_idx.astype(np.int32), values)


def dense_example() -> list[list[Cell]]:
    """The example as a grid of cells."""
    a = example()
    grid = [[Cell("", padding=True) for _ in range(a.cols)] for _ in range(a.rows)]
    for row, col, value in zip(a.row_idx, a.col_idx, a.values, strict=True):
        grid[row][col] = Cell(f"{value:g}", int(row))
    return grid


def arrays(cls: type[Format], comments: dict[str, str]) -> tuple[list[Drawn], str]:
    """The arrays of a format, with its default parameters, on the example; and a sentence if it cannot be shown."""
    try:
        held = cls.converted(example())
    except (Skip, SpmvbenchError) as reason:
        return [], f"Not drawn: {reason}."
    return [_drawn(name, array, comments.get(name, "")) for name, array in held.arrays().items()], ""


def _drawn(name: str, array: Any, about: str) -> Drawn:
    is_value = array.dtype.kind == "f"
    shape = " x ".join(f"{n:,}" for n in array.shape)
    across = array.shape[-1] if array.ndim > 1 and 0 < array.shape[-1] <= ACROSS else ACROSS
    shown = np.asarray(array).ravel()[: MOST // across * across or across].tolist()
    cells = [_value(value) if is_value else Cell(str(value)) for value in shown]
    lines = [cells[start : start + across] for start in range(0, len(cells), across)]
    return Drawn(name, f"{shape}, {array.dtype}", about, lines, array.size - len(cells))


def _value(value: float) -> Cell:
    row = int(value) // 10 - 1
    known = value == int(value) and 0 <= row < len(EXAMPLE)
    return Cell(f"{value:g}", row if known else -1, padding=not value)


def pattern(shares: np.ndarray, down: int, across: int) -> str:
    """The shares of a grid over a matrix, row by row, as the data URI of an image with a pixel a cell."""
    cells = np.asarray(shares, float).reshape(down, across)
    norm = LogNorm(min(max(cells[cells > 0].min(initial=1.0), LEAST), 0.5), 1)
    colors = colormaps["viridis_r"](norm(np.ma.masked_equal(cells, 0)))
    colors[cells == 0] = (1, 1, 1, 1)
    file = io.BytesIO()
    imsave(file, colors, format="png", metadata={"Software": ""})
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def row_lengths(lengths: Any, counts: Any) -> pd.DataFrame:
    """Rows by powers of two of their length: columns low, high, rows and share (of the largest count, 0 to 1)."""
    lengths, counts = np.asarray(lengths), np.asarray(counts)
    found, low, high = [], 0, 0
    while low <= lengths.max(initial=0):
        found.append((low, high, int(counts[(lengths >= low) & (lengths <= high)].sum())))
        low, high = high + 1, 2 * high + 1
    table = pd.DataFrame(found, columns=["low", "high", "rows"])
    return table.assign(share=table["rows"] / max(int(table["rows"].max()), 1))
