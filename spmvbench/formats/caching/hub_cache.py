"""CSR5 over columns in hub-sorted order, the x of the first of them in shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import INT32_MAX, Array, Csr, cdiv
from spmvbench.formats.base import Launch, Parameter, Skip, ctype, register
from spmvbench.formats.caching.hub import Csr5Hub, hubs_and_others
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csr.csr5 import Csr5

THREADS = 1024  # of a block: the cache leaves room for no second block on a multiprocessor
SHARE = 0.7  # of a block's shared memory is the cache: what is left is L1, for the x of the other columns


@register
class HubCache(Csr5Hub):
    """CSR5 over columns by falling number of entries; x of the first of them, the hubs, lies in shared memory.

    In a power-law matrix few columns hold most entries: on rmat:20:16 20,000 of a million hold 63 %. Blocks stay on
    their multiprocessor, one each, and fill its shared memory with the hubs' x once; an entry whose column is among
    them needs nothing of x from beyond. The hubs that have no room lie side by side in their order too, which is made
    within the product; x of all other columns is read where it is.
    """

    key = "hub-cache"
    reference = "this project; tiles: Liu & Vinter, ICS'15; hub sorting: Zhang et al., IEEE Big Data 2017"
    sources = ("caching/hub_cache.cu", *Csr5Hub.sources)

    hubs = Parameter(0, "columns that are cached at most; 0: as many as fill 70 % of the shared memory", low=0)
    sigma = Csr5Hub.sigma.defaulting(6)

    order: Array  # (hubs,), int32: the column of each; place i of csr5's columns is hub i, then the column i - hubs
    cached: int  # hubs
    blocks: int  # one a multiprocessor

    @classmethod
    def estimate(cls, a: Csr, *, hubs: int, above: float, **params: Any) -> int:
        return 4 * len(hubs_and_others(a, above)[0]) + Csr5.estimate(a, kernel="fast", **params)

    @classmethod
    def convert(cls, a: Csr, *, hubs: int, above: float, **params: Any) -> dict[str, Any]:
        order, limits = hubs_and_others(a, above)[0], device_limits(a)
        if a.cols + len(order) > INT32_MAX:
            raise Skip(f"{cls.key} numbers columns and hubs in 31 bits, here they are {a.cols + len(order):,}")
        place = np.int32(len(order)) + a.xp.arange(a.cols, dtype=np.int32)
        place[order] = a.xp.arange(len(order), dtype=np.int32)
        renumbered = Csr((a.rows, len(order) + a.cols), a.row_ptr, place[a.col_idx], a.values)
        most = limits.shared_bytes // a.dtype.itemsize
        return {
            "order": order,
            "csr5": Csr5.from_csr(renumbered, kernel="fast", **params),
            "cached": min(min(hubs, most) or int(SHARE * most), len(order)),
            "blocks": limits.multiprocessors,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        rows, place, values = self.csr5.to_coo()
        number = self.xp.arange(self.shape[1], dtype=np.int32)
        return rows, self.xp.concatenate((self.order, number))[place], values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        n, rows, value = np.int32(len(self.order)), np.int32(self.shape[0]), ctype(x)
        ordered = self.xp.empty(len(self.order), dtype=x.dtype)
        types, warps, matrix = self.csr5.shares
        prepare = (n, self.order, x, ordered, rows, y)
        args = (rows, np.int32(self.cached), n, *matrix, ordered, x, y)
        grid, window = min(self.blocks, cdiv(warps * 32, THREADS)), self.cached * x.dtype.itemsize
        threads, source = 4 * 256, "caching/hub_cache.cu"
        return [
            Launch(source, f"prepare<{value}>", cdiv(max(int(n), int(rows)), threads), 256, prepare),
            Launch(source, f"hub_cache<{value}, {types}>", grid, THREADS, args, window),
        ]

    @property
    def detail(self) -> dict[str, Any]:
        columns = self.csr5.col_idx
        return {"hubs": self.cached, "hub_share": int((columns < self.cached).sum()) / max(len(columns), 1)}
