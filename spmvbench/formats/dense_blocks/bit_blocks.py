"""COVE's position stream: 8 x 4 blocks as 64-bit words, the other entries in CSR; raw values, or a dictionary."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, cdiv, expand, offsets
from spmvbench.formats.compressed.dictionary import coded
from spmvbench.formats.dense_blocks.cells import Cells, Shares
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "dense_blocks/bit_blocks.cu"
HEIGHT, WIDTH = constant(SOURCE, "HEIGHT"), constant(SOURCE, "WIDTH")
PLACES = HEIGHT * WIDTH
LONG = constant(SOURCE, "LONG")  # entries of a row outside of blocks, from which it is cut into pieces of as many
MAP_SHIFT = constant(SOURCE, "MAP_SHIFT")
BLOCK = constant(SOURCE, "BIT_BLOCK")
MANY_SHARE = 0.2  # of the entries in blocks, from which a warp takes one block after the other


class Streams(NamedTuple):
    """Which entries are in blocks, and the work of every warp."""

    order: Array  # (entries in blocks,): the entry at each place, block after block
    words: Array  # (blocks,), uint64
    items: Array  # (items, 4), int32
    rest: Csr  # the entries outside of blocks
    chunks: Array  # (chunks, 2), int32
    adds: bool  # some warp adds to y

    @classmethod
    def of(cls, a: Csr, keep: int, most: int) -> Streams:
        xp = a.xp
        if a.nnz > INT32_MAX:
            raise Skip("the matrix has more entries than 32 bits count")
        cells = Cells.of(a, HEIGHT, WIDTH)
        kept = xp.flatnonzero(cells.lengths >= keep)
        cell = cells.cell
        is_kept = xp.zeros(len(cells.row), dtype=bool)
        is_kept[kept] = True
        inside = is_kept[cell]
        order, cell = cells.order[inside], cell[inside]
        number = xp.cumsum(is_kept) - 1  # of a block among those that are kept
        place = a.row_idx[order] % HEIGHT * WIDTH + a.col_idx[order] % WIDTH
        maps = xp.zeros(len(kept), dtype=np.uint64)
        xp.add.at(maps, number[cell], xp.left_shift(np.uint64(1), place.astype(np.uint64)))
        words = maps << np.uint64(MAP_SHIFT) | cells.col[kept].astype(np.uint64)

        in_rest = xp.ones(a.nnz, dtype=bool)
        in_rest[order] = False
        rest = a.where(in_rest)
        block_rows = xp.arange(cdiv(a.rows, HEIGHT) + 1, dtype=np.int64)
        shares = Shares.of(xp.searchsorted(cells.row[kept], block_rows), most)
        long_row = xp.flatnonzero(rest.row_lengths > LONG)
        is_long = xp.zeros(len(block_rows), dtype=bool)
        is_long[long_row // HEIGHT] = True
        value_ptr = offsets(cells.lengths[kept])
        leads = xp.ones(len(shares.owner), dtype=bool)
        leads[1:] = shares.owner[1:] != shares.owner[:-1]
        shared = shares.cut | is_long[shares.owner]
        owner = xp.where(shared, ~shares.owner, shares.owner)
        count = (shares.end - shares.first) * 2 + leads
        items = xp.stack((owner, shares.first, count, value_ptr[shares.first]), axis=1).astype(np.int32)

        chunk_ptr = offsets(cdiv(rest.row_lengths[long_row], LONG))
        of_row = expand(chunk_ptr, int(chunk_ptr[-1]))
        begin = rest.row_ptr[long_row[of_row]] + (xp.arange(len(of_row)) - chunk_ptr[of_row]) * LONG
        chunks = xp.stack((long_row[of_row], begin), axis=1).astype(np.int32)
        return cls(order, words, items, rest, chunks, bool(shared.any()))

    @property
    def nbytes(self) -> int:
        """Of all arrays but those of values."""
        rest = self.rest.row_ptr.nbytes + self.rest.col_idx.nbytes
        return self.words.nbytes + self.items.nbytes + rest + self.chunks.nbytes


class BitBlocks(Format):
    """Blocks of 8 x 4 places as words: the block's column and a bit for each place. Subclasses say what values are."""

    family = "BCSR"
    reference = "Jia et al., COVE, ICCD 2026"

    kernel = Parameter(
        "fast",
        "fast: `flight` blocks in flight; paper: one block after the other",
        choices=("fast", "paper"),
    )
    keep = Parameter(10, "least entries of a block, others are in CSR", low=1, high=PLACES)
    flight = Parameter(
        0, "kernel=fast: blocks in flight; 0: 1, or 8 if few entries are in blocks", choices=(0, 1, 4, 8)
    )
    most = Parameter(32, "blocks of a warp, beyond which a block row is cut", low=1, high=4096)

    words: Array  # (blocks,), uint64: column of the block, in blocks; from bit 32 on bit 4 r + c if there is an entry
    items: Array  # (items, 4), int32: block row (~ if others add), first block, 2 * blocks + leads, first value
    values: Array  # (entries in blocks,): block after block, in the order of bits
    rest_ptr: Array  # (rows + 1,), int32: CSR of the other entries
    rest_columns: Array  # (other entries,), int32
    rest_values: Array  # (other entries,), as `values`
    chunks: Array  # (chunks, 2), int32: row with more than 1,024 other entries, first entry
    adds: bool  # some warp adds to y

    @classmethod
    def streams(cls, a: Csr, *, keep: int, most: int, **params: Any) -> Streams:
        """The matrix in blocks and others, for these parameters."""
        return Streams.of(a, keep, most)

    @classmethod
    def positions(cls, a: Csr, s: Streams, stored: Array) -> dict[str, Any]:
        """The fields, given what is stored for each entry of the matrix, (nnz,)."""
        rest = Csr(a.shape, a.row_ptr, a.col_idx, stored)
        in_rest = a.xp.ones(a.nnz, dtype=bool)
        in_rest[s.order] = False
        return {
            "words": s.words,
            "items": s.items,
            "values": stored[s.order],
            "rest_ptr": s.rest.row_ptr.astype(np.int32, copy=False),
            "rest_columns": s.rest.col_idx,
            "rest_values": rest.where(in_rest).values,
            "chunks": s.chunks,
            "adds": s.adds,
        }

    @property
    def blocks_in_flight(self) -> int:
        """Of a warp, by the parameters or by the share of entries in blocks."""
        if self.params["kernel"] == "paper":
            return 1
        many = len(self.values) > MANY_SHARE * (len(self.values) + len(self.rest_values))
        return self.flight or (1 if many else 8)

    def decoded(self, stored: Array) -> Array:
        """The values of what is stored, in the matrix's type."""
        return stored

    def table_of(self) -> Array:
        """What the kernel decodes by."""
        return self.values[:0]

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        maps = (self.words >> np.uint64(MAP_SHIFT)).astype(np.uint32)
        block, place = xp.nonzero(maps[:, None] >> xp.arange(PLACES, dtype=np.uint32) & np.uint32(1))
        owner, count = self.items[:, 0], self.items[:, 2] // 2
        owner = xp.where(owner < 0, ~owner, owner)
        block_row = owner[expand(offsets(count), len(self.words))].astype(np.int64)
        row = block_row[block] * HEIGHT + place // WIDTH
        column = (self.words[block] & np.uint64(INT32_MAX)).astype(np.int64) * WIDTH + place % WIDTH
        rest_row = expand(self.rest_ptr, len(self.rest_columns))
        return (
            xp.concatenate((row, rest_row)),
            xp.concatenate((column.astype(np.int32), self.rest_columns)),
            xp.concatenate((self.decoded(self.values), self.decoded(self.rest_values))),
        )

    def launches(self, x: Array, y: Array) -> list[Launch]:
        name = f"bit_blocks_spmv<{ctype(x)}, {ctype(self.values)}, {self.blocks_in_flight}>"
        sizes = np.int32(len(self.items)), np.int32(len(self.chunks)), np.int32(self.shape[0])
        rest = self.rest_ptr, self.rest_columns, self.rest_values, self.chunks
        args = (*sizes, self.items, self.words, self.values, self.table_of(), *rest, x, y)
        grid = cdiv((len(self.items) + len(self.chunks)) * 32, BLOCK)
        spmv = Launch(SOURCE, name, grid, BLOCK, args)
        return [zero_fill(y), spmv] if self.adds else [spmv]

    @property
    def detail(self) -> dict[str, Any]:
        nnz = max(len(self.values) + len(self.rest_values), 1)
        per_block = len(self.values) / max(len(self.words), 1)
        return {"blocks_share": len(self.values) / nnz, "entries_per_block": per_block, "chunks": len(self.chunks)}


