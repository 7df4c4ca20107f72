"""Products assigned to buckets of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, offsets
from spmvbench.formats.launches import Launch, ctype, in_part
from spmvbench.formats.registry import register
from spmvbench.formats.spmspv.columns import BLOCK, SparseColumns
from spmvbench.formats.vectors import SparseVector

PIECE, ITEMS = 16, 8  # entries of a piece, pieces that a group of threads takes at once
SUM_BLOCK = 512
SHARED = 48 * 1024  # bytes of dynamic shared memory that every device gives


@register
class SpmspvBucket(SparseColumns):
    """Products of the columns of x's entries are put into buckets of rows; each is summed in shared memory.

    After SpMSpV-bucket, which is for threads of a CPU; the GPU version is this project's. A block ranks its products in
    shared memory and asks each bucket once for room; there is room for as many products as the bucket's rows have
    entries, so nothing has to be counted first. Buckets of many entries are summed by several blocks, which add to y by
    atomics; all others are stored, and then y needs no zeros before. Sums are not reproducible.
    """

    key = "spmspv-bucket"
    reference = "after Azad & Buluc, IPDPS 2017"

    bucket_begin: Array  # (buckets + 1,), of col_ptr's type: entries of the rows before each bucket's
    first_block: Array  # (buckets + 1,), int32: blocks that sum the buckets before each
    bucket_of: Array  # (blocks,), int32: the bucket that a block sums

    @staticmethod
    def log_height(value_bytes: int) -> int:
        """The rows of a bucket are 2 to this: as many as fit into a block's shared memory."""
        return (SHARED // value_bytes).bit_length() - 1

    @classmethod
    def blocks(cls, a: Csr) -> tuple[Array, Array]:
        """Entries of the rows before each bucket's, (buckets + 1,), and the blocks that sum each, (buckets,)."""
        height = 1 << cls.log_height(a.dtype.itemsize)
        buckets = cdiv(a.rows, height)
        ends = a.xp.minimum(a.xp.arange(buckets + 1, dtype=np.int64) * height, a.rows)
        begin = a.row_ptr[ends]
        mean = max(cdiv(a.nnz, max(buckets, 1)), 1)
        return begin, a.xp.maximum((begin[1:] - begin[:-1]) // mean, 1)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        begin, blocks = cls.blocks(a)
        return super().estimate(a, **params) + begin.nbytes + 4 * (len(begin) + int(blocks.sum()))

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        begin, blocks = cls.blocks(a)
        first_block = offsets(blocks).astype(np.int32, copy=False)
        buckets = {"bucket_begin": begin, "first_block": first_block}
        return super().convert(a, **params) | buckets | {"bucket_of": expand(first_block, int(first_block[-1]))}

    def launches(self, x: SparseVector, y: Array) -> list[Launch]:
        xp, rows, buckets = self.xp, self.shape[0], len(self.bucket_begin) - 1
        log_height = np.int32(self.log_height(self.values.itemsize))
        cursors = xp.zeros(buckets, dtype=np.int32)
        cut, pieces = self.cut(x, y, PIECE, zero=len(self.bucket_of) > buckets, clear=cursors)
        products = xp.empty(len(self.values), dtype=np.uint16), xp.empty_like(self.values)
        types = f"{ctype(self.values)}, {ctype(self.col_ptr)}"

        sizes = log_height, np.int32(buckets)
        args: tuple[Any, ...] = (*pieces, self.row_idx, self.values, *sizes, self.bucket_begin, cursors, *products)
        grid = self.grid(cdiv(self.pieces_expected(len(x), PIECE) * PIECE, ITEMS))
        kernel = f"fill_buckets<{types}, {PIECE}, {ITEMS}, {BLOCK}>"
        fill = Launch("spmspv/bucket.cu", kernel, grid, BLOCK, args, shared_bytes=8 * buckets)

        args = (np.int32(rows), log_height, self.bucket_of, self.first_block, self.bucket_begin, cursors, *products)
        kernel = f"sum_buckets<{types}, {SUM_BLOCK}>"
        shared = self.values.itemsize << int(log_height)
        block = (len(self.bucket_of), SUM_BLOCK, (*args, y), shared)
        add = Launch("spmspv/bucket.cu", kernel, *block)
        return [*in_part("fill buckets", [cut, fill]), *in_part("sum buckets", [add])]
