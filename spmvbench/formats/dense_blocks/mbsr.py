"""mBSR: dense 4 x 4 blocks with a bitmap each, for tensor cores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import SECTOR_BYTES, Array, Csr, cdiv, expand, put
from spmvbench.formats.dense_blocks.cells import Cells, Shares
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "dense_blocks/mbsr.cu"
SIDE = constant(SOURCE, "SIDE")
PLACES = SIDE * SIDE
MOST = constant(SOURCE, "MOST")  # blocks of a piece
BLOCK = 128
TENSOR_FILL = 10  # entries per block, from which the authors take tensor cores
UNEVEN = 12.0  # standard deviation of blocks per block row, from which they cut block rows


class Cut(NamedTuple):
    """The blocks of a matrix, and the pieces of block rows where these are cut."""

    cells: Cells
    pieces: Array  # (pieces, 2), int32: block row, first block; (0, 2) if block rows are whole

    @classmethod
    def of(cls, a: Csr, balance: str) -> Cut:
        xp, cells = a.xp, Cells.of(a, SIDE, SIDE)
        counts = xp.diff(cells.row_ptr)
        if len(counts) == 0 or balance == "no" or (balance == "auto" and float(counts.std()) < UNEVEN):
            return cls(cells, xp.zeros((0, 2), dtype=np.int32))
        shares = Shares.of(cells.row_ptr, MOST)
        return cls(cells, xp.stack((shares.owner, shares.first), axis=1).astype(np.int32))


@register
class Mbsr(Format):
    """Block CSR of 4 x 4 blocks, stored whole, with a bitmap of 16 bits each.

    The bitmap tells stored zeros from padding, and whose x is not to be loaded. kernel=paper is the authors' rule: the
    tensor cores where blocks have ten entries or more on average and values are of double precision, else the cores;
    kernel=tensor and kernel=cores name one. With tensor cores a warp takes two blocks at a time as the rows of one 8 x
    4 operand, and their x as the columns of the other: the sums are the diagonal of the product. Other GPUs than those
    from compute capability 8.0, single precision and the emulated device multiply the same operands slot by slot.

    kernel=fast is this project's: 16 or 32 threads per block row take a value each of four blocks in flight. Tensor
    cores save arithmetic, of which there is too little to matter: both read 134 bytes a block in double precision.

    Where the blocks of block rows vary much, by a standard deviation of 12, block rows are cut into pieces of 64
    blocks, which add to y. That rows beyond the matrix are not stored, and that x of padding is not read, is our
    reading.
    """

    key = "mbsr"
    family = "BCSR"
    reference = "Lu, Zeng, Wang et al., AmgT, SC 2024"

    kernel = Parameter(
        "fast",
        "fast: a thread per value; paper: tensor cores or a thread per row of a block, by the mean block",
        choices=("fast", "paper", "tensor", "cores"),
    )
    balance = Parameter("auto", "cut long block rows; auto: if their blocks vary much", choices=("auto", "yes", "no"))

    block_ptr: Array  # (block rows + 1,), int32: first block of each block row
    block_col: Array  # (blocks,), int32: column of a block, in blocks
    maps: Array  # (blocks,), uint16: bit 4 r + c is set if there is an entry
    values: Array  # (blocks, 16); 0 if there is no entry
    pieces: Array  # (pieces, 2), int32: block row, first block; (0, 2) if block rows are whole
    nnz: int

    @classmethod
    def estimate(cls, a: Csr, *, balance: str, **params: Any) -> int:
        cut = Cut.of(a, balance)
        blocks = len(cut.cells.row)
        return cut.cells.row_ptr.nbytes + blocks * (6 + PLACES * a.dtype.itemsize) + cut.pieces.nbytes

    @classmethod
    def convert(cls, a: Csr, *, balance: str, **params: Any) -> dict[str, Any]:
        xp, cut = a.xp, Cut.of(a, balance)
        cells = cut.cells
        place = a.row_idx[cells.order] % SIDE * SIDE + a.col_idx[cells.order] % SIDE
        values = xp.zeros((len(cells.row), PLACES), dtype=a.dtype)
        cell = cells.cell
        put(values, (cell, place), a.values[cells.order])
        maps = xp.zeros(len(cells.row), dtype=np.uint32)
        xp.add.at(maps, cell, xp.left_shift(np.uint32(1), place.astype(np.uint32)))
        return {
            "block_ptr": cells.row_ptr,
            "block_col": cells.col.astype(np.int32),
            "maps": maps.astype(np.uint16),
            "values": values,
            "pieces": cut.pieces,
            "nnz": a.nnz,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        block, place = xp.nonzero(self.maps[:, None] >> xp.arange(PLACES, dtype=np.uint16) & np.uint16(1))
        row = expand(self.block_ptr, len(self.block_col))[block].astype(np.int64) * SIDE + place // SIDE
        return row, (self.block_col[block] * SIDE + place % SIDE).astype(np.int32), self.values[block, place]

    @property
    def fill(self) -> float:
        """Entries per block."""
        return self.nnz / max(len(self.block_col), 1)

    @property
    def kernel_name(self) -> str:
        """The kernel: fast, tensor or cores."""
        if self.params["kernel"] != "paper":
            return str(self.params["kernel"])
        return "tensor" if self.fill >= TENSOR_FILL and self.values.dtype == np.float64 else "cores"

    @property
    def bytes_read(self) -> int:
        """On the cores a thread loads entries of its row only: without the sectors of a block that have none."""
        if self.kernel_name != "cores":
            return self.nbytes
        width = SECTOR_BYTES // self.values.itemsize  # places of a sector
        starts = self.xp.arange(0, PLACES, width, dtype=np.uint16)
        empty = (self.maps[:, None] >> starts & np.uint16((1 << width) - 1)) == 0
        return self.nbytes - int(empty.sum()) * SECTOR_BYTES

    def launches(self, x: Array, y: Array) -> list[Launch]:
        cut, block_rows = len(self.pieces) > 0, cdiv(self.shape[0], SIDE)
        items = len(self.pieces) if cut else block_rows
        kernel, value = self.kernel_name, ctype(self.values)
        lanes = 32
        if kernel == "fast":
            lanes = 32 if len(self.block_col) >= 12 * block_rows else 16
            name = f"mbsr_stream<{value}, {lanes}, {cbool(cut)}>"
        else:
            name = f"mbsr_{kernel}<{value}, {cbool(cut)}>"
        grid = cdiv(items * lanes, BLOCK)
        matrix = self.pieces, self.block_ptr, self.block_col, self.maps, self.values
        spmv = Launch(SOURCE, name, grid, BLOCK, (np.int32(items), np.int32(self.shape[0]), *matrix, x, y))
        return [zero_fill(y), spmv] if cut or kernel != "fast" else [spmv]

    @property
    def detail(self) -> dict[str, Any]:
        return {"entries_per_block": self.fill, "pieces": len(self.pieces)}
