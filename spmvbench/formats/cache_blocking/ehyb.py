"""EHYB: partitions of the matrix's graph whose x fits shared memory, and extra rows for entries between them."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, inverse, longest_first, offsets, put
from spmvbench.formats.cache_blocking.partition import Partition, partition
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

HEIGHT = 32  # rows of a slice
# Threads of a block. A window may leave room for no second block on a multiprocessor.
THREADS = constant("cache_blocking/ehyb.cu", "THREADS")
LONGEST = 512  # entries that a row may have in its slice (fast); what is beyond them makes extra rows
PIECE = 16  # entries of an extra row (fast)
MOST_SHARE = 8  # blocks that the authors' program lets share a partition
OVERLOAD = 1.25  # of the mean entries of a block: extra rows beyond that, and LAUNCH, are left to all
LAUNCH = 8192  # entries that a block multiplies in the time of a second launch: 3 us, at 2600 a us (H200, fem:40:3)
SLACK = 1.01  # of the mean partition: room in the window for the largest
ENOUGH = 1400  # rows of a partition, else some are joined: fem:40:3 is fastest with 1455, fem:27:3 with 1791 and more


class Cut(NamedTuple):
    """Partitions of a matrix, blocks that share one, and values that a window may hold."""

    partitions: int
    share: int
    window: int


def cut_by_rule(rows: int, value_bytes: int, *, sms: int, shared_bytes: int, share: int, kernel: str = "fast") -> Cut:
    """The paper's equations (1) and (2), of which only the words are printed, and a rule for small matrices.

    K sms partitions with the smallest K whose x fits in `shared_bytes`. Where these partitions are small, `share` of
    them are joined and taken by as many blocks, a divisor of their number. paper: where a partition fills less than
    half of the window, the largest divisor up to MOST_SHARE whose x still fits, as the authors' program has it for 80
    blocks. fast: the smallest that makes ENOUGH rows, or else the largest whose x still fits.
    """
    window = min(shared_bytes // value_bytes - 2, 2**16 - 1)  # the window's zero and the counter also need room
    blocks = max(math.ceil(SLACK * rows / (window * sms)), 1) * sms
    if not share:
        most = max(int(window * blocks // (SLACK * max(rows, 1))), 1)
        fitting = [d for d in range(1, min(most, blocks) + 1) if blocks % d == 0]
        if kernel == "paper":
            share = max(d for d in fitting if d <= MOST_SHARE) if 2 * rows < window * blocks else 1
        else:
            share = next((d for d in fitting if rows * d >= ENOUGH * blocks), fitting[-1])
    partitions = max(min(blocks // share, rows // HEIGHT), 1)
    return Cut(partitions, max(min(share, cdiv(rows, partitions * HEIGHT)), 1), window)


class Slices(NamedTuple):
    """Rows of several groups in slices of 32, none of which holds rows of two groups."""

    begin: Array  # (groups + 1,), int32: slices before each group
    ptr: Array  # (slices + 1,), int32: steps before each slice; a step is one slot of each of the 32 rows
    place: Array  # (rows,), int64: slice * 32 + thread of each row
    first: Array  # (rows,), int64: slot of each row's first entry; every next is 32 further

    @classmethod
    def of(cls, lengths: Array, group: Array, groups: int) -> Slices:
        """lengths: (rows,), entries of each row. group: (rows,), of each row, ascending."""
        xp = array_module(lengths)
        rows = xp.bincount(group, minlength=groups)
        begin = offsets(cdiv(rows, HEIGHT))
        place = HEIGHT * begin[group].astype(np.int64) + xp.arange(len(group)) - offsets(rows)[group]
        padded = xp.zeros(HEIGHT * int(begin[-1]), dtype=np.int64)
        padded[place] = lengths
        ptr = offsets(padded.reshape(-1, HEIGHT).max(axis=1))
        return cls(begin, ptr, place, HEIGHT * ptr[place // HEIGHT].astype(np.int64) + place % HEIGHT)

    @property
    def slots(self) -> int:
        """Slots of all slices, padding included."""
        return HEIGHT * int(self.ptr[-1])


class ExtraRows(NamedTuple):
    """Entries outside of the windows: extra rows of at most `piece` entries, several for a row if needed."""

    piece: int
    before: Array  # (n + 1,): extra rows of the places before each
    order: Array  # (extra rows,): which of them each is that is stored
    owner: Array  # (extra rows,): place of the row that it is part of, as stored
    slices: Slices  # as stored; a group per block, the last one for all blocks

    @classmethod
    def of(cls, lengths: Array, block: Array, load: Array, limit: float, piece: int = PIECE) -> ExtraRows:
        """lengths: (n,), entries outside at each place. block: (n,), whose they are. load: (blocks,), entries inside.

        A block has its extra rows longest first; those that it would begin after `limit` entries are left to all.
        """
        xp, blocks = array_module(lengths), len(load)
        before = offsets(cdiv(lengths, piece))
        owner = expand(before, int(before[-1]))
        pieces = xp.minimum(lengths[owner] - piece * (xp.arange(len(owner)) - before[owner]), piece)
        group = block[owner]
        order = longest_first(pieces, piece, group, blocks + 1)
        ahead, first = offsets(pieces[order]), offsets(xp.bincount(group, minlength=blocks))
        done = (load - ahead[first[:-1]])[group[order]] + ahead[:-1]
        group[order[done > limit]] = blocks
        order = longest_first(pieces, piece, group, blocks + 1)
        return cls(piece, before, order, owner[order], Slices.of(pieces[order], group[order], blocks + 1))


class Layout(NamedTuple):
    """Where rows and entries go: all that the footprint depends on and the conversion fills in.

    A place is the number of a row, and of a column, in the format's order.
    """

    parts: Partition
    order: Array  # (n,), int32: row of the matrix at each place
    place: Array  # (n,), int32: place of each row of the matrix
    window: int  # places at the front of a partition whose x is cached: all of them, unless one is too large
    local: Array  # (nnz,): place of an entry's column, counted from the first of its row's partition
    inside: Array  # (nnz,): whether an entry is in its row's slice
    slices: Slices  # of rows by place; a group per partition
    extra: ExtraRows

    @staticmethod
    def cut(a: Csr, *, kernel: str, share: int, sms: int, shared_bytes: int) -> Cut:
        """How the rule cuts a matrix for the device at hand. Raises Skip if it lacks the shared memory asked for."""
        limits = device_limits(a)
        if shared_bytes > limits.shared_bytes:
            raise Skip(f"{shared_bytes:,} bytes of shared memory are asked for, the device has {limits.shared_bytes:,}")
        room = {"sms": sms or limits.multiprocessors, "shared_bytes": shared_bytes or limits.shared_bytes}
        return cut_by_rule(a.rows, a.vector_dtype.itemsize, **room, share=share, kernel=kernel)

    @classmethod
    def of(cls, a: Csr, method: str, **rule: Any) -> Layout:
        xp, paper = a.xp, rule["kernel"] == "paper"
        cut = cls.cut(a, **rule)
        parts = partition(a, method, cut.partitions)
        part_at = expand(parts.begin, a.rows)  # of a place: sorting inside of partitions does not change it
        part = part_at[inverse(parts.order)]

        row_part = part[a.row_idx]
        inside = row_part == part[a.col_idx]
        lengths = xp.bincount(a.row_idx[inside], minlength=a.rows)
        order = parts.order[longest_first(lengths[parts.order], a.row_len_max, part_at, cut.partitions)]
        place = inverse(order)
        window = min(int(xp.diff(parts.begin).max()), cut.window)
        local = place[a.col_idx] - parts.begin[row_part]
        inside &= local < window
        if not paper and a.row_len_max > LONGEST:
            before = offsets(inside)
            inside &= before[:-1] - before[a.row_ptr[:-1]][a.row_idx] < LONGEST

        lengths = xp.bincount(a.row_idx[inside], minlength=a.rows)[order]
        slices = Slices.of(lengths, part_at, cut.partitions)
        # A partition's slices are assigned to its blocks in turn.
        block = part_at * cut.share + (slices.place // HEIGHT - slices.begin[part_at]) % cut.share
        blocks = cut.partitions * cut.share
        load = xp.bincount(block, lengths, blocks)
        limit, piece = (-1.0, max(a.row_len_max, 1)) if paper else (OVERLOAD * a.nnz / blocks + LAUNCH, PIECE)
        extra = ExtraRows.of(a.row_lengths[order] - lengths, block, load, limit, piece)
        return cls(parts, order, place, window, local, inside, slices, extra)


@register
class Ehyb(Format):
    """Rows in METIS partitions: 16-bit columns and x in shared memory inside a partition, extra rows outside.

    A block copies the x of its partition, the window, into shared memory. Rows are sorted inside the partition by
    their entries there, slices of 32 rows are stored step by step, and warps take slices from a counter that starts
    again in every product. Entries outside of the window form extra rows with 32-bit columns, also in slices, each
    with the row that it is added to. Square matrices only; best where the graph divides well into partitions, as meshes
    do.

    order=native takes x and gives y in the format's order, as the paper times it; natural gathers the window and
    scatters y inside of the product (7 % longer on pde:100, as long on fem:40:3, H200). The permutation is stored, and
    counted, in both. The authors' program computes the extra rows in the first product alone, for their counter is
    never reset; here they are part of every product.

    kernel=paper: one entry at a time; what a row has outside of its window is one extra row, and warps take these, when
    their partition's slices are done, from one counter for all, into an array that a second kernel adds to y. Small
    partitions are joined as the authors' program joins them, for the multiprocessors of the device at hand: our reading
    of a rule that is written for 80. kernel=fast: entries are prefetched; extra rows are summed by the block that
    owns their row, so that no second kernel has to add them, except for those beyond the block's fair share; a
    row has at most 512 entries in its slice (where the authors' program goes wrong) and 16 in an extra row, more make
    further ones. Sums of rows with several extra rows are not reproducible. 16-bit columns have no sign: windows may
    hold more than 32,767 values.
    """

    key = "ehyb"
    family = "Hybrid"
    reference = "Chen, arXiv:2204.06666, 2022"
    square_only = True
    method: ClassVar[str] = "metis"  # of spmvbench.formats.cache_blocking.partition

    order = Parameter("natural", "order of x and y: the matrix's, or the format's", choices=("natural", "native"))
    kernel = Parameter(
        "fast", "paper: the authors' scheme for extra rows; fast: this project's", choices=("fast", "paper")
    )
    share = Parameter(0, "blocks per partition; 0 also joins small partitions, up to 1400 rows (fast)", low=0)
    sms = Parameter(0, "the number of blocks is a multiple of this; 0: the device's multiprocessors", low=0)
    shared_bytes = Parameter(0, "shared memory of a block in bytes; 0: all that the device has", low=0)

    permutation: Array  # (n,), int32: row, and column, of the matrix at each place of the format's order
    begin: Array  # (partitions + 1,), int32: first place of each partition
    slice_begin: Array  # (partitions + 1,), int32: first slice of each partition
    slice_ptr: Array  # (slices + 1,), int32: steps of 32 slots before each slice
    local_columns: Array  # (slots,), uint16: place in the window; `window` is padding
    values: Array  # (slots,)
    extra_begin: Array  # (blocks + 2,), int32: first slice of extra rows of each block, then of those left to all
    extra_ptr: Array  # (extra slices + 1,), int32: steps of 32 slots before each of them
    extra_rows: Array  # (32 extra slices,), int32: element of y to add to; -1 is none
    extra_columns: Array  # (extra slots,), int32: element of x; -1 is padding
    extra_values: Array  # (extra slots,)
    window: int  # values that a block caches at most
    partition_s: float  # seconds that the partition took when it was made
    partition_cached: bool  # whether it was read from the disk

    @classmethod
    def _layout(cls, a: Csr, *, order: str, **given: Any) -> Layout:
        return Layout.of(a, cls.method, **given)

    @classmethod
    def prepare(cls, a: Csr, *, order: str, **rule: Any) -> None:
        cls._refuse_shape(a)
        partition(a, cls.method, Layout.cut(a, **rule).partitions)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        found = cls._layout(a, **params)
        slices, extra, value = found.slices, found.extra.slices, a.dtype.itemsize
        pointers = a.rows + 2 * len(slices.begin) + len(slices.ptr) + len(extra.begin) + len(extra.ptr)
        extra_rows = HEIGHT * (len(extra.ptr) - 1)
        return 4 * (pointers + extra_rows) + slices.slots * (2 + value) + extra.slots * (4 + value)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp = a.xp
        found = cls._layout(a, **params)
        slices, extra = found.slices, found.extra
        natural = params["order"] == "natural"

        main = a.where(found.inside)
        slot = slices.first[found.place[main.row_idx]] + HEIGHT * main.rank_in_row
        local_columns = xp.full(slices.slots, found.window, dtype=np.uint16)
        values = xp.zeros(slices.slots, dtype=a.dtype)
        put(local_columns, slot, found.local[found.inside].astype(np.uint16))
        put(values, slot, main.values)

        rest = a.where(~found.inside)
        rank = rest.rank_in_row
        stored = inverse(extra.order)[extra.before[found.place[rest.row_idx]] + rank // extra.piece]
        slot = extra.slices.first[stored] + HEIGHT * (rank % extra.piece)
        extra_columns = xp.full(extra.slices.slots, -1, dtype=np.int32)
        extra_values = xp.zeros(extra.slices.slots, dtype=a.dtype)
        put(extra_columns, slot, rest.col_idx if natural else found.place[rest.col_idx])
        put(extra_values, slot, rest.values)
        extra_rows = xp.full(HEIGHT * (len(extra.slices.ptr) - 1), -1, dtype=np.int32)
        extra_rows[extra.slices.place] = found.order[extra.owner] if natural else extra.owner
        return {
            "permutation": found.order,
            "begin": found.parts.begin,
            "slice_begin": slices.begin,
            "slice_ptr": slices.ptr,
            "local_columns": local_columns,
            "values": values,
            "extra_begin": extra.slices.begin,
            "extra_ptr": extra.slices.ptr,
            "extra_rows": extra_rows,
            "extra_columns": extra_columns,
            "extra_values": extra_values,
            "window": found.window,
            "partition_s": found.parts.seconds,
            "partition_cached": found.parts.cached,
        }

    @property
    def partitions(self) -> int:
        """Partitions of the matrix."""
        return len(self.begin) - 1

    @property
    def blocks(self) -> int:
        """Blocks of the kernel, the same number for every partition."""
        return len(self.extra_begin) - 2

    @property
    def natural(self) -> bool:
        """Whether x and y are in the matrix's order."""
        return bool(self.params["order"] == "natural")

    @property
    def x_order(self) -> Array | None:
        return None if self.natural else self.permutation

    y_order = x_order

    @property
    def setup_seconds(self) -> float:
        return self.partition_s

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp

        def lane_of(slot: Array, ptr: Array) -> Array:
            slice_ = xp.searchsorted(ptr, slot // HEIGHT, side="right") - 1
            lane: Array = HEIGHT * slice_ + slot % HEIGHT
            return lane

        slot = xp.flatnonzero(self.local_columns != self.window)
        lane = lane_of(slot, self.slice_ptr)
        part = xp.searchsorted(self.slice_begin, lane // HEIGHT, side="right") - 1
        row = self.permutation[self.begin[part] + lane - HEIGHT * self.slice_begin[part]]
        col = self.permutation[self.begin[part] + self.local_columns[slot]]

        extra = xp.flatnonzero(self.extra_columns >= 0)
        extra_row, extra_col = self.extra_rows[lane_of(extra, self.extra_ptr)], self.extra_columns[extra]
        if not self.natural:
            extra_row, extra_col = self.permutation[extra_row], self.permutation[extra_col]
        pairs = (row, extra_row), (col, extra_col), (self.values[slot], self.extra_values[extra])
        rows, cols, values = (xp.concatenate(pair) for pair in pairs)
        return rows, cols, values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        if not self.shape[0]:
            return []
        value, warps = ctype(self.values), 4
        slices = (self.permutation, self.begin, self.slice_begin, self.slice_ptr, self.local_columns, self.values)
        window = (np.int32(self.blocks // self.partitions), np.int32(self.window), *slices)
        options = f"<{value}, {cbool(self.natural)}>"
        shared = (self.window + 2) * y.itemsize  # the window's zero and the counter follow
        if self.kernel == "paper":
            counters = self.xp.empty(self.partitions + 1, dtype=np.int32)
            sums = self.xp.empty(len(self.extra_rows), dtype=y.dtype)
            paper = (np.int32(len(self.extra_ptr) - 1), self.extra_ptr, self.extra_columns, self.extra_values)
            both, add = (*window, *paper, counters, x, sums, y), (np.int32(len(sums)), self.extra_rows, sums, y)
            return [
                zero_fill(counters),
                Launch("cache_blocking/ehyb.cu", f"ehyb_paper{options}", self.blocks, THREADS, both, shared),
                Launch("cache_blocking/ehyb.cu", f"ehyb_add<{value}>", *per_thread(len(sums)), add),
            ]
        left = len(self.extra_ptr) - 1 - int(self.extra_begin[self.blocks])
        extra = (self.extra_begin, self.extra_ptr, self.extra_rows, self.extra_columns, self.extra_values, x, y)
        args = (*window, *extra)
        return [
            Launch("cache_blocking/ehyb.cu", f"ehyb_spmv{options}", self.blocks, THREADS, args, shared),
            Launch(
                "cache_blocking/ehyb.cu",
                f"ehyb_left<{value}>",
                cdiv(left, warps),
                32 * warps,
                (np.int32(self.blocks), *extra),
            ),
        ]

    @property
    def detail(self) -> dict[str, Any]:
        inside = int((self.local_columns != self.window).sum())
        return {
            "partitions": self.partitions,
            "blocks": self.blocks,
            "window": self.window,
            "inside_share": inside / max(inside + int((self.extra_columns >= 0).sum()), 1),
            "partition_s": self.partition_s,
            "partition_cached": self.partition_cached,
        }


@register
class EhybRcm(Ehyb):
    """EHYB with equal pieces of the reverse Cuthill-McKee order instead of METIS partitions.

    It separates the effect of partitioning from that of caching x. It needs SciPy only.
    """

    key = "ehyb-rcm"
    method = "rcm"
