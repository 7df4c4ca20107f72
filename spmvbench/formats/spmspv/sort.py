"""Products sorted by their rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.launches import Launch, ctype, in_part
from spmvbench.formats.registry import register
from spmvbench.formats.spmspv.columns import BLOCK, SparseColumns
from spmvbench.formats.vectors import SparseVector

PIECE = 16  # entries that a group of threads takes
MOST_BITS = 8  # of a digit
SOURCE = "spmspv/sort.cu"


@register
class SpmspvSort(SparseColumns):
    """Products of the columns of x's entries are sorted by row and summed: gather, sort, reduce by key.

    The paper calls a library's radix sort. This project's has passes of up to 8 bits, as many as the number of rows
    needs; each is counted, placed and moved by launches of a fixed grid, which take the number of products from the
    device. Arrays have room for the products of a full x. Sums are not reproducible.
    """

    key = "spmspv-sort"
    reference = "Yang, Wang & Owens, IPDPSW 2015"

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        xp, nnz, value = self.xp, len(self.values), ctype(self.values)
        total = xp.zeros(1, dtype=np.int32)
        cut, pieces = self.cut(x, y, PIECE, clear=total)
        products = self.pieces_expected(len(x), PIECE) * PIECE
        here, there = ((xp.empty(nnz, dtype=np.int32), xp.empty_like(self.values)) for _ in range(2))

        kernel = f"expand_products<{value}, {ctype(self.col_ptr)}, {PIECE}, {BLOCK}>"
        args: tuple[Any, ...] = (*pieces, self.row_idx, self.values, total, *here)
        expand = Launch(SOURCE, kernel, self.grid(products), BLOCK, args)

        shares = max(min(cdiv(products, 4 * BLOCK), 2 * self.multiprocessors), 1)
        warps = min(cdiv(shares, 32), BLOCK // 32)
        bits = max((self.shape[0] - 1).bit_length(), 1)
        digit = cdiv(bits, cdiv(bits, MOST_BITS))
        counts, places = (xp.empty(shares << digit, dtype=np.int32) for _ in range(2))
        sizes = np.int32(shares), counts, places
        passes = []
        for shift in range(0, bits, digit):
            bit = np.int32(shift)
            args = (total, bit, places, *here, *there)
            passes += [
                Launch(SOURCE, f"count_digits<{digit}, {BLOCK}>", shares, BLOCK, (total, here[0], bit, counts)),
                Launch(SOURCE, f"place_digits<{32 * warps}>", 1 << digit, 32 * warps, sizes),
                Launch(SOURCE, f"move_products<{value}, {digit}, {BLOCK}>", shares, BLOCK, args),
            ]
            here, there = there, here
        add = Launch(SOURCE, f"sum_sorted<{value}>", self.grid(products), BLOCK, (total, *here, y))
        return [*in_part("products", [cut, expand]), *in_part("sort", passes), *in_part("sum", [add])]
