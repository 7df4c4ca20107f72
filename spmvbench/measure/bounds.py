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

from spmvbench.formats.arrays import LINE_BYTES, SECTOR_BYTES, Array, Csr, distinct_groups

TOGETHER = 1 << 23  # entries, and sectors of x, that are counted by one array operation
ERROR = 0.05  # relative error of a measured bound and of a time: only times lower by more are implausible


class Fetched(NamedTuple):
    """Distinct sectors and lines of x per entry: 1 if no two entries of a share lie in the same one."""

    sectors: float
    lines: float

    @classmethod
    def by(cls, a: Csr, shares: int, every: int = 1) -> Fetched:
        """Count for `shares` multiprocessors with equal shares of the entries, in order of rows. NaN without entries.

        every: count only every so many-th share, as a sample of all.
        """
        if not a.nnz:
            return cls(float("nan"), float("nan"))
        shares = min(shares, a.nnz)
        ends = [a.nnz * share // shares for share in range(shares + 1)]
        counted = list(pairwise(ends))[min(every // 2, shares - 1) :: every]
        widths = [size // a.dtype.itemsize for size in (SECTOR_BYTES, LINE_BYTES)]
        found = [0] * len(widths)
        for columns in columns_of(a, counted, max(a.cols // widths[0], 1), apart=a.xp is np):
            found = [n + distinct_groups(columns, a.cols, width) for n, width in zip(found, widths, strict=True)]
        entries = sum(end - begin for begin, end in counted)
        return cls(*(n / entries for n in found))


def columns_of(a: Csr, shares: Sequence[tuple[int, int]], sectors: int, *, apart: bool) -> Iterator[Array]:
    """The columns of some shares of the entries, (shares, entries of each).

    apart: each share by itself, a view. Else several at a time, for a device, where the launches for a share take
    longer than their work. Shares differ by one entry at most: a shorter one has its last entry twice, which names
    nothing new. sectors: of x, a table of which is made for each share.
    """
    if apart:
        yield from (a.col_idx[begin:end][None] for begin, end in shares)
        return
    most = max(end - begin for begin, end in shares)
    together = max(TOGETHER // max(most, sectors), 1)
    for first in range(0, len(shares), together):
        begin, end = a.xp.asarray(np.array(shares[first : first + together], dtype=np.int64).T)[:, :, None]
        yield a.col_idx[a.xp.minimum(begin + a.xp.arange(most), end - 1)]


def columns(
    measured: Mapping[str, Any],
    *,
    nnz: int,
    fetched: Fetched,
    model_bytes: int,
    x_bytes: int,
    flops: float | None = None,
) -> dict[str, Any]:
    """`bound_gflops` and `bound_by` of a row, from the larger of both bounds on time. Empty if nothing was measured.

    measured: ``read``: pairs of (bytes, seconds to read them); ``sectors`` and ``lines``: pairs of (bytes of x, seconds
    to fetch one sector of a random line, or the whole line); all by rising bytes. flops: of one product, with the
    vector operations of an iteration of a solver; None: two per entry.
    """
    if not measured or not nnz:
        return {}
    one, four = (_interpolated(measured[of], x_bytes) for of in ("sectors", "lines"))
    sector = max(four - one, 0.0) / (LINE_BYTES // SECTOR_BYTES - 1)
    seconds = {
        "bytes": read_seconds(measured, model_bytes),
        "gathers": nnz * (fetched.lines * (one - sector) + fetched.sectors * sector),
    }
    lower = max(seconds, key=lambda name: seconds[name])
    work = 2 * nnz if flops is None else flops
    return {"bound_gflops": 1e-9 * work / seconds[lower], "bound_by": lower}


def least_seconds(measured: Mapping[str, Any], size: int, mode: str) -> float:
    """Lower bound in seconds for an SpMV that moves so many bytes. Only in hot mode at the rate of L2, if they fit."""
    if mode == "hot":
        return read_seconds(measured, size)
    largest, seconds = measured["read"][-1]
    return float(seconds * size / largest)


def read_seconds(measured: Mapping[str, Any], size: float) -> float:
    """Lower bound in seconds for reading so many bytes."""
    return _interpolated(measured["read"], size) * max(float(size / measured["read"][-1][0]), 1.0)


def _interpolated(pairs: list[tuple[float, float]], at: float) -> float:
    """The value at a size, interpolated between measured sizes; outside of them the nearest."""
    sizes, values = np.log(np.asarray(pairs, dtype=float).T)
    return float(np.exp(np.interp(np.log(max(at, 1)), sizes, values)))
