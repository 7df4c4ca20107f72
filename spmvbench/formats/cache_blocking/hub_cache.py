"""CSR5 over columns in hub-sorted order, the x of the first of them in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.cache_blocking.hub import Csr5Hub
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Step, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

# Threads of a block. The cache leaves room for no second block on a multiprocessor.
THREADS = constant("cache_blocking/hub_cache.cu", "THREADS")
SHARE = 0.7  # of a block's shared memory is the cache: what is left is L1, for the x of the other columns


@register
class HubCache(Csr5Hub):
    """CSR5 with columns sorted by their number of entries; x of the first columns, the hubs, is in shared memory.

    In a power-law matrix few columns hold most entries: on rmat:20:16 20,000 of a million hold 63 %. Blocks stay on
    their multiprocessor, one each, and fill its shared memory with the hubs' x once; an entry in one of these columns
    reads x from there. The storage is csr5-hub's, and so is bringing x into the order of the columns, within the
    product.
    """

    key = "hub-cache"
    reference = "this project; tiles: Liu & Vinter, ICS'15; hub sorting: Zhang et al., IEEE Big Data 2017"

    hubs = Parameter(0, "most columns that are cached; 0: as many as fill 70 % of the shared memory", low=0)
    sigma = Csr5Hub.sigma.defaulting(6)

    cached: int  # hubs
    blocks: int  # one per multiprocessor

    @classmethod
    def estimate(cls, a: Csr, *, hubs: int, **params: Any) -> int:
        return super().estimate(a, **params)

    @classmethod
    def convert(cls, a: Csr, *, hubs: int, **params: Any) -> dict[str, Any]:
        found, limits = super().convert(a, **params), device_limits(a)
        most = limits.shared_bytes // a.vector_dtype.itemsize
        cached = min(min(hubs, most) or int(SHARE * most), len(found["order"]))
        return found | {"cached": cached, "blocks": limits.multiprocessors}

    vectors_together = 2  # by registers for blocks of so many threads

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        """By the launches for one vector, with fewer hubs: those whose values have room."""
        fewer = replace(self, cached=self.cached // min(k, self.vectors_together))
        return fewer.by_vectors(fewer.launches, x, y, k, layout)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        n, rows, value = np.int32(len(self.order)), np.int32(self.shape[0]), ctype(x)
        ordered = self.xp.empty(len(self.order), dtype=x.dtype)
        types, warps, matrix = self.csr5.shares
        prepare = (n, self.order, x, ordered, rows, y)
        cut, carry = self.csr5.cut(y)
        args = (rows, np.int32(self.cached), *matrix, ordered, y, carry)
        grid, window = min(self.blocks, cdiv(warps * 32, THREADS)), self.cached * x.dtype.itemsize
        threads, source = 4 * 256, "cache_blocking/hub_cache.cu"
        return [
            Launch(source, f"prepare<{value}>", cdiv(max(int(n), int(rows)), threads), 256, prepare),
            Launch(source, f"hub_cache<{value}, {types}, {cut}>", grid, THREADS, args, window),
            *self.csr5.carries(carry, y),
        ]

    @property
    def detail(self) -> dict[str, Any]:
        columns = self.csr5.col_idx
        return {"hubs": self.cached, "hub_share": int((columns < self.cached).sum()) / max(len(columns), 1)}
