"""What no SpMV passes on a device: the time to read its bytes, and the time to gather x where it is not read in order.

Both are measured once a session over sizes, for a byte costs less where a cache holds it. A format reads its arrays
and x once and writes y once; and whatever its order, a multiprocessor that has an equal share of the entries fetches
every sector of 32 bytes of x that they name, from wherever x lies. The second roof holds for formats that give every
multiprocessor neighbouring rows: one that orders entries otherwise names other sectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Csr, distinct_sectors


def sectors_per_entry(a: Csr, shares: int) -> float:
    """Distinct sectors of x that an entry stands for, where `shares` multiprocessors have equal shares of the entries.

    Entries in the order of rows. 1 where no two entries of a share meet in a sector; NaN without entries.
    """
    if not a.nnz:
        return float("nan")
    stretches = pairwise(a.nnz * share // shares for share in range(shares + 1))
    count = sum(distinct_sectors(a.col_idx[begin:end][None], a.cols, a.dtype.itemsize) for begin, end in stretches)
    return count / a.nnz


def columns(roofs: Mapping[str, Any], *, nnz: int, sectors: float, model_bytes: int, x_bytes: int) -> dict[str, Any]:
    """`bound_gflops` and `bound_by` of a row: the lower of both roofs. Empty where the device's were not measured.

    roofs: ``read``, pairs of (bytes, seconds to read them), and ``gather``, pairs of (bytes of x, sectors a second
    from random places or random lines, whichever are more), each by rising bytes.
    """
    if not roofs or not nnz:
        return {}
    seconds = {
        "bytes": reading(roofs, model_bytes),
        "gathers": nnz * sectors / _between(roofs["gather"], x_bytes),
    }
    lower = max(seconds, key=lambda roof: seconds[roof])
    return {"bound_gflops": 2e-9 * nnz / seconds[lower], "bound_by": lower}


def reading(roofs: Mapping[str, Any], size: float) -> float:
    """Seconds that reading so many bytes takes at least, by the roof ``read``."""
    return _between(roofs["read"], size) * max(size / roofs["read"][-1][0], 1)


def _between(pairs: list[tuple[float, float]], at: float) -> float:
    """The value at a size, between those that were measured; outside of them the nearest."""
    sizes, values = np.log(np.asarray(pairs, dtype=float).T)
    return float(np.exp(np.interp(np.log(max(at, 1)), sizes, values)))
