"""CoAdELL: AdELL whose columns are differences along a lane, in as few bytes as a warp needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, expand, put
from spmvbench.formats.conversion import runner
from spmvbench.formats.ellpack.sell_convert import WARP
from spmvbench.formats.lane_packing.tiles import AdEll
from spmvbench.formats.launches import ctype
from spmvbench.formats.registry import register


class Packed(NamedTuple):
    """Columns of tiles as differences."""

    base: Array  # (32 * tiles,), int32
    width: Array  # (tiles,), uint8
    byte_ptr: Array  # (tiles + 1,), int64
    step: Array  # (slots,), int32: difference of each slot, 0 in the first step and in padding
    tile: Array  # (slots,), int32

    @classmethod
    def of(cls, columns: Array, tile_ptr: Array) -> Packed:
        """columns: (slots,), -1 is padding; a lane's ascend. tile_ptr: (tiles + 1,), first slot of each tile."""
        xp, slots = array_module(columns), len(columns)
        tile = expand(tile_ptr, slots)
        slot = xp.arange(slots)
        later = slot - tile_ptr[tile] >= WARP
        before = columns[xp.maximum(slot - WARP, 0)]
        step = xp.where(later & (columns >= 0), columns - before, 0).astype(np.int32)
        most = xp.zeros(len(tile_ptr) - 1, dtype=np.int32)
        xp.maximum.at(most, tile, step)
        width = xp.where(most < 256, 1, xp.where(most < 65536, 2, 4)).astype(np.uint8)
        byte_ptr = xp.zeros(len(tile_ptr), dtype=np.int64)
        xp.cumsum(width * (xp.diff(tile_ptr).astype(np.int64) - WARP), out=byte_ptr[1:])
        return cls(columns[~later], width, byte_ptr, step, tile)

    def bytes_of(self, tile_ptr: Array) -> Array:
        """The differences, little end first, (byte_ptr[-1],), uint8."""
        xp = array_module(self.step)
        packed = xp.zeros(int(self.byte_ptr[-1]), dtype=np.uint8)
        slot = xp.flatnonzero(self.step)
        tile, step = self.tile[slot], self.step[slot]
        width = self.width[tile].astype(np.int64)
        at = self.byte_ptr[tile] + (slot - tile_ptr[tile] - WARP) * width
        for byte in range(4):
            named = xp.flatnonzero(width > byte)
            put(packed, at[named] + byte, (step[named] >> (8 * byte) & 255).astype(np.uint8))
        return packed


def unpacked(base: Array, width: Array, byte_ptr: Array, packed: Array, tile_ptr: Array) -> Array:
    """The column of each slot, (slots,), int32; -1 is padding. packed: differences, as `Packed.bytes_of` has them."""
    xp, slots = array_module(tile_ptr), int(tile_ptr[-1])
    tile, slot = expand(tile_ptr, slots), xp.arange(slots)
    inside = slot - tile_ptr[tile]
    lane = WARP * tile.astype(np.int64) + inside % WARP
    later = xp.flatnonzero(inside >= WARP)
    bytes_of = width[tile[later]].astype(np.int64)
    at = byte_ptr[tile[later]] + (inside[later] - WARP) * bytes_of
    step = xp.zeros(slots, dtype=np.int64)
    for byte in range(4):
        named = xp.flatnonzero(bytes_of > byte)
        step[later[named]] += packed[at[named] + byte].astype(np.int64) << (8 * byte)
    order = xp.argsort(lane, kind="stable")  # a lane's slots one after the other
    sums = xp.cumsum(step[order])
    begins = inside[order] < WARP
    first = xp.flatnonzero(begins)[xp.cumsum(begins) - 1]  # CuPy has no running maximum
    column = xp.empty(slots, dtype=np.int64)
    column[order] = base[lane[order]] + sums - sums[first]
    stored = xp.where(inside < WARP, base[lane] >= 0, step > 0)
    return xp.where(stored, column, -1).astype(np.int32)


@register
class CoAdEll(AdEll):
    """AdELL with the first column of each thread stored whole and the others as differences of 1, 2 or 4 bytes.

    A lane's columns ascend, so a difference of 0 is padding. The survey says that differences between neighbouring
    entries are stored in smaller types, by warp: the classes and the layout are our reading.
    """

    key = "coadell"
    survey_name = "CoAdELL"
    reference = "Maggioni & Berger-Wolf, IPDPSW 2014"
    shared_implementation = "tiles of 32 threads: as adell, columns as differences"

    base: Array  # (32 * tiles,), int32: first column of each lane; -1 where it has no row
    width: Array  # (tiles,), uint8: bytes of a difference, 1, 2 or 4
    byte_ptr: Array  # (tiles + 1,), int64: where each tile's differences begin
    columns: Array  # (bytes,), uint8: differences, step by step from the second on; 0 is padding

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        found = AdEll.convert(a)
        packed = Packed.of(found["columns"], found["tile_ptr"])
        tables = packed.base.nbytes + packed.width.nbytes + packed.byte_ptr.nbytes + int(packed.byte_ptr[-1])
        return int(super().estimate(a) - found["columns"].nbytes + tables)

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        if (run := runner(a)) and a.nnz:
            return cls.by_kernels(a, run, packed=True)
        found = super().convert(a)
        packed = Packed.of(found["columns"], found["tile_ptr"])
        fields = {"base": packed.base, "width": packed.width, "byte_ptr": packed.byte_ptr}
        return found | fields | {"columns": packed.bytes_of(found["tile_ptr"])}

    def to_coo(self) -> tuple[Array, Array, Array]:
        columns = unpacked(self.base, self.width, self.byte_ptr, self.columns, self.tile_ptr)
        slot = self.xp.flatnonzero(columns >= 0)
        lane = WARP * expand(self.tile_ptr, len(columns))[slot].astype(np.int64) + slot % WARP
        return self.lane_row[lane], columns[slot], self.values[slot]

    def kernel(self, batch: int) -> tuple[str, tuple[Array, ...]]:
        types = f"{ctype(self.values)}, {ctype(self.tile_ptr)}"
        return f"packed_lane_tiles<{types}, {batch}>", (self.base, self.width, self.byte_ptr, self.columns)

    @property
    def detail(self) -> dict[str, Any]:
        index = self.base.nbytes + self.width.nbytes + self.byte_ptr.nbytes + self.columns.nbytes
        return super().detail | {"index_bytes_per_slot": index / max(len(self.values), 1)}
