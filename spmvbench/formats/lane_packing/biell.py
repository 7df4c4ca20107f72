"""BiELL and BiJAD: strips of 32 sorted rows whose threads are distributed again whenever half of the rows are done."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, inverse, offsets, put
from spmvbench.formats.ellpack.sell_convert import WARP, sorted_rows
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

# Groups of a strip's steps: in group g, 2^g threads share each of the 32 >> g longest rows.
GROUPS = constant("lane_packing/biell.cu", "GROUPS")


class Strips(NamedTuple):
    """How many steps each group has, and which entries of a row it takes."""

    perm: Array  # (rows,), int32: the row of each place
    covered: Array  # (strips, 7), int64: entries of a row before each group, and before its end
    ptr: Array  # (6 * strips + 1,), int32 or int64: first step of each group, 32 slots each

    @classmethod
    def of(cls, a: Csr, sigma: int) -> Strips:
        """Rows sorted in windows of sigma (0: all)."""
        xp, perm, strips = a.xp, sorted_rows(a, sigma), cdiv(a.rows, WARP)
        lengths = xp.zeros(strips * WARP, dtype=np.int64)
        lengths[: a.rows] = a.row_lengths[perm]
        lengths = lengths.reshape(strips, WARP)
        covered, steps = xp.zeros((strips, GROUPS + 1), dtype=np.int64), xp.zeros((strips, GROUPS), dtype=np.int64)
        for g in range(GROUPS):  # a group ends where half of its rows, the last one all of them, are done
            left = lengths[:, (WARP // 2) >> g] - covered[:, g]
            steps[:, g] = xp.maximum(cdiv(left, 1 << g), 0)
            covered[:, g + 1] = covered[:, g] + (steps[:, g] << g)
        return cls(perm, covered, offsets(steps.reshape(-1)))

    def slots_of(self, a: Csr) -> Array:
        """The slot of each entry, (nnz,), int64: in a group the threads of a row take neighbouring entries."""
        xp, position = a.xp, a.rank_in_row.astype(np.int64)
        place = inverse(self.perm)[a.row_idx]
        strip = place // WARP
        group = xp.zeros(a.nnz, dtype=np.int64)
        for g in range(1, GROUPS):
            group += position >= self.covered[strip, g]
        inside = position - self.covered[strip, group]
        step = self.ptr[GROUPS * strip + group] + (inside >> group)
        across = (inside - (inside >> group << group)) * (WARP >> group)
        slot: Array = WARP * step.astype(np.int64) + place % WARP + across
        return slot


@register
class BiEll(Format):
    """Strips of 32 rows sorted by length; when half of the rows are finished, their threads join the other half.

    The last row that goes on has all 32 threads. Partial sums of a row are added by shuffles; the authors used shared
    memory.
    """

    key = "biell"
    family = "ELLPACK"
    survey_name = "BiELL"
    reference = "Zheng, Gu, Gu, Yang & Liu, JPDC 2014"
    shared_implementation = "strips that halve: rows sorted by length within each"

    sigma = Parameter(WARP, "rows of a window that is sorted by length; 0: all rows", choices=(0, WARP))

    group_ptr: Array  # (6 * strips + 1,), int32 or int64: first step of each group, 32 slots each
    perm: Array  # (rows,), int32: row of each place
    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,); 0 in padding

    @classmethod
    def estimate(cls, a: Csr, *, sigma: int = 0) -> int:
        strips = Strips.of(a, sigma)
        slots = WARP * int(strips.ptr[-1])
        return slots * (4 + a.dtype.itemsize) + strips.ptr.nbytes + strips.perm.nbytes

    @classmethod
    def convert(cls, a: Csr, *, sigma: int = 0) -> dict[str, Any]:
        xp, strips = a.xp, Strips.of(a, sigma)
        slots = WARP * int(strips.ptr[-1])
        columns, values = xp.full(slots, -1, dtype=np.int32), xp.zeros(slots, dtype=a.dtype)
        slot = strips.slots_of(a)
        put(columns, slot, a.col_idx)
        put(values, slot, a.values)
        return {"group_ptr": strips.ptr, "perm": strips.perm, "columns": columns, "values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.columns >= 0)
        group = expand(self.group_ptr, len(self.columns) // WARP)[slot // WARP]
        place = WARP * (group // GROUPS) + slot % WARP % (WARP >> group % GROUPS)
        return self.perm[place], self.columns[slot], self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        kernel = f"biell<{ctype(self.values)}, {ctype(self.group_ptr)}>"
        args = (np.int32(len(self.perm)), self.group_ptr, self.perm, self.columns, self.values, x, y)
        return [Launch("lane_packing/biell.cu", kernel, *per_thread(len(self.perm)), args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"slots": len(self.values)}


@register
class BiJad(BiEll):
    """BiELL with all rows sorted: less padding, but neighbouring rows no longer read neighbouring x."""

    key = "bijad"
    survey_name = "BiJAD"
    shared_implementation = "strips that halve: all rows sorted by length"
    alias_of = "biell[sigma=0]"

    sigma = 0