@register
class Bit8x4(BitBlocks):
    """Blocks of 8 x 4 places as words of 64 bits, their values without padding; the other entries in CSR.

    A word is the block's column and a bit for each place: a block of f entries takes 8 / f bytes an entry for their
    positions. Blocks of fewer than `keep` entries are not made: ten is the authors' bound; that of fewest bytes is
    three, but a warp takes as long for a block of few entries as for a full one: on an H200 pde:100 had 99 GFLOPS with
    four, 172 with eight (f64). A warp takes a block row, or some blocks of it: lane 4 r + c has place (r, c) of every
    block, and counts the bits below its own to find its value. It adds the other entries of the block row by four
    threads per row in the same launch. Rows with more than 1,024 of those are cut into pieces for warps of their own, a
    setting of the authors that is off there: our reading. y is set to zero first if block rows are cut; the authors'
    measurements leave that out.

    kernel=fast is this project's choice of how many blocks a warp has in flight, by what was faster on an H200. Where
    most entries are in blocks that is one, as in the paper, because registers cost more warps than they save: fem:60:3
    had 821 GFLOPS with one and 678 with four in single precision, pde:100 had 313 and 255 in double. Where few are, it
    is eight: 310 and 266 on band:1048576:24:2000. Loading 32 words at a time and handing them out by shuffles was
    slower, 280 against 575 GFLOPS (fem:40:3, f64).
    """

    key = "bit8x4"
    vectors_together = 1

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return cls.streams(a, **params).nbytes + a.nnz * a.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return cls.positions(a, cls.streams(a, **params), a.values)


@register
class Bit8x4Dict(BitBlocks):
    """The positions of `bit8x4`, and for each entry the number of its value among the distinct ones, in 8 or 16 bits.

    Values are distinct if any bit differs. The table and all sums have the type of the matrix, so that products are
    exact; the authors' program decodes to single precision. A matrix of more than 65,536 distinct values is refused,
    where that program takes lossy codes: `bit8x4` stores such values.
    """

    key = "bit8x4-dict"
    vectors_together = 1
    values_decide = True

    table: Array  # (distinct values,)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        table, code = coded(a.values)
        return cls.streams(a, **params).nbytes + code.nbytes + table.nbytes

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        table, code = coded(a.values)
        return cls.positions(a, cls.streams(a, **params), code) | {"table": table}

    def decoded(self, stored: Array) -> Array:
        return self.table[stored]

    def table_of(self) -> Array:
        return self.table
