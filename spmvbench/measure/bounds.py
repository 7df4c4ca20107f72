"""Lower bounds on SpMV time: memory bandwidth, and the gather rate for irregular access to x.

Both are measured once per invocation, as functions of the size, because a byte costs less in a cache.

Bandwidth bound: a format reads its arrays and x once and writes y once.

Gather bound: each multiprocessor has an equal share of the entries. In any order, it fetches every 128-byte line of x
that its entries name, and the named 32-byte sectors of each line, from wherever x lies. Lines and sectors both cost
time. The two costs follow from the measured rates of random lines of which one sector is read, and of which all four
are read. The gather bound applies to formats that give each multiprocessor neighbouring rows; another order of entries
names other sectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spmvbench.formats.arrays import LINE_BYTES, SECTOR_BYTES, Array, Csr, distinct_groups

# Entries, and sectors of x, that are counted by one array operation: on a device, where a launch takes longer than its
# work; and on the host, where the arrays stay in a cache.
TOGETHER, TOGETHER_ON_HOST = 1 << 23, 1 << 16
ERROR = 0.05  # relative error of a measured bound and of a time: only times lower by more are implausible
SHORT = 1 << 20  # bytes, below which a read is mostly launch overhead: no time between measured sizes is interpolated


class Fetched(NamedTuple):
    """Distinct sectors and lines of x per entry: 1 if no two entries of a share lie in the same one."""

    sectors: float
    lines: float

    @classmethod
    def by(cls, a: Csr, shares: int, every: int = 1, vectors: int = 1, *, by_row: bool = True) -> Fetched:
        """Count for `shares` multiprocessors with equal shares of the entries, in order of rows. NaN without entries.

        every: count only every so many-th share, as a sample of all. vectors: of X, which an entry needs all; by_row:
        whether they lie side by side. If their bytes neither divide a sector nor are sectors, too few count.
        """
        if not a.nnz:
            return cls(float("nan"), float("nan"))
        shares = min(shares, a.nnz)
        ends = [a.nnz * share // shares for share in range(shares + 1)]
        counted = list(pairwise(ends))[min(every // 2, shares - 1) :: every]
        item = a.dtype.itemsize * (vectors if by_row else 1)
        widths = [-(-size // item) for size in (SECTOR_BYTES, LINE_BYTES)]
        each = [max(item // size, 1) * (1 if by_row else vectors) for size in (SECTOR_BYTES, LINE_BYTES)]
        found = [0] * len(widths)
        for columns in columns_of(a, counted, a.cols // widths[0]):
            found = [n + distinct_groups(columns, a.cols, width) for n, width in zip(found, widths, strict=True)]
        entries = sum(end - begin for begin, end in counted)
        return cls(*(n * times / entries for n, times in zip(found, each, strict=True)))


def columns_of(a: Csr, shares: Sequence[tuple[int, int]], sectors: int) -> Iterator[Array]:
    """The columns of some shares of the entries, (shares, entries of each): several shares at a time if they are small.

    Shares differ by one entry at most: a shorter one has its last entry twice, which names nothing new. sectors: of x,
    a table of which is made for each share.
    """
    most = max(end - begin for begin, end in shares)
    together = (TOGETHER_ON_HOST if a.xp is np else TOGETHER) // max(most, sectors)
    if together <= 1:
        yield from (a.col_idx[begin:end][None] for begin, end in shares)
        return
    for first in range(0, len(shares), together):
        begin, end = a.xp.asarray(np.array(shares[first : first + together], dtype=np.int64).T)[:, :, None]
        yield a.col_idx[a.xp.minimum(begin + a.xp.arange(most), end - 1)]


class Upper(NamedTuple):
    """An upper bound on the rate, GFLOPS, and whether ``bytes`` or ``gathers`` set it."""

    gflops: float
    by: str


def upper(
    measured: Mapping[str, Any],
    *,
    nnz: int,
    fetched: Fetched,
    model_bytes: int,
    x_bytes: int,
    flops: float | None = None,
) -> Upper | None:
    """The bound on the rate of a product, from the larger of both bounds on time. None if nothing was measured.

    measured: ``read``: pairs of (bytes, seconds to read them); ``sectors`` and ``lines``: pairs of (bytes of x, seconds
    to fetch one sector of a random line, or the whole line); all by rising bytes. flops: of one product, with the
    vector operations of an iteration of a solver; None: two per entry.
    """
    if not measured or not nnz:
        return None
    seconds = {
        "bytes": float(read_seconds(measured, model_bytes)),
        "gathers": float(gather_seconds(measured, nnz, fetched, x_bytes)),
    }
    lower = max(seconds, key=lambda name: seconds[name])
    work = 2 * nnz if flops is None else flops
    return Upper(1e-9 * work / seconds[lower], lower)


def gather_seconds(measured: Mapping[str, Any], nnz: Any, fetched: Fetched, x_bytes: npt.ArrayLike) -> Any:
    """Lower bounds in seconds for fetching the sectors and lines of x that `nnz` entries name; of one or of many."""
    one, four = (_interpolated(measured[of], x_bytes) for of in ("sectors", "lines"))
    sector = np.maximum(four - one, 0.0) / (LINE_BYTES // SECTOR_BYTES - 1)
    return nnz * (fetched.lines * (one - sector) + fetched.sectors * sector)


def least_seconds(measured: Mapping[str, Any], size: npt.ArrayLike, mode: str) -> Any:
    """Lower bounds in seconds for SpMVs that move so many bytes. Only in hot mode at the rate of L2, if they fit.

    Below SHORT bytes it is the time of the next smaller size that was measured.
    """
    sizes, seconds = np.array(measured["read"], dtype=float).T
    size = np.asarray(size, dtype=float)
    if mode == "hot":
        smaller = seconds[np.maximum(np.searchsorted(sizes, size, "right") - 1, 0)]
        return np.where(size < SHORT, smaller, read_seconds(measured, size))
    return seconds[-1] * size / sizes[-1]


def read_seconds(measured: Mapping[str, Any], size: npt.ArrayLike) -> np.ndarray[Any, Any]:
    """Lower bounds in seconds for reading so many bytes, in the shape of `size`."""
    beyond = np.maximum(np.asarray(size) / measured["read"][-1][0], 1.0)
    found: np.ndarray[Any, Any] = _interpolated(measured["read"], size) * beyond
    return found


def _interpolated(pairs: list[tuple[float, float]], at: npt.ArrayLike) -> np.ndarray[Any, Any]:
    """The values at some sizes, interpolated between measured sizes; outside of them the nearest."""
    sizes, values = np.log(np.asarray(pairs, dtype=float).T)
    found: np.ndarray[Any, Any] = np.exp(np.interp(np.log(np.maximum(at, 1)), sizes, values))
    return found
