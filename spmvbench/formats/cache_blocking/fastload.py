"""FastLoad: columns sorted by length and cut into blocks in which all have as many entries, and its experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from spmvbench.errors import UsageError
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, array_module, cdiv, expand, inverse, offsets, on_host
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.csc.csc import by_columns
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, cbool, ctype, in_part, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

LENGTH = 32  # columns of a block: a thread each
BLOCK, PAPER_BLOCK = 128, 64  # threads; the paper has two warps in a block
# Blocks that a warp has in flight, and entries of each column; the fastest on an H200 on average over a stencil,
# finite elements, random, banded and power-law matrices. Without a limit a few blocks are far higher than others. The
# paper's warp has one block, and of it one entry of each column at a time.
IN_FLIGHT, IN_FLIGHT_UNLIMITED, PAPER = (4, 1), (1, 4), (1, 1)


class Levels(NamedTuple):
    """Columns sorted by length, shortest first, cut where lengths change. All arrays (G,), int64, on the host.

    Level g is a rectangle without padding: of the columns from first[g] to the last, which all have as many, the
    entries above[g] .. above[g] + height[g]. It is stored after the levels before it, in strips of 32 columns, each
    cut into blocks of at most `limit` entries per column.
    """

    columns: int
    limit: int
    first: np.ndarray
    above: np.ndarray
    height: np.ndarray

    @classmethod
    def of(cls, lengths: Array, height: str) -> Levels:
        """The levels of columns of these lengths, rising, and the limit that the parameter `height` sets."""
        xp = array_module(lengths)
        before = xp.zeros_like(lengths)
        before[1:] = lengths[:-1]
        changes = xp.flatnonzero(lengths > before)
        first, length, above = (on_host(v).astype(np.int64) for v in (changes, lengths[changes], before[changes]))
        return cls(len(lengths), INT32_MAX if height == "none" else int(height), first, above, length - above)

    @property
    def pieces(self) -> np.ndarray:
        """Blocks of a strip."""
        return cdiv(self.height, self.limit)

    @property
    def begin(self) -> np.ndarray:
        """Where the blocks of each level begin among all blocks, and how many there are: (G + 1,)."""
        return offsets(cdiv(self.columns - self.first, LENGTH) * self.pieces)

    @property
    def table(self) -> np.ndarray:
        """(5, G), int64: begin, first, above, height, and where the entries of each level begin among all entries."""
        base = offsets((self.columns - self.first) * self.height)
        return np.stack([self.begin[:-1], self.first, self.above, self.height, base[:-1]]).astype(np.int64)


def by_arrays(levels: Levels, col_ptr: Array, col_order: Array, order: Array | None) -> dict[str, Array]:
    """block_ptr, block_col, block_length and block_height of `Blocks`, and source, (nnz,), of col_ptr's type: the place
    in CSR of every entry of the blocks.

    col_ptr: (columns + 1,). col_order: columns, shortest first. order: as `csc.by_columns` gives it; None if the
    entries of a column are one after the other in CSR, as those of a row do.
    """
    xp, nnz = array_module(col_ptr), int(col_ptr[-1])
    level = expand(xp.asarray(levels.begin), int(levels.begin[-1]))
    begin, first, above, height, base = xp.asarray(levels.table)[:, level]
    strip, piece = xp.divmod(xp.arange(len(level)) - begin, cdiv(height, levels.limit))
    col, done = first + LENGTH * strip, levels.limit * piece
    length = xp.minimum(LENGTH, levels.columns - col)
    block_ptr = xp.append(base + LENGTH * strip * height + length * done, xp.full(1, nnz))

    block = expand(block_ptr, nnz)
    step, lane = xp.divmod(xp.arange(nnz) - block_ptr[block], length[block])
    source = col_ptr[col_order[col[block] + lane]] + (above + done)[block] + step
    return {
        "block_ptr": block_ptr.astype(col_ptr.dtype),
        "block_col": col.astype(np.int32),
        "block_length": length.astype(np.int32),
        "block_height": xp.minimum(height - done, levels.limit).astype(np.int32),
        "source": (source if order is None else order[source]).astype(col_ptr.dtype),
    }


def by_kernels(levels: Levels, col_ptr: Array, col_order: Array, order: Array | None, run: Run) -> dict[str, Array]:
    """What `by_arrays` gives, by one kernel. run: runs a launch on these arrays."""
    xp, index, blocks = array_module(col_ptr), col_ptr.dtype, int(levels.begin[-1])
    found = {
        "block_ptr": xp.zeros(blocks + 1, dtype=index),
        "block_col": xp.empty(blocks, dtype=np.int32),
        "block_length": xp.empty(blocks, dtype=np.int32),
        "block_height": xp.empty(blocks, dtype=np.int32),
        "source": xp.empty(int(col_ptr[-1]), dtype=index),
    }
    sizes = (np.int32(n) for n in (blocks, len(levels.first), levels.columns, levels.limit))
    table = xp.asarray(levels.table)
    places = table if order is None else order  # not read where there is no order
    args = (*sizes, table, col_ptr, col_order, places, *found.values())
    kernel = f"fastload_blocks<{ctype(index)}, {cbool(order is not None)}>"
    run(Launch("cache_blocking/fastload_convert.cu", kernel, cdiv(blocks * 32, BLOCK), BLOCK, args))
    return found


def cut(col_ptr: Array, order: Array | None, height: str, run: Run | None) -> tuple[dict[str, Array], Array]:
    """The fields of `Blocks`, and source as `by_arrays` gives it, which describes the arguments too. run: `runner`."""
    lengths = col_ptr[1:] - col_ptr[:-1]
    col_order = lengths.argsort(kind="stable").astype(np.int32)
    levels = Levels.of(lengths[col_order], height)
    if run is None:
        found = by_arrays(levels, col_ptr, col_order, order)
    else:
        found = by_kernels(levels, col_ptr, col_order, order, run)
    source = found.pop("source")
    return found | {"col_order": col_order}, source


def block_count(lengths: Array, height: str) -> int:
    """The blocks of columns of these lengths, in any order."""
    return int(Levels.of(array_module(lengths).sort(lengths), height).begin[-1])


def cut_bytes(lengths: Array, columns: int, height: str, index: np.dtype) -> int:
    """Bytes of the fields of `Blocks` for so many columns, the non-empty ones of these lengths; index: of block_ptr."""
    blocks = block_count(lengths, height)
    return (blocks + 1) * index.itemsize + 12 * blocks + 4 * columns


class Blocks(Format):
    """Which entries of which columns each block holds, without the entries themselves."""

    family = "CSC"
    reference = "Hu et al., FastLoad, TPDS 2024"

    height = Parameter(
        "1",
        "most entries of a column in a block; none sets no limit",
        choices=("1", "2", "4", "8", "16", "32", "none"),
    )

    block_ptr: Array  # (blocks + 1,), int32, or int64 where nnz needs it: the first entry of each block, then nnz
    block_col: Array  # (blocks,), int32: its first column, in the order of lengths
    block_length: Array  # (blocks,), int32: its columns, 1 to 32
    block_height: Array  # (blocks,), int32: its entries of each column
    col_order: Array  # (cols,), int32: the columns, shortest first, equal ones as they come

    @property
    def columns(self) -> Array:
        """The column of every entry, (nnz,)."""
        nnz = int(self.block_ptr[-1])
        block = expand(self.block_ptr, nnz)
        lane = (self.xp.arange(nnz) - self.block_ptr[block]) % self.block_length[block]
        columns: Array = self.col_order[self.block_col[block] + lane]
        return columns

    def gather(self, x: Array, sorted_x: Array) -> Launch:
        """The launch that sorts x as the columns are."""
        args = (np.int32(len(x)), self.col_order, x, sorted_x)
        return Launch("vector.cu", f"gather<{ctype(x)}, int>", *per_thread(len(x)), args)

    def launch(self, kernel: str, options: str, *args: Any, batch: int = 1) -> Launch:
        """A launch of a warp for every `batch` blocks. args: after the block's arrays; options: template arguments."""
        value, index, blocks = ctype(args[-1]), ctype(self.block_ptr), len(self.block_col)
        table = np.int32(blocks), self.block_ptr, self.block_col, self.block_length, self.block_height
        grid = cdiv(cdiv(blocks, batch) * 32, self.threads)
        kernel = f"{kernel}<{value}, {index}, {options}>"
        return Launch("cache_blocking/fastload.cu", kernel, grid, self.threads, (*table, *args))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return BLOCK

    @property
    def in_flight(self) -> tuple[int, int]:
        """Blocks that a warp has in flight, and entries of each of their columns."""
        return IN_FLIGHT_UNLIMITED if self.height == "none" else IN_FLIGHT

    def products(self, row_idx: Array | None, values: Array, sorted_x: Array, out: Array) -> Launch:
        """The launch that multiplies every entry and adds the product to out[row]; without rows it goes to the entry's
        place in `out`, (nnz,).
        """
        keep = row_idx is None
        rows = self.col_order if keep else row_idx  # not read where products are kept
        batch, steps = self.in_flight
        options = f"{batch}, {steps}, {cbool(self.height == '1')}, {cbool(keep)}"
        return self.launch("fastload", options, rows, values, sorted_x, out, batch=batch)


