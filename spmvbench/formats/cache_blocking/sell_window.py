"""Sliced ELLPACK with windows of x in shared memory and columns in few bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import (
    INT32_MAX,
    Array,
    Csr,
    array_module,
    cdiv,
    expand,
    inverse,
    nothing,
    offsets,
    on_host,
    put,
    round_up,
)
from spmvbench.formats.compressed.bits import WORD, pack, unpack
from spmvbench.formats.conversion import Beside, Run, device_limits, note_words, noted, notes, runner, scratch, summing
from spmvbench.formats.csr.rows import CsrPieces
from spmvbench.formats.ellpack.sell_convert import WARP
from spmvbench.formats.ellpack.sell_local import SellLocal, long_apart, order_of, slices_of
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, in_part, per_thread
from spmvbench.formats.multivector import LOADED
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "cache_blocking/sell_window.cu"
SMALL = 2**20  # entries up to which a wait costs more than plans that may not be used
SHARED = "include/window.cuh"
GROUP = constant(SHARED, "GROUP")  # positions whose columns share words
CONVERT = "cache_blocking/window_convert.cu"
WIDE = constant(CONVERT, "WIDE")  # bits of a column whose x lies in global memory
BITS = (4, 8, 12, 16)  # of a column that is counted from the slice's first
QUARTER = constant(SHARED, "QUARTER")  # words of a slice are counted in: a byte of each thread
# Of a packed column 8 bits are stored as such; PACKED plus the bytes of a thread's other bits is in place of the bits.
PACKED, LOW_BITS, MOST_BYTES = constant(SOURCE, "PACKED"), 8, 8
ALIGNED = constant(CONVERT, "ALIGNED")  # of a window's first column: 16 bytes
WIDTH_UNIT = constant(SHARED, "WIDTH_UNIT")  # a slice's width is stored times this, its bits below
TOO_MANY = "positions, words or a slice's width exceed 32 bits"
BLOCK = constant(CONVERT, "CONVERT_BLOCK")
BANKS_BYTES = 128  # of shared memory in all its banks
STATIC_BYTES = 1024  # of a block's shared memory that CUDA takes for itself, rounded up


class Layout(NamedTuple):
    """Where everything lies, known before it is allocated."""

    perm: Array  # (rows,), int32: row of each place; (0,) where rows keep their order
    place: Array  # (rows,): place of each row
    position: Array  # (slices + 1,), int64: positions before each slice
    word: Array  # (slices + 1,), int64: bytes of a thread before each slice
    low: Array  # (slices,), int64: first column; 0 where columns are whole
    bits: Array  # (slices,), int64: of a column, or PACKED and bytes
    chunks: Array  # (chunks, 4), int32: first slice, end, first column of the window, its columns

    @property
    def slots(self) -> int:
        """Values stored, padding included."""
        return int(self.position[-1]) * WARP

    @property
    def words(self) -> int:
        """Words of all threads' columns."""
        return int(self.word[-1]) * QUARTER

    def nbytes(self, itemsize: int) -> int:
        """Of the arrays of the format."""
        tables = 16 * len(self.bits) + self.chunks.nbytes + self.perm.nbytes
        return self.slots * itemsize + 4 * self.words + tables


