"""Tiles of a warp in which every lane has a row and every row as many lanes as it needs: AdELL and BRC."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    Array,
    Csr,
    array_module,
    cdiv,
    chain,
    expand,
    inverse,
    nothing,
    offsets,
    put,
)
from spmvbench.formats.conversion import Run, noted, notes, runner, scratch, summed, summing
from spmvbench.formats.conversion import chain as chain_by
from spmvbench.formats.ellpack.sell_convert import WARP, sorted_rows
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_fill, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "lane_packing/lane_tiles.cu"
CONVERT = "lane_packing/lane_convert.cu"
SHIFT = constant(CONVERT, "STEPS_SHIFT")


class Lanes(NamedTuple):
    """Which lanes take which entries. Pieces of rows are in the order of the entries, which they hold all of.

    Lanes are counted through all tiles, 32 each; those of a piece are neighbours, and may be in two tiles or more.
    """

    row: Array  # (pieces,), int32
    length: Array  # (pieces,), entries
    first: Array  # (pieces,), int64: first lane
    chunk: Array  # (pieces,), neighbouring entries that a lane takes, where they are not assigned
    steps: Array  # (tiles,), int64: slots of a lane
    shared: int = 0  # lanes that every piece's entries are distributed to, in turn; 0: chunks

    @property
    def ptr(self) -> Array:
        """First slot of each tile, (tiles + 1,), int32 or int64."""
        return offsets(WARP * self.steps)

    @property
    def lanes(self) -> Array:
        """Lanes of each piece, (pieces,)."""
        xp = array_module(self.row)
        return xp.full(len(self.row), self.shared) if self.shared else cdiv(self.length, self.chunk)

    @property
    def per_place(self) -> int:
        """Lanes that are known to have one row."""
        return self.shared or 1

    @property
    def lane_row(self) -> Array:
        """Row of each lane, (32 * tiles,), int32; -1 where it has none."""
        xp, ptr = array_module(self.row), offsets(self.lanes)
        found = xp.full(WARP * len(self.steps), -1, dtype=np.int32)
        piece = expand(ptr, int(ptr[-1]))
        found[self.first[piece] + xp.arange(len(piece)) - ptr[piece]] = self.row[piece]
        return found

    def slots_of(self, ptr: Array, entries: int) -> Array:
        """The slot of each entry, (entries,), int64. ptr: as above."""
        xp, begin = array_module(ptr), offsets(self.length)
        piece = expand(begin, entries)
        position = xp.arange(entries) - begin[piece]
        if self.shared:
            step, lane = position // self.shared, position % self.shared
        else:
            lane, step = position // self.chunk[piece], position % self.chunk[piece]
        lane += self.first[piece]
        slot: Array = ptr[lane // WARP] + WARP * step.astype(np.int64) + lane % WARP
        return slot


def runs(lane_row: Array, rows: int) -> tuple[Array, Array]:
    """Whether a row's run of lanes in a tile ends at each lane, (lanes,), and how many runs each row has, (rows,)."""
    xp = array_module(lane_row)
    following = xp.append(lane_row[1:], lane_row[:1])
    following[WARP - 1 :: WARP] = -1
    ends = (lane_row != following) & (lane_row >= 0)
    # CuPy counts no empty array: a row after the last is counted too.
    return ends, xp.bincount(xp.append(lane_row[ends], xp.full(1, rows, dtype=np.int32)), minlength=rows + 1)[:rows]


def rows_to_clear(times: Array) -> Array:
    """Rows of several runs, int32, if every row has one: else none, for all of y is cleared then. times: (rows,)."""
    xp = array_module(times)
    return xp.flatnonzero((times > 1) & (times > 0).all()).astype(np.int32)


def longest_of(lengths: Array, group: int) -> Array:
    """The longest of each group, (groups,). lengths: (groups * group,)."""
    return lengths.reshape(-1, group).max(axis=1) if len(lengths) else lengths


