"""The cocktail format of clSpMV: parts are peeled off a matrix, each in the format that a table of rates favours."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.formats.arrays import Array, Csr, cdiv, on_host, round_up, run_ptr
from spmvbench.formats.conversion import device_limits, runner
from spmvbench.formats.coo.coo import CooFlat
from spmvbench.formats.csr.rows import CsrRows
from spmvbench.formats.dense_blocks.block_sell import Bsellpack
from spmvbench.formats.dense_blocks.blocks import Shape
from spmvbench.formats.dia.dia import Dia, diagonal_sizes
from spmvbench.formats.ellpack.ellpack import Ell, SellCusparse
from spmvbench.formats.format import Format
from spmvbench.formats.hybrid.diagonals import beside
from spmvbench.formats.hybrid.hyb import head_width
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

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
BY_BYTES = "bytes"  # the name of the rule that needs no table
LAUNCH_BYTES = 1 << 23  # that a GPU reads while a launch begins and ends: about 2 us


class Point(NamedTuple):
    """A line of a table: `width` entries of a row, or tiles of a block row, in a matrix of so many rows."""

    dtype: str  # float64 or float32
    format: str  # a name of FORMATS
    r: int  # rows of a tile; 1 if there is none
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


class ByBytes(Table):
    """Where nothing was measured: every format runs at the speed of the bytes that it reads of the matrix.

    A launch is worth LAUNCH_BYTES, and times are in units of those bytes.
    """

    def __init__(self) -> None:
        super().__init__(BY_BYTES, [])

    def overhead(self, dtype: Any) -> float:
        return float(LAUNCH_BYTES)

    def gflops(self, dtype: Any, name: str, rows: int, width: float, tile: Shape = (1, 1)) -> float:
        value, of_row = np.dtype(dtype).itemsize, 8 if name == "csr" else 0  # a row number and a pointer
        columns = {"dia": 0, "coo": 8, "sbell": 4 / (tile[0] * tile[1])}.get(name, 4)
        return float(2e-9 / (value + columns + of_row / max(width, 1)))


def slug(device: str) -> str:
    """A device's name as the name of its table: ``nvidia-h200``."""
    return "-".join(device.lower().split())


def shipped() -> dict[str, Path]:
    """The tables in configs/cocktail by name."""
    return {file.stem: file for file in sorted((paths.configs() / "cocktail").glob("*.csv"))}


@cache
def table_of(name: str) -> Table:
    """A table by the name of its file in configs/cocktail, or by a path, or `bytes`. Raises UsageError for no table."""
    if name == BY_BYTES:
        return ByBytes()
    file = shipped().get(name, Path(name))
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        points = [Point(*(kind(row[field]) for field, kind in KINDS.items())) for row in rows]
    except (OSError, KeyError, ValueError) as error:
        known = ", ".join((BY_BYTES, *shipped()))
        raise UsageError(f"no table of cocktail in {name} ({error}); there are {known}, or give a file") from None
    return Table(file.stem, points)


