"""The distinct values of a matrix, and for each entry the number of its value: exact in every bit."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, array_module

MOST = 1 << 16  # distinct values: a number has one or two bytes
SAMPLE = 1 << 14  # values that are looked at first: few sort faster than all


def coded(values: Array) -> tuple[Array, Array]:
    """The distinct values, (d,), and the number of each value, (n,), uint8, or uint16 for more than 256.

    Raises Skip for more than MOST distinct values.
    """
    xp, bits = array_module(values), values.view(f"u{values.itemsize}")
    known = xp.unique(bits[:: max(len(bits) // SAMPLE, 1)])
    found = _numbers(known, bits)
    if found is None:
        known = xp.unique(bits)
        if len(known) > MOST:
            raise Skip(f"{len(known):,} distinct values, more than {MOST:,}")
        found = _numbers(known, bits)
    assert found is not None
    return known.view(values.dtype), found.astype(np.uint8 if len(known) <= 1 << 8 else np.uint16)


def _numbers(known: Array, bits: Array) -> Array | None:
    """The place of each value among the known ones, ascending; None if one is not among them."""
    xp = array_module(bits)
    if not len(bits):
        return xp.zeros(0, dtype=np.int64)
    found = xp.minimum(xp.searchsorted(known, bits), len(known) - 1)
    return found if bool((known[found] == bits).all()) else None