@register
class FastLoad(Blocks):
    """CSC with columns sorted by length, in blocks of 32; within a block every column has equally many entries.

    Threads read entries and sorted x side by side, nothing is padded and no thread waits for another; products are
    added to y by atomics. kernel=paper: a warp takes one block, and a thread block has two warps. fast: four of each,
    so that more loads are in flight. height=1 is the paper's choice. optimized=true adds products of equal rows within
    a warp first: blocks have a format, 0 shorter than 32, 1 a single row, 2 any other. Sorting x and setting y to
    zero count here; the released program leaves both out of its time. It supports height 1 alone, and keeps the
    length of each run of equal rows, 4 bytes per entry, where threads here compare rows; it takes a run's sum as a
    difference of prefix sums, which loses digits where rows differ in size. Columns of many different lengths make
    many short blocks. Sums are not reproducible.
    """

    key = "fastload"

    kernel = Parameter(
        "fast", "paper: a block per warp, two warps a thread block; fast: several in flight", choices=("fast", "paper")
    )
    optimized = Parameter(False, "add products of equal rows within a warp before the atomics; takes height=1")

    block_format: Array  # (blocks,) where optimized, else (0,), uint8: 0 short, 1 all of one row, 2 any other
    row_idx: Array  # (nnz,), int32, block by block, and in it step by step
    values: Array  # (nnz,), likewise

    @classmethod
    def resolve(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        values = super().resolve(params)
        if values["optimized"] and values["height"] != "1":
            raise UsageError(f"{cls.key} adds up rows (optimized) in blocks of height 1 alone, not {values['height']}")
        return values

    @classmethod
    def estimate(cls, a: Csr, *, height: str, optimized: bool, **params: Any) -> int:
        index = a.row_ptr.dtype
        _, lengths = a.used_columns  # empty ones are in no block
        formats = block_count(lengths, height) if optimized else 0
        return cut_bytes(lengths, a.cols, height, index) + formats + a.nnz * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, height: str, optimized: bool, **params: Any) -> dict[str, Any]:
        col_ptr, order = by_columns(a)
        fields, source = cut(col_ptr, order, height, runner(a))
        row_idx = a.row_idx[source]
        if not optimized:
            formats = a.xp.empty(0, dtype=np.uint8)
        elif run := runner(a):
            formats = formats_by_kernel(fields["block_ptr"], row_idx, run)
        else:
            formats = formats_by_arrays(fields["block_ptr"], row_idx)
        return fields | {"block_format": formats, "row_idx": row_idx, "values": a.values[source]}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.row_idx, self.columns, self.values

    @property
    def in_flight(self) -> tuple[int, int]:
        return PAPER if self.kernel == "paper" else super().in_flight

    @property
    def threads(self) -> int:
        return PAPER_BLOCK if self.kernel == "paper" else super().threads

    def launches(self, x: Array, y: Array) -> list[Launch]:
        sorted_x = self.xp.empty_like(x)
        if self.optimized:
            batch, _ = self.in_flight
            args = (self.block_format, self.row_idx, self.values, sorted_x, y)
            multiply = self.launch("fastload_optimized", f"{batch}", *args, batch=batch)
        else:
            multiply = self.products(self.row_idx, self.values, sorted_x, y)
        return [
            *in_part("clear", [zero_fill(y)]),
            *in_part("gather", [self.gather(x, sorted_x)]),
            *in_part("multiply", [multiply]),
        ]

    @property
    def detail(self) -> dict[str, Any]:
        blocks = len(self.block_col)
        return {"blocks": blocks, "slots_in_use": len(self.values) / max(32 * int(self.block_height.sum()), 1)}


