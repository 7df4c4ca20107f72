"""CSR5: CSR in tiles of equal work, each with a descriptor that takes the place of the row pointers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spmvbench.errors import UsageError
from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, array_module, cdiv, expand, nothing, offsets
from spmvbench.formats.carries import SUM, add_carries
from spmvbench.formats.compressed.dictionary import coded
from spmvbench.formats.conversion import Run, numbers, offsets_upto, runner, zeros
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, after_zeros, ctype, per_thread, zero_fill, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

OMEGA = 32  # threads of a tile
SEG_BITS = 5  # of seg_offset
SHORT = 5  # entries of a row in the mean, up to which an epilogue is faster than a kernel after the product (H200)
ADDED, CARRIED = (constant("include/csr5.cuh", name) for name in ("ADDED", "CARRIED"))  # rows that tiles cut


def sigma_by_rule(rows: int, nnz: int) -> int:
    """Entries of a thread, from the mean row length: the authors' rule for NVIDIA GPUs (r, s, t, u = 4, 32, 256, 6)."""
    mean = nnz // max(rows, 1)
    if mean <= 32:
        return max(mean, 4)
    return 32 if mean <= 256 else 6


def sigma_in_use(rows: int, nnz: int, sigma: int, kernel: str) -> int:
    """The parameter, or the rule's; the fast kernel takes 24 where the rule says 32, 14 % faster on fem:40:3 (H200).

    Raises UsageError for 1 to 3.
    """
    if 0 < sigma < 4:
        raise UsageError(f"csr5 takes sigma 4 to 32, or 0 for the authors' rule, not {sigma}")
    return sigma or min(sigma_by_rule(rows, nnz), 24 if kernel == "fast" else 32)


def whole_tiles(nnz: int, sigma: int) -> int:
    """T: whole tiles; the tail after them is never empty."""
    return max(cdiv(nnz, OMEGA * sigma) - 1, 0)


def y_offset_bits(sigma: int) -> int:
    """Bits of a thread's descriptor that y_offset takes: enough for the entries of a tile."""
    return (OMEGA * sigma - 1).bit_length()


def packets(sigma: int) -> int:
    """32-bit words of a thread's descriptor."""
    return cdiv(y_offset_bits(sigma) + SEG_BITS + sigma, 32)


def swapped(array: Array, tiles: int, outer: int, inner: int) -> Array:
    """A copy whose first `tiles` tiles of outer x inner entries are stored inner x outer."""
    whole = tiles * outer * inner
    out = array_module(array).empty_like(array)
    out[:whole].reshape(tiles, inner, outer)[:] = array[:whole].reshape(tiles, outer, inner).transpose(0, 2, 1)
    out[whole:] = array[whole:]
    return out


