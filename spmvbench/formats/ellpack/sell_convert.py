"""CSR to sliced ELLPACK: where every entry goes, by array operations on the host and by kernels on a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    INT32_MAX,
    Array,
    Csr,
    array_module,
    cdiv,
    expand,
    longest_first,
    nothing,
    offsets,
    round_up,
)
from spmvbench.formats.conversion import (
    Beside,
    Run,
    filled_rows,
    longest_row,
    part,
    refuse_more_than_memory,
    rows_by_length,
    runner,
    summed,
    zeros,
)
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype

# Threads of a conversion kernel's block. No slice of several has more rows.
SOURCE = "ellpack/sell_convert.cu"
BLOCK = constant(SOURCE, "CONVERT_BLOCK")
SLOTS = 8  # of a thread that fills a narrow slice, about
PART = 32 * BLOCK  # slots that a block of a conversion kernel fills
WARP = constant("include/spmv.cuh", "WARP")
_ROWS = "csr/rows_convert.cu"
SORT_PLACES = constant(_ROWS, "SORT_PLACES")  # most rows of a window that a block sorts
_ORDER_BITS, _ORDER_BLOCK, _ORDER_EACH = (constant(_ROWS, f"ORDER_{name}") for name in ("BITS", "BLOCK", "EACH"))


def sorted_rows(a: Csr, sigma: int, drop_empty: bool = False) -> Array:
    """The row of each place, (n,), int32: rows in windows of `sigma` (0: all), each longest first, equal ones in order.

    drop_empty: leave out rows without entries (sigma 0 or 1). sigma 1 alone changes nothing.
    """
    xp = a.xp
    if sigma == 1:
        return filled_rows(a)[0] if drop_empty else xp.arange(a.rows, dtype=np.int32)
    window = max(min(sigma or a.rows, a.rows), 1)
    run = runner(a)
    if run is not None and window <= SORT_PLACES and not drop_empty:
        padded = max(1 << (window - 1).bit_length(), 2)
        perm = xp.empty(a.rows, dtype=np.int32)
        args = (np.int32(a.rows), np.int32(window), np.int32(padded), a.row_ptr, perm)
        grid = cdiv(cdiv(a.rows, window), SORT_PLACES // padded)
        run(Launch(_ROWS, f"sort_windows<{ctype(a.row_ptr)}>", grid, SORT_PLACES // 2, args))
        return perm
    if run is not None:
        filled = a.rows - int(rows_by_length(a, run)[0]) if drop_empty else a.rows
        perm = falling_order(a.row_ptr, a.rows, window, longest_row(a), run, differences=True)
        return perm if filled == a.rows else perm[:filled].copy()
    group = xp.arange(a.rows, dtype=np.int64) // window
    perm = longest_first(a.row_lengths, a.row_len_max, group, cdiv(a.rows, window)).astype(np.int32)
    return perm[: int(xp.count_nonzero(a.row_lengths))].copy() if drop_empty else perm


def falling_order(
    numbers: Array,
    n: int,
    window: int,
    most: int,
    run: Run,
    *,
    differences: bool = False,
    least: int = -1,
    inverse: Array | None = None,
) -> Array:
    """The order of n places by windows of so many, in each by falling number, equal ones in place: (n,), int32.

    By a radix sort. numbers: (n,), of which larger ones count as `most`; or (n + 1,), whose differences they are.
    least: if not negative, numbers are what they are beyond it, and 1, and for others 1, or 0 for 0. inverse: (n,),
    int32, to which the place of each number goes in the order, if given.
    """
    xp, bits = array_module(numbers), max(most.bit_length(), 1)
    passes = cdiv(bits + max(cdiv(n, window) - 1, 0).bit_length(), _ORDER_BITS)
    blocks, digits, types = (
        cdiv(n, _ORDER_BLOCK * _ORDER_EACH),
        1 << _ORDER_BITS,
        f"{ctype(numbers)}, {cbool(differences)}",
    )
    head, each = passes * digits, 1 + blocks * digits
    notes = zeros(xp, head + passes * each, np.uint64)
    sizes = np.int32(window), np.int32(bits), np.uint64(most), np.int64(least)
    size, keys = np.int64(n), Struct((*sizes, numbers))
    grid = min(cdiv(n, _ORDER_BLOCK), 1024)
    run(Launch(_ROWS, f"order_counts<{types}>", grid, _ORDER_BLOCK, (size, keys, np.int32(passes), notes)))
    perm = none = nothing(xp, np.int32)
    for number in range(passes):
        counts, words = part(notes, number * digits, digits), part(notes, head + number * each, each)
        places = inverse if inverse is not None and number + 1 == passes else none
        found = xp.empty(n, dtype=np.int32)
        args = (size, keys, np.int32(number), counts, perm, found, places, words)
        kernel = f"order_pass<{types}, {cbool(places is not none)}>"
        run(Launch(_ROWS, kernel, blocks, _ORDER_BLOCK, args))
        perm = found
    return perm


class Slices(NamedTuple):
    """Where the slots of every row are, known before they are allocated.

    Position p of the row at place r of a slice that begins at slot b is at b + p // lanes * lanes * height
    + r * lanes + p % lanes.
    """

    rows: int  # stored
    slots: int
    height: int  # rows of a slice; 0 where they differ
    lanes: int  # neighbouring slots of a row
    ptr: Array  # (slices + 1,), int32 or int64: first slot of each slice; empty if all rows are one slice
    perm: Array  # (rows,), int32: row of each place; empty if rows keep their order
    first_row: Array  # (slices + 1,), int32: first place of each slice; empty if all have the same height
    lengths: Array | None = None  # (rows,), int32: entries at each place, if they were asked for

    @classmethod
    def whole(
        cls, a: Csr, *, perm: Array | None = None, align: int = 1, lanes: int = 1, lengths: bool = False
    ) -> Slices:
        """All rows, or those of `perm`, as one slice, as wide as the longest row. lengths: as for `of`, by kernels."""
        none, run, found = nothing(a.xp, np.int32), runner(a), None
        if lengths and run is not None:  # the kernel finds the longest row, too
            found = cls.of(a, WARP, run, perm=perm, lengths=True).lengths
        rows = a.rows if perm is None else len(perm)
        height = round_up(rows, WARP)
        slots = round_up(longest_row(a), align) * height
        return cls(rows, slots, height, lanes, none, none if perm is None else perm, none, found)

    @classmethod
    def of(
        cls,
        a: Csr,
        height: int,
        run: Run | None,
        *,
        perm: Array | None = None,
        align: int = 1,
        lanes: int = 1,
        lengths: bool = False,
        beside: Beside | None = None,
        upto: int = INT32_MAX,
        unit: int = 1,
        slots: int | None = None,
    ) -> Slices:
        """Slices of `height` rows (a power of two up to 256), each as wide as its longest rounded up to `align`.

        perm: the rows to store, in order; all as they are where it is not given. run: runs a kernel, None for NumPy.
        lengths: whether to keep those of all places. beside: as for `summed`. By a kernel alone: of a row `upto`
        entries at most, `ptr` and `slots` in units of so many, and `slots` where they are known.
        """
        xp = a.xp
        ordered, rows = perm is not None, a.rows if perm is None else len(perm)
        none = nothing(xp, np.int32)
        perm = none if perm is None else perm
        slices = cdiv(rows, height)
        if run is None:
            found = (a.row_lengths[perm] if ordered else a.row_lengths).astype(np.int32)
            padded = np.zeros(slices * height, dtype=np.int64)
            padded[:rows] = found
            ptr = offsets(round_up(padded.reshape(slices, height).max(axis=1, initial=0), align) * height)
            slots = int(ptr[-1])
        else:
            found = xp.empty(rows, dtype=np.int32) if lengths else none
            kernel = f"sell_slots<{ctype(a.row_ptr)}, {cbool(ordered)}, {cbool(lengths)}"
            size = map(np.int32, (rows, slices, height, align, upto, height // unit))
            args = (*size, a.row_ptr, perm, found)
            ptr, noted = summed(xp, slices, SOURCE, kernel, args, run, total=slots, by_warps=True, beside=beside)
            slots = noted[-1]
            if len(noted) > 1 and upto == INT32_MAX:
                a.__dict__["row_len_max"] = noted[0]
        return cls(rows, slots, height, lanes, ptr, perm, none, found if lengths else None)

    @classmethod
    def kept(cls, rows: int, slots: int, height: int, ptr: Array) -> Slices:
        """As a format keeps them, for decoding; rows in their order."""
        none = array_module(ptr).empty(0, dtype=np.int32)
        return cls(rows, slots, height, 1, ptr, none, none)

    @property
    def width(self) -> int:
        """Positions of the only slice."""
        return self.slots // max(self.height, 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that say where slots are."""
        return self.ptr.nbytes + self.perm.nbytes + self.first_row.nbytes

    @property
    def begins(self) -> Array:
        """First slot of each slice and the end, of an only slice too, int64."""
        return self.ptr.astype(np.int64) if len(self.ptr) else array_module(self.ptr).array([0, self.slots])

    def first_slot(self, place: Array) -> tuple[Array, Array | np.int64]:
        """The slot of position 0 of some places, int64, and the slots from there to position `lanes`."""
        if len(self.first_row):
            slice_ = np.searchsorted(self.first_row, place, side="right") - 1
            return self.begins[slice_] + place - self.first_row[slice_], np.diff(self.first_row)[slice_]
        height = max(self.height, 1)
        return self.begins[place // height] + place % height * self.lanes, np.int64(height * self.lanes)

    def row_of(self, slot: Array) -> Array:
        """The row that each slot belongs to."""
        slice_ = expand(self.begins, self.slots)[slot]
        inside = slot - self.begins[slice_]
        if len(self.first_row):
            first = self.first_row[slice_]
            place = first + inside % (self.first_row[slice_ + 1] - first)
        else:
            place = slice_ * np.int64(self.height) + inside // self.lanes % max(self.height, 1)
        row: Array = self.perm[place] if len(self.perm) else place
        return row


def slots_of(a: Csr, s: Slices) -> Array:
    """The slot of each entry, (nnz,), int64; on the host only."""
    place = np.arange(a.rows)
    if len(s.perm) or s.rows < a.rows:
        place = np.zeros(a.rows, dtype=np.int64)
        place[s.perm] = np.arange(s.rows)
    begin, stride = s.first_slot(place)
    row, position = a.row_idx, a.rank_in_row
    step = stride[row] if isinstance(stride, np.ndarray) else stride
    slot: Array = begin[row] + position // s.lanes * step + position % s.lanes
    return slot


def parts(a: Csr, s: Slices) -> int:
    """Blocks of a kernel that fills slices: one each, and one for each PART slots if a slice may have more."""
    return len(s.ptr) - 1 + (cdiv(s.slots, PART) if a.row_len_max * (s.height or BLOCK) > PART else 0)


def fill_block(a: Csr, s: Slices) -> int:
    """Threads of a block that fills a slice: each has some slots of it, whose entries it waits for together."""
    across, slots = (s.height * s.lanes, s.slots // max(len(s.ptr) - 1, 1)) if len(s.ptr) else (WARP, s.width * WARP)
    least = WARP if a.row_len_max * across <= PART else BLOCK // 2  # which blocks for parts of long slices have, too
    return min(max(1 << max(cdiv(slots, SLOTS) - 1, 0).bit_length(), across, least), BLOCK)


def fill(a: Csr, s: Slices, run: Run | None, unit: int = 1) -> dict[str, Any]:
    """`columns`, (slots,), int32, -1 in padding, and `values`, (slots,), 0 there.

    unit: slots that the pointers of `s` count by, where a kernel runs.
    """
    xp = a.xp
    refuse_more_than_memory(s.slots * (4 + a.dtype.itemsize), a)
    if run is None:
        columns = np.full(s.slots, -1, dtype=np.int32)
        values = np.zeros(s.slots, dtype=a.dtype)
        slot = slots_of(a, s)
        columns[slot], values[slot] = a.col_idx, a.values
        return {"columns": columns, "values": values}
    columns, values = xp.empty(s.slots, dtype=np.int32), xp.empty(s.slots, dtype=a.dtype)
    value, index, pointer, ordered = ctype(values), ctype(a.row_ptr), ctype(s.ptr), cbool(len(s.perm) > 0)
    arrays = (a.row_ptr, a.col_idx, a.values, columns, values)
    rows, lanes, block = np.int32(s.rows), np.int32(s.lanes), BLOCK
    if not len(s.ptr):
        grid, block = s.height * s.lanes // WARP if s.slots else 0, fill_block(a, s)
        kernel = f"ell_fill<{value}, {index}, {ordered}>"
        args: tuple[Any, ...] = (rows, np.int32(s.height), np.int32(s.width), lanes, s.perm, *arrays)
    elif len(s.first_row):
        grid = parts(a, s)
        kernel = f"sell_var_fill<{value}, {index}, {pointer}>"
        args = (rows, np.int32(len(s.ptr) - 1), s.first_row, s.ptr, *arrays)
    else:
        grid = parts(a, s)
        block = fill_block(a, s)
        kernel = f"sell_fill<{value}, {index}, {pointer}, {ordered}>"
        args = (rows, np.int32(len(s.ptr) - 1), np.int32(s.height), lanes, np.int32(unit), s.ptr, s.perm, *arrays)
    run(Launch(SOURCE, kernel, grid, block, args))
    return {"columns": columns, "values": values}
