"""AdELL+: rows end to end over lanes, in blocks, with columns as differences, and what is fastest found by timing."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, index_dtype, nonzero_mask, put
from spmvbench.formats.ellpack.sell_convert import WARP
from spmvbench.formats.lane_packing.packed import Packed, unpacked
from spmvbench.formats.lane_packing.tiles import Lanes, LaneTiles, longest_of, target
from spmvbench.formats.launches import Launch, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import FASTEST, tuned

BLOCKS = "lane_packing/block_tiles.cu"
UNROLL, BLOCK = (1, 2, 4, 8), (64, 128, 256)
SIDES = (1, 2, 3, 4)


def in_blocks(a: Csr, side: int) -> tuple[Csr, Array]:
    """The blocks of side x side that hold entries as a matrix of their own, and the block of each entry, (nnz,).

    Block i is entry i of that matrix, which has no values that mean anything.
    """
    if side == 1:
        return a, a.xp.arange(a.nnz)
    xp, across = a.xp, cdiv(a.cols, side)
    keys = (a.row_idx // side).astype(np.int64) * max(across, 1) + a.col_idx // side
    blocks, of_entry = xp.unique(keys, return_inverse=True)
    rows = cdiv(a.rows, side)
    row_ptr = xp.searchsorted(blocks, xp.arange(rows + 1, dtype=np.int64) * across)
    columns = (blocks % max(across, 1)).astype(np.int32)
    dtype = index_dtype(len(blocks))
    held = Csr((rows, across), row_ptr.astype(dtype), columns, xp.empty(len(blocks), dtype=a.dtype))
    return held, of_entry.reshape(-1)


@register
class AdEllPlus(LaneTiles):
    """AdELL with rows assigned to threads in one pass, end to end; in small blocks and with compressed columns.

    A row takes as many lanes as adell wants for it, with equal shares, and may continue in the next warp; a warp has
    the steps of its longest lane. What AdELL+ integrates: blocks in place of entries (side), columns as differences
    (compress), and tuning. The side is that of 1 to 4 with the fewest bytes of blocks; compression, how far the loop is
    unrolled and the threads of a block are timed, the paper's in the solver's first products, ours at conversion; where
    NumPy holds the matrix they are no, 4 and 128. The pass, the blocks, the candidates and every number are our reading
    of the survey's sentences. A matrix with stored zeros is not stored in blocks.
    """

    key = "adell-plus"
    values_decide = True
    multiplies_padding = True
    survey_name = "AdELL+"
    reference = "Maggioni & Berger-Wolf, JPDC 2016"
    shared_implementation = "tiles of 32 threads: rows end to end"

    side = Parameter(0, "rows and columns of a block; 0: the number with the fewest bytes", choices=(0, *SIDES))
    compress = Parameter(FASTEST, "columns as differences, or what is faster", choices=(FASTEST, "no", "yes"))
    unroll = Parameter(0, "slots per thread in flight; 0: the fastest", choices=(0, *UNROLL))
    block = Parameter(0, "threads per block; 0: the fastest", choices=(0, *BLOCK))

    columns: Array  # (slots,), int32; -1 is padding; compressed (bytes,), uint8: differences from the second step on
    values: Array  # (side * side * slots,): of 32 slots side by side the first value of each block, then the second
    base: Array  # (32 * tiles,), int32: first column of each lane, -1 where it has no row; (0,) if not compressed
    width: Array  # (tiles,), uint8: bytes of a difference, 1, 2 or 4; (0,) if not compressed
    byte_ptr: Array  # (tiles + 1,), int64: where each tile's differences begin; (0,) if not compressed
    side_in_use: int
    batch_in_use: int
    block_in_use: int

    @classmethod
    def lanes(cls, a: Csr, **params: Any) -> Lanes:
        xp = a.xp
        row = xp.flatnonzero(a.row_lengths).astype(np.int32)
        length = a.row_lengths[row].astype(np.int64)
        chunk = cdiv(length, cdiv(length, target(a)))
        before = xp.zeros(len(row) + 1, dtype=np.int64)
        xp.cumsum(cdiv(length, chunk), out=before[1:])
        used = int(before[-1])
        steps = xp.zeros(cdiv(used, WARP) * WARP, dtype=np.int64)
        steps[:used] = chunk[expand(before, used)]
        return Lanes(row, length, before[:-1], chunk, longest_of(steps, WARP))

    @classmethod
    def blocks(cls, a: Csr, side: int) -> tuple[int, Csr, Array]:
        """The side in use, and what `in_blocks` gives for it. Raises Skip for blocks of a matrix with stored zeros."""
        zeros = side != 1 and not bool(nonzero_mask(a.values).all())
        if side > 1 and zeros:
            raise Skip("stored zeros cannot be distinguished from those that blocks add")
        tried = {each: in_blocks(a, each) for each in ((side,) if side else (1,) if zeros else SIDES)}
        value = a.dtype.itemsize
        best = min(tried, key=lambda each: tried[each][0].nnz * (4 + each * each * value))
        return best, *tried[best]

    @classmethod
    def estimate(cls, a: Csr, *, side: int, compress: str, **params: Any) -> int:
        side, held, _ = cls.blocks(a, side)
        found, _ = cls.placed(held, cls.lanes(held))
        if compress == "yes":
            found |= cls.packed(found)
        found["cut_rows"] = cls.rows_of(found["cut_rows"], side, a.rows)
        tables = sum(array.nbytes for array in found.values() if hasattr(array, "nbytes"))
        return int(tables) + int(found["tile_ptr"][-1]) * side * side * a.dtype.itemsize

    @classmethod
    def packed(cls, found: dict[str, Any]) -> dict[str, Any]:
        """The fields of columns as differences, from those of columns as they are."""
        packed = Packed.of(found["columns"], found["tile_ptr"])
        columns = packed.bytes_of(found["tile_ptr"])
        return {"base": packed.base, "width": packed.width, "byte_ptr": packed.byte_ptr, "columns": columns}

    @staticmethod
    def rows_of(block_rows: Array, side: int, rows: int) -> Array:
        """The rows of block rows, int32."""
        if side == 1:
            return block_rows
        found = (block_rows[:, None] * side + array_module(block_rows).arange(side, dtype=np.int32)).reshape(-1)
        return found[found < rows].astype(np.int32)

    @classmethod
    def convert(cls, a: Csr, *, side: int, compress: str, **params: Any) -> dict[str, Any]:
        xp = a.xp
        side, held, of_entry = cls.blocks(a, side)
        plain, slot = cls.placed(held, cls.lanes(held))
        size = side * side
        values = xp.zeros(len(plain["columns"]) * size, dtype=a.dtype)
        slot, inside = slot[of_entry], a.row_idx % side * side + a.col_idx % side
        put(values, (slot // WARP * size + inside) * WARP + slot % WARP, a.values)
        plain |= {
            "values": values,
            "cut_rows": cls.rows_of(plain["cut_rows"], side, a.rows),
            "side_in_use": side,
            "base": xp.empty(0, dtype=np.int32),
            "width": xp.empty(0, dtype=np.uint8),
            "byte_ptr": xp.empty(0, dtype=np.int64),
        }

        @cache
        def stored(compress: str) -> dict[str, Any]:
            return plain | cls.packed(plain) if compress == "yes" else plain

        def fields(compress: str, unroll: int, block: int, **_: Any) -> dict[str, Any]:
            return stored(compress) | {"batch_in_use": unroll or 4, "block_in_use": block or 128}

        given = {"compress": compress, "side": side, **params}
        # The kernel of blocks is not unrolled by a parameter.
        unrolls = UNROLL if side == 1 else UNROLL[2:3]
        return tuned(cls, a, given, {"compress": ("no", "yes"), "unroll": unrolls, "block": BLOCK}, fields)

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, side = self.xp, self.side_in_use
        packed = self.base, self.width, self.byte_ptr, self.columns
        columns = unpacked(*packed, self.tile_ptr) if len(self.byte_ptr) else self.columns
        slot = xp.flatnonzero(columns >= 0)
        row = self.lane_row[WARP * expand(self.tile_ptr, len(columns))[slot].astype(np.int64) + slot % WARP]
        if side == 1:
            return row, columns[slot], self.values[slot]
        size = side * side
        value = self.values[((slot // WARP * size)[:, None] + xp.arange(size)) * WARP + (slot % WARP)[:, None]]
        block, inside = xp.nonzero(nonzero_mask(value))
        rows = row[block] * side + inside // side
        return rows, columns[slot][block] * side + inside % side, value[block, inside]

    def shape_of_launch(self) -> tuple[int, int]:
        return self.batch_in_use, self.block_in_use

    def kernel(self, batch: int) -> tuple[str, tuple[Array, ...]]:
        types = f"{ctype(self.values)}, {ctype(self.tile_ptr)}"
        packed = (self.base, self.width, self.byte_ptr, self.columns)
        if self.side_in_use > 1:
            name = "packed_block_tiles" if len(self.byte_ptr) else "block_lane_tiles"
            return f"{name}<{types}, {self.side_in_use}>", packed if len(self.byte_ptr) else (self.columns,)
        return (f"packed_lane_tiles<{types}, {batch}>", packed) if len(self.byte_ptr) else super().kernel(batch)

    def product(self, x: Array, y: Array) -> Launch:
        if self.side_in_use == 1:
            return super().product(x, y)
        batch, block = self.shape_of_launch()
        kernel, columns = self.kernel(batch)
        sizes = (np.int32(len(self.adds)), *map(np.int32, self.shape))
        args = (*sizes, self.tile_ptr, self.lane_row, self.adds, *columns, self.values, x, y)
        return Launch(BLOCKS, kernel, *per_thread(WARP * len(self.adds), block), args)

    @property
    def in_use(self) -> dict[str, Any]:
        return {
            "side": self.side_in_use,
            "compress": "yes" if len(self.byte_ptr) else "no",
            "unroll": self.batch_in_use,
            "block": self.block_in_use,
        }
