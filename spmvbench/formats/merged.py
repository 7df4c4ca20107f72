"""The tiles of a matrix by kernels that merge rows in shared memory (kernels/include/merged_rows.cuh)."""

from __future__ import annotations

from spmvbench.formats.arrays import Csr, cdiv
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import cbool

MERGED = "include/merged_rows.cuh"
MERGE_BLOCK = constant(MERGED, "MERGE_BLOCK")  # threads of a share
_SHARE, _WEIGHT, _BITS = (constant(MERGED, f"MERGE_{name}") for name in ("SHARE", "WEIGHT", "BITS"))
MOST_ROWS = 1 << constant(MERGED, "ROW_BITS")  # of a block row


def merge_shares(a: Csr, r: int) -> int:
    """Thread blocks that go through all block rows of r rows."""
    return cdiv(a.nnz + _WEIGHT * r * cdiv(a.rows, r), _SHARE)


def wide_keys(a: Csr, c: int) -> str:
    """The template argument that says whether blocks of c columns are too many for keys of 32 bits."""
    return cbool(cdiv(a.cols, c) > 1 << 32 - _BITS)
