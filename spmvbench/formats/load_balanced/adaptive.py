"""CSR-Stream and CSR-Adaptive: blocks of whole rows that fill shared memory."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, chain, expand, offsets
from spmvbench.formats.conversion import Run, noted, notes, runner, scratch, summing
from spmvbench.formats.conversion import chain as chain_by
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, after_zeros, cbool, ctype, per_thread, zero_rows
from spmvbench.formats.load_balanced.tiles import BLOCKS, Tiled
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

ITEMS = 4  # entries per thread, as the published programs have it: 1024 a block of 256
LONG_PARTS = 3  # blocks' worth of entries that a part of a long row has
CONVERT = "load_balanced/adaptive_convert.cu"
# Rows longer than the first begin a region of long rows, shorter than the second end it.
LONG_ON, LONG_OFF = constant(CONVERT, "LONG_ON"), constant(CONVERT, "LONG_OFF")
REGION_ROWS, REGION_BLOCK = constant(CONVERT, "REGION_ROWS"), constant(CONVERT, "REGION_BLOCK")
PARTS_BITS = constant(CONVERT, "PARTS_BITS")


def region_cuts(lengths: Array) -> Array:
    """Rows at which a region of long rows begins or ends: one above LONG_ON begins it, one below LONG_OFF ends it."""
    xp = array_module(lengths)
    decisive = xp.flatnonzero((lengths > LONG_ON) | (lengths < LONG_OFF))
    long = lengths[decisive] > LONG_ON
    before = xp.append(xp.zeros(1, dtype=bool), long)[:-1]
    changes: Array = decisive[long != before]
    return changes


def row_blocks(a: Csr, entries: int, regions: bool = False) -> Array:
    """The first row of each block and the number of rows, (blocks + 1,), int32.

    A block takes rows for as long as they have at most `entries` together, but at least one row. regions: it ends where
    a region of long rows begins or ends too (HiPC'15; clSPARSE's loop also forgets the region at each block's end).
    """
    if (run := runner(a)) is not None:
        places, state = _blocks_by(a, entries, regions, run)
        return places[: noted(state)[-1] + 1]
    xp = a.xp
    row = xp.arange(a.rows, dtype=np.int64)
    full = xp.minimum(a.row_ptr[:-1].astype(np.int64) + entries, a.nnz).astype(a.row_ptr.dtype)
    fits = xp.searchsorted(a.row_ptr, full, side="right") - 1
    following = xp.maximum(fits, row + 1)
    if regions:
        cuts = xp.append(region_cuts(a.row_lengths), xp.full(1, a.rows))
        following = xp.minimum(following, cuts[xp.searchsorted(cuts, row, side="right")])
    return chain(xp.append(following, xp.full(1, a.rows)).astype(np.int32))


def _blocks_by(a: Csr, entries: int, regions: bool, run: Run) -> tuple[Array, Array]:
    """As `row_blocks` by kernels, in more room, and the notes of how many there are: `conversion.chain`."""
    xp, stretches = a.xp, cdiv(a.rows, REGION_ROWS)
    looks, following = scratch(xp, *[(stretches, np.int32)] * 3), xp.empty(a.rows, dtype=np.int32)
    about, rows, index = (a.row_ptr, *looks), np.int32(a.rows), ctype(a.row_ptr)
    if regions:
        run(Launch(CONVERT, f"adaptive_regions<{index}>", stretches, REGION_BLOCK, (rows, *about)))
    kernel = f"adaptive_following<{index}, {cbool(regions)}>"
    run(Launch(CONVERT, kernel, stretches, REGION_BLOCK, (rows, np.int32(entries), *about, following)))
    return chain_by(following, run)


class RowBlocks(Tiled):
    """CSR and the first row of each block of rows. Subclasses handle rows that are too long for a block."""

    reference = "Greathouse & Daga, SC'14"
    vector: ClassVar[bool]  # whether all threads add up what they have of such a row

    block = Parameter(
        256, "threads per block; a block of rows has up to four times as many entries", choices=(32, 64, 128, 256, 512)
    )

    row_blocks: Array  # (blocks + 1,), int32

    @classmethod
    def estimate(cls, a: Csr, *, block: int, **params: Any) -> int:
        return a.nbytes + 4 * len(row_blocks(a, ITEMS * block))

    @classmethod
    def convert(cls, a: Csr, *, block: int, **params: Any) -> dict[str, Any]:
        return super().convert(a) | {"row_blocks": row_blocks(a, ITEMS * block).copy()}  # in memory of its own size

    def launches(self, x: Array, y: Array) -> list[Launch]:
        args = (self.row_blocks, self.row_ptr, self.col_idx, self.values, x, y)
        kernel = f"adaptive<{self.block}, {ITEMS}, {cbool(self.vector)}>"
        return [self._launch(kernel, len(self.row_blocks) - 1, self.block, ITEMS, *args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"blocks": len(self.row_blocks) - 1}


@register
class CsrStream(RowBlocks):
    """CSR in blocks of rows that fill shared memory: products are written to it, then one thread sums each row.

    A longer row is processed in passes and summed by one thread, so that the kernel takes every matrix. The survey
    gives a fixed number of entries to a warp: block=32.
    """

    key = "csr-stream"
    survey_name = "CSR-Stream"
    shared_implementation = "CSR in blocks of rows that fill shared memory: one thread per row"

    vector = False


@register
class CsrAdaptive(RowBlocks):
    """CSR in blocks of rows that fill shared memory; one thread per row, or a whole block for a long row.

    It is csr-stream in blocks of several rows, and the vector kernel in blocks of one row.
    """

    key = "csr-adaptive"
    survey_name = "CSR-Adaptive"
    shared_implementation = "CSR in blocks of rows that fill shared memory: one thread per row, or one long row"

    vector = True


class CutRowBlocks(Tiled):
    """CSR by blocks of rows, the longest rows in several: the part that both keys share."""

    block: ClassVar[Parameter[int]]

    row_blocks: Array  # (blocks + 1,), int32: first row of each block
    block_entry: Array  # (blocks + 1,), of row_ptr's type: first entry of each block, then nnz
    cut_rows: Array  # (rows in several blocks,), int32

    @classmethod
    def _sizes(cls, *_: Any, **params: Any) -> tuple[int, int]:
        """The most entries of a block of several rows, and the entries of a part of a longer row."""
        raise NotImplementedError

    @classmethod
    def _parts(cls, a: Csr, **params: Any) -> tuple[Array, Array, int]:
        """Blocks of rows as `row_blocks` has them, how many parts each has, (blocks,), and the entries of a part."""
        entries, part = cls._sizes(**params)
        blocks = row_blocks(a, entries, regions=True)
        lengths = a.row_ptr[blocks[1:]] - a.row_ptr[blocks[:-1]]
        return blocks, a.xp.where(lengths > entries, cdiv(lengths, part), 1), part

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        _, parts, _ = cls._parts(a, **params)
        return a.nbytes + (int(parts.sum()) + 1) * (4 + a.row_ptr.dtype.itemsize) + 4 * int((parts > 1).sum())

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, run = a.xp, runner(a)
        if run is not None:
            return super().convert(a) | cls._by_kernels(a, run, *cls._sizes(**params))
        blocks, parts, part = cls._parts(a, **params)
        ptr = offsets(parts)
        of = expand(ptr, int(ptr[-1]))
        begin = a.row_ptr[blocks[of]] + (xp.arange(len(of)) - ptr[of]) * part
        return super().convert(a) | {
            "row_blocks": xp.append(blocks[of], blocks[-1:]),
            "block_entry": xp.append(begin, xp.full(1, a.nnz)).astype(a.row_ptr.dtype),
            "cut_rows": blocks[:-1][parts > 1],
        }

    @classmethod
    def _by_kernels(cls, a: Csr, run: Run, entries: int, part: int) -> dict[str, Array]:
        xp, index = a.xp, ctype(a.row_ptr)
        starts, chained = _blocks_by(a, entries, True, run)
        # Two neighbours have more than `entries` together, unless a region begins or ends between them.
        most = min(a.rows, 1 + 2 * (a.nnz // entries) + 2 * (a.nnz // LONG_ON))
        ptr, cut_ptr, state = *scratch(xp, *[(most + 1, np.int32)] * 2), notes(xp, most)
        sizes = np.int32(most), np.int64(entries), np.int64(part)
        run(summing(CONVERT, f"adaptive_parts<{index}>", (*sizes, chained, a.row_ptr, starts, ptr, cut_ptr), state))
        cut, total = divmod(noted(state)[-1], 1 << PARTS_BITS)
        row_of, entry_of = xp.empty(total + 1, dtype=np.int32), xp.empty(total + 1, dtype=a.row_ptr.dtype)
        cut_rows = xp.empty(cut, dtype=np.int32)
        args = (np.int32(a.rows), sizes[0], np.int32(total), sizes[2], a.row_ptr, starts, ptr, cut_ptr)
        run(Launch(CONVERT, f"adaptive_cut<{index}>", *per_thread(total + 1), (*args, row_of, entry_of, cut_rows)))
        return {"row_blocks": row_of, "block_entry": entry_of, "cut_rows": cut_rows}

    def _sums(self, x: Array, y: Array) -> Launch:
        """The launch that sums all blocks; y is zero in `cut_rows`."""
        raise NotImplementedError

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return after_zeros(zero_rows(self.cut_rows, y), self._sums(x, y))

    @property
    def detail(self) -> dict[str, Any]:
        return {"blocks": len(self.row_blocks) - 1, "cut_rows": len(self.cut_rows)}


@register
class CsrAdaptiveL(CutRowBlocks):
    """CSR-Adaptive with several threads per row in blocks of few rows, and several blocks for the longest rows.

    Blocks end where regions of long rows begin or end. Parts of a row are added to y by atomics, after a launch that
    sets those rows to zero; clSPARSE has the blocks of a row wait for the first of them. A block holds its first entry
    in place of the number of its part. Sums of rows in parts are not reproducible.
    """

    key = "csr-adaptive-l"
    survey_name = "CSR-Adaptive"
    reference = "Daga & Greathouse, HiPC'15"
    shared_implementation = (
        "CSR by blocks of rows that fill shared memory: several threads per row, blocks per long row"
    )

    block = Parameter(128, "threads per block", choices=RowBlocks.block.choices)
    items = Parameter(8, "entries per thread", choices=(2, 4, 8))

    @classmethod
    def _sizes(cls, *, block: int, items: int) -> tuple[int, int]:
        return items * block, LONG_PARTS * items * block

    def _sums(self, x: Array, y: Array) -> Launch:
        args = (self.row_blocks, self.block_entry, self.row_ptr, self.col_idx, self.values, x, y)
        kernel = f"adaptive_long<{self.block}, {self.items}>"
        return self._launch(kernel, len(self.row_blocks) - 1, self.block, self.items, *args)


@register
class CsrRowTiles(CutRowBlocks):
    """CSR in tiles of whole rows, long rows in several tiles; tiles without long rows sum row by row.

    As `csr-merge-tiles`, with the blocks of `csr-adaptive-l`: only rows that are longer than a tile are cut, and y is
    set to zero in those alone.
    """

    key = "csr-row-tiles"
    reference = "this project, after Daga & Greathouse, HiPC'15"
    project_kernel = True

    block = Parameter(128, "threads per block", choices=BLOCKS)
    items = Parameter(8, "entries per thread; a tile may have one less in all", choices=(4, 6, 8, 10, 12))

    @classmethod
    def _sizes(cls, *, block: int, items: int) -> tuple[int, int]:
        return block * items - 1, block * items - 1  # a tile may begin at an odd entry, and takes pairs

    def _sums(self, x: Array, y: Array) -> Launch:
        return self._sum_tiles(self.row_blocks, self.block_entry, self.block, self.items, x, y)