@register
class FastLoadOpt(FastLoad):
    """FastLoad that sums products of equal rows within a warp before the atomics; the paper's main results use it.

    The paper's tables by height and its headline figures differ; we read these as the optimised version's, our reading.
    """

    key = "fastload-opt"
    alias_of = "fastload[optimized=true]"

    height = Parameter("1", "most entries of a column in a block", choices=("1",))
    optimized = FastLoad.optimized.defaulting(True)


def formats_by_arrays(block_ptr: Array, row_idx: Array) -> Array:
    """What the rows of blocks of height 1 are, (blocks,), uint8: 0 fewer than 32, 1 all the same, 2 any other."""
    xp = array_module(block_ptr)
    found = xp.zeros(len(block_ptr) - 1, dtype=np.uint8)
    full = xp.flatnonzero(block_ptr[1:] - block_ptr[:-1] == LENGTH)
    rows = row_idx[block_ptr[full][:, None] + xp.arange(LENGTH, dtype=block_ptr.dtype)]
    found[full] = xp.where((rows == rows[:, :1]).all(axis=1), 1, 2)
    return found


def formats_by_kernel(block_ptr: Array, row_idx: Array, run: Run) -> Array:
    """What `formats_by_arrays` gives, by a kernel. run: runs a launch on these arrays."""
    blocks = len(block_ptr) - 1
    found = array_module(block_ptr).empty(blocks, dtype=np.uint8)
    args = (np.int32(blocks), block_ptr, row_idx, found)
    run(
        Launch(
            "cache_blocking/fastload_convert.cu",
            f"fastload_formats<{ctype(block_ptr)}>",
            cdiv(blocks * 32, BLOCK),
            BLOCK,
            args,
        )
    )
    return found


