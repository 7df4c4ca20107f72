"""TILE-COMPOSITE: tiles of columns in order of length, their rows packed into workloads of one width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    Array,
    ArrayModule,
    Csr,
    cdiv,
    column_places,
    expand,
    inverse,
    longest_first,
    offsets,
    on_host,
    put,
    round_up,
    run_ptr,
    stable_order,
)
from spmvbench.formats.conversion import search_once
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.precision import stored_in
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import seconds

WARP = constant("include/spmv.cuh", "WARP")
NARROW = 2**16  # columns of a tile that 16 bits name


WIDTHS = (16384, 65536, 2**30)  # columns of a tile that are tried; the last holds all in one tile
TIMES = (1, 2, 4, 8, 16, 32)  # the sizes of workloads that are tried, in longest rows of the tile
LEAST = 1024  # entries of a workload where nothing can be timed
Capacity = Callable[[int, int], int]


def equal(capacity: int) -> Capacity:
    """The same capacity for all tiles."""
    return lambda tile, longest: capacity


def by_times(times: Sequence[int]) -> Capacity:
    """So many times the longest row of each tile."""
    return lambda tile, longest: times[tile] * longest


class Workloads(NamedTuple):
    """Rows of tiles in order of length, packed: a workload's rows are as wide as its first. On the host."""

    tile: np.ndarray  # (workloads,): tile of each
    row: np.ndarray  # (workloads,), int32: its first row, among those of all tiles in order
    width: np.ndarray  # (workloads,), int32
    height: np.ndarray  # (workloads,), int32
    offset: np.ndarray  # (workloads + 1,), int64: first slot

    @classmethod
    def of(cls, lengths: np.ndarray, tile_rows: np.ndarray, capacity_of: Capacity) -> Workloads:
        """lengths: of the rows, tile by tile, falling in each. tile_rows: (tiles + 1,), rows before each tile.

        capacity_of: entries of a workload of a tile, at least, by the tile and its longest row.
        """
        packed = []  # tile, first row, width, height, number, last row of the tile: of the workloads of each width
        for t, (begin, end) in enumerate(zip(tile_rows[:-1].tolist(), tile_rows[1:].tolist(), strict=True)):
            longest = round_up(int(lengths[begin]), WARP) if end > begin else 0
            capacity = max(longest, capacity_of(t, longest))
            at = begin
            for stop in (*(begin + 1 + np.flatnonzero(np.diff(lengths[begin:end]))).tolist(), end):  # of equal rows
                if at < stop:
                    wide = int(lengths[at])
                    high = max(capacity // wide, 1)
                    packed.append((t, at, wide, high, number := cdiv(stop - at, high), end))
                    at += number * high
        table = np.array(packed, dtype=np.int64).reshape(-1, 6)
        count = table[:, 4]
        tile, first, w, most, _, last = (np.repeat(column, count) for column in table.T)
        row = first + most * (np.arange(len(tile)) - np.repeat(np.cumsum(count) - count, count))
        h = np.minimum(most, last - row)
        slots = np.where(w >= h, round_up(w, WARP) * h, w * round_up(h, WARP))
        offset = np.concatenate([[0], np.cumsum(slots, dtype=np.int64)])
        tiles, rows, widths, heights = (array.astype(np.int32) for array in (tile, row, w, h))
        return cls(tiles, rows, widths, heights, offset)


class Layout(NamedTuple):
    """Where entries go, whatever the size of workloads."""

    order: Array  # (non-empty columns,), int32: the longest first
    start: np.ndarray  # (tiles + 1,), int64: first column of each tile, in that order
    rows: Array  # (rows of all tiles,), int32: tile by tile, the longest first
    lengths: np.ndarray  # (rows of all tiles,): entries of each of `rows`, on the host
    tile_rows: np.ndarray  # (tiles + 1,): rows before each tile
    sorted_: Array  # (nnz,): the entries by tile and row
    place: Array  # (nnz,), int32: column in the order
    row_of: Array  # (nnz,): which of `rows` each is in
    rank: Array  # (nnz,): how many of its row in the tile come before it

    @classmethod
    def starts(cls, a: Csr, width: int) -> np.ndarray:
        """The first column of each tile in the order of columns, and their number, (tiles + 1,).

        Tiling stops where a tile would begin with a column of one entry: the rest is one last tile.
        """
        columns, counts = a.used_columns
        used, several = len(columns), int(a.xp.count_nonzero(counts > 1))
        starts = np.arange(0, max(several, min(used, 1)), width)
        return np.append(starts, used) if used else np.zeros(1, dtype=np.int64)

    @classmethod
    def of(cls, a: Csr, width: int) -> Layout:
        xp, (columns, counts) = a.xp, a.used_columns
        used = len(columns)
        order = columns[longest_first(counts, int(counts.max()) if used else 0)]
        start = cls.starts(a, width)
        place = column_places(a.col_idx, order, a.cols)
        tiles = max(len(start) - 1, 1)
        tile = xp.minimum(place // np.int32(width), np.int32(tiles - 1)).astype(np.int64)
        # By tile and row, and in a row by place.
        by_place = stable_order(place.astype(np.int64), max(used, 1))
        key = tile * max(a.rows, 1) + a.row_idx
        sorted_ = by_place[stable_order(key[by_place], max(tiles * a.rows, 1))]
        key = key[sorted_]
        runs = run_ptr(key)
        begin, lengths = runs[:-1], xp.diff(runs)
        run_tile, run_row = xp.divmod(key[begin], max(a.rows, 1))
        longest = int(lengths.max()) if len(lengths) else 0
        ranked = stable_order(run_tile * (longest + 1) + (longest - lengths), max(tiles * (longest + 1), 1))
        tile_rows = on_host(offsets(xp.bincount(run_tile, minlength=tiles)))
        by_length = on_host(lengths[ranked])
        run = expand(runs, a.nnz)
        rank = xp.arange(a.nnz) - begin[run]
        rows = run_row[ranked].astype(np.int32)
        return cls(order, start, rows, by_length, tile_rows, sorted_, place[sorted_], inverse(ranked)[run], rank)

    def workloads(self, capacity: Capacity) -> Workloads:
        """The rows packed, with this capacity."""
        return Workloads.of(self.lengths, self.tile_rows, capacity)


def slots_of(xp: ArrayModule, w: dict[str, Array], owner: Array, row: Array, rank: Array) -> Array:
    """The slot of the rank-th entry of a workload's row (counted in the workload)."""
    wide, high = w["width"][owner].astype(np.int64), w["height"][owner].astype(np.int64)
    by_row = row * round_up(wide, WARP) + rank
    return w["offset"][owner] + xp.where(wide >= high, by_row, rank * round_up(high, WARP) + row)


def fastest_times(each: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """For each tile that of TIMES with the least time. each: by TIMES, the times of two launches and of every tile."""
    return tuple(TIMES[tried.index(min(tried))] for tried in zip(*(of[2:] for of in each), strict=True))


@register
class TileComposite(Format):
    """Tiles of columns, longest first, so that the x of a tile stays in the cache; rows packed into workloads.

    In a tile rows are ranked by length and packed into workloads of about the same size: rows of the width of the
    first. A workload at least as wide as high is stored row by row and taken by a warp per row, another position by
    position and a thread per row. A tile is a launch, which adds to y; x is brought into the order of columns within
    the product. The authors tune the number of tiles and the size of a tile's workloads by a table of measured speeds.
    Here they are timed on the matrix, as part of the conversion: for each width of tiles, workloads of 1 to 32 times
    the longest row of the tile, of which every tile takes its best, and of all widths the best. If NumPy holds the
    matrix nothing can be timed: tiles have 65,536 columns and workloads 1,024 entries there. What is tried, and where
    tiling stops, are our reading.
    """

    key = "tile-composite"
    family = "Hybrid"
    survey_name = "TILE-COMPOSITE"
    reference = "Yang, Parthasarathy & Sadayappan, PVLDB 4(4), 2011"

    width = Parameter(0, "columns of a tile; 0: the fastest", low=0, high=2**30)
    capacity = Parameter(
        0, "entries of a workload, at least as many as the longest row of its tile; 0: the fastest", low=0, high=2**30
    )

    order: Array  # (non-empty columns,), int32: the longest first
    rows: Array  # (rows of all tiles,), int32: tile by tile, the longest first
    offset: Array  # (workloads + 1,), int64: first slot of each
    row: Array  # (workloads,), int32: its first row, in `rows`
    widths: Array  # (workloads,), int32
    heights: Array  # (workloads,), int32: rows; places after them, up to a multiple of 32, belong to none
    columns: Array  # (slots,), uint16, or int32 where a tile is wider: column in the tile; a row's last one is repeated
    values: Array  # (slots,)
    tile_start: tuple[int, ...]  # first column of each tile, in the order
    tile_ptr: tuple[int, ...]  # workloads before each tile
    width_in_use: int
    times: tuple[int, ...]  # capacity of each tile in longest rows where it was timed; () elsewhere

    @classmethod
    def _column_dtype(cls, start: np.ndarray) -> np.dtype:
        return np.dtype(np.uint16 if len(start) < 2 or int(np.diff(start).max()) <= NARROW else np.int32)

    @classmethod
    def estimate(cls, a: Csr, *, width: int, capacity: int, times: tuple[int, ...] = (), **params: Any) -> int:
        found = Layout.of(a, width or WIDTHS[1])
        w = found.workloads(by_times(times) if times else equal(capacity or LEAST))
        tables = 4 * (len(found.order) + len(found.rows)) + w.offset.nbytes + 12 * len(w.row)
        return tables + int(w.offset[-1]) * (cls._column_dtype(found.start).itemsize + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, width: int, capacity: int) -> dict[str, Any]:
        if a.xp is np or not a.nnz or (width and capacity):
            width = width or WIDTHS[1]
            stored = cls.stored(a, Layout.of(a, width), equal(capacity or LEAST))
            return stored | {"width_in_use": width, "times": ()}
        width, times = search_once(
            cls, a, lambda: cls.fastest(a, width, capacity), lambda: cls.first_choice(a, width, capacity)
        )
        stored = cls.stored(a, Layout.of(a, width), by_times(times) if times else equal(capacity))
        return stored | {"width_in_use": width, "times": times}

    @classmethod
    def first_choice(cls, a: Csr, width: int, capacity: int) -> tuple[int, tuple[int, ...]]:
        """The width and times that are tried first."""
        width = width or WIDTHS[0]
        return width, () if capacity else TIMES[:1] * (len(Layout.starts(a, width)) - 1)

    @classmethod
    def fastest(cls, a: Csr, width: int, capacity: int) -> tuple[int, tuple[int, ...]]:
        """The width and, if `capacity` is 0, the times of each tile whose product takes the least time."""
        x, y = a.xp.zeros(a.cols, a.vector_dtype), a.xp.empty(a.rows, a.vector_dtype)

        def timed(width: int, found: dict[str, Any]) -> list[float]:
            """Of the product's launches: setting y to zero, the gather, and each tile."""
            fmt = cls.holding(a.shape, found | {"width_in_use": width, "times": ()})
            return [seconds([launch]) for launch in stored_in(a).launches(fmt.launches(x, y))]

        best: tuple[float, int, tuple[int, ...]] | None = None
        for tried in (width,) if width else WIDTHS:
            times: tuple[int, ...] = ()
            layout = Layout.of(a, tried)
            if capacity:
                total = sum(timed(tried, cls.stored(a, layout, equal(capacity))))
            else:
                tiles = len(layout.start) - 1
                each = [timed(tried, cls.stored(a, layout, by_times([n] * tiles))) for n in TIMES]
                times = fastest_times(each)
                total = sum(each[0][:2]) + sum(map(min, zip(*(of[2:] for of in each), strict=True)))
            if best is None or total < best[0]:
                best = total, tried, times
        assert best is not None
        return best[1:]

    @property
    def in_use(self) -> dict[str, Any]:
        return {"width": self.width_in_use, "times": self.times} if self.times else {"width": self.width_in_use}

    @classmethod
    def stored(cls, a: Csr, found: Layout, capacity: Capacity) -> dict[str, Any]:
        """The fields of a layout with workloads of a capacity, without those that say how they were found."""
        xp = a.xp
        w, start = found.workloads(capacity), xp.asarray(found.start)
        tables = {"offset": w.offset, "row": w.row, "width": w.width, "height": w.height}
        tables = {name: xp.asarray(array) for name, array in tables.items()}
        slots, tiles = int(w.offset[-1]), max(len(found.start) - 1, 0)
        columns = xp.zeros(slots, dtype=cls._column_dtype(found.start))
        values = xp.zeros(slots, dtype=a.dtype)
        if a.nnz:
            owner = expand(xp.append(tables["row"], xp.full(1, len(found.rows), dtype=np.int32)), len(found.rows))
            inside = xp.arange(len(found.rows)) - tables["row"][owner]
            local = found.place - start[xp.asarray(w.tile)[owner[found.row_of]]]
            last = xp.zeros(len(found.rows), dtype=columns.dtype)
            ends = xp.append(found.row_of[1:] != found.row_of[:-1], xp.ones(1, dtype=bool))
            last[found.row_of[ends]] = local[ends].astype(columns.dtype)
            slot_owner = expand(tables["offset"], slots)
            row, _ = _inside(xp, tables, slot_owner, xp.arange(slots))
            held = xp.flatnonzero(row < tables["height"][slot_owner])
            put(columns, held, last[tables["row"][slot_owner[held]] + row[held]])
            slot = slots_of(xp, tables, owner[found.row_of], inside[found.row_of], found.rank)
            put(columns, slot, local.astype(columns.dtype))
            put(values, slot, a.values[found.sorted_])
        return {
            "order": found.order,
            "rows": found.rows,
            "offset": tables["offset"],
            "row": tables["row"],
            "widths": tables["width"],
            "heights": tables["height"],
            "columns": columns,
            "values": values,
            "tile_start": tuple(found.start.tolist()),
            "tile_ptr": tuple(np.searchsorted(w.tile, np.arange(tiles + 1)).tolist()),
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, slots = self.xp, len(self.values)
        tables = {"offset": self.offset, "width": self.widths, "height": self.heights}
        owner, slot = expand(self.offset, slots), xp.arange(slots)
        row, rank = _inside(xp, tables, owner, slot)
        wide, high = self.widths[owner], self.heights[owner]
        before = slot - xp.where(wide >= high, 1, round_up(high.astype(np.int64), WARP))
        repeats = (rank > 0) & (self.columns == self.columns[xp.maximum(before, 0)])
        held = xp.flatnonzero((row < high) & ~repeats)
        tile = expand(xp.asarray(np.array(self.tile_ptr)), len(self.row))[owner[held]]
        place = self.columns[held] + xp.asarray(np.array(self.tile_start, dtype=np.int64))[tile]
        return self.rows[self.row[owner[held]] + row[held]], self.order[place], self.values[held]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        n, value = np.int32(len(self.order)), ctype(self.values)
        gathered = self.xp.empty(len(self.order), dtype=x.dtype)
        steps = [zero_fill(y)]
        steps.append(
            Launch("vector.cu", f"gather<{value}, int>", *per_thread(len(self.order)), (n, self.order, x, gathered))
        )
        kernel = f"tile_composite<{value}, {ctype(self.columns)}>"
        for start, begin, end in zip(self.tile_start[:-1], self.tile_ptr[:-1], self.tile_ptr[1:], strict=True):
            tables = (self.offset[begin:], self.widths[begin:], self.heights[begin:], self.row[begin:])
            args = (np.int32(end - begin), *tables, self.rows, self.columns, self.values, gathered[start:], y)
            steps.append(Launch("cache_blocking/windows.cu", kernel, cdiv((end - begin) * WARP, 128), 128, args))
        return steps

    @property
    def detail(self) -> dict[str, Any]:
        return {"tiles": len(self.tile_start) - 1, "workloads": len(self.row), **self.in_use}


def _inside(xp: ArrayModule, w: dict[str, Array], owner: Array, slot: Array) -> tuple[Array, Array]:
    """Row and rank of a slot in its workload; the row may be after the last."""
    wide, high = w["width"][owner].astype(np.int64), w["height"][owner].astype(np.int64)
    inside = slot - w["offset"][owner]
    by_row = wide >= high
    pitch = xp.where(by_row, round_up(wide, WARP), round_up(high, WARP))
    outer, inner = inside // pitch, inside % pitch
    return xp.where(by_row, outer, inner), xp.where(by_row, inner, outer)
