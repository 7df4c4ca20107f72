"""Globally homogeneous, locally adaptive SpMV on plain CSR."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.balanced.tiles import Tiled
from spmvbench.formats.base import Launch, Parameter, per_thread, register, zero_fill

SOURCE = "balanced/hola.cu"
SMALL = 300_000  # entries up to which a thread takes 4


@register
class Hola(Tiled):
    """CSR by equally many entries a block and a thread: row ends become bits, threads sum the runs between them.

    Every product finds the rows in which blocks begin and sets y to zero, a thread a row; nothing is stored beyond CSR.
    A block within one row is a plain sum; else sums that threads leave open meet by a scan over the block, where the
    authors' kernel chooses between a scan over warps and atomics in shared memory. A block's first and last row are
    added to y by atomics, the others stored: not the same bits every time.
    """

    key = "hola"
    reference = "Steinberger, Zayer & Seidel, ICS 2017"
    sources = (SOURCE, "vector.cu")
    core = "CSR by tiles of equally many entries in thread order, row ends as bits"

    block = Parameter(256, "threads a block", choices=(64, 128, 256, 512))
    items = Parameter(0, f"entries a thread; 0 takes the paper's 8, 4 below {SMALL:,} entries", choices=(0, 4, 8))

    def launches(self, x: Array, y: Array) -> list[Launch]:
        nnz = len(self.values)
        if not nnz:
            return [zero_fill(y)]
        items = self.items or (4 if nnz < SMALL else 8)
        share = self.block * items
        blocks = cdiv(nnz, share)
        start = self.xp.empty(blocks + 1, dtype=np.int32)
        rows = (np.int32(self.shape[0]), np.int32(share), np.int32(blocks), self.row_ptr, start, y)
        matrix = (self._nnz, start, self.row_ptr, self.col_idx, self.values, x, y)
        return [
            Launch(SOURCE, f"hola_starts<{self._types}>", *per_thread(self.shape[0]), rows),
            Launch(SOURCE, f"hola<{self._types}, {self.block}, {items}>", blocks, self.block, matrix),
        ]
