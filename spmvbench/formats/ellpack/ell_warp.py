"""ELL-WARP's second kernel: groups of 32 sorted rows, those with long rows spread over several warps."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, index_dtype, inverse, offsets
from spmvbench.formats.conversion import BINS, Run, noted, notes, runner, summing
from spmvbench.formats.ellpack.sell_convert import BLOCK, SOURCE, WARP, sorted_rows
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import tuned

LANES = (1, 2, 4, 8, 16, 32)
THRESHOLDS = (4, 6, 8, 16, 32, 64)  # that the authors try for every matrix
DEFAULT = 6  # of these, where nothing is timed
EACH, SHIFT = constant(SOURCE, "WARPS_EACH"), constant(SOURCE, "WARPS_SHIFT")
STEPS = constant(SOURCE, "STEPS")  # of a warp that another warp of the conversion fills


def lanes_of(longest: Array, threshold: int) -> Array:
    """Threads per row of groups whose longest rows have so many entries."""
    xp = array_module(longest)
    powers = xp.asarray(LANES)
    return powers[xp.searchsorted(powers, cdiv(longest, xp.maximum(threshold, cdiv(longest, WARP))))]


@cache
def lanes_by_length(threshold: int) -> Array:
    """The same of each length that `rows_by_length` distinguishes: a table, as conversions of small matrices ask it."""
    return lanes_of(np.arange(BINS), threshold)


class Warps(NamedTuple):
    """Which warps take the rows of each group of 32 places, and what is known of a warp. NW: warps."""

    perm: Array  # (places,), int32: the rows with entries, longest first
    lanes: Array  # (groups,), int64: threads per row
    width: Array  # (groups,), int64: slots of a thread
    first: Array  # (groups + 1,), warps before each group
    group: Array  # (NW,), of each warp
    ptr: Array  # (NW + 1,), int32 or int64: first slot of each warp

    @classmethod
    def of(cls, a: Csr, perm: Array, threshold: int) -> Warps:
        """No thread has more than `threshold` slots, unless 32 threads per row are too few for that.

        perm: the rows with entries, longest first.
        """
        xp = a.xp
        longest = a.row_lengths[perm[::WARP]].astype(np.int64)  # of each group
        lanes = lanes_of(longest, threshold)
        width = cdiv(longest, lanes)
        places = xp.minimum(len(perm) - WARP * xp.arange(len(longest)), WARP)
        first = offsets(cdiv(places * lanes, WARP))
        group = expand(first, int(first[-1]))
        return cls(perm, lanes, width, first, group, offsets(WARP * width[group]))

    @staticmethod
    def totals(rows: np.ndarray, threshold: int) -> tuple[int, int]:
        """How many warps and slots there are. rows: how many have each length, as `rows_by_length` has them."""
        (length,) = rows[1:].nonzero()
        length = length[::-1] + 1  # of a group the longest: that of its first place
        ends = rows[length].cumsum()
        groups = cdiv(ends, WARP)
        groups[1:] -= groups[:-1].copy()
        lanes = lanes_by_length(threshold)[length]
        warps = groups * lanes
        if len(length) and ends[-1] % WARP:  # the last group is not full
            last = groups.nonzero()[0][-1]
            warps[last] += cdiv(int(ends[-1] % WARP * lanes[last]), WARP) - lanes[last]
        return int(warps.sum()), WARP * int(warps @ cdiv(length, lanes))

    @property
    def slots(self) -> int:
        """Slots of all warps, padding included."""
        return int(self.ptr[-1])

    @property
    def first_place(self) -> Array:
        """The place of the first row of each warp, (NW,), int32."""
        xp = array_module(self.perm)
        before = xp.arange(len(self.group)) - self.first[self.group]  # warps of the group
        rows: Array = WARP * self.group + before * (WARP // self.lanes[self.group])
        return rows.astype(np.int32)

    def slots_of(self, a: Csr) -> Array:
        """The slot of each entry, (nnz,), int64: a thread has neighbouring entries of its row, one per step."""
        place = inverse(self.perm, a.rows)[a.row_idx]
        group, row = place // WARP, place % WARP
        lanes, width = self.lanes[group], self.width[group]
        warp, row = self.first[group] + row * lanes // WARP, row % (WARP // lanes)
        lane, step = array_module(width).divmod(a.rank_in_row, width)
        slot: Array = self.ptr[warp] + WARP * step + row * lanes + lane
        return slot


@register
class EllWarpK2(Format):
    """Groups of 32 rows after a sort of all rows; long rows have several threads, and groups several warps.

    The paper's second kernel. No thread has more than `thr` slots, unless 32 threads per row are too few for that, so
    no warp runs much longer than the others: the gain over `ell-warp` is on matrices of a few long rows. The authors
    sweep thr for every matrix, as part of the conversion: here 4 to 64 are timed. If NumPy holds the matrix nothing can
    be timed: it is 6 there. Rows without entries are not stored.
    """

    key = "ell-warp-k2"
    family = "ELLPACK"
    survey_name = "ELL-WARP"
    reference = "Wong, Kuhl, Darve, 2015"
    shared_implementation = "warps of sorted rows: 1 to 32 threads per row, the same within a warp"

    thr = Parameter(0, "most slots per thread; 0: the fastest", choices=(0, *THRESHOLDS))

    perm: Array  # (places,), int32: the rows with entries, longest first
    warp_ptr: Array  # (warps + 1,), int32 or int64: first slot of each warp
    first_place: Array  # (warps,), int32: the place of its first row
    lanes: Array  # (warps,), uint8: threads per row
    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,); 0 in padding
    threshold: int  # thr in use

    @classmethod
    def estimate(cls, a: Csr, *, thr: int) -> int:
        warps = Warps.of(a, sorted_rows(a, 0, drop_empty=True), thr or DEFAULT)
        return warps.slots * (4 + a.dtype.itemsize) + warps.ptr.nbytes + 5 * len(warps.group) + warps.perm.nbytes

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        perm = sorted_rows(a, 0, drop_empty=True)
        return tuned(cls, a, params, {"thr": THRESHOLDS}, partial(cls.fields, a, perm))

    @classmethod
    def fields(cls, a: Csr, perm: Array, thr: int) -> dict[str, Any]:
        """The fields for a threshold; 0 takes DEFAULT."""
        if (run := runner(a)) is not None:
            return cls._by_kernels(a, perm, thr or DEFAULT, run)
        warps = Warps.of(a, perm, thr or DEFAULT)
        columns, values = np.full(warps.slots, -1, dtype=np.int32), np.zeros(warps.slots, dtype=a.dtype)
        slot = warps.slots_of(a)
        columns[slot], values[slot] = a.col_idx, a.values
        return {
            "perm": warps.perm,
            "warp_ptr": warps.ptr,
            "first_place": warps.first_place,
            "lanes": warps.lanes[warps.group].astype(np.uint8),
            "columns": columns,
            "values": values,
            "threshold": thr or DEFAULT,
        }

    @classmethod
    def _by_kernels(cls, a: Csr, perm: Array, threshold: int, run: Run) -> dict[str, Any]:
        """As `fields`, by kernels; without a wait if the host knows how many rows have each length."""
        xp, index, places, groups = a.xp, ctype(a.row_ptr), np.int32(len(perm)), cdiv(len(perm), WARP)
        known = a.__dict__.get("rows_by_length")
        warps, slots = (len(perm), None) if known is None else Warps.totals(known, threshold)
        first_place, lanes = xp.empty(warps, dtype=np.int32), xp.empty(warps, dtype=np.uint8)
        ptr = xp.empty(warps + 1, dtype=np.int64 if slots is None else index_dtype(slots))
        state = notes(xp, groups, EACH)
        args: tuple[Any, ...] = (places, np.int32(groups), np.int32(threshold), a.row_ptr, perm, first_place, lanes)
        run(summing(SOURCE, f"warps_cut<{index}, {ctype(ptr)}>", (*args, ptr), state))
        if slots is None:
            warps, slots = divmod(noted(state)[-1], 1 << SHIFT)
            ptr = ptr[: warps + 1].astype(index_dtype(slots))
            first_place, lanes = first_place[:warps].copy(), lanes[:warps].copy()
        columns, values = xp.empty(slots, dtype=np.int32), xp.empty(slots, dtype=a.dtype)
        args = (np.int32(warps), places, a.row_ptr, a.col_idx, a.values, perm, ptr, first_place, lanes, columns, values)
        kernel = f"warps_fill<{ctype(values)}, {index}, {ctype(ptr)}>"
        more = cdiv(slots, STEPS * WARP) if a.row_len_max > STEPS * WARP else 0  # parts of warps with long rows
        run(Launch(SOURCE, kernel, cdiv((warps + more) * WARP, BLOCK), BLOCK, args))
        found = {"perm": perm, "warp_ptr": ptr, "first_place": first_place, "lanes": lanes}
        return {**found, "columns": columns, "values": values, "threshold": threshold}

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.columns >= 0)
        warp = expand(self.warp_ptr, len(self.columns))[slot]
        place = self.first_place[warp] + (slot - self.warp_ptr[warp]) % WARP // self.lanes[warp]
        return self.perm[place], self.columns[slot], self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        warps, places = len(self.lanes), len(self.perm)
        kernel = f"ell_warp_k2<{ctype(self.values)}, {ctype(self.warp_ptr)}>"
        layout = (self.warp_ptr, self.first_place, self.lanes, self.perm, self.columns, self.values)
        args = (np.int32(warps), np.int32(places), *layout, x, y)
        zero = [zero_fill(y)] if places < len(y) else []
        return [*zero, Launch("ellpack/ell_warp.cu", kernel, *per_thread(WARP * warps), args)]

    @property
    def in_use(self) -> dict[str, Any]:
        return {"thr": self.threshold}

    @property
    def detail(self) -> dict[str, Any]:
        return self.in_use | {"warps": len(self.lanes)}