@register
class TwoPhase(Format):
    """FastLoad's experiment: products by blocks of sorted columns, then sums by blocks of sorted rows.

    All products by the blocks of columns; their rearrangement, which the paper does not count; all sums by the blocks
    of rows. The times of the two counted phases show what contiguous loads could gain. It is an experiment, not a way
    to multiply: it is not ranked, and only the kernel breakdown matters. The paper names no height; 8 is our choice.
    """

    key = "two-phase"
    family = "CSC"
    reference = "Hu et al., FastLoad, TPDS 2024, section III-C"
    experiment = True

    height = Blocks.height.defaulting("8")

    columns: Blocks
    rows: Blocks  # of the transpose: its columns are the rows
    values: Array  # (nnz,), as the blocks of columns have them
    place: Array  # (nnz,), int32, or int64 where nnz needs it: of the entries of the blocks of rows in those of columns

    @classmethod
    def estimate(cls, a: Csr, *, height: str, **params: Any) -> int:
        index = a.row_ptr.dtype
        tables = cut_bytes(a.used_columns[1], a.cols, height, index) + cut_bytes(a.row_lengths, a.rows, height, index)
        return tables + a.nnz * (a.dtype.itemsize + index.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, height: str, **params: Any) -> dict[str, Any]:
        col_ptr, order = by_columns(a)
        columns, source = cut(col_ptr, order, height, runner(a))
        rows, row_source = cut(a.row_ptr, None, height, runner(a))
        place = inverse(source, dtype=a.row_ptr.dtype)
        settings = {"height": height}
        return {
            "columns": Blocks(shape=a.shape, params=settings, **columns),
            "rows": Blocks(shape=a.shape[::-1], params=settings, **rows),
            "values": a.values[source],
            "place": place[row_source],
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.rows.columns, self.columns.columns[self.place], self.values[self.place]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        nnz = self.place.dtype.type(len(self.values))
        sizes = len(x), len(self.values), len(self.values)
        sorted_x, products, rearranged = (self.xp.empty(size, dtype=x.dtype) for size in sizes)
        multiply = self.columns.products(None, self.values, sorted_x, products)
        args = (nnz, self.place, products, rearranged)
        rearrange = Launch("vector.cu", f"gather<{ctype(products)}, {ctype(nnz)}>", *per_thread(len(products)), args)
        add = self.rows.launch("fastload_sums", "4", self.rows.col_order, rearranged, y)
        return [
            *in_part("clear", [zero_fill(y)]),
            *in_part("gather", [self.columns.gather(x, sorted_x)]),
            *in_part("multiply", [multiply]),
            *in_part("rearrange", [rearrange]),
            *in_part("add", [add]),
        ]
