"""Rows that tiles of a matrix cut: the parts that tiles leave open, added to y in a fixed order."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.launches import Launch, ctype
from spmvbench.formats.parameters import Parameter

BLOCK, FIXUP = 256, 1024
SUM = Parameter(
    "atomic",
    "rows that tiles cut: atomic, in any order; fixed, in order, by a kernel of their own: the same bits every time",
    choices=("atomic", "fixed"),
)


def fix_up(source: str, row: Array, carry: Array, y: Array) -> Launch:
    """The launch, of a file that includes carry.cuh, by which one block adds carry[i], of y's type, to y[row[i]], in
    order; row ascends.
    """
    n = len(row)
    args = np.int32(n), np.int32(cdiv(n, FIXUP)), row, carry, y
    return Launch(source, f"carry_fixup<{ctype(y)}, {FIXUP}>", min(n, 1), FIXUP, args, row_lanes=32, row_bytes=16)


def add_carries(row: Array, carry: Array, y: Array) -> Launch:
    """The launch that adds carry[i], of y's type, to y[row[i]], in order; row ascends, its highest bit does not count,
    and rows beyond y are none.
    """
    args = (np.int32(len(carry)), np.int32(len(y)), row, carry, y)
    kernel = f"carry_ordered<{ctype(y)}, {ctype(row)}, {BLOCK}>"
    return Launch("carry_ordered.cu", kernel, cdiv(len(carry), BLOCK), BLOCK, args)
