"""ALIGNED-COO: every thread a list of entries, as long as the other threads of its warp."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    INT32_MAX,
    Array,
    Csr,
    array_module,
    cdiv,
    chain,
    expand,
    inverse,
    longest_first,
    offsets,
    put,
)
from spmvbench.formats.ellpack.sell_convert import WARP
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import tuned

# Row of a thread without entries. A row with the sign bit set is shared by several threads.
NO_ROW = constant("lane_packing/aligned_coo.cu", "NO_ROW")
LONGEST = (16, 32, 64, 128)


class Packing(NamedTuple):
    """Which thread each piece of a row is in, and where. Pieces are in the order of the entries."""

    row: Array  # (pieces,), int32: with the sign bit where the row has several
    length: Array  # (pieces,), entries
    place: Array  # (pieces,), int64: the thread
    step: Array  # (pieces,), the step of its first entry
    fill: Array  # (32 * warps,), entries of each thread, the longest first
    ptr: Array  # (warps + 1,), int32 or int64: first slot of each warp

    @classmethod
    def of(cls, a: Csr, most: int) -> Packing:
        """No thread has more than `most` entries."""
        xp = a.xp
        row = xp.flatnonzero(a.row_lengths).astype(np.int32)
        lengths = a.row_lengths[row]
        times = cdiv(lengths, most)
        ptr = offsets(times)
        of = expand(ptr, int(ptr[-1]))
        length = xp.minimum(lengths[of] - (xp.arange(len(of)) - ptr[of]) * most, most)
        # The longest, the shortest, the second longest, the second shortest, ...: packed in that order, as they fit.
        by_length = longest_first(length, most)
        order = xp.empty_like(by_length)
        order[::2], order[1::2] = by_length[: cdiv(len(of), 2)], by_length[::-1][: len(of) // 2]
        before = offsets(length[order])
        full = xp.searchsorted(before, before[:-1].astype(np.int64) + most, side="right") - 1
        starts = chain(xp.append(full, xp.full(1, len(of), dtype=full.dtype)))
        lane, lanes = expand(starts, len(of)), len(starts) - 1
        fills = xp.diff(before[starts]).astype(np.int64)
        by_fill = longest_first(fills, most)
        fill = xp.zeros(cdiv(lanes, WARP) * WARP, dtype=np.int64)
        fill[:lanes] = fills[by_fill]
        place, step = xp.empty(len(of), dtype=np.int64), xp.empty(len(of), dtype=np.int64)
        place[order] = inverse(by_fill, dtype=np.int64)[lane]
        step[order] = before[:-1] - before[starts[lane]]
        marked = xp.where(times[of] > 1, row[of] | np.int32(-INT32_MAX - 1), row[of])
        return cls(marked, length, place, step, fill, offsets(WARP * fill[::WARP]))

    def slots_of(self, entries: int) -> tuple[Array, Array]:
        """The slot of each entry, (entries,), int64, and its piece."""
        xp, begin = array_module(self.ptr), offsets(self.length)
        piece = expand(begin, entries)
        step = self.step[piece] + xp.arange(entries) - begin[piece]
        place = self.place[piece]
        return self.ptr[place // WARP] + WARP * step + place % WARP, piece


@register
class AlignedCoo(Format):
    """COO in 32 interleaved lists per warp, each of short rows and pieces of long rows (our reading).

    No thread has more than L entries: longer rows are cut, shorter ones share a thread, long and short alternately as
    they fit. Threads are sorted by what they hold, and those of a warp filled up to its longest by zeros in the
    thread's last place. Rows in several threads are added to y by atomics, so their sums are not reproducible. The
    survey says no more than that threads get equal shares and that a heuristic chooses: packing, sorting and L are our
    reading.
    """

    key = "aligned-coo"
    family = "COO"
    survey_name = "ALIGNED-COO"
    reference = "Shah & Patel 2012"

    L = Parameter(32, "most entries per thread; 0: the fastest, or 32 if nothing can be timed", choices=(0, *LONGEST))

    warp_ptr: Array  # (warps + 1,), int32 or int64: first slot of each warp
    rows: Array  # (slots,), int32: the sign bit marks rows in several threads; INT32_MAX in threads without entries
    columns: Array  # (slots,), int32; as the slot before in padding, -1 in threads without entries
    values: Array  # (slots,); 0 in padding
    longest: int  # L in use

    @classmethod
    def estimate(cls, a: Csr, *, L: int) -> int:
        ptr = Packing.of(a, L or 32).ptr
        return int(ptr[-1]) * (8 + a.dtype.itemsize) + ptr.nbytes

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return tuned(cls, a, params, {"L": LONGEST}, partial(cls.fields, a))

    @classmethod
    def fields(cls, a: Csr, L: int) -> dict[str, Any]:
        """The fields for some L; 0 takes 32."""
        xp, packing = a.xp, Packing.of(a, L or 32)
        ptr, slots = packing.ptr, int(packing.ptr[-1])
        rows, columns = xp.full(slots, NO_ROW, dtype=np.int32), xp.full(slots, -1, dtype=np.int32)
        values = xp.zeros(slots, dtype=a.dtype)
        slot, piece = packing.slots_of(a.nnz)
        for array, stored in ((rows, packing.row[piece]), (columns, a.col_idx), (values, a.values)):
            put(array, slot, stored)
        warp, every = expand(ptr, slots), xp.arange(slots)
        lane = every % WARP
        fill = packing.fill[WARP * warp.astype(np.int64) + lane]
        padding = xp.flatnonzero(((every - ptr[warp]) // WARP >= fill) & (fill > 0))
        last = ptr[warp[padding]] + WARP * (fill[padding] - 1) + lane[padding]
        for array in (rows, columns):
            put(array, padding, array[last])
        return {"warp_ptr": ptr, "rows": rows, "columns": columns, "values": values, "longest": L or 32}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        stored = self.rows != NO_ROW
        # Padding is an entry of the row and column of that before it in its thread: no row has a column twice.
        same = (self.rows[WARP:] == self.rows[:-WARP]) & (self.columns[WARP:] == self.columns[:-WARP])
        first = xp.zeros(len(self.rows), dtype=bool)
        slots = xp.arange(WARP)
        first[(self.warp_ptr[:-1, None] + slots).reshape(-1)] = True
        stored[WARP:] &= first[WARP:] | ~same
        slot = xp.flatnonzero(stored)
        return self.rows[slot] & np.int32(INT32_MAX), self.columns[slot], self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        warps = len(self.warp_ptr) - 1
        kernel = f"aligned_coo<{ctype(self.values)}, {ctype(self.warp_ptr)}>"
        args = (np.int32(warps), self.warp_ptr, self.rows, self.columns, self.values, x, y)
        return [zero_fill(y), Launch("lane_packing/aligned_coo.cu", kernel, *per_thread(WARP * warps), args)]

    @property
    def in_use(self) -> dict[str, Any]:
        return {"L": self.longest}

    @property
    def detail(self) -> dict[str, Any]:
        return self.in_use | {"slots": len(self.values)}
