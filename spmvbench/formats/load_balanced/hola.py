"""Globally homogeneous, locally adaptive SpMV on plain CSR."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array
from spmvbench.formats.carries import SUM, add_carries
from spmvbench.formats.launches import Launch, cbool, zero_fill
from spmvbench.formats.load_balanced.starts import SearchedTiles
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "load_balanced/hola.cu"
COMBINE = ("choose", "scan")
SMALL = 300_000  # entries up to which a thread takes 4


@register
class Hola(SearchedTiles):
    """CSR in equal shares of entries per block and per thread; row ends become bits for a segmented sum.

    Every product finds the rows in which blocks begin, a thread per row; nothing is stored beyond CSR. A block within
    one row is a plain sum. Otherwise each warp chooses, as the authors' kernel does, how open sums of threads reach the
    row's sum in shared memory: by a scan over the warp first if rows end in fewer than half of its threads, else by an
    atomic of each. combine=scan: by a scan over the block, this project's. A block's first and last row are added to y
    by atomics, the others stored: sums are not reproducible. sum=fixed adds them in order, and scans over blocks.
    """

    key = "hola"
    vectors_together = 4
    reference = "Steinberger, Zayer & Seidel, ICS 2017"
    shared_implementation = "CSR in tiles of equally many entries, in thread order, row ends as bits"

    block = Parameter(128, "threads per block", choices=(64, 128, 256, 512))
    items = Parameter(0, f"entries per thread; 0 takes the paper's 8, or 4 below {SMALL:,} entries", choices=(0, 4, 8))

    combine = Parameter("choose", "open sums: choose, by each warp; or a scan over the block", choices=COMBINE)
    sum = SUM

    def launches(self, x: Array, y: Array) -> list[Launch]:
        nnz = len(self.values)
        if not nnz:
            return [zero_fill(y)]
        items = self.items or (4 if nnz < SMALL else 8)
        start, find = self._find_tiles(self.block * items, y)
        fixed = self.sum == "fixed"
        carry = self.xp.empty(len(start) - 1, dtype=y.dtype) if fixed else y
        args = (np.int32(self.shape[0]), self._nnz, start, self.row_ptr, self.col_idx, self.values, x, y, carry)
        scan = cbool(fixed or self.combine == "scan")
        kernel = f"hola<{self._types}, {self.block}, {items}, {scan}, {cbool(fixed)}>"
        product = Launch(SOURCE, kernel, len(start) - 1, self.block, args)
        return [find, product, *([add_carries(start[1:], carry, y)] if fixed else [])]
