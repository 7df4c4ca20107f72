"""CSR whose rows are padded so that each begins at an aligned address."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr, expand, index_dtype, offsets, round_up
from spmvbench.formats.conversion import with_multiples
from spmvbench.formats.csr.csr import CsrByLanes
from spmvbench.formats.registry import register


class CsrAligned(CsrByLanes):
    """CSR, every row padded to a multiple of `multiple` entries; empty rows stay empty.

    Padding repeats the row's last column with the value 0, and no row has a column twice: stored zeros can be
    distinguished from it, and the kernel needs no test. If x is infinite there and the row's sum is infinite, padding
    makes it NaN.
    """

    multiple: ClassVar[int]

    row_ptr: Array  # (rows + 1,), int32, or int64 where the padded length needs it
    col_idx: Array  # (padded length,), int32
    values: Array  # (padded length,)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        slots = int(round_up(a.row_lengths, cls.multiple).sum(dtype=np.int64))
        return (a.rows + 1) * index_dtype(slots).itemsize + slots * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        if (found := with_multiples(a, cls.multiple)) is not None:
            return dict(zip(("row_ptr", "col_idx", "values"), found, strict=True))
        xp = a.xp
        row_ptr = offsets(round_up(a.row_lengths, cls.multiple))
        slots = int(row_ptr[-1])
        row = expand(row_ptr, slots)
        entry = xp.arange(slots, dtype=row_ptr.dtype) - (row_ptr[:-1] - a.row_ptr[:-1])[row]
        last = a.row_ptr[1:][row] - 1
        source = xp.minimum(entry, last)
        return {
            "row_ptr": row_ptr,
            "col_idx": a.col_idx[source],
            "values": xp.where(entry <= last, a.values[source], a.dtype.type(0)),
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        row, column, values = super().to_coo()
        stored = self.xp.ones(len(values), dtype=bool)
        stored[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
        return row[stored], column[stored], values[stored]


@register
class CsrBb(CsrAligned):
    """CSR, every row padded to a multiple of 16 entries, and half a warp per row.

    Rows begin where half a warp's loads are aligned, and its threads, of an entry each, never need a test. The report's
    other advice is the kernel of every rule here: no barriers, x through a cache, y written once. It also stages x in
    shared memory where rows share it, and does not say how: left out, our reading. Rows of one entry take 16.
    """

    key = "csr-bb"
    survey_name = "CSR optimization [11]"
    reference = "Baskaran & Bordawekar, IBM RC24704, 2009"
    shared_implementation = "CSR by threads per row: 16, rows padded to 16"

    multiple = 16
    lanes_per_row = 16


@register
class Icsr(CsrAligned):
    """CSR, every row padded to a multiple of 32 entries, and a warp per row: every row begins at an aligned address.

    Rows of one entry take 32. The multiple is our reading, for the survey does not give it.
    """

    key = "icsr"
    survey_name = "ICSR"
    reference = "reference 108 of Filippone et al. 2017"
    shared_implementation = "CSR by threads per row: 32, rows padded to 32"

    multiple = 32
    lanes_per_row = 32
