"""BCCOO: blocked coordinates in equal shares per thread, with a bit per block in place of row indices; and BCCOO+."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, array_module, cdiv, nonzero_mask, offsets, round_up
from spmvbench.formats.conversion import Run, runner, search_once
from spmvbench.formats.dense_blocks.blocks import FoundTiles, Shape, Shapes, SortedTiles, best_shape, shapes, tiles_of
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, in_part, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.precision import stored_in
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import seconds

NO_SHORT_COLUMN = constant("dense_blocks/bccoo.cu", "NO_SHORT_COLUMN")
FULL_COLUMN = constant("include/bccoo.cuh", "FULL_COLUMN")
HEIGHTS, WIDTHS = (1, 2, 3, 4), (1, 2, 4)
GROUP = 256  # threads per group, where it is not given
EACH = 16  # times that a warp takes 32 entries, where the matrix is cut into slices


def flags_dtype(steps: int) -> np.dtype:
    """The word that holds the bits of a thread with so many blocks."""
    return np.dtype(np.uint8 if steps <= 8 else np.uint16 if steps <= 16 else np.uint32)


def steps_for(blocks: int, block_rows: int) -> int:
    """Blocks per thread: as a block row has on average, 4 to 24, for neighbours to read neighbouring x; else 8."""
    mean = round(blocks / max(block_rows, 1))
    return mean if 4 <= mean <= 24 else 8


class Plan(NamedTuple):
    """How the blocks are distributed."""

    h: int
    w: int
    steps: int
    group: int


class Deal(NamedTuple):
    """Blocks of block CSR distributed to threads, with block rows given by bits."""

    plan: Plan
    threads: int
    across: int  # threads whose blocks are side by side
    column: np.dtype  # of block columns
    delta: bool

    @property
    def differences(self) -> bool:
        """Whether there are differences of columns."""
        return self.delta and self.column == np.int32

    @property
    def parts(self) -> tuple[int, int, int]:
        """Parts of threads side by side, those of a part, blocks of each."""
        return self.threads // self.across, self.across, self.plan.steps

    def by_arrays(self, ends: Array, block_col: Array, values: Array) -> dict[str, Any]:
        """The arrays of `Bccoo`, and how many columns are out. ends: (block rows + 1,), where block rows begin.

        block_col: (blocks,), values: (blocks, h * w), filled up to whole groups.
        """
        xp, (h, w, steps, group), threads = array_module(ends), self.plan, self.threads
        stops = xp.zeros((threads, steps), dtype=bool)
        stops.reshape(-1)[ends[1:] - 1] = True
        word = xp.left_shift(np.uint32(1), xp.arange(steps, dtype=np.uint32))
        flags = xp.where(stops, np.uint32(0), word).sum(axis=1, dtype=np.uint32).astype(flags_dtype(steps))
        need_scan = (~stops.any(axis=1)).reshape(threads // group, group).any(axis=1).astype(np.uint8)
        block_col = block_col.reshape(threads, steps)
        delta_col, escapes = xp.empty((0, steps, self.across), dtype=np.int16), 0
        if self.differences:
            found = xp.full((threads, steps), FULL_COLUMN, dtype=np.int16)
            difference = block_col[:, 1:] - block_col[:, :-1]
            fits = (abs(difference) < -FULL_COLUMN) & (block_col[:, 1:] >= 0) & (block_col[:, :-1] >= 0)
            found[:, 1:] = xp.where(fits, difference, FULL_COLUMN)
            escapes = int((~fits & (block_col[:, 1:] >= 0)).sum())
            delta_col = xp.ascontiguousarray(found.reshape(self.parts).transpose(0, 2, 1))
        block_col = xp.ascontiguousarray(block_col.reshape(self.parts).transpose(0, 2, 1))
        return {
            "values": xp.ascontiguousarray(values.reshape(*self.parts, h, w).transpose(3, 0, 2, 1, 4)),
            "block_col": block_col.astype(self.column, copy=False),
            "delta_col": delta_col,
            "flags": flags,
            "first_row": offsets(stops.sum(axis=1)),
            "need_scan": need_scan,
            "escapes": escapes,
        }

    def by_kernel(self, ends: Array, block_col: Array, values: Array, run: Run) -> dict[str, Any]:
        """As `by_arrays`, for at least one thread. run: runs a launch on these arrays."""
        xp, (h, w, steps, group), threads = array_module(ends), self.plan, self.threads
        count, across, _ = self.parts
        packed = xp.empty((h, count, steps, across, w), dtype=values.dtype)
        columns = xp.empty((count, steps, across), dtype=self.column)
        delta_col = xp.empty((count if self.differences else 0, steps, across), dtype=np.int16)
        flags, first_row = xp.empty(threads, dtype=flags_dtype(steps)), xp.empty(threads + 1, dtype=np.int32)
        need_scan, escapes = xp.empty(threads // group, dtype=np.uint8), xp.zeros(1, dtype=np.int32)
        types = ", ".join(map(ctype, (values, columns, flags, ends)))
        sizes = *map(np.int32, (h, w, steps, len(ends) - 1)), np.int64(threads), np.int64(across)
        found = packed, columns, delta_col, flags, first_row, need_scan, escapes
        name = f"bccoo_pack<{types}, {cbool(self.differences)}>"
        args = *sizes, ends, block_col, values, *found
        run(Launch("dense_blocks/bccoo_convert.cu", name, threads // group, group, args))
        return {
            "values": packed,
            "block_col": columns,
            "delta_col": delta_col,
            "flags": flags,
            "first_row": first_row,
            "need_scan": need_scan,
            "escapes": int(escapes[0]),
        }


class Bccoo(Format):
    """Dense h x w blocks in order, the same number for every thread; a bit per block marks the end of a block row.

    Neighbouring threads' blocks are side by side, step by step. Block rows are found by counting the bits: one without
    entries has a block of zeros without a column. Block columns take 16 bits where they fit; else they take 32, and
    another 16 for the difference from the column before, which is all that is read unless it does not fit. Zeros fill
    the blocks, and a stored zero cannot be distinguished from them. Where h or w is 0, both are chosen for the fewest
    bytes.
    """

    family = "COO"
    keeps_zeros = False
    multiplies_padding = True

    h = Parameter(0, "rows of a block; 0 takes the number with the fewest bytes to read", choices=(0, *HEIGHTS))
    w = Parameter(0, "columns of a block; 0 takes the number with the fewest bytes", choices=(0, *WIDTHS))
    steps = Parameter(
        0, "blocks per thread, up to 32; 0 takes the mean of a block row if it is 4 to 24, else 8", low=0, high=32
    )
    group = Parameter(
        0,
        "threads per group; the number of blocks is padded to full groups; 0 takes 256",
        choices=(0, 64, 128, 256, 512),
    )
    delta = Parameter(True, "16-bit differences in addition to 32-bit block columns")
    across = Parameter(0, "threads whose blocks are side by side; 0 is all of them", choices=(0, 32))
    kernel = Parameter(
        "fast",
        "paper: one launch, results gathered in shared memory, a group waits for the one before; fast: neither, and "
        "atomics between warps",
        choices=("fast", "paper"),
    )
    tune = Parameter(
        False, "time the 4 shapes with the fewest bytes, 8 to 32 blocks and 128 and 256 threads, if not given"
    )

    values: Array  # (h, T / across, steps, across, w): a line of every block, T threads
    block_col: Array  # (T / across, steps, across), uint16 or int32: column in blocks; 65535 or -1 is none
    delta_col: Array  # likewise, int16: difference from the thread's block before; -32768: see block_col; or empty
    flags: Array  # (T,), uint8, uint16 or uint32: bit j is set where the block row of the thread's block j goes on
    first_row: Array  # (T + 1,), int32: the first block row that ends in a thread or after it
    need_scan: Array  # (T / group,), uint8: 1 if some thread of the group ends no block row
    plan: Plan
    block_rows: int  # of all slices
    escapes: int  # columns whose difference does not fit, the threads' first left out
    fill: float  # share of the stored values that are entries; 1 if nothing is stored

    @classmethod
    def stacked(cls, a: Csr, *_: Any, **params: Any) -> Csr:
        """The matrix whose blocks are stored."""
        return a

    @classmethod
    def choices(cls, h: int, w: int) -> Shapes:
        """The shapes to choose from."""
        return shapes(h, w, HEIGHTS, WIDTHS)

    @staticmethod
    def column_dtype(cols: int, w: int) -> np.dtype:
        """The type of block columns."""
        return np.dtype(np.uint16 if cdiv(cols, w) < NO_SHORT_COLUMN else np.int32)

    @staticmethod
    def blocks(counts: Array) -> int:
        """Blocks that are stored: one of zeros where a block row has none."""
        return int(array_module(counts).maximum(counts, 1).sum())

    @classmethod
    def read_bytes(cls, a: Csr, counts: Array, h: int, w: int, delta: bool) -> int:
        """Bytes of blocks of h x w that a product reads, where differences of columns fit."""
        column = min(cls.column_dtype(a.cols, w).itemsize, 2 if delta else 4)
        blocks = cls.blocks(counts)
        return blocks * (h * w * a.dtype.itemsize + column) + blocks // 8

    @classmethod
    def chosen(cls, tiles: SortedTiles | FoundTiles, h: int, w: int, delta: bool) -> Shape:
        """The h and w with the fewest bytes."""

        def footprint(some: SortedTiles | FoundTiles, r: int, c: int) -> int:
            return cls.read_bytes(some.a, some.counts(r, c), r, c, delta)

        return best_shape(tiles, cls.choices(h, w), footprint, index_bytes=2)

    @classmethod
    def estimate(cls, a: Csr, *, h: int, w: int, steps: int, group: int, delta: bool, **params: Any) -> int:
        a = cls.stacked(a, **params)
        tiles = tiles_of(a)
        h, w = cls.chosen(tiles, h, w, delta)
        counts = tiles.counts(h, w)
        blocks, group, column = cls.blocks(counts), group or GROUP, cls.column_dtype(a.cols, w)
        steps = steps or steps_for(blocks, len(counts))
        blocks = round_up(blocks, steps * group)
        threads = blocks // steps
        columns = column.itemsize + 2 * (delta and column == np.int32)
        flags = flags_dtype(steps).itemsize
        return blocks * (h * w * a.dtype.itemsize + columns) + threads * flags + 4 * (threads + 1) + threads // group

    @classmethod
    def convert(cls, a: Csr, *, h: int, w: int, tune: bool, **params: Any) -> dict[str, Any]:
        tall = cls.stacked(a, **params)
        tiles = tiles_of(tall)

        def by_rule() -> Plan:
            r, c = cls.chosen(tiles, h, w, params["delta"])
            counts = tiles.counts(r, c)
            steps = params["steps"] or steps_for(cls.blocks(counts), len(counts))
            return Plan(r, c, steps, params["group"] or GROUP)

        if tune and a.xp is not np and a.nnz:
            plan = search_once(cls, a, lambda: cls.tuned(a, tiles, h=h, w=w, **params), by_rule)
        else:
            plan = by_rule()
        return cls.assigned(tiles, plan, tiles.counts(plan.h, plan.w), a.nnz, **params)

    @classmethod
    def assigned(
        cls,
        tiles: SortedTiles | FoundTiles,
        plan: Plan,
        counts: Array,
        nnz: int,
        *,
        delta: bool,
        across: int,
        **params: Any,
    ) -> dict[str, Any]:
        """The fields. counts: (block rows,), the blocks of each."""
        xp, block_rows, (h, w, steps, group) = tiles.a.xp, len(counts), plan
        ends = offsets(xp.maximum(counts, 1))  # a block of zeros where there is none
        blocks = round_up(int(ends[-1]), steps * group)
        filled = ends.copy()
        filled[-1] = blocks
        block_col, values = tiles.store(h, w, 1, 1, filled, blocks)
        threads = blocks // steps
        deal = Deal(plan, threads, across or max(threads, 1), cls.column_dtype(tiles.a.cols, w), delta)
        arrays = ends, block_col.reshape(-1), values
        return {
            **(
                deal.by_kernel(*arrays, tiles.run)
                if isinstance(tiles, FoundTiles) and blocks
                else deal.by_arrays(*arrays)
            ),
            "plan": plan,
            "block_rows": block_rows,
            "fill": nnz / values.size if nnz else 1.0,
        }

    @classmethod
    def tuned(cls, a: Csr, tiles: SortedTiles | FoundTiles, **params: Any) -> Plan:
        """The plan with the shortest product."""
        cols = tiles.a.cols
        x, y = a.xp.zeros(cols, a.vector_dtype), a.xp.empty(a.rows, a.vector_dtype)
        counted = {shape: tiles.counts(*shape) for shape in cls.choices(params["h"], params["w"])}
        size = {shape: cls.read_bytes(a, counts, *shape, params["delta"]) for shape, counts in counted.items()}
        best: Plan | None = None
        shortest = np.inf
        for shape in sorted(size, key=lambda shape: size[shape])[:4]:
            for steps in (params["steps"],) if params["steps"] else (8, 16, 32):
                for group in (params["group"],) if params["group"] else (128, 256):
                    plan = Plan(*shape, steps, group)
                    found = cls.assigned(tiles, plan, counted[shape], a.nnz, **params)
                    launches = cls.holding(a.shape, found, **params).launches(x, y)
                    taken = seconds(stored_in(a).launches(launches))
                    if taken < shortest:
                        best, shortest = plan, taken
        assert best is not None
        return best

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, plan, across = self.xp, self.plan, self.block_col.shape[2]
        goes_on = self.flags[:, None] >> xp.arange(plan.steps).astype(self.flags.dtype) & 1
        stops = (goes_on == 0).reshape(-1)
        block_row = xp.cumsum(stops, dtype=np.int64) - stops
        line, part, step, thread, column = xp.nonzero(nonzero_mask(self.values))
        block = (part * across + thread) * plan.steps + step
        row = block_row[block] * plan.h + line
        col = self.block_col[part, step, thread].astype(np.int64) * plan.w + column
        return row, col, self.values[line, part, step, thread, column]

    @property
    def narrow(self) -> bool:
        """Whether kernels read differences of columns: where next to all of them fit."""
        return self.delta_col.size > 0 and self.escapes * 32 <= self.delta_col.size

    @property
    def bytes_read(self) -> int:
        """Of columns what kernels read: where they take differences, those of a thread's first block and escapes."""
        unread = self.block_col.size - len(self.flags) - self.escapes if self.narrow else 0
        return self.nbytes - unread * self.block_col.itemsize - (not self.narrow) * self.delta_col.nbytes

    @property
    def in_use(self) -> dict[str, Any]:
        return self.plan._asdict() if self.tune else {}

    @property
    def detail(self) -> dict[str, Any]:
        """The blocks, and how they are distributed."""
        return {
            **self.plan._asdict(),
            "fill": self.fill,
            "narrow": self.narrow,
        }

    def by_blocks(self, x: Array, y: Array) -> list[Launch]:
        """The launches that give all of y, (block rows' rows,), from the blocks."""
        h, w, steps, group = self.plan
        threads, value = len(self.flags), ctype(self.values)
        if not threads:
            return []
        sizes = np.int32(len(y)), np.int32(self.shape[1])
        strides = np.int64(self.block_col.shape[2]), np.int64(self.values[0].size)
        types = f"{value}, {ctype(self.block_col)}, {ctype(self.flags)}, {h}, {w}, {steps}, {cbool(self.narrow)}"
        matrix = (*sizes, self.flags, self.first_row, *strides, self.block_col, self.delta_col, self.values)
        if self.kernel == "paper":
            groups = threads // group
            work = (
                self.xp.zeros(3, dtype=np.int32),
                self.xp.zeros(groups, dtype=np.int32),
                self.xp.zeros(groups * h, dtype=self.values.dtype),
            )
            name = f"bccoo_paper<{types}, {group}>"
            return [Launch("dense_blocks/bccoo.cu", name, groups, group, (*matrix, self.need_scan, x, y, *work))]
        warps = np.int32(threads // 32)
        cuts = (warps, sizes[0], self.first_row, y)
        return [
            Launch("dense_blocks/bccoo.cu", f"bccoo_zero<{value}, {h}>", *per_thread(int(warps)), cuts),
            Launch(
                "dense_blocks/bccoo.cu",
                f"bccoo_fast<{types}, {loads_for(h * w, steps)}>",
                threads // group,
                group,
                (*matrix, x, y),
            ),
        ]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return self.by_blocks(x, y)


def loads_for(values: int, steps: int) -> int:
    """Steps of a thread that are in flight: as many blocks of so many values as registers hold well."""
    return min(max(8 >> (values - 1).bit_length(), 1), steps)


@register
class PlainBccoo(Bccoo):
    """Dense h x w blocks in equal shares per thread; one bit per block instead of a row index, 16-bit columns.

    See `Bccoo`. The authors' tuner takes seconds on every matrix; tune=true runs the last part of its search during the
    conversion. Otherwise the shape is chosen by bytes, and the blocks per thread by the mean block row, in groups of
    256. The paper has single precision only.
    """

    key = "bccoo"
    survey_name = "BCCOO"
    reference = "Yan, Li, Zhang & Zhou, PPoPP 2014 (yaSpMV)"
    shared_implementation = "blocked coordinates with a bit per block: the whole matrix"


def sliced_by_arrays(a: Csr, slices: int, width: int, height: int) -> Csr:
    """Vertical slices of `width` columns, the last with the rest, one below the other, each of `height` rows."""
    xp = a.xp
    number = xp.minimum(a.col_idx // np.int32(width), np.int32(slices - 1))
    key = number.astype(np.int64) * height + a.row_idx
    counts = xp.bincount(key, minlength=slices * height)
    row_ptr = offsets(counts)
    counts = counts.reshape(slices, height)
    left_of = (xp.cumsum(counts, axis=0) - counts).reshape(-1)  # of a row's entries, those in slices further left
    place = row_ptr[key] + a.rank_in_row - left_of[key]
    col_idx, values = xp.empty_like(a.col_idx), xp.empty_like(a.values)
    col_idx[place] = a.col_idx
    values[place] = a.values
    return Csr((slices * height, a.cols), row_ptr.astype(a.row_ptr.dtype, copy=False), col_idx, values)


def sliced_by_kernels(a: Csr, slices: int, width: int, height: int, run: Run) -> Csr:
    """As `sliced_by_arrays`. run: runs a launch on the arrays of `a`."""
    xp, source, index = a.xp, "dense_blocks/bccoo_convert.cu", a.row_ptr.dtype
    firsts, counts = xp.empty(slices * height, dtype=index), xp.zeros(slices * height, dtype=index)
    cut = np.int32(slices), np.int32(width), np.int64(height)
    args = np.int32(a.rows), *cut, a.row_ptr, a.col_idx, firsts, counts
    run(Launch(source, f"slice_rows<{ctype(index)}>", *per_thread(a.rows), args))
    row_ptr = xp.zeros(len(counts) + 1, dtype=index)
    row_ptr[1:] = xp.cumsum(counts, dtype=index)
    col_idx, values = xp.empty_like(a.col_idx), xp.empty_like(a.values)
    sizes = np.int32(a.rows), index.type(a.nnz), *cut, np.int32(EACH)
    entries = *sizes, a.row_ptr, a.col_idx, a.values, firsts, row_ptr, col_idx, values
    name = f"slice_entries<{ctype(values)}, {ctype(index)}>"
    run(Launch(source, name, *per_thread(cdiv(a.nnz, 32 * EACH) * 32), entries))
    return Csr((slices * height, a.cols), row_ptr, col_idx, values)


@register
class BccooPlus(Bccoo):
    """BCCOO of vertical slices of the matrix, one below the other; a second kernel adds their parts of y.

    See `Bccoo`. A slice reads only its own part of x. Column indices stay those of the whole matrix. Slices are
    filled up to a multiple of 12 rows, for blocks of any height.
    """

    key = "bccoo-plus"
    survey_name = "BCCOO+"
    reference = "Yan, Li, Zhang & Zhou, PPoPP 2014 (yaSpMV)"
    shared_implementation = "blocked coordinates with a bit per block: vertical slices one below the other"

    slices = Parameter(4, "vertical slices", choices=(1, 2, 4, 8, 16, 32))

    @staticmethod
    def slice_height(rows: int) -> int:
        """Rows of a slice in the stack."""
        return round_up(rows, 12)

    @classmethod
    def stacked(cls, a: Csr, *, slices: int, **params: Any) -> Csr:
        height = cls.slice_height(a.rows)
        if height * slices > INT32_MAX:
            raise Skip(f"{slices} slices of {a.rows:,} rows are too many to count in 32 bits")
        width = max(a.cols // (4 * slices) * 4, 4)
        run = runner(a)
        return sliced_by_kernels(a, slices, width, height, run) if run else sliced_by_arrays(a, slices, width, height)

    def to_coo(self) -> tuple[Array, Array, Array]:
        row, col, value = super().to_coo()
        return row % max(self.slice_height(self.shape[0]), 1), col, value

    def launches(self, x: Array, y: Array) -> list[Launch]:
        height = self.slice_height(self.shape[0])
        stacked = self.xp.empty(self.slices * height, dtype=self.values.dtype)
        sizes = np.int32(len(y)), np.int64(height), np.int32(self.slices)
        add = Launch(
            "dense_blocks/bccoo.cu", f"bccoo_sum_slices<{ctype(y)}>", *per_thread(len(y)), (*sizes, stacked, y)
        )
        return [*in_part("slices", self.by_blocks(x, stacked)), *in_part("sum", [add])]
