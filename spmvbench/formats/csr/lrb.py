"""CSR with rows binned by powers of two of their length, and a kernel for each kind of bin (rocSPARSE)."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, on_host
from spmvbench.formats.csr.bins import CsrVisited, ordered
from spmvbench.formats.csr.rows import LISTED, rows_launch
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "csr/lrb.cu"
BLOCK, PLACES, ROUNDS = (constant(KERNEL, name) for name in ("LRB_BLOCK", "PLACES", "ROUNDS"))
BINS = 32
BLOCK_PER_ROW = 9  # the first bin whose rows have a block each: of more than 256 entries


def bin_of(lengths: Array, xp: Any) -> Array:
    """The bin of rows of some lengths, (n,): b for more than 2**(b - 1) and up to 2**b entries; 0 up to one entry."""
    powers = xp.asarray([1 << b for b in range(BINS)], dtype=np.int64)
    found: Array = xp.searchsorted(powers, lengths.astype(np.int64))
    return found


@register
class CsrLrb(CsrVisited):
    """CSR with rows binned by powers of two of their length; one launch for each bin that has rows.

    Bin b holds the rows of more than 2^(b-1) and up to 2^b entries, in their order. Bins below `short` are multiplied
    into shared memory, each row padded to 2^b products, and added up by a thread per row. Then follow a warp per row,
    from bin 9 on a block of 256 threads per row, and from bin `long` on a block for each 768 entries, added by atomics.

    The library scatters rows to bins by atomics, in any order, and lets the blocks of a long row wait for the first.
    The rows of a bin in their order and a launch that sets long rows to zero are our reading. Sums are the same every
    time with long=32. No matrix is moved: the arrays of CSR stay as they are.
    """

    key = "csr-lrb"
    vectors_together = 2
    reference = "AMD rocSPARSE, csrmv LRB, after Fox, Tripathy & Green, HPEC 2019"
    shared_implementation = "CSR by a list of rows: in bins by powers of two, long rows cut"

    short = Parameter(5, "the first bin whose rows have a warp each", low=0, high=6)
    long = Parameter(11, "the first bin whose rows are cut", low=BLOCK_PER_ROW, high=BINS)

    bin_ptr: Array  # (33,), int32: the place of the first row of each bin

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nbytes + 4 * (a.rows + BINS + 1)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        rows, bin_ptr = ordered(bin_of(a.row_lengths, a.xp), BINS, range(BINS + 1))
        return {**super().convert(a), "rows": rows, "bin_ptr": a.xp.asarray(bin_ptr, dtype=np.int32)}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        ptr, steps = on_host(self.bin_ptr).tolist(), []
        types = f"{ctype(self.values)}, {ctype(self.row_ptr)}"
        arrays = self.row_ptr, self.col_idx, self.values, x, y
        cut = self.rows[ptr[self.long] :] if self.long < BINS else self.rows[:0]
        if len(cut):
            steps.append(zero_rows(cut, y))
        for b in range(BINS):
            rows = self.rows[ptr[b] : ptr[b + 1]]
            if not len(rows):
                continue
            if b < self.short:
                grid = cdiv(len(rows), min(BLOCK, PLACES >> b))
                steps.append(
                    Launch(KERNEL, f"lrb_short<{types}, {b}>", grid, BLOCK, (np.int32(len(rows)), rows, *arrays))
                )
            elif b < self.long:
                lanes = 32 if b < BLOCK_PER_ROW else BLOCK
                steps.append(rows_launch(self, LISTED, rows, x, y, lanes, 1, False, block=BLOCK))
            else:
                blocks = cdiv(1 << b, ROUNDS * BLOCK)
                args = (np.int32(blocks), self.row_ptr.dtype.type(len(self.values)), rows, *arrays)
                steps.append(Launch(KERNEL, f"lrb_long<{types}>", len(rows) * blocks, BLOCK, args))
        return steps

    @property
    def detail(self) -> dict[str, Any]:
        return {"bins": int(np.count_nonzero(np.diff(on_host(self.bin_ptr))))}
