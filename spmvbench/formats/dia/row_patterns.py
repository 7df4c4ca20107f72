"""Distinct rows, as distances from the row and values, stored once; each row names its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, alike_lists, expand, offsets
from spmvbench.formats.format import Adding
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread
from spmvbench.formats.registry import register

BLOCK = constant("dia/row_patterns.cu", "BLOCK")  # threads
MOST = 2**16  # distinct rows that two bytes tell apart


def distinct_rows(a: Csr) -> tuple[Array, Array]:
    """The pattern of each row, uint8 or uint16, and a row that has each pattern. Raises Skip for more than MOST."""
    pattern, example = alike_lists(a.row_ptr, a.diagonal, a.values.view(f"i{a.dtype.itemsize}"))
    if len(example) > MOST:
        raise Skip(f"{len(example):,} of {a.rows:,} rows are distinct, a dictionary holds {MOST:,}")
    return pattern.astype(np.uint8 if len(example) <= 2**8 else np.uint16), example


@register
class RowPatterns(Adding):
    """A dictionary of the distinct rows of a stencil, exact in every bit; a row stores one or two bytes.

    Two rows are the same if they have the same values, bit for bit, in columns at the same distances from the row. Of a
    stencil with constant coefficients only the rows at the boundary differ: 27 rows in three dimensions. The format
    then reads little but x and y, and its time says nothing about storages that hold every value. More than 65,536
    distinct rows are refused.
    """

    key = "row-patterns"
    values_decide = True
    family = "DIA"
    reference = "this project"
    project_kernel = True

    pattern: Array  # (rows,), uint8, or uint16 for more than 256 distinct rows
    pattern_ptr: Array  # (distinct rows + 1,), int32
    offset: Array  # (entries of the distinct rows,), int32: col - row, ascending in a row
    values: Array  # (entries of the distinct rows,)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        pattern, example = distinct_rows(a)
        entries = int(a.row_lengths[example].sum(dtype=np.int64))
        return pattern.nbytes + 4 * (len(example) + 1) + entries * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        pattern, example = distinct_rows(a)
        ptr = offsets(a.row_lengths[example])
        entries = int(ptr[-1])
        owner = expand(ptr, entries)
        entry = a.row_ptr[example][owner] + a.xp.arange(entries) - ptr[owner]
        return {
            "pattern": pattern,
            "pattern_ptr": ptr.astype(np.int32),
            "offset": a.diagonal[entry],
            "values": a.values[entry],
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        ptr = offsets(self.xp.diff(self.pattern_ptr)[self.pattern])
        entries = int(ptr[-1])
        row = expand(ptr, entries)
        place = self.pattern_ptr[self.pattern[row]] + self.xp.arange(entries) - ptr[row]
        return row, row + self.offset[place], self.values[place]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows = self.shape[0]
        kernel = f"row_patterns_spmv<{ctype(self.values)}, {ctype(self.pattern)}, {cbool(add)}>"
        args = np.int32(rows), self.pattern, self.pattern_ptr, self.offset, self.values, x, y
        return [Launch("dia/row_patterns.cu", kernel, *per_thread(rows, BLOCK), args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"patterns": len(self.pattern_ptr) - 1}
