"""What no SpMV passes on a device: the time to read its bytes, and the time to gather x where it is not read in order.

Both are measured once a session over sizes, for a byte costs less where a cache holds it. A format reads its arrays
and x once and writes y once; and whatever its order, a multiprocessor that has an equal share of the entries fetches
every line of 128 bytes of x that they name, and of each line the sectors of 32 bytes, from wherever x lies. A line
costs time, and so does a sector: both are told by the rates of random lines of which one sector is read, and all four.
The second roof holds for formats that give every multiprocessor neighbouring rows: one that orders entries otherwise
names other sectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import LINE_BYTES, SECTOR_BYTES, Csr, distinct_groups

ERROR = 0.05  # of a roof as measured, and of a time: a time below it by less is none of a faster kind


class Fetched(NamedTuple):
    """Distinct sectors and lines of x that an entry stands for: 1 where no two entries of a share meet in one."""

    sectors: float
    lines: float

    @classmethod
    def by(cls, a: Csr, shares: int, every: int = 1) -> Fetched:
        """Where `shares` multiprocessors have equal shares of the entries, in order of rows. NaN without entries.

        every: look at one share in so many, and take the others for alike.
        """
        if not a.nnz:
            return cls(float("nan"), float("nan"))
        ends = list(pairwise(a.nnz * i // shares for i in range(shares + 1)))[every // 2 :: every]
        stretches = [a.col_idx[b:e][None] for b, e in ends]
        widths = (size // a.dtype.itemsize for size in (SECTOR_BYTES, LINE_BYTES))
        entries = sum(e - b for b, e in ends)
        return cls(*(sum(distinct_groups(columns, a.cols, w) for columns in stretches) / entries for w in widths))


def columns(roofs: Mapping[str, Any], *, nnz: int, fetched: Fetched, model_bytes: int, x_bytes: int) -> dict[str, Any]:
    """`bound_gflops` and `bound_by` of a row: the lower of both roofs. Empty where the device's were not measured.

    roofs: ``read``, pairs of (bytes, seconds to read them); ``sectors`` and ``lines``, pairs of (bytes of x, seconds to
    fetch a sector of a line from a random place, or the whole line), each by rising bytes.
    """
    if not roofs or not nnz:
        return {}
    one, four = (_between(roofs[of], x_bytes) for of in ("sectors", "lines"))
    sector = max(four - one, 0.0) / (LINE_BYTES // SECTOR_BYTES - 1)
    seconds = {
        "bytes": reading(roofs, model_bytes),
        "gathers": nnz * (fetched.lines * (one - sector) + fetched.sectors * sector),
    }
    lower = max(seconds, key=lambda roof: seconds[roof])
    return {"bound_gflops": 2e-9 * nnz / seconds[lower], "bound_by": lower}


def least_seconds(roofs: Mapping[str, Any], size: int, mode: str) -> float:
    """Seconds that no SpMV which moves so many bytes takes less than: at the rate of L2 where they fit, hot alone."""
    if mode == "hot":
        return reading(roofs, size)
    largest, seconds = roofs["read"][-1]
    return seconds * size / largest


def reading(roofs: Mapping[str, Any], size: float) -> float:
    """Seconds that reading so many bytes takes at least, by the roof ``read``."""
    return _between(roofs["read"], size) * max(size / roofs["read"][-1][0], 1)


def _between(pairs: list[tuple[float, float]], at: float) -> float:
    """The value at a size, between those that were measured; outside of them the nearest."""
    sizes, values = np.log(np.asarray(pairs, dtype=float).T)
    return float(np.exp(np.interp(np.log(max(at, 1)), sizes, values)))
