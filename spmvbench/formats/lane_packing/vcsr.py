"""Vertical CSR: slices of sorted rows stored step by step, without the slots of rows that are done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, expand, inverse, offsets, put, round_up
from spmvbench.formats.csr.rows import CsrPieces
from spmvbench.formats.ellpack.sell_convert import WARP, sorted_rows
from spmvbench.formats.format import Adding
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register


class Steps(NamedTuple):
    """Where the steps of each slice of 32 rows begin, the rows of a slice longest first."""

    of_slice: Array  # (slices + 1,): the first step of each
    first: Array  # (steps + 1,), int32 or int64: its first slot

    @classmethod
    def of(cls, lengths: Array, align: int) -> Steps:
        """lengths: (rows,), of the rows in order. Every step has slots for the rows that go on, up to `align`."""
        xp = array_module(lengths)
        of_slice = offsets(lengths[::WARP].copy())
        place, steps = xp.flatnonzero(lengths), int(of_slice[-1])
        last = of_slice[place // WARP].astype(np.int64) + lengths[place] - 1
        # CuPy counts no empty array: a row that ends after all steps is counted too.
        ended = offsets(xp.bincount(xp.append(last, xp.full(1, steps)), minlength=steps + 1))[:-1]
        going_on = ended[of_slice[1:]][expand(of_slice, steps)] - ended[:-1]
        return cls(of_slice, offsets(round_up(going_on, align)))

    def slots_of(self, place: Array, position: Array) -> Array:
        """The slots of some entries: the place of the row of each, and its position in the row."""
        slot: Array = self.first[self.of_slice[place // WARP] + position] + place % WARP
        return slot

    @property
    def slice_ptr(self) -> Array:
        """First slot of each slice, (slices + 1,)."""
        return self.first[self.of_slice]


class Slices(Adding):
    """Slices of 32 rows, sorted in windows of sigma, step by step: a part of VCSR, for rows of up to 65,535 entries."""

    reference = "after Karimi, Agostini, Dong & Kaeli, TPDS 33(12), 2022"

    sigma = Parameter(256, "rows of a window that is sorted by length", choices=(32, 64, 128, 256, 512, 1024))
    align = Parameter(1, "a step begins at a multiple of this many slots", choices=(1, 4))

    slice_ptr: Array  # (slices + 1,), int32 or int64: first slot of each slice
    lengths: Array  # (rows,), uint16: entries of the row of each place
    perm: Array  # (rows,), int32: row of each place
    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,); 0 in padding

    @classmethod
    def estimate(cls, a: Csr, *, sigma: int, align: int) -> int:
        ptr = Steps.of(a.row_lengths[sorted_rows(a, sigma)], align).slice_ptr
        return ptr.nbytes + 6 * a.rows + int(ptr[-1]) * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, sigma: int, align: int) -> dict[str, Any]:
        xp, perm = a.xp, sorted_rows(a, sigma)
        lengths = a.row_lengths[perm]
        steps = Steps.of(lengths, align)
        slots = int(steps.first[-1])
        columns, values = xp.full(slots, -1, dtype=np.int32), xp.zeros(slots, dtype=a.dtype)
        slot = steps.slots_of(inverse(perm)[a.row_idx], a.rank_in_row)
        put(columns, slot, a.col_idx)
        put(values, slot, a.values)
        return {
            "slice_ptr": steps.slice_ptr,
            "lengths": lengths.astype(np.uint16),
            "perm": perm,
            "columns": columns,
            "values": values,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        lengths = self.lengths.astype(np.int64)
        ptr = offsets(lengths)
        place = expand(ptr, int(ptr[-1]))
        slot = Steps.of(lengths, self.align).slots_of(place, self.xp.arange(len(place)) - ptr[place])
        return self.perm[place], self.columns[slot], self.values[slot]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows = len(self.perm)
        kernel = f"vcsr<{ctype(self.values)}, {ctype(self.slice_ptr)}, {self.align}, {cbool(add)}>"
        args = (np.int32(rows), self.slice_ptr, self.lengths, self.perm, self.columns, self.values, x, y)
        return [Launch("lane_packing/vcsr.cu", kernel, *per_thread(rows, 128), args)]


@register
class Vcsr(Split):
    """Slices of 32 sorted rows, stored column by column without padding for finished rows (our reading).

    Rows are sorted in windows alone, so a step has entries of a slice's first rows, and nothing is padded; align=4
    begins every step at a multiple of 4 slots, as the paper's interleaved variant. Rows of more than `longest` entries
    are cut into even pieces for the threads of a warp, added by atomics. Windows, alignment and the treatment of long
    rows are our reading of the paper's abstract.
    """

    key = "vcsr"
    family = "CSR"
    reference = "Karimi, Agostini, Dong & Kaeli, TPDS 33(12), 2022"
    formats = (Slices, CsrPieces)

    sigma = Slices.sigma
    align = Slices.align
    longest = Parameter(4096, "entries of a row in a slice", low=1, high=65535)

    @classmethod
    def split(cls, a: Csr, *, longest: int, **params: Any) -> Iterator[Piece]:
        short = a.row_lengths <= longest
        yield Piece("slices", Slices, a.in_rows(short), params)
        yield Piece("long", CsrPieces, a.in_rows(~short))