class Starts(NamedTuple):
    """Where rows begin among the tiles of a matrix. T: whole tiles; the tail after them is never empty."""

    sigma: int
    tiles: int  # T
    inside: int  # rows that begin in whole tiles
    rows: Array  # (n,), the rows that have entries, ascending
    entries: Array  # (n + 1,), the first entry of each, then nnz
    before: Array  # (T + 1,), how many begin before each tile, and before the tail
    owner: Array  # (T + 1,), the row of the first entry of each tile, and of the tail; empty rows own none
    begins: Array  # (T + 1,), whether that entry is its row's first
    dirty: Array  # (T + 1,), whether an empty row is between the owner and the next tile's (the rows' end)
    slots: Array  # (T,), of empty_offset: a dirty tile's segments, the one at its first entry included

    @classmethod
    def of(cls, a: Csr, sigma: int) -> Starts:
        xp, index = a.xp, a.row_ptr.dtype.type
        tiles = whole_tiles(a.nnz, sigma)
        rows = xp.flatnonzero(a.row_ptr[1:] > a.row_ptr[:-1])
        entries = xp.append(a.row_ptr[rows], xp.full(1, a.nnz, dtype=index))
        first = xp.arange(tiles + 1, dtype=index) * index(OMEGA * sigma)
        before = xp.searchsorted(entries, first, side="left")
        begins = entries[before] == first
        rank = before + begins - 1  # of the owner among the rows with entries
        owner = rows[rank] if a.nnz else xp.empty(0, dtype=np.int64)
        gaps = xp.diff(xp.append(owner - rank[: len(owner)], xp.full(1, a.rows - len(rows))))
        dirty = gaps > 0
        slots = xp.where(dirty[:tiles], xp.diff(before) + ~begins[:-1], 0)
        return cls(sigma, tiles, int(before[-1]), rows, entries, before, owner, begins, dirty, slots)

    def descriptors(self) -> Array:
        """(T, packets, 32), uint32: a thread's bits: y_offset, seg_offset and a flag per step, highest first."""
        xp, index = array_module(self.entries), self.entries.dtype.type
        sigma, shape = index(self.sigma), (self.tiles, OMEGA)
        offset_bits, words = y_offset_bits(self.sigma), packets(self.sigma)
        before = xp.searchsorted(self.entries, xp.arange(OMEGA * self.tiles + 1, dtype=index) * sigma, side="left")
        # Rows that begin in the tile before the thread, but for one at its first entry: that has no slot.
        y_offset = before[:-1].reshape(shape) - (self.before[:-1] + self.begins[:-1])[:, None]
        y_offset[:, 0] = 0
        # Threads between one in which a row begins and the next such; a tile's first thread counts as one.
        following = (self.entries[before[1:]] // sigma).reshape(shape) - xp.arange(1, 1 + OMEGA, dtype=index)
        tile_begin = xp.arange(self.tiles, dtype=index)[:, None] * index(OMEGA)
        seg_offset = xp.minimum(following - tile_begin, xp.arange(OMEGA - 1, -1, -1, dtype=index))
        flagged = (before[1:] > before[:-1]).reshape(shape)
        flagged[:, 0] = True
        head = (y_offset << (32 - offset_bits)) | (flagged * seg_offset << (32 - offset_bits - SEG_BITS))

        found = xp.zeros((self.tiles, words, OMEGA), dtype=np.uint32)
        found[:, 0] = head
        lane, step = xp.divmod(self.entries[: self.inside], sigma)
        bit = (step + index(offset_bits + SEG_BITS)).astype(np.uint32)
        word = lane
        if words > 1:
            word = lane + index(OMEGA) * (lane // OMEGA + bit // 32)
            bit = bit % 32
        xp.bitwise_or.at(found.reshape(-1), word, xp.right_shift(np.uint32(1 << 31), bit))
        return found

    def empty_offsets(self, empty_ptr: Array) -> Array:
        """For dirty tiles, the rows after the owner that begin in the tile, counted from the row after the owner.

        (empty_ptr[T],), int32. A dirty tile's last slot stays 0: the segment at its first entry needs none.
        """
        xp = array_module(self.entries)
        found = xp.zeros(int(empty_ptr[-1]), dtype=np.int32)
        if not len(found):
            return found
        # Row by row: its tile, and how many began in the tile before it, the owner not counted.
        tile = self.entries[: self.inside] // (OMEGA * self.sigma)
        rank = xp.arange(len(tile)) - (self.before + self.begins)[tile]
        named = xp.flatnonzero(self.dirty[tile] & (rank >= 0))
        tile = tile[named]
        found[empty_ptr[tile] + rank[named]] = self.rows[named] - self.owner[tile] - 1
        return found


def by_kernels(a: Csr, sigma: int, run: Run) -> dict[str, Any]:
    """The fields of `Csr5` by kernels of this project, for nnz > 0: one pass over the entries, one wait for the device.

    As array operations the descriptors are some sixty launches, a few SpMVs of a small matrix each. run: runs a launch
    on the arrays of `a`.
    """
    xp, tiles = a.xp, whole_tiles(a.nnz, sigma)
    block = constant("csr/csr5_convert.cu", "CONVERT_BLOCK")
    rows, nnz = np.int32(a.rows), a.row_ptr.dtype.type(a.nnz)
    size = rows, nnz, np.int32(tiles)
    tile_ptr = xp.empty(tiles + 2, dtype=np.uint32)
    tile_desc = xp.empty((tiles, packets(sigma), OMEGA), dtype=np.uint32)
    slots, counts = xp.empty(tiles + 1, dtype=np.int32), zeros(xp, 3, np.int32)
    col_idx, values = xp.empty(a.nnz, dtype=np.int32), xp.empty(a.nnz, dtype=a.dtype)
    matrix = a.row_ptr, a.col_idx, a.values
    found = tile_ptr, tile_desc, slots, counts, col_idx, values

    def launch(kernel: str, warps: int, *args: Any) -> None:
        run(Launch("csr/csr5_convert.cu", kernel, cdiv(warps * 32, block), block, args))

    launch(f"csr5_convert<{ctype(values)}, {ctype(a.row_ptr)}, {sigma}>", tiles + 1, *size, *matrix, *found)
    tail_row, empty_rows, filled = numbers(counts)
    empty_offset, empty_ptr = nothing(xp, np.int32), slots
    if filled:
        empty_offset, empty_ptr = xp.zeros(filled, dtype=np.int32), offsets_upto(slots[1:], filled, run)
        descriptor = tile_ptr, tile_desc, empty_ptr, empty_offset
        launch(f"csr5_empty_offsets<{ctype(a.row_ptr)}, {sigma}>", tiles, *size, a.row_ptr, *descriptor)
    return {
        "row_ptr": a.row_ptr,
        "tile_ptr": tile_ptr,
        "tile_desc": tile_desc,
        "empty_ptr": empty_ptr,
        "empty_offset": empty_offset,
        "col_idx": col_idx,
        "values": values,
        "tail_row": tail_row,
        "empty_rows": empty_rows,
    }


@register
class Csr5(Format):
    """CSR in tiles of 32 x sigma entries, one warp per tile; a bit descriptor gives each thread its rows.

    Work is the same for every warp whatever rows look like. What is after the last whole tile, the tail, stays plain
    CSR; it has no descriptor (the authors' code allocates one and does not use it). kernel=paper runs the authors'
    steps: y to zero, tiles, calibration of rows that tiles cut, tail. kernel=fast runs them as one: loads of a thread
    come first, rows within a tile are stored, parts of cut rows are added by atomics, and only cut rows are set to zero
    before (all of y where some row is empty). seg_offset is stored and checked, but sums over threads are taken by a
    bounded scan: the paper's difference of prefix sums loses digits where rows differ in size. Sums of rows cut into
    more than two parts are not reproducible, with either kernel, unless sum=fixed.
    """

    key = "csr5"
    family = "CSR"
    fused: ClassVar[str] = "csr5_fused"  # the kernel of kernel=fast
    survey_name = "CSR5"
    wide_offsets = True
    reference = "Liu & Vinter, ICS'15"

    sigma = Parameter(0, "entries per thread, 4 to 32; 0 takes the authors' rule (fast: at most 24)", low=0, high=32)
    kernel = Parameter(
        "fast", "paper: the authors' launches; fast: two, with more in flight", choices=("fast", "paper")
    )
    batch = Parameter(0, "steps that a thread loads at once (fast); 0: all up to 16, else 8", choices=(0, 4, 8, 16))
    block = Parameter(0, "threads per block; 0 takes 256, for small matrices 128", choices=(0, 64, 128, 256, 512))
    sum = SUM

    row_ptr: Array  # (rows + 1,), int32, or int64 where nnz needs it
    tile_ptr: Array  # (T + 2,), uint32: row of each tile's and the tail's first entry, bit 31 = dirty; rows at the end
    tile_desc: Array  # (T, packets, 32), uint32
    empty_ptr: Array  # (T + 1,), int32: where a dirty tile's rows are in empty_offset
    empty_offset: Array  # (slots of dirty tiles,), int32
    col_idx: Array  # (nnz,), int32; whole tiles step by step, the tail in order
    values: Array  # (nnz,), likewise
    tail_row: int  # row of the tail's first entry
    empty_rows: int  # rows without entries

    @classmethod
    def estimate(cls, a: Csr, *, sigma: int, kernel: str, **params: Any) -> int:
        starts = Starts.of(a, sigma_in_use(a.rows, a.nnz, sigma, kernel))
        tile_ptr = len(starts.owner) + 1
        descriptors = starts.tiles * packets(starts.sigma) * OMEGA
        return a.nbytes + 4 * (tile_ptr + descriptors + starts.tiles + 1 + int(starts.slots.sum()))

    @classmethod
    def convert(cls, a: Csr, *, sigma: int, kernel: str, **params: Any) -> dict[str, Any]:
        sigma = sigma_in_use(a.rows, a.nnz, sigma, kernel)
        if a.nnz and (run := runner(a)):
            return by_kernels(a, sigma, run)
        starts = Starts.of(a, sigma)
        tiles = starts.tiles
        tile_ptr = a.xp.full(len(starts.owner) + 1, a.rows, dtype=np.uint32)
        tile_ptr[:-1] = starts.owner.astype(np.uint32) | (starts.dirty.astype(np.uint32) << np.uint32(31))
        empty_ptr = offsets(starts.slots)
        return {
            "row_ptr": a.row_ptr,
            "tile_ptr": tile_ptr,
            "tile_desc": starts.descriptors(),
            "empty_ptr": empty_ptr,
            "empty_offset": starts.empty_offsets(empty_ptr),
            "col_idx": swapped(a.col_idx, tiles, OMEGA, sigma),
            "values": swapped(a.values, tiles, OMEGA, sigma),
            "tail_row": int(starts.owner[-1]) if a.nnz else 0,
            "empty_rows": a.rows - len(starts.rows),
        }

    @property
    def entries_per_lane(self) -> int:
        """The sigma in use."""
        return sigma_in_use(self.shape[0], len(self.col_idx), self.sigma, self.kernel)

    def to_coo(self) -> tuple[Array, Array, Array]:
        tiles, sigma = len(self.tile_desc), self.entries_per_lane
        rows = expand(self.row_ptr, len(self.col_idx))
        return rows, swapped(self.col_idx, tiles, sigma, OMEGA), swapped(self.values, tiles, sigma, OMEGA)

    @property
    def shares(self) -> tuple[str, int, tuple[Any, ...]]:
        """What one launch of the fast kernel takes, for a kernel that computes more than this matrix.

        The type of row_ptr, sigma and batch as template arguments, the warps, and the arguments between rows and x.
        """
        sigma, tiles = self.entries_per_lane, len(self.tile_desc)
        batch = self.batch or (sigma if sigma <= 16 else 8)
        descriptor = (self.tile_ptr, self.tile_desc, self.empty_ptr, self.empty_offset)
        return (
            f"{ctype(self.row_ptr)}, {sigma}, {min(batch, sigma)}",
            tiles + self.shape[0] - self.tail_row,
            (np.int32(tiles), np.int32(self.tail_row), self.row_ptr, *descriptor, self.col_idx, self.values),
        )

    @property
    def types(self) -> tuple[str, ...]:
        """Types after those of `shares` among the template arguments."""
        return ()

    def cut(self, y: Array) -> tuple[int, Array]:
        """What the fast kernel does with rows that tiles cut, as csr5.cuh numbers it, and the carries of the tiles; y
        stands for those if there are none.
        """
        if self.sum != "fixed":
            return ADDED, y
        return CARRIED, self.xp.empty(len(self.tile_desc), dtype=y.dtype)

    def rows_in_parts(self) -> Array:
        """Rows that tiles cut, and rows without entries before the tail: see `Launch.in_parts`."""
        xp, tiles = self.xp, len(self.tile_desc)
        owner = (self.tile_ptr[1 : tiles + 1] & np.uint32(INT32_MAX)).astype(np.int32)
        boundary = xp.arange(1, tiles + 1, dtype=np.int64) * (OMEGA * self.entries_per_lane)
        empty = xp.flatnonzero(self.row_ptr[: self.tail_row] == self.row_ptr[1 : self.tail_row + 1])
        found: Array = xp.unique(xp.concatenate([owner[self.row_ptr[owner] < boundary], empty.astype(np.int32)]))
        return found

    def carries(self, carry: Array, y: Array) -> list[Launch]:
        """The launch, if any, that adds the carries of `cut`."""
        return [] if self.sum != "fixed" else [add_carries(self.tile_ptr[1:], carry, y)]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        if not len(self.col_idx):
            return [zero_fill(y)]
        value, index, sigma = ctype(self.values), ctype(self.row_ptr), self.entries_per_lane
        rows, tiles, tail_row = np.int32(self.shape[0]), np.int32(len(self.tile_desc)), np.int32(self.tail_row)
        # Wide blocks share more of x in the L1 cache; narrow ones spread small matrices over the multiprocessors.
        block = self.block or (256 if tiles >= 2**13 else 128)

        def launch(kernel: str, warps: int, *args: Any) -> Launch:
            return Launch("csr/csr5.cu", kernel, cdiv(warps * 32, block), block, args)

        fixed = self.sum == "fixed"
        if self.kernel == "fast":
            types, warps, args = self.shares
            cut, carry = self.cut(y)
            cuts = [zero_rows(self.tile_ptr[: tiles + 1], y)] if tiles and not fixed else []
            zero = [zero_fill(y)] if self.empty_rows else cuts
            kernel = f"{self.fused}<{', '.join((value, types, str(cut), *self.types))}>"
            product = launch(kernel, warps, rows, *args, x, y, carry)
            # A lane hands over its rows one by one: with longer rows what an epilogue loads would be scattered.
            if not fixed and len(self.col_idx) <= SHORT * int(rows):
                product = product.changed(in_parts=self.rows_in_parts)
            return [*(after_zeros(zero[0], product) if zero else [product]), *self.carries(carry, y)]
        descriptor = (self.tile_ptr, self.tile_desc, self.empty_ptr, self.empty_offset)
        entries = (self.col_idx, self.values, x, y)
        carry_row = self.xp.empty(tiles, dtype=np.int32)
        calibrator = self.xp.empty(tiles, dtype=y.dtype)
        tail = self.row_ptr.dtype.type(int(tiles) * OMEGA * sigma)
        calibrate = (tiles, rows, carry_row, calibrator, y)
        return [
            zero_fill(y),
            launch(f"csr5_tiles<{value}, {sigma}>", int(tiles), tiles, *descriptor, *entries, carry_row, calibrator),
            add_carries(carry_row, calibrator, y)
            if fixed
            else Launch("csr/csr5.cu", f"carry_add<{value}>", *per_thread(int(tiles)), calibrate),
            launch(
                f"csr5_tail<{value}, {index}>",
                self.shape[0] - self.tail_row,
                rows,
                tail_row,
                tail,
                self.row_ptr,
                *entries,
            ),
        ]


@register
class Csr5Nv(Csr5):
    """CSR5 without values, for a matrix whose values are all the same, as those of patterns and graphs are.

    4 bytes per entry and the descriptors. The value is stored once; other matrices are refused. The paper's TaiChi also
    stores dense areas by their zeros, which is not done here; of it the abstract was read.
    """

    key = "csr5-nv"
    values_decide = True
    survey_name = ""
    reference = "Gao, Ji, Tan, Wang & Shi, TaiChi, TPDS 2022, after Liu & Vinter, ICS'15"
    fused = "csr5_fused_nv"

    kernel = Parameter("fast", "the launches of csr5", choices=("fast",))

    values: Array  # (1,): what all values are; (0,) without entries

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return super().estimate(a, **params) - max(a.nnz - 1, 0) * a.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        bits = a.values.view(f"u{a.dtype.itemsize}")
        if bool((bits != bits[:1]).any()):
            raise Skip("values differ: csr5-nv stores one for all")
        found = super().convert(a, **params)
        return found | {"values": found["values"][:1].copy()}

    def to_coo(self) -> tuple[Array, Array, Array]:
        columns = swapped(self.col_idx, len(self.tile_desc), self.entries_per_lane, OMEGA)
        return expand(self.row_ptr, len(columns)), columns, self.values[self.xp.zeros_like(columns)]


@register
class Csr5Dict(Csr5):
    """CSR5 with a dictionary of values, for a matrix in which few differ: one or two bytes per value, exact.

    An entry has the number of its value among at most 65,536 distinct ones, whose table stays in the L1 cache if it is
    small. Constraint matrices of linear programs are often such. Conversion looks for the distinct values in a sample,
    and sorts all values if the sample has not all of them. Matrices with more distinct values are refused.
    """

    key = "csr5-dict"
    values_decide = True
    survey_name = ""
    project_kernel = True
    reference = "this project, after Liu & Vinter, ICS'15"
    fused = "csr5_fused_coded"

    kernel = Parameter("fast", "the launches of csr5", choices=("fast",))

    values: Array  # (distinct values,)
    number: Array  # (nnz,), uint8 or uint16: of each value; in the order of col_idx

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        known, number = coded(a.values)
        return super().estimate(a, **params) - a.values.nbytes + known.nbytes + number.nbytes

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        known, number = coded(a.values)
        found = super().convert(replace(a, values=number), **params)
        return found | {"values": known, "number": found["values"]}

    @property
    def shares(self) -> tuple[str, int, tuple[Any, ...]]:
        types, warps, args = super().shares
        return types, warps, (*args[:-1], self.number, self.values)

    @property
    def types(self) -> tuple[str, ...]:
        return (ctype(self.number),)

    def to_coo(self) -> tuple[Array, Array, Array]:
        tiles, sigma = len(self.tile_desc), self.entries_per_lane
        columns, numbers = (swapped(each, tiles, sigma, OMEGA) for each in (self.col_idx, self.number))
        return expand(self.row_ptr, len(columns)), columns, self.values[numbers]
