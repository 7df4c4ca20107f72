"""CSR5 in two parts: the columns with most entries, whose x lies in shared memory, and all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, inverse
from spmvbench.formats.base import Format, Launch, Parameter, ctype, register
from spmvbench.formats.caching.hub import hub_order
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csr.csr5 import Csr5

THREADS = 1024  # of a block: the cache leaves room for no second block on a multiprocessor


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
    sources = ("caching/hub_cache.cu", *Csr5.sources)

    sms = Parameter(0, "multiprocessors, each with one block; 0: those of the device at hand", low=0, high=2**16)
    shared_bytes = Parameter(0, "shared memory of a block, bytes; 0: as much as the device has", low=0)
    hubs = Parameter(0, "columns that are cached at most; 0 takes as many as fit", low=0, high=2**16)
    sigma = Csr5.sigma.defaulting(4)
    batch = Csr5.batch

    order: Array  # (non-empty columns,), int32: the column of each place, hubs first
    hub: Csr5  # columns uint16, places in the cache
    rest: Csr5  # columns are places of the order
    cached: int  # hubs
    blocks: int  # one a multiprocessor

    @classmethod
    def _split(cls, a: Csr, *, shared_bytes: int, hubs: int, **params: Any) -> tuple[Array, int, Csr, Csr]:
        """The order, how many are cached, and both parts with their columns renumbered."""
        order = hub_order(a, 1.0)
        room = (shared_bytes or device_limits(a).shared_bytes) // a.dtype.itemsize
        cached = min(hubs or 2**16, room, len(order))
        place = inverse(order, a.cols)[a.col_idx]
        renumbered = Csr((a.rows, len(order)), a.row_ptr, place, a.values)
        is_hub = place < cached
        return order, cached, renumbered.where(is_hub), renumbered.where(~is_hub)

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
        kernel = f"hub_cache<{value}, {index}, {other}, {steps}>"
        args = (rows, np.int32(self.cached), *hub, *rest, ordered, y)
        window = self.cached * x.dtype.itemsize
        grid_of_tiles = min(self.blocks, cdiv(len(self.hub.values) + len(self.rest.values), THREADS))
        return [
            Launch("caching/hub_cache.cu", f"prepare<{value}>", grid, 256, (n, self.order, x, ordered, rows, y)),
            Launch("caching/hub_cache.cu", kernel, grid_of_tiles, THREADS, args, window),
        ]

    @property
    def detail(self) -> dict[str, Any]:
        nnz = len(self.hub.values) + len(self.rest.values)
        return {"hubs": self.cached, "hub_share": len(self.hub.values) / max(nnz, 1)}
