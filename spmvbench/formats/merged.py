"""The tiles of a matrix by kernels that merge rows in shared memory (kernels/include/merged_rows.cuh)."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Csr, cdiv, round_up
from spmvbench.formats.conversion import Run
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype, per_thread

MERGED = "include/merged_rows.cuh"
MERGE_BLOCK = constant(MERGED, "MERGE_BLOCK")  # threads of a share
_SHARE, _BITS = (constant(MERGED, f"MERGE_{name}") for name in ("SHARE", "BITS"))


def merge_shares(a: Csr, r: int) -> int:
    """Thread blocks that go through all block rows of r rows."""
    return cdiv(a.nnz + round_up(a.rows, r), _SHARE)


def merge_cuts(a: Csr, r: int, c: int, run: Run) -> Struct:
    """Where the shares of block rows of r rows, in blocks of c columns, begin: an argument of the kernels, by one."""
    cuts = merge_shares(a, r) + 1
    block_row, column = (a.xp.empty(cuts, dtype=np.int32) for _ in range(2))
    args = (*map(np.int32, (a.rows, r, c, cuts)), a.row_ptr, a.col_idx, block_row, column)
    run(Launch("dense_blocks/block_convert.cu", f"merged_cuts<{ctype(a.row_ptr)}>", *per_thread(32 * cuts), args))
    return Struct((block_row, column))


def wide_keys(a: Csr, c: int) -> str:
    """The template argument that says whether blocks of c columns are too many for keys of 32 bits."""
    return cbool(cdiv(a.cols, c) > 1 << 32 - _BITS)
