"""The tiles of a matrix by kernels that find those of block rows in shared memory (kernels/include/found_tiles.cuh)."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, round_up
from spmvbench.formats.conversion import Run, noted, notes
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, ctype, per_thread

SOURCE = "dense_blocks/block_convert.cu"
FIND = "include/found_tiles.cuh"
FIND_BLOCK = constant(FIND, "FIND_BLOCK")  # threads of a share
_SHARE, _ROWS = (constant(FIND, f"FIND_{name}") for name in ("SHARE", "ROWS"))


def _shares_of(a: Csr, r: int) -> int:
    """Thread blocks that go through all block rows of r rows."""
    return cdiv(a.nnz + round_up(a.rows, r), _SHARE)


def cut_shares(a: Csr, r: int, c: int, run: Run) -> Struct:
    """Where the shares of block rows of r rows, in blocks of c columns, begin: an argument of the kernels, by one."""
    cuts = _shares_of(a, r) + 1
    block_row, column = (a.xp.empty(cuts, dtype=np.int32) for _ in range(2))
    args = (*map(np.int32, (a.rows, r, c, cuts)), a.row_ptr, a.col_idx, block_row, column)
    run(Launch(SOURCE, f"cut_shares<{ctype(a.row_ptr)}>", *per_thread(32 * cuts), args))
    return Struct((block_row, column))


def key_type(a: Csr, r: int, c: int) -> str:
    """The template argument for the numbers of blocks of r x c among those that a thread block has at once."""
    bits = (cdiv(a.cols, c) - 1).bit_length() + (max(_ROWS // r, 1) - 1).bit_length()
    return "unsigned int" if bits <= 32 else "unsigned long long"


def count_tiles(a: Csr, r: int, c: int, cuts: Struct, run: Run, known: int | None = None) -> tuple[Array, Array, int]:
    """The first tile of each block row, of each share, each with the end; and all tiles, by one wait if not known."""
    xp, shares = a.xp, _shares_of(a, r)
    ptr, of_share = (xp.empty(n + 1, dtype=a.row_ptr.dtype) for n in (cdiv(a.rows, r), shares))
    if not shares:
        ptr[:] = of_share[:] = 0
        return ptr, of_share, 0
    state = notes(xp, shares, each=1, block=1)
    args = (*map(np.int32, (a.rows, r, c)), a.row_ptr, a.col_idx, cuts, ptr, of_share, state)
    run(Launch(SOURCE, f"count_tiles<{key_type(a, r, c)}, {ctype(a.row_ptr)}>", shares, FIND_BLOCK, args))
    return ptr, of_share, noted(state)[-1] if known is None else known
