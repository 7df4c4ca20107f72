"""The cocktail format of clSpMV: parts are peeled off a matrix, each in the format that a table of rates favours."""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.formats.base import Format
from spmvbench.formats.blocked.block_sell import Bsellpack
from spmvbench.formats.coo.coo import CooFlat
from spmvbench.formats.csr.rows import CsrRows
from spmvbench.formats.dia.dia import Dia
from spmvbench.formats.ellpack.ellpack import Ell, SellCusparse

FORMATS: dict[str, type[Format]] = {
    "dia": Dia,
    "sbell": Bsellpack,
    "sell": SellCusparse,
    "ell": Ell,
    "csr": CsrRows,
    "coo": CooFlat,
}
SHAPES = tuple((r, c) for r in Bsellpack.ROWS for c in Bsellpack.COLUMNS)
MOST_DIAGONALS = 128


class Point(NamedTuple):
    """A line of a table: `width` entries of a row, or tiles of a block row, in a matrix of so many rows."""

    dtype: str  # float64 or float32
    format: str  # a name of FORMATS
    r: int  # rows of a tile; 1 where there is none
    c: int
    rows: int
    width: int
    gflops: float  # 2 slots / time


KINDS = {"dtype": str, "format": str, "r": int, "c": int, "rows": int, "width": int, "gflops": float}


class Table:
    """How fast each format was on a device, and an estimate between what was measured."""

    def __init__(self, name: str, points: list[Point]):
        self.name = name
        grids: dict[tuple[str, str, int, int], dict[tuple[int, int], float]] = defaultdict(dict)
        for p in points:
            grids[p.dtype, p.format, p.r, p.c][p.rows, p.width] = p.gflops
        self._grids = dict(grids)
        self._overhead = {
            dtype: min(2e-9 * p.rows * p.width * p.c / p.gflops for p in points if p.dtype == dtype)
            for dtype in {p.dtype for p in points}
        }

    def overhead(self, dtype: Any) -> float:
        """Seconds of the smallest launch that was measured."""
        return self._overhead[np.dtype(dtype).name]

    def seconds(self, dtype: Any, name: str, rows: int, slots: float, tile: tuple[int, int] = (1, 1)) -> float:
        """Estimate for a part of so many slots, padding among them, spread over the rows; 0 without slots."""
        if slots <= 0:
            return 0.0
        return 2e-9 * slots / self.gflops(dtype, name, rows, slots / max(rows, 1) / tile[1], tile)

    def gflops(self, dtype: Any, name: str, rows: int, width: float, tile: tuple[int, int] = (1, 1)) -> float:
        """Bilinear in rows and width between measurements, as at the border beyond them."""
        grid = self._grids[np.dtype(dtype).name, name, *tile]
        measured = sorted({known for known, _ in grid})

        def at(known: int) -> float:
            widths = sorted(w for r, w in grid if r == known)
            return float(np.interp(width, widths, [grid[known, w] for w in widths]))

        return float(np.interp(rows, measured, [at(known) for known in measured]))


def slug(device: str) -> str:
    """A device's name as the name of its table: ``nvidia-h200``."""
    return "-".join(device.lower().split())


@cache
def table_of(name: str) -> Table:
    """A table by the name of its file in configs/cocktail, or by a path. Raises UsageError where there is none."""
    shipped = {file.stem: file for file in (paths.configs() / "cocktail").glob("*.csv")}
    file = shipped.get(name, Path(name))
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        points = [Point(*(kind(row[field]) for field, kind in KINDS.items())) for row in rows]
    except (OSError, KeyError, ValueError) as error:
        known = ", ".join(sorted(shipped)) or "none"
        raise UsageError(f"no table of cocktail in {name} ({error}); there are {known}, or give a file") from None
    return Table(file.stem, points)
