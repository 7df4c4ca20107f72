"""CSR5 over columns in hub-sorted order: the entries of x that many rows need are together."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, column_places, tabled
from spmvbench.formats.carries import SUM
from spmvbench.formats.conversion import numbers, private_share, runner, zeros
from spmvbench.formats.csr.csr5 import Csr5
from spmvbench.formats.ellpack.sell_convert import falling_order
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

CONVERT = "cache_blocking/hub_convert.cu"


def hub_order(a: Csr, above: float) -> Array:
    """The columns that have entries, int32: hubs by falling number of entries, then the others as they are.

    A hub has more entries than `above` times the mean. Sorting the hubs alone leaves the others their locality.
    """
    xp, (used, counts) = a.xp, a.used_columns
    if not len(used):
        return used
    hub = counts > above * (a.nnz / len(used))
    hubs = used[hub]
    return xp.concatenate((hubs[xp.argsort(-counts[hub], kind="stable")], used[~hub]))


def renumbered(a: Csr, above: float) -> tuple[Array, Array]:
    """The columns as `hub_order` has them, and the place there of each entry's column, both int32."""
    xp, run = a.xp, runner(a)
    if run is None or not tabled(a.nnz, a.cols):
        order = hub_order(a, above)
        return order, column_places(a.col_idx, order, a.cols)
    cols, counts, found = np.int32(a.cols), zeros(xp, a.cols, np.int32), zeros(xp, 2, np.uint64)
    grid, block = per_thread(a.cols)
    share = private_share(a.nnz)
    args = (np.int64(a.nnz), np.int32(share), a.col_idx, counts)
    run(Launch(CONVERT, "hub_count", cdiv(a.nnz, share), 256, args))
    run(Launch(CONVERT, "hub_used", min(grid, 1024), block, (cols, counts, found)))
    size, most = numbers(found)
    least, places = int(min(above * (a.nnz / size), most)), xp.empty(a.cols, dtype=np.int32)
    order = falling_order(counts, a.cols, a.cols, most - least + 1, run, least=least, inverse=places)
    order = order if size == a.cols else order[:size].copy()
    col_idx = xp.empty(a.nnz, dtype=np.int32)
    run(Launch(CONVERT, "hub_columns", *per_thread(cdiv(a.nnz, 4)), (np.int64(a.nnz), a.col_idx, places, col_idx)))
    return order, col_idx


@register
class Csr5Hub(Format):
    """CSR5 with columns renumbered by hub sorting: columns with many entries first, empty columns left out.

    The entries of x that a power-law matrix gathers most are then in few cache lines, and more of them stay in L1: on
    rmat:20:16 (H200, f64, hot) 330 GFLOPS against 278 without. Each SpMV brings x into that order first. The
    combination is this project's. If all columns have similar lengths, it is slower than CSR5.
    """

    key = "csr5-hub"
    family = "CSR"
    reference = "this project, after Liu & Vinter, ICS'15; hub sorting: Zhang et al., IEEE Big Data 2017"
    project_kernel = True

    above = Parameter(
        1.0, "a hub has more than this many times the mean number of entries of nonempty columns", low=0.0
    )
    # Gathers bound it: short tiles in wide blocks, whose warps share the cached part of x, were the fastest.
    sigma = Csr5.sigma.defaulting(4)
    block = Csr5.block.defaulting(512)
    sum = SUM

    order: Array  # (non-empty columns,), int32: the column of each place in hub-sorted order
    csr5: Csr5

    @classmethod
    def estimate(cls, a: Csr, *_: Any, **params: Any) -> int:
        return 4 * len(a.used_columns[0]) + Csr5.estimate(a, kernel="fast", **params)

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        order, col_idx = renumbered(a, params.pop("above"))
        inner = Csr((a.rows, len(order)), a.row_ptr, col_idx, a.values)
        return {"order": order, "csr5": Csr5.converted(inner, kernel="fast", **params)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        rows, cols, values = self.csr5.to_coo()
        return rows, self.order[cols], values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        n = len(self.order)
        gathered = self.xp.empty(n, dtype=x.dtype)
        args = (np.int32(n), self.order, x, gathered)
        gather = Launch("vector.cu", f"gather<{ctype(x)}, int>", *per_thread(n), args)
        return [gather, *self.csr5.launches(gathered, y)]
