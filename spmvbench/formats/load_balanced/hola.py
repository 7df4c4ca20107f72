"""Globally homogeneous, locally adaptive SpMV on plain CSR."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array
from spmvbench.formats.base import Launch, Parameter, register, zero_fill
from spmvbench.formats.load_balanced.starts import SearchedTiles

SOURCE = "load_balanced/hola.cu"
SMALL = 300_000  # entries up to which a thread takes 4


@register
class Hola(SearchedTiles):
    """CSR in equal shares of entries per block and per thread; row ends become bits for a segmented sum.

    Every product finds the rows in which blocks begin, a thread per row; nothing is stored beyond CSR. A block within
    one row is a plain sum; otherwise open sums of threads are combined by a scan over the block; the authors' kernel
    chooses between a scan over warps and atomics in shared memory. A block's first and last row are added to y by
    atomics, the others stored: sums are not reproducible.
    """

    key = "hola"
    reference = "Steinberger, Zayer & Seidel, ICS 2017"
    shared_implementation = "CSR in tiles of equally many entries, in thread order, row ends as bits"

    block = Parameter(128, "threads per block", choices=(64, 128, 256, 512))
    items = Parameter(0, f"entries per thread; 0 takes the paper's 8, or 4 below {SMALL:,} entries", choices=(0, 4, 8))

    def launches(self, x: Array, y: Array) -> list[Launch]:
        nnz = len(self.values)
        if not nnz:
            return [zero_fill(y)]
        items = self.items or (4 if nnz < SMALL else 8)
        start, find = self._find_tiles(self.block * items, y)
        args = (np.int32(self.shape[0]), self._nnz, start, self.row_ptr, self.col_idx, self.values, x, y)
        kernel = f"hola<{self._types}, {self.block}, {items}>"
        return [find, Launch(SOURCE, kernel, len(start) - 1, self.block, args)]