class LaneTiles(Format):
    """Tiles of steps x 32 slots, a warp each. A lane has slots of one row, neighbouring lanes may share one.

    Partial sums of a row are added by shuffles; rows in several tiles are added to y by atomics, so their sums are
    not reproducible. y is set to zero where it needs to be: in those rows, or everywhere if there are rows without
    entries, which have no lane. Subclasses assign entries to lanes.
    """

    family = "ELLPACK"

    tile_ptr: Array  # (tiles + 1,), int32 or int64: first slot of each tile
    lane_row: Array  # (32 * tiles / lanes per place,), int32: rows; -1 where there is none
    adds: Array  # (tiles,), uint32: bit l where what ends at lane l is a part of its row alone
    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,); 0 in padding
    place_lanes: int  # lanes that share a place of lane_row
    cut_rows: Array  # (rows whose parts are added to y,), int32; empty where all of y is set to zero
    missing: bool  # whether there are rows without entries, so that all of y is set to zero

    @classmethod
    def lanes(cls, a: Csr, *_: Any, **params: Any) -> Lanes:
        """Which lanes take which entries."""
        raise NotImplementedError

    @classmethod
    def estimate(cls, a: Csr, *_: Any, **params: Any) -> int:
        lanes = cls.lanes(a, **params)
        ptr, tiles = lanes.ptr, len(lanes.steps)
        cut = len(rows_to_clear(runs(lanes.lane_row, a.rows)[1]))
        return ptr.nbytes + tiles * (4 * WARP // lanes.per_place + 4) + 4 * cut + int(ptr[-1]) * (4 + a.dtype.itemsize)

    @classmethod
    def placed(cls, a: Csr, lanes: Lanes) -> tuple[dict[str, Any], Array]:
        """The fields without values, and the slot of each entry, (nnz,)."""
        xp, ptr, lane_row = a.xp, lanes.ptr, lanes.lane_row
        ends, times = runs(lane_row, a.rows)
        bits = xp.left_shift(np.uint32(1), xp.arange(WARP, dtype=np.uint32))
        added = (ends & (times > 1)[lane_row]).reshape(-1, WARP)
        columns = xp.full(int(ptr[-1]), -1, dtype=np.int32)
        slot = lanes.slots_of(ptr, a.nnz)
        put(columns, slot, a.col_idx)
        return {
            "tile_ptr": ptr,
            "lane_row": xp.ascontiguousarray(lane_row[:: lanes.per_place]),
            "adds": xp.where(added, bits, np.uint32(0)).sum(axis=1, dtype=np.uint32),
            "columns": columns,
            "place_lanes": lanes.per_place,
            "cut_rows": rows_to_clear(times),
            "missing": bool((times == 0).any()),
        }, slot

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        found, slot = cls.placed(a, cls.lanes(a, **params))
        values = a.xp.zeros(len(found["columns"]), dtype=a.dtype)
        put(values, slot, a.values)
        return found | {"values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.columns >= 0)
        tile = expand(self.tile_ptr, len(self.columns))[slot]
        place = (WARP * tile.astype(np.int64) + slot % WARP) // self.place_lanes
        return self.lane_row[place], self.columns[slot], self.values[slot]

    def shape_of_launch(self) -> tuple[int, int]:
        """Slots of a lane in flight, 0: by the tile's steps; and threads of a block."""
        return 8, 256

    def kernel(self, batch: int) -> tuple[str, tuple[Array, ...]]:
        """The kernel's name, and the arrays that give it the columns."""
        types = f"{ctype(self.values)}, {ctype(self.tile_ptr)}"
        return f"lane_tiles<{types}, {self.place_lanes}, {batch}>", (self.columns,)

    def product(self, x: Array, y: Array) -> Launch:
        """The launch that adds up all tiles: a row in one stores its sum, parts of others are added to y."""
        batch, block = self.shape_of_launch()
        kernel, columns = self.kernel(batch)
        args = (np.int32(len(self.adds)), self.tile_ptr, self.lane_row, self.adds, *columns, self.values, x, y)
        return Launch(SOURCE, kernel, *per_thread(WARP * len(self.adds), block), args)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        product = self.product(x, y)
        if self.missing:
            return [zero_fill(y), product]
        return [zero_rows(self.cut_rows, y), product] if len(self.cut_rows) else [product]

    @property
    def detail(self) -> dict[str, Any]:
        return self.in_use | {"tiles": len(self.adds), "slots": len(self.values)}


def target(a: Csr) -> int:
    """Entries that a lane is meant to have: a tenth more than the mean row, after TNL's program; one at least."""
    return max(int(1.1 * a.row_len_mean), 1)


@register
class AdEll(LaneTiles):
    """Tiles of 32 threads with about the same number of entries each: long rows have several threads or warps.

    A row, or each of the near equal parts of one that is too long for a warp, takes as many lanes as hold it, none with
    more than a tenth above the mean row's entries; rows fill warps in their order, and each warp's lanes are then
    distributed again for the fewest steps. The loop is unrolled once, twice, 4 or 8 times, by the warp's steps. The
    paper has nothing to tune; the target number of entries per lane, taken from TNL's program, is our reading.
    """

    key = "adell"
    survey_name = "AdELL"
    reference = "Maggioni & Berger-Wolf, ICPP 2013"
    shared_implementation = "tiles of 32 threads: first fit of rows, fewest steps per tile"

    @classmethod
    def lanes(cls, a: Csr) -> Lanes:
        xp, most = a.xp, target(a)
        row = xp.flatnonzero(a.row_lengths).astype(np.int32)
        lengths = a.row_lengths[row].astype(np.int64)
        times = cdiv(lengths, WARP * most)
        ptr = offsets(times)
        of = expand(ptr, int(ptr[-1]))
        length = lengths[of] // times[of] + (xp.arange(len(of)) - ptr[of] < lengths[of] % times[of])
        wanted = xp.where(times[of] > 1, WARP, cdiv(length, most))  # a part of a cut row has a warp by itself
        before = offsets(wanted)
        full = xp.searchsorted(before, before[:-1].astype(np.int64) + WARP, side="right") - 1
        starts = chain(xp.append(full, xp.full(1, len(of), dtype=full.dtype)))
        tile, tiles = expand(starts, len(of)), len(starts) - 1

        def lanes_before(steps: Array) -> Array:
            return offsets(cdiv(length, steps[tile]))

        low, high = xp.ones(tiles, dtype=np.int64), xp.full(tiles, most, dtype=np.int64)
        for _ in range(most.bit_length()):
            middle = (low + high) // 2
            fits = xp.diff(lanes_before(middle)[starts]) <= WARP
            low, high = xp.where(fits, low, xp.minimum(middle + 1, high)), xp.where(fits, middle, high)
        before = lanes_before(high)
        first = WARP * tile.astype(np.int64) + before[:-1] - before[starts[tile]]
        return Lanes(row[of], length, first, high[tile], high)

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        run = runner(a)
        return cls.by_kernels(a, run) if run and a.nnz else super().convert(a, **params)

    @classmethod
    def by_kernels(cls, a: Csr, run: Run, *, packed: bool = False) -> dict[str, Any]:
        """The fields by kernels, for nnz > 0. packed: columns as `Packed` has them."""
        xp, most, rows, index = a.xp, target(a), np.int32(a.rows), ctype(a.row_ptr)
        n = min(a.rows, a.nnz) + a.nnz // (WARP * most)  # pieces at most
        of_row, following = (xp.empty(size, dtype=np.int32) for size in (a.rows + 1, n))
        pieces = *_, length = scratch(xp, (n, np.int32), (n, a.row_ptr.dtype), (n, np.int32))
        (wanted,), state = scratch(xp, (n + 1, np.int32)), notes(xp, a.rows)
        args: tuple[Any, ...] = rows, np.int32(most), a.row_ptr, of_row, *pieces, wanted
        run(summing(CONVERT, f"lane_pieces<{index}>", args, state))
        run(Launch(CONVERT, "lane_following", *per_thread(n), (np.int32(n), rows, of_row, wanted, length, following)))
        starts, chained = chain_by(following, run)
        del args, wanted, following  # whose memory the arrays take
        tiles = noted(chained)[-1]
        lane_row, adds = xp.empty(WARP * tiles, dtype=np.int32), xp.empty(tiles, dtype=np.uint32)
        width, byte_ptr = nothing(xp, np.uint8), nothing(xp, np.int64)
        if packed:
            width, byte_ptr = xp.empty(tiles, dtype=np.uint8), xp.empty(tiles + 1, dtype=np.int64)
        sizes = np.int32(tiles), np.int32(most)
        args = *sizes, starts, *pieces, of_row, state, a.col_idx, lane_row, adds, width, byte_ptr

        def slots_of(total: int) -> int:
            return WARP * (total >> SHIFT)

        kernel = f"lane_steps<{index}, {cbool(packed)}"
        ptr, found = summed(xp, tiles, CONVERT, kernel, args, run, by_warps=True, of_total=slots_of)
        several, missing, _, total = found
        slots, held = slots_of(total), WARP * (total % (1 << SHIFT))
        cut = several and not missing
        cut_rows = xp.flatnonzero(xp.diff(of_row) > 1).astype(np.int32) if cut else nothing(xp, np.int32)
        del args, of_row
        of_tiles = np.int32(tiles), ptr, starts, *pieces, a.col_idx
        values = xp.empty(slots, dtype=a.dtype)
        columns = xp.empty(WARP * tiles if packed else slots, dtype=np.int32)
        differences = xp.empty(held, dtype=np.uint8) if packed else nothing(xp, np.uint8)
        kernel = f"lane_fill<{ctype(values)}, {index}, {ctype(ptr)}, {cbool(packed)}>"
        args = *of_tiles, a.values, width, byte_ptr, columns, differences, values
        run(Launch(CONVERT, kernel, *per_thread(WARP * tiles), args))
        of_columns = {"base": columns, "width": width, "byte_ptr": byte_ptr, "columns": differences}
        return {
            **(of_columns if packed else {"columns": columns}),
            "tile_ptr": ptr,
            "lane_row": lane_row,
            "adds": adds,
            "place_lanes": 1,
            "cut_rows": cut_rows,
            "missing": missing > 0,
            "values": values,
        }

    def shape_of_launch(self) -> tuple[int, int]:
        return 0, 256


class Pieces(NamedTuple):
    """Rows cut into pieces of at most b2 entries, in the entries' order, and where BRC has them; (pieces,) each."""

    row: Array  # int32
    length: Array
    place: Array  # int64

    @classmethod
    def of(cls, a: Csr, b2: int, perm: Array, order: str) -> Pieces:
        """perm: the rows, longest first."""
        xp, lengths = a.xp, a.row_lengths.astype(np.int64)
        times, rank = cdiv(lengths, b2), inverse(perm, a.rows, np.int64)
        ptr = offsets(times)
        row = expand(ptr, int(ptr[-1]))
        number = xp.arange(len(row)) - ptr[row]
        if order == "row":
            place = offsets(times[perm])[rank[row]] + number
        else:  # those that have a piece of some number are the first of the sorted rows
            passes = int(times[perm[0]]) if len(perm) else 0
            have = xp.searchsorted(-times[perm], -xp.arange(passes))
            place = offsets(have)[number] + rank[row]
        return cls(row, xp.minimum(lengths[row] - number * b2, b2), place)

    def lanes(self, b1: int) -> Lanes:
        """In blocks of b1 pieces."""
        xp, shared = array_module(self.row), WARP // b1
        lengths = xp.zeros(cdiv(len(self.row), b1) * b1, dtype=np.int64)
        lengths[self.place] = self.length
        steps = cdiv(longest_of(lengths, b1), shared)
        return Lanes(self.row, self.length, self.place * shared, self.length, steps, shared)


@register
class Brc(LaneTiles):
    """Rows sorted by length and cut into pieces of at most B2 entries, in blocks of B1 pieces (our reading).

    A warp has a block, 32 / B1 lanes per piece. The blocks of the first pieces of all rows come first, then those of
    the second pieces (`order=row`: those of a row side by side). The authors tune the sizes; here those of B1 in 8, 16,
    32 and B2 in the mean row, the mean and the standard deviation, twice the mean that store the fewest slots are
    taken, the larger of equals.
    """

    key = "brc"
    survey_name = "BRC"
    reference = "Ashari et al., ICS 2014"
    shared_implementation = "tiles of 32 threads: pieces of sorted rows, 1 to 4 threads each"

    b1 = Parameter(0, "pieces per block; 0: the number with the fewest slots", choices=(0, 8, 16, 32))
    b2 = Parameter(0, "most entries of a piece; 0: the number with the fewest slots", low=0, high=2**31 - 1)
    order = Parameter("queue", "order of pieces: by their number in the row, or by rows", choices=("queue", "row"))

    @classmethod
    def lanes(cls, a: Csr, *, b1: int, b2: int, order: str) -> Lanes:
        perm, mean = sorted_rows(a, 0), a.row_len_mean
        squares = int((a.row_lengths.astype(np.int64) ** 2).sum())
        spread = max(squares / max(a.rows, 1) - mean**2, 0) ** 0.5
        sizes = (b2,) if b2 else (mean, mean + spread, 2 * mean)
        whole = sorted({max(min(round(size), a.row_len_max), 1) for size in sizes}, reverse=True)
        pieces = (Pieces.of(a, size, perm, order) for size in whole)
        tried = (each.lanes(height) for each in pieces for height in ((b1,) if b1 else (32, 16, 8)))
        return min(tried, key=lambda lanes: (int(lanes.steps.sum()), lanes.shared))

    @property
    def detail(self) -> dict[str, Any]:
        return super().detail | {"b1": WARP // self.place_lanes}
