"""Measures the table by which the format `cocktail` chooses: rates of its parts by rows and entries per row.

    python -m spmvbench.publishing cocktail --device cuda:0 > my-gpu.csv
    spmvbench run ... --formats 'cocktail[table=my-gpu.csv]'

The first time it compiles, for minutes. The tables of this package are in configs/cocktail, one file per device.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import numpy as np

from spmvbench.devices import Device, open_device
from spmvbench.devices.cuda import Cuda
from spmvbench.formats import Csr
from spmvbench.formats.format import Format
from spmvbench.formats.hybrid.cocktail import FORMATS, SHAPES, Point

ROWS = tuple(1 << power for power in (10, 13, 16, 18, 20, 21))
WIDTHS = {  # entries of a row; of a block row, in tiles
    "dia": (1, 3, 7, 15, 31, 63),
    "ell": (1, 2, 4, 8, 16, 32, 64, 128),
    "sell": (1, 2, 4, 8, 16, 32, 64, 128),
    "csr": (2, 8, 32, 128, 512, 2048),
    "coo": (1, 2, 4, 8, 16, 32, 64, 128),
    "sbell": (1, 3, 9, 27),
}
MAX_ENTRIES = 1 << 25  # per matrix
REPLAYS, ROUNDS = 20, 3


def band(xp: Any, rows: int, width: int, tile: tuple[int, int], dtype: np.dtype) -> Csr:
    """A matrix of rows x rows with `width` neighbouring dense tiles in each block row, about the diagonal."""
    r, c = tile
    block_row = xp.arange(rows, dtype=np.int32) // np.int32(r)
    begin = xp.clip(block_row * np.int32(r) // np.int32(c) - np.int32(width // 2), 0, rows // c - width) * np.int32(c)
    col_idx = (begin[:, None] + xp.arange(width * c, dtype=np.int32)).reshape(-1)
    row_ptr = xp.arange(rows + 1, dtype=np.int64) * (width * c)
    return Csr((rows, rows), row_ptr.astype(np.int32), col_idx, xp.ones(len(col_idx), dtype=dtype))


class Case(NamedTuple):
    """One measurement of the table."""

    name: str
    tile: tuple[int, int]
    rows: int
    width: int
    dtype: np.dtype

    def part(self, xp: Any) -> Format:
        """A matrix of the case's size in its format."""
        a = band(xp, self.rows, self.width, self.tile, self.dtype)
        settings = {"r": self.tile[0], "c": self.tile[1]} if self.name == "sbell" else {}
        return FORMATS[self.name].converted(a, **settings)


def cases(dtype: np.dtype) -> Iterator[Case]:
    """All measurements of a table for one type."""
    for name, widths in WIDTHS.items():
        for tile in SHAPES if name == "sbell" else ((1, 1),):
            for rows in ROWS:
                for width in widths:
                    if width * tile[1] <= rows and rows * width * tile[1] <= MAX_ENTRIES:
                        yield Case(name, tile, rows, width, dtype)


def gflops(case: Case, device: Device) -> float:
    """2 slots / time, from the fastest of several rounds of replays."""
    fmt = case.part(device.xp)
    x, y = (device.to_device(np.ones(case.rows, dtype=case.dtype)) for _ in range(2))
    replay = device.capture(device.compile(fmt.launches(x, y)), REPLAYS)
    device.elapsed(replay)
    seconds = min(device.elapsed(replay) for _ in range(ROUNDS)) / REPLAYS
    return 2e-9 * case.rows * case.width * case.tile[1] / seconds


@click.command()
@click.option("--device", "name", default="cuda:0", help="The GPU to measure.", show_default=True)
def main(name: str) -> None:
    """Write the table of a GPU to standard output."""
    device = open_device(name)
    assert isinstance(device, Cuda), "a table is measured on a GPU"
    todo = [case for dtype in ("float64", "float32") for case in cases(np.dtype(dtype))]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(Point._fields)
    for case in todo:
        r, c = case.tile
        point = Point(case.dtype.name, case.name, r, c, case.rows, case.width, round(gflops(case, device), 2))
        writer.writerow(point)
        sys.stdout.flush()
