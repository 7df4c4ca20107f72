"""CSR5 in two parts: the columns with most entries, whose x lies in shared memory, and all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spmvbench.formats.arrays import INT32_MAX, Array, Csr, cdiv, inverse
from spmvbench.formats.base import Format, Launch, Parameter, cbool, ctype, per_thread, register
from spmvbench.formats.caching.hub import hub_order
from spmvbench.formats.conversion import Run, device_limits, runner
from spmvbench.formats.csr.csr5 import Csr5

THREADS = 1024  # of a block: the cache leaves room for no second block on a multiprocessor


def parts_of(a: Csr, order: Array, cached: int, run: Run | None) -> tuple[Csr, Csr]:
    """The entries of the first `cached` columns of the order, and the others; columns are places of the order.

    run: runs a launch where kernels convert.
    """
    xp, shape, place = a.xp, (a.rows, len(order)), inverse(order, a.cols)
    if run is None or a.nnz > INT32_MAX:
        renumbered = Csr(shape, a.row_ptr, place[a.col_idx], a.values)
        is_hub = renumbered.col_idx < cached
        return renumbered.where(is_hub), renumbered.where(~is_hub)

    def launch(kernel: str, *args: Any) -> None:
        size = (np.int64(a.nnz), np.int32(cached), place)
        run(Launch("caching/sweep_convert.cu", kernel, *per_thread(a.nnz), (*size, *args)))

    before = xp.zeros(a.nnz + 1, dtype=np.int32)
    launch("mark_hubs", a.col_idx, before[1:])
    xp.cumsum(before, out=before)
    hubs = int(before[-1])
    sides = [(xp.empty(n, dtype=np.int32), xp.empty(n, dtype=a.dtype)) for n in (hubs, a.nnz - hubs)]
    launch(f"split_hubs<{ctype(a.values)}>", before, a.col_idx, a.values, *sides[0], *sides[1])
    row_ptr = before[a.row_ptr]
    return Csr(shape, row_ptr, *sides[0]), Csr(shape, a.row_ptr - row_ptr, *sides[1])


@register
class HubCache(Format):
    """Columns by falling number of entries; x of the first of them, the hubs, lies in shared memory.

    In a power-law matrix few columns hold most entries: on rmat:20:16 29,000 of a million hold two thirds. Their
    entries are one CSR5 matrix with 16-bit columns, that needs nothing of x from beyond the multiprocessor; the others
    are a second, gathering from L2. Both are added up in one launch, half of the warps at either, so that what streams
    hides what waits. x is brought into the order of the columns within the product, as csr5-hub does it.
    """

    key = "hub-cache"
    family = "CSR"
    reference = "this project; tiles: Liu & Vinter, ICS'15; hub sorting: Zhang et al., IEEE Big Data 2017"
    own = True
    sources = ("caching/hub_cache.cu", "caching/sweep_convert.cu", *Csr5.sources)

    sms = Parameter(0, "multiprocessors, each with one block; 0: those of the device at hand", low=0, high=2**16)
    shared_bytes = Parameter(0, "shared memory of a block, bytes; 0: as much as the device has", low=0)
    hubs = Parameter(0, "columns that are cached at most; 0 takes as many as fit", low=0, high=2**16)
    per_sm = Parameter(1, "blocks a multiprocessor, which share its memory", choices=(1, 2))
    ahead = Parameter(True, "whether a warp loads its next tile before it sums one")
    sigma = Csr5.sigma.defaulting(4)
    batch = Csr5.batch

    order: Array  # (non-empty columns,), int32: the column of each place, hubs first
    hub: Csr5  # columns uint16, places in the cache
    rest: Csr5  # columns are places of the order
    cached: int  # hubs
    blocks: int  # one a multiprocessor

    @classmethod
    def _split(cls, a: Csr, *, shared_bytes: int, hubs: int, per_sm: int, **params: Any) -> tuple[Array, int, Csr, Csr]:
        """The order, how many are cached, and both parts with their columns renumbered."""
        order = hub_order(a, 1.0)
        shared_bytes = shared_bytes or device_limits(a).shared_bytes // per_sm - (per_sm - 1) * 1024  # a block's own
        room = shared_bytes // a.dtype.itemsize
        cached = min(hubs or 2**16, room, len(order))
        return order, cached, *parts_of(a, order, cached, runner(a))

    @classmethod
    def estimate(cls, a: Csr, *, sigma: int, **params: Any) -> int:
        order, _, hub, rest = cls._split(a, **params)
        parts = sum(Csr5.estimate(part, sigma=sigma, kernel="fast") for part in (hub, rest))
        return order.nbytes + parts - 2 * hub.nnz

    @classmethod
    def convert(cls, a: Csr, *, sms: int, sigma: int, batch: int, **params: Any) -> dict[str, Any]:
        order, cached, hub, rest = cls._split(a, **params)
        parts = [Csr5.from_csr(part, sigma=sigma, batch=batch) for part in (hub, rest)]
        narrow = replace(parts[0], col_idx=parts[0].col_idx.astype(np.uint16))
        return {
            "order": order,
            "hub": narrow,
            "rest": parts[1],
            "cached": cached,
            "blocks": sms or device_limits(a).multiprocessors,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        parts = zip(self.hub.to_coo(), self.rest.to_coo(), strict=True)
        rows, cols, values = (self.xp.concatenate(pair) for pair in parts)
        return rows, self.order[cols], values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        n, rows, value = np.int32(len(self.order)), np.int32(self.shape[0]), ctype(x)
        ordered = self.xp.empty(len(self.order), dtype=x.dtype)
        grid = cdiv(max(int(n), int(rows)), 4 * 256)
        (hub_types, _, hub), (rest_types, _, rest) = self.hub.shares, self.rest.shares
        index, steps = hub_types.partition(", ")[::2]
        other = rest_types.partition(", ")[0]
        kernel = f"hub_cache<{value}, {index}, {other}, {steps}, {cbool(self.ahead)}>"
        args = (rows, np.int32(self.cached), *hub, *rest, ordered, y)
        window = self.cached * x.dtype.itemsize
        grid_of_tiles = min(self.blocks * self.per_sm, cdiv(len(self.hub.values) + len(self.rest.values), THREADS))
        return [
            Launch("caching/hub_cache.cu", f"prepare<{value}>", grid, 256, (n, self.order, x, ordered, rows, y)),
            Launch("caching/hub_cache.cu", kernel, grid_of_tiles, THREADS, args, window),
        ]

    @property
    def detail(self) -> dict[str, Any]:
        nnz = len(self.hub.values) + len(self.rest.values)
        return {"hubs": self.cached, "hub_share": len(self.hub.values) / max(nnz, 1)}
