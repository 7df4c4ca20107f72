"""Blocks of equally many entries, or of equally many rows: two kernels of Chu et al."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.launches import Launch, zero_fill
from spmvbench.formats.load_balanced.starts import SearchedTiles
from spmvbench.formats.load_balanced.tiles import BLOCKS, Tiled
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

PAPER = "Chu et al., Efficient algorithm design of optimizing SpMV on GPU, HPDC 2023"


@register
class CsrFlat(SearchedTiles):
    """CSR in blocks of equally many entries: products go to shared memory, where rows are summed.

    Every product finds the rows in which the blocks begin, a thread per row; nothing is stored beyond CSR. Parts of
    rows that blocks share are added to y by atomics, all other rows stored, where the authors' kernel adds every row:
    sums are not reproducible. The method's third part, which chooses among kernels, stores nothing of its own and
    has no key.
    """

    key = "csr-flat"
    reference = f"{PAPER}, flat"
    shared_implementation = "CSR in tiles of equally many entries, through shared memory, summed as in the paper"

    block = Parameter(128, "threads per block", choices=BLOCKS)
    items = Parameter(8, "entries per thread", choices=(2, 4, 8))
    lanes = Parameter(0, "threads per row; 0 takes the paper's rule", choices=(0, 1, 2, 4, 8, 16, 32))

    lanes_by_rule: int  # threads per row: by the larger mean row length of the matrix's two halves

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        half = a.rows // 2
        upper = int(a.row_ptr[half])
        mean = max(upper / max(half, 1), (a.nnz - upper) / max(a.rows - half, 1))
        return super().convert(a) | {"lanes_by_rule": 1 if mean <= 32 else 4 if mean <= 64 else 16}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        if not len(self.values):
            return [zero_fill(y)]
        tile_row, find = self._find_tiles(self.block * self.items, y)
        args = (self._nnz, tile_row, self.row_ptr, self.col_idx, self.values, x, y)
        kernel = f"flat<{self.block}, {self.items}, {self.lanes or self.lanes_by_rule}>"
        return [find, self._launch(kernel, len(tile_row) - 1, self.block, self.items, *args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"lanes": self.lanes or self.lanes_by_rule}


@register
class CsrLineEnhance(Tiled):
    """CSR in blocks of equally many rows; their entries go through shared memory in rounds.

    One or a few threads keep a row's sum and add the row's entries of every round, while the next round's entries are
    on their way. A long row keeps one block busy. kernel=paper: blocks of 512 threads, and the authors' rule for rows,
    threads and entries. fast: sizes that were 1.7 times as fast on pde:100, and nowhere more than 1 % slower (f64,
    H200).
    """

    key = "csr-line-enhance"
    reference = f"{PAPER}, line-enhance"
    shared_implementation = "CSR in blocks of equally many rows, through shared memory in rounds"

    kernel = Parameter("fast", "paper: the authors' sizes; fast: this project's", choices=("fast", "paper"))
    block = Parameter(0, "threads per block; 0: the kernel's", choices=(0, *BLOCKS))
    items = Parameter(0, "entries of a thread per round; 0: the kernel's", choices=(0, 2, 4, 8))
    rows = Parameter(0, "rows per block; 0: the kernel's", choices=(0, 16, 32, 64, 128, 256))
    lanes = Parameter(0, "threads per row; 0: the kernel's", choices=(0, 1, 2, 4, 8))

    def _rule(self) -> tuple[int, int, int]:
        """Entries of a thread per round, rows per block, threads per row: the paper's go by the matrix."""
        if self.kernel == "fast":
            return 4, 128, 2
        nnz = len(self.values)
        mean = nnz / max(self.shape[0], 1)
        if nnz <= 2**24:
            return (4, 64, 8) if mean >= 32 else (2, 64, 1)
        return (2, 64, 4) if mean >= 24 else (2, 128, 1)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        items, rows, lanes = self._rule()
        block = self.block or (512 if self.kernel == "paper" else 256)
        items, rows = self.items or items, min(self.rows or rows, block)
        lanes = min(self.lanes or lanes, block // rows)
        matrix = (np.int32(self.shape[0]), self.row_ptr, self.col_idx, self.values, x, y)
        kernel = f"line_enhance<{block}, {items}, {rows}, {lanes}>"
        return [self._launch(kernel, cdiv(self.shape[0], rows), block, items, *matrix)]