class Peeler:
    """What clSpMV's policy decides for a matrix: pieces are peeled off in the order that the table favours.

    Times are estimates: slots over the rate of the format for as many rows and slots per row, and a launch's overhead.
    """

    def __init__(self, a: Csr, table: Table):
        self.table, self.dtype, self.rows = table, a.dtype, a.rows
        self.overhead = table.overhead(a.dtype)
        self.multiprocessors = device_limits(a).multiprocessors

    def seconds(self, name: str, slots: float, tile: Shape = (1, 1)) -> float:
        """A part of so many slots over all rows, its launch included; nothing for none."""
        return self.table.seconds(self.dtype, name, self.rows, slots, tile) + self.overhead * (slots > 0)

    def rate(self, name: str, nnz: float, tile: Shape = (1, 1)) -> float:
        """GFLOPS of a format for so many entries over all rows."""
        return self.table.gflops(self.dtype, name, self.rows, nnz / max(self.rows, 1) / tile[1], tile)

    def flat_rate(self, nnz: float) -> float:
        """Of the best format without diagonals or blocks."""
        return max(self.rate(name, nnz) for name in ("ell", "sell", "csr", "coo"))

    def best_rate(self, kind: str, nnz: float) -> float:
        """Of diagonals, or of the best shape of blocks."""
        return self.rate("dia", nnz) if kind == "dia" else max(self.rate("sbell", nnz, tile) for tile in SHAPES)

    def flat_seconds(self, nnz: float) -> float:
        """The estimate for entries that will go to the best flat format."""
        return 2e-9 * nnz / self.flat_rate(nnz) + self.overhead * (nnz > 0)

    def pieces(self, a: Csr) -> Iterator[Piece]:
        """The parts of a matrix."""
        kinds = {"block": self.blocks, "dia": self.diagonals}
        if a.rows != a.cols:
            del kinds["dia"]
        for kind in sorted(kinds, key=lambda kind: self.best_rate(kind, a.nnz), reverse=True):
            if a.nnz and self.best_rate(kind, a.nnz) > self.flat_rate(a.nnz):
                piece, a = kinds[kind](a)
                if piece is not None:
                    yield piece
        yield from self.flat(a)

    def diagonals(self, a: Csr) -> tuple[Piece | None, Csr]:
        """The diagonals that are worth a dense array, the fullest first, and the rest."""
        xp, least = a.xp, 1.05 * self.flat_rate(a.nnz) / self.rate("dia", a.nnz) * a.rows
        offset, held, _ = diagonal_sizes(a, runner(a))
        full = xp.flatnonzero(held > least)
        full = full[xp.argsort(-held[full], kind="stable")[:MOST_DIAGONALS]]
        covered = np.concatenate([[0], np.cumsum(on_host(held[full]), dtype=np.int64)])
        pitch = round_up(a.rows, 32)
        times = [
            self.seconds("dia", kept * pitch) + self.flat_seconds(a.nnz - int(n)) for kept, n in enumerate(covered)
        ]
        kept = int(np.argmin(times))
        if not kept:
            return None, a
        return beside(a, xp.sort(offset[full[:kept]]))

    def blocks(self, a: Csr) -> tuple[Piece | None, Csr]:
        """The tiles that are worth to be stored whole, of the best of the eight shapes, and the rest."""
        best: tuple[float, Shape | None, Array | None] = 1.02 * self.flat_seconds(a.nnz), None, None
        for r, c in SHAPES:
            key, held = tiles_with_entries(a, r, c)
            size, rate = r * c, self.rate("sbell", a.nnz, (r, c))
            few = min(size - 1, int(size * self.flat_rate(a.nnz) / rate))
            for more in {0, few}:
                dense = held > more
                tiles, entries = int(dense.sum()), int(held[dense].sum())
                time = self.seconds("sbell", tiles * size, (r, c)) + self.flat_seconds(a.nnz - entries)
                if time < best[0]:
                    best = time, (r, c), dense[key]
        _, tile, inside = best
        if tile is None or inside is None:
            return None, a
        settings = {"r": tile[0], "c": tile[1]}
        return Piece("sbell", Bsellpack, a.where(inside), settings), a.where(~inside)

    def flat(self, a: Csr) -> Iterator[Piece]:
        """What is left: COO, CSR, or ELLPACK or its slices with one of the two for the rest."""
        rates = {name: self.rate(name, a.nnz) for name in ("ell", "sell", "csr", "coo")}
        best = max(rates, key=rates.__getitem__)
        if best == "coo":
            yield Piece("coo", CooFlat, a)
            return
        if best == "csr":
            yield self.rest(a)
            return
        height = round_up(a.rows, 32)
        lengths = a.xp.zeros(height, dtype=np.int64)
        lengths[: a.rows] = a.row_lengths
        slices = a.xp.sort(lengths.reshape(-1, 32), axis=1)[:, ::-1]
        rest_rate = max(self.rate("csr", a.nnz), self.rate("coo", a.nnz))
        # A column more is worth it while it takes the slots of 32 rows less long than the rest takes its entries.
        worth = min(max(math.ceil(32 * rest_rate / rates["sell"]), 1), 32)
        options = [
            ("sell", slices[:, 0]),
            ("sell", slices[:, worth - 1]),
            ("ell", a.xp.full(len(slices), head_width(a, rates["ell"] / rest_rate, run=runner(a)), dtype=np.int64)),
        ]

        def time(option: tuple[str, Array]) -> float:
            name, widths = option
            beyond = int(a.xp.maximum(slices - widths[:, None], 0).sum())
            rest = 2e-9 * beyond / rest_rate + self.overhead * (beyond > 0)
            return self.seconds(name, int(widths.sum()) * 32) + rest

        name, widths = min(options, key=time)
        width = a.xp.repeat(widths, 32)[: a.rows]
        yield Piece(name, FORMATS[name], a.between(0, width))
        rest = a.between(width, a.row_len_max)
        if rest.nnz:
            yield self.rest(rest)

    def rest(self, a: Csr) -> Piece:
        """CSR, or COO where one of as many groups of rows as run at once has far more to do than the others."""
        groups = min(16 * self.multiprocessors, max(a.rows, 1))
        ends = on_host(a.row_ptr[:: cdiv(a.rows, groups) or 1])
        most = int(np.diff(ends, append=a.nnz).max(initial=0))
        csr = 2e-9 * most * len(ends) / self.rate("csr", a.nnz)
        coo = 2e-9 * a.nnz / self.rate("coo", a.nnz)
        return Piece("csr", CsrRows, a) if csr <= coo else Piece("coo", CooFlat, a)