def warps_of(slices: int, chunks: int, team: int, threads: int) -> int:
    """Warps that share a slice: `team`, or by the slices for each warp; fewer where warps would be left over."""
    per_warp = slices * WARP / max(chunks * threads, 1)
    by_rule = next((size for size in (1, 2, 4) if per_warp * size >= 2), 8)
    return math.gcd(team or by_rule, threads // WARP)


def layout_of(a: Csr, window: int, chunks: int, sigma: int, *, packed: bool) -> Layout:
    """Slices of 32 rows, the bits of each, and chunks of about as many slots each whose columns fit a window.

    window: columns. chunks: at least so many where there are as many slices. sigma: as the parameter says. packed:
    slices have packed columns where that takes fewer bytes.
    """
    xp, slices = a.xp, cdiv(a.rows, WARP)
    s = slices_of(a, sigma)
    width = xp.diff(s.ptr).astype(np.int64) // WARP
    ordered = s.perm if len(s.perm) else xp.arange(a.rows, dtype=np.int32)
    low, high = (xp.full(slices * WARP, fill, dtype=np.int64) for fill in (INT32_MAX, -1))
    used = xp.flatnonzero(a.row_lengths[ordered])
    low[used] = a.col_idx[a.row_ptr[ordered[used]]]
    high[used] = a.col_idx[a.row_ptr[ordered[used] + 1] - 1]
    low, high = low.reshape(-1, WARP).min(axis=1), high.reshape(-1, WARP).max(axis=1)
    span = xp.where(high >= 0, high - low + 1, 0)
    bits = xp.full(slices, WIDE, dtype=np.int64)
    for width_in_bits in reversed(BITS):
        bits[span < 2**width_in_bits] = width_in_bits  # all ones are padding
    # A window begins at an aligned column. No slice may span more alone: `_chunks` halves until all chunks fit.
    bits[span + low % ALIGNED > window] = WIDE
    low[(bits == WIDE) | (high < 0)] = 0
    whole, rest = width // GROUP, width % GROUP
    held = 4 * (whole * (GROUP * bits // WORD) + cdiv(rest * bits, WORD))
    if packed:
        upper = cdiv(xp.maximum(span - 1, 0) // (1 << LOW_BITS) + width, 8)
        upper += upper % 4 == 3
        size = 4 * cdiv(width, 4) + upper
        fewer = (bits != WIDE) & (width > 0) & (upper <= MOST_BYTES) & (size < held)
        held, bits = xp.where(fewer, size, held), xp.where(fewer, PACKED + upper, bits)
    far = bits == WIDE
    narrow_low, narrow_high = xp.where(far | (high < 0), INT32_MAX, low), xp.where(far, -1, high)
    sizes = on_host(width), on_host(narrow_low), on_host(narrow_high)
    return Layout(
        s.perm,
        inverse(ordered),
        offsets(width).astype(np.int64),
        offsets(held).astype(np.int64),
        low,
        bits,
        xp.asarray(_chunks(*sizes, window, chunks)),
    )


def _chunks(width: np.ndarray, low: np.ndarray, high: np.ndarray, window: int, least: int) -> np.ndarray:
    """`Layout.chunks`: equal shares of the slots, halved until the columns of each fit the window, as a slice's do."""
    slices = len(width)
    if not slices:
        return np.zeros((0, 4), dtype=np.int32)
    ends = np.cumsum(width + 1)  # empty slices count, too: their rows of y are written
    share = np.linspace(0, ends[-1], min(least, slices) + 1)[1:-1]
    begin = np.unique(np.concatenate([[0], np.searchsorted(ends, share, side="right")]))
    while True:
        begin = begin[begin < slices]
        end = np.append(begin[1:], slices)
        first, last = np.minimum.reduceat(low, begin) // ALIGNED * ALIGNED, np.maximum.reduceat(high, begin)
        columns = np.where(last >= 0, last - first + 1, 0)
        too_wide = columns > window
        if not too_wide.any():
            break
        begin = np.unique(np.concatenate([begin, (begin[too_wide] + end[too_wide]) // 2]))
    return np.stack([begin, end, np.where(columns > 0, first, 0), columns], axis=1).astype(np.int32)


def classes(a: Csr, vectors: int) -> int:
    """How many columns of a window for so many vectors lie side by side in all banks of shared memory."""
    return BANKS_BYTES // (max(vectors * a.vector_dtype.itemsize // LOADED, 1) * LOADED)


def by_banks(a: Csr, place: Array, kinds: int) -> Array:
    """The position of each entry in its row, (nnz,), int64, as the kernel `window_order` gives it.

    place: of its row. kinds: the `classes` of columns.
    """
    xp, row = a.xp, a.row_idx.astype(np.int64)
    kind = a.col_idx % kinds
    of = row * kinds + kind
    order = xp.argsort(of, kind="stable")
    held = xp.bincount(of, minlength=a.rows * kinds)
    rank = xp.empty_like(of)
    rank[order] = xp.arange(a.nnz) - (xp.cumsum(held) - held)[of[order]]
    turn = (kind - place) % kinds
    position = xp.zeros(a.nnz, dtype=np.int64)
    for c in range(kinds):
        position += xp.minimum(held[row * kinds + c], rank + ((c - place) % kinds < turn))
    return position


@register
class SellWindow(Format):
    """Slices of 32 rows that take x from a window in shared memory; columns in 4, 8, 12 or 16 bits.

    A thread block computes a chunk, slices that follow each other and whose columns fit its window. It copies that part
    of x to shared memory once, so no entry asks the L1 cache for x, which is what bounds every other format on banded
    matrices. A column is counted from its slice's first one in as few of these bits as the slice allows. A slice whose
    columns span more than a window, or than 16 bits, has columns in 32 bits and takes x from global memory: any matrix
    fits. Eight positions of a row share whole words, and their values are loaded in vectors of 16 bytes.

    On band:1048576:24:2000 (H200, hot) it reached 855 GFLOPS in double and 1,484 in single precision, 0.91 and 0.86 of
    the bound of its bytes; the fastest formats without a window 776 and 1,138. A warp that is done takes the next slice
    of its chunk; with a fixed share for each warp it was 848 and 1,453. What did not help: smaller chunks at the end
    (842 and 1,420 where equal ones had 857 and 1,465), first slices that wait only for their own columns (845 and 1,457
    of 848 and 1,453), and slices that any warp may take once its chunk is done, with x from global memory: 3 % of all
    slices cost a tenth of the speed.

    With `packed`, 8 bits of a column are stored as such, the others by a one for each entry among a thread's upper
    bits (Elias-Fano codes). That is 9.8 bits a column on that matrix with all tables, where columns have about 9 bits
    of information and take 12 else, but decoding takes longer than it saves: 756 and 1,050 GFLOPS. Slices that get no
    shorter, or whose upper bits are more than 64, stay as they are.

    Rows of very many entries would keep one thread busy alone: they are stored apart, in pieces of 256 entries.

    Of several vectors a window holds one tile of 32 or 16 bytes of each row of X, two threads or one share a row, and
    the blocks of a chunk's tiles are beside each other. With `vectors` windows are planned for tiles of so many values,
    and the entries of a row lie in an order in which neighbouring rows read other banks of shared memory.
    """

    key = "sell-window"
    family = "ELLPACK"
    reference = "this project; x in shared memory after Chen, Explicit caching HYB, 2022"
    shared_implementation = "sliced ELLPACK: C=32, columns in 4 to 16 bits, windows of x"
    project_kernel = True

    window = Parameter(0, "KiB of x in shared memory; 0: two blocks share a multiprocessor", low=0, high=227)
    vectors = Parameter(
        1,
        "of how many vectors a window holds values, for products of several; if not of one, one block has it all",
        choices=(1, 2, 4),
    )
    blocks = Parameter(2, "thread blocks for each multiprocessor at least", low=1, high=64)
    threads = Parameter(512, "threads of a block", choices=(128, 256, 384, 448, 512, 1024))
    team = Parameter(0, "warps that share a slice; 0: by the slices for each warp", choices=(0, 1, 2, 4, 8))
    long = Parameter(
        0, "entries of a row, beyond which it is stored apart; 0: 512, or 16 times the mean if that is more", low=0
    )
    flight = Parameter(2, "groups of eight positions that a warp loads at a time", choices=(1, 2, 3))
    packed = Parameter(False, "store 8 bits of a column, the others as differences in unary, if that is shorter")
    sigma = SellLocal.sigma

    chunks: Array  # (chunks, 4), int32: first slice, end, first column of the window, its columns
    slices: Array  # (slices, 4), int32: first position, first byte of a thread, column in the window, width and bits
    words: Array  # (words,), uint32: columns in bits, word by word for the 32 threads of a slice
    values: Array  # (slots,); 0 in padding
    perm: Array  # (rows,), int32: row of each place; (0,) where rows keep their order
    parts: Mapping[str, Format]  # long rows, if there are any
    warps: int  # that share a slice
    columns: int  # of the largest window

    @classmethod
    def _windows(cls, a: Csr, window: int, vectors: int, blocks: int, threads: int) -> tuple[int, int]:
        """Columns of a window, and the chunks at least."""
        limits, item = device_limits(a), a.vector_dtype.itemsize
        room = min(window * 1024 or limits.shared_bytes // (2 if vectors == 1 else 1), limits.shared_bytes)
        columns = max(room - STATIC_BYTES - threads * item, 1024) // (item * vectors) // ALIGNED * ALIGNED
        return columns, blocks * limits.multiprocessors

    @classmethod
    def _layout(
        cls, a: Csr, window: int, vectors: int, blocks: int, threads: int, sigma: int, *, packed: bool
    ) -> Layout:
        return layout_of(a, *cls._windows(a, window, vectors, blocks, threads), sigma, packed=packed)

    @classmethod
    def _planned(
        cls, a: Csr, order: Array | None, columns: int, least: int, run: Run, chunk_state: Array
    ) -> tuple[Any, ...]:
        """The order, `chunks` and one for each slice, `slices`, and the least column of each slice, of `scratch`.

        columns: of a window. least: chunks at least. chunk_state: `notes` of the slices, in which will be the columns
        of the largest window, the positions, the words, and the chunks that are in use.
        """
        xp, index, slices = a.xp, ctype(a.row_ptr), cdiv(a.rows, WARP)
        perm = nothing(xp, np.int32) if order is None else order
        position, word, bits, low, narrow, high, begins, firsts, sizes = scratch(xp, *[(slices + 1, np.int32)] * 9)
        chunks, table = (xp.empty((slices, 4), dtype=np.int32) for _ in range(2))
        count, state = np.int32(slices), notes(xp, slices, 1)
        found = position, word, bits, low, narrow, high, begins
        args: tuple[Any, ...] = (np.int32(a.rows), count, np.int32(columns), perm, a.row_ptr, a.col_idx, *found)
        run(summing(CONVERT, f"window_slices<{index}, {cbool(order is not None)}>", args, state))
        args = (count, np.int32(columns), position, narrow, high, begins, firsts, sizes, state, chunk_state)
        run(Launch(CONVERT, "window_chunks", min(least, slices), BLOCK, args))
        args = (count, position, word, low, bits, begins, firsts, sizes, chunks, table)
        run(summing(CONVERT, "window_tables", args, chunk_state))
        return perm, chunks, table, low

    @classmethod
    def _by_kernels(
        cls, a: Csr, long: int, run: Run, team: int, threads: int, *, sigma: int, **params: Any
    ) -> dict[str, Any]:
        """As `convert` without packed columns."""
        columns, least = cls._windows(a, params["window"], params["vectors"], params["blocks"], threads)
        slices = cdiv(a.rows, WARP)
        made: tuple[Any, ...] = ()

        def plan(a: Csr, order: Array | None, chunk_state: Array) -> None:
            nonlocal made
            made = cls._planned(a, order, columns, least, run, chunk_state)

        # Most small matrices have no long rows and keep their order: that is planned before both are known.
        guess = Beside(partial(plan, a, None), note_words(slices)) if a.nnz < SMALL else None
        a, apart = long_apart(whole := a, long, guess)
        order = order_of(a, sigma)
        if guess is not None and guess.noted and a is whole and order is None:
            largest, positions, length, number = guess.sums
        else:
            chunk_state = notes(a.xp, slices)
            plan(a, order, chunk_state)
            largest, positions, length, number = noted(chunk_state)
        perm, chunks, table, low = made
        xp, index, sorted_ = a.xp, ctype(a.row_ptr), cbool(order is not None)
        rows, matrix = np.int32(a.rows), (perm, a.row_ptr, a.col_idx)
        if max(positions, length, a.row_len_max * WIDTH_UNIT) > INT32_MAX:
            raise Skip(TOO_MANY)
        words, values = xp.empty(length * QUARTER, dtype=np.uint32), xp.empty(positions * WARP, dtype=a.dtype)
        col_idx, entries = a.col_idx, a.values
        if params["vectors"] > 1:
            col_idx, entries = xp.empty_like(a.col_idx), xp.empty_like(a.values)
            kernel = f"window_order<{ctype(values)}, {index}, {classes(a, params['vectors'])}, {sorted_}>"
            args: tuple[Any, ...] = (rows, *matrix, a.values, col_idx, entries)
            run(Launch(CONVERT, kernel, *per_thread(a.rows, BLOCK), args))
        args = (rows, table, low, *matrix[:2], col_idx, entries, words, values)
        run(Launch(CONVERT, f"window_fill<{ctype(values)}, {index}, {sorted_}>", slices, BLOCK, args))
        return {
            "chunks": chunks[:number],
            "slices": table,
            "words": words,
            "values": values,
            "perm": perm,
            "parts": {} if apart is None else {"long": CsrPieces.converted(apart)},
            "warps": warps_of(slices, number, team, threads),
            "columns": largest,
        }

    @classmethod
    def estimate(cls, a: Csr, *, team: int, threads: int, long: int, flight: int, **params: Any) -> int:
        a, apart = long_apart(a, long)
        at = cls._layout(a, threads=threads, **params)
        rest = 0 if apart is None else CsrPieces.estimate(apart, **CsrPieces.resolve({}))
        return at.nbytes(a.dtype.itemsize) + rest

    @classmethod
    def convert(cls, a: Csr, *, team: int, threads: int, long: int, flight: int, **params: Any) -> dict[str, Any]:
        if (run := runner(a)) is not None and a.rows and not params["packed"]:
            return cls._by_kernels(a, long, run, team, threads, **params)
        a, apart = long_apart(a, long)
        xp, at = a.xp, cls._layout(a, threads=threads, **params)
        width = xp.diff(at.position)
        widest = int(width.max()) if len(width) else 0
        most = max(int(at.position[-1]), int(at.word[-1]), widest * WIDTH_UNIT)
        if most > INT32_MAX:
            raise Skip(TOO_MANY)
        slices = xp.zeros((len(at.bits), 4), dtype=np.int32)
        chunk = _chunk_of(at.chunks, len(at.bits))
        slices[:, 0], slices[:, 1] = at.position[:-1], at.word[:-1]
        if len(chunk):
            slices[:, 2] = xp.where((at.bits == WIDE) | (width == 0), 0, at.low - at.chunks[chunk, 2])
        slices[:, 3] = width * WIDTH_UNIT + at.bits
        words, values = xp.zeros(at.words, dtype=np.uint32), xp.zeros(at.slots, dtype=a.dtype)
        # By place in a slice, then lane, padding is all ones.
        field = expand(at.position, int(at.position[-1])).astype(np.int64).repeat(WARP)
        width_of = xp.where(at.bits > PACKED, LOW_BITS, at.bits)[field]
        code = (np.int64(1) << width_of) - 1
        place = at.place[a.row_idx].astype(np.int64)
        slice_, position = place // WARP, a.rank_in_row.astype(np.int64)
        if params["vectors"] > 1 and not params["packed"]:
            position = by_banks(a, place, classes(a, params["vectors"]))
        column = a.col_idx - at.low[slice_]
        slot = (at.position[slice_] + position) * WARP + place % WARP
        put(code, slot, xp.where(at.bits[slice_] > PACKED, column % (1 << LOW_BITS), column))
        put(values, _slots(slice_, position, place % WARP, slices, a.dtype), a.values)
        bit = (xp.arange(at.slots) // WARP - at.position[field]) * width_of
        first_word = at.word[field] * QUARTER + xp.arange(at.slots) % WARP
        pack(words, code, width_of, first_word, bit, WARP, most_first=False)
        entry = xp.flatnonzero(at.bits[slice_] > PACKED)
        if len(entry):
            of, one = slice_[entry], column[entry] // (1 << LOW_BITS) + position[entry]
            upper = at.word[of] + 4 * cdiv(width[of], 4)
            word, bit = _upper_bits(upper, at.bits[of] - PACKED, place[entry] % WARP, one)
            xp.add.at(words, word, xp.left_shift(np.uint32(1), bit.astype(np.uint32)))
        warps = warps_of(len(at.bits), len(at.chunks), team, threads)
        return {
            "chunks": at.chunks,
            "slices": slices,
            "words": words,
            "values": values,
            "perm": at.perm,
            "parts": {} if apart is None else {"long": CsrPieces.converted(apart)},
            "warps": warps,
            "columns": int(at.chunks[:, 3].max()) if len(at.chunks) else 0,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        width, bits = self.slices[:, 3] // WIDTH_UNIT, self.slices[:, 3] % WIDTH_UNIT
        slice_ = expand(offsets(width), len(self.values) // WARP).astype(np.int64).repeat(WARP)
        slot = xp.arange(len(self.values))
        position, lane = slot // WARP - self.slices[slice_, 0], slot % WARP
        bits = bits[slice_].astype(np.int64)
        word = self.slices[slice_, 1].astype(np.int64) * QUARTER + lane
        is_packed = bits > PACKED
        bits = xp.where(is_packed, LOW_BITS, bits)
        code = unpack(self.words, bits, word, position * bits, WARP, most_first=False)
        high = self._high_parts()
        at_packed = xp.flatnonzero(is_packed)
        upper = high[slot[at_packed]]
        code[at_packed] += upper << LOW_BITS
        is_used = code != (np.int64(1) << bits) - 1
        is_used[at_packed] = upper >= 0
        used = xp.flatnonzero(is_used)
        slice_, position, lane = slice_[used], position[used], lane[used]
        chunk = _chunk_of(self.chunks, len(self.slices))
        first = xp.where(bits[used] == WIDE, 0, self.chunks[chunk[slice_], 2] + self.slices[slice_, 2])
        place = slice_ * WARP + lane
        row = self.perm[place] if len(self.perm) else place
        values = self.values[_slots(slice_, position, lane, self.slices, self.values.dtype)]
        found = [(row, (code[used] + first).astype(np.int32), values), *(part.to_coo() for part in self.parts.values())]
        rows, columns, values = (xp.concatenate(arrays) for arrays in zip(*found, strict=True))
        return rows, columns, values

    def _high_parts(self) -> Array:
        """Of each slot, position by position, a packed column over 256; -1 where none is. (slots,), int64."""
        xp, high = self.xp, self.xp.full(len(self.values), -1, dtype=np.int64)
        width, bits = self.slices[:, 3] // WIDTH_UNIT, self.slices[:, 3] % WIDTH_UNIT
        found = xp.flatnonzero(bits > PACKED)
        if not len(found):
            return high
        shape = len(found), WARP, 8 * MOST_BYTES
        first = self.slices[found, 1].astype(np.int64) + 4 * cdiv(width[found], 4)
        begin = xp.broadcast_to(first[:, None, None], shape)
        size = xp.broadcast_to((bits[found].astype(np.int64) - PACKED)[:, None, None], shape)
        lane = xp.broadcast_to(xp.arange(WARP)[:, None], shape)
        one = xp.broadcast_to(xp.arange(8 * MOST_BYTES), shape)
        word, bit = _upper_bits(begin, size, lane, one)
        inside = one < 8 * size
        is_one = inside & (self.words[xp.where(inside, word, 0)] >> bit.astype(np.uint32) & np.uint32(1) > 0)
        rank = xp.cumsum(is_one, axis=2) - 1
        of, row, place = xp.nonzero(is_one)
        k = rank[of, row, place]
        high[(self.slices[found[of], 0].astype(np.int64) + k) * WARP + row] = place - k
        return high

    def launches(self, x: Array, y: Array) -> list[Launch]:
        chunks, item = len(self.chunks), x.dtype.itemsize
        shape = f"{self.threads}, {self.warps}, {cbool(len(self.perm) > 0)}, {self.flight}, {cbool(self.packed)}"
        kernel = f"sell_window_spmv<{ctype(x)}, {shape}>"
        matrix = self.chunks, self.slices, self.words, self.values, self.perm
        args = (np.int32(self.shape[0]), np.int32(self.shape[1]), *matrix, x, y)
        spmv = Launch(SOURCE, kernel, chunks, self.threads, args, round_up(self.columns * item, 16), window=True)
        if not self.parts:
            return [spmv]
        added = [launch for part in self.parts.values() for launch in part.accumulate(x, y)]
        return [*in_part("slices", [spmv]), *in_part("long rows", added)]

    @property
    def detail(self) -> dict[str, Any]:
        width, bits = self.slices[:, 3] // WIDTH_UNIT, self.slices[:, 3] % WIDTH_UNIT
        slots = max(int(width.sum()), 1)
        return {
            "chunks": len(self.chunks),
            "warps": self.warps,
            "long_row_entries": sum(len(part.arrays()["values"]) for part in self.parts.values()),
            "sorted": len(self.perm) > 0,
            "window_columns": self.columns,
            "share_by_bits": {str(size): round(float(width[bits == size].sum()) / slots, 4) for size in (*BITS, WIDE)},
            "packed_share": round(float(width[bits > PACKED].sum()) / slots, 4),
        }


def _chunk_of(chunks: Array, slices: int) -> Array:
    """The chunk of each slice, (slices,), int32."""
    xp = array_module(chunks)
    return expand(xp.append(chunks[:, 0], xp.full(1, slices, dtype=np.int32)), slices)


def _slots(slice_: Array, position: Array, lane: Array, slices: Array, dtype: Any) -> Array:
    """Where values lie: by vectors of 16 bytes for each thread in whole groups of positions, singly behind them."""
    xp, vector = array_module(slices), 16 // np.dtype(dtype).itemsize
    whole = slices[slice_, 3] // (WIDTH_UNIT * GROUP) * GROUP
    inside = position // vector * (vector * WARP) + lane * vector + position % vector
    begin = slices[slice_, 0].astype(np.int64) * WARP
    slot: Array = begin + xp.where(position < whole, inside, position * WARP + lane)
    return slot


def _upper_bits(first: Array, size: Array, lane: Array, one: Array) -> tuple[Array, Array]:
    """The word and its bit that hold bit `one` of a thread's upper bits.

    first: bytes of a thread before them. size: their bytes; whole words of all threads come first, then what is left.
    """
    xp, whole = array_module(first), size // 4
    left = size % 4  # 0, 1 or 2
    in_words = one < 32 * whole
    inside = lane * left * 8 + one - 32 * whole  # bits after the whole words
    begin = first * QUARTER
    word = begin + xp.where(in_words, one // 32 * WARP + lane, whole * WARP + inside // 32)
    return word, xp.where(in_words, one, inside) % 32