def tiles_with_entries(a: Csr, r: int, c: int) -> tuple[Array, Array]:
    """The number of the r x c tile of each entry, (nnz,), tiles in order of rows and columns; entries of each tile."""
    xp, across = a.xp, cdiv(a.cols, c)
    key = (a.row_idx // np.int32(r)).astype(np.int64) * across + a.col_idx // np.int32(c)
    ascending = xp.sort(key)
    runs = run_ptr(ascending)
    return xp.searchsorted(ascending[runs[:-1]], key), xp.diff(runs)


@register
class Cocktail(Split):
    """Parts in up to six formats, chosen by a table of their speeds: diagonals, dense blocks, and the rest.

    The policy is that of the authors' program: diagonals and blocks in the order of their rates, each taken where the
    table expects to gain by it, then the rest in ELLPACK, slices, CSR or COO. Formats are this project's, and so are
    the tables, of the device at hand or the one that `table` names; `publishing.cocktail` measures one.
    For a device without a table every format is taken to be as fast as the bytes that it reads. Left out are banded
    diagonals and the program's two other block formats: blocks are `bsellpack`, which stores the same tiles as its
    BELL, with less padding. A stored zero in a diagonal or a block cannot be distinguished from padding, so decoding
    leaves zeros out.
    """

    key = "cocktail"
    multiplies_padding = True
    survey_name = "Cocktail"
    reference = "Su & Keutzer, ICS 2012; clSpMV"
    formats = tuple(FORMATS.values())

    table = Parameter("", "table of speeds: a name in configs/cocktail, a file, or bytes; empty: the device's")

    table_name: str  # of the table in use

    @classmethod
    def table_in_use(cls, a: Csr, table: str) -> Table:
        """The table of this name, or of the device at hand, or the rule by bytes. Raises UsageError for a name."""
        of_device = slug(device_limits(a).name)
        return table_of(table or (of_device if of_device in shipped() else BY_BYTES))

    @classmethod
    def split(cls, a: Csr, *, table: str) -> Iterator[Piece]:
        yield from Peeler(a, cls.table_in_use(a, table)).pieces(a)

    @classmethod
    def convert(cls, a: Csr, *, table: str) -> dict[str, Any]:
        name = table or cls.table_in_use(a, table).name
        return super().convert(a, table=table) | {"table_name": name}

    @property
    def in_use(self) -> dict[str, Any]:
        return {"table": self.table_name}

    @property
    def detail(self) -> dict[str, Any]:
        return super().detail | self.in_use
