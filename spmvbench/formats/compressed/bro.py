"""BRO: columns or rows as differences in as few bits as they need, as sliced ELLPACK, coordinates and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import (
    INT32_MAX,
    Array,
    ArrayModule,
    Csr,
    cdiv,
    expand,
    index_dtype,
    inverse,
    nothing,
    offsets,
    round_up,
)
from spmvbench.formats.carries import fix_up
from spmvbench.formats.compressed.bits import WORD, bit_lengths, pack, unpack
from spmvbench.formats.conversion import (
    OFFSETS,
    Beside,
    Run,
    longest_row,
    note_words,
    noted,
    notes,
    rows_by_length,
    runner,
    summed,
    summing,
    zeros,
)
from spmvbench.formats.ellpack.sell_convert import Slices, falling_order, sorted_rows
from spmvbench.formats.format import Adding, Format
from spmvbench.formats.launches import Launch, Struct, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

CONVERT = "compressed/bro_convert.cu"
LANES = 32


def columns_before(a: Csr) -> Array:
    """The column of the entry before each in its row, -1 before the first; (nnz,), int32."""
    xp = a.xp
    before = xp.full(a.nnz, -1, dtype=np.int32)
    before[1:] = a.col_idx[:-1]
    before[a.row_ptr[:-1][a.row_lengths > 0]] = -1
    return before


@register
class BroEll(Adding):
    """Slices of `height` rows with column differences packed into bits; one bit width per position of a slice.

    Streams of a slice's rows are interleaved word by word, so that all its threads load and decode in step. Values are
    stored as in sliced ELLPACK, padding included; a difference of 0 is padding, for the first is the column + 1. The
    layout of the stream is the paper's as far as it is known, the marks of padding and of the first column are our
    reading. The authors also reorder rows for shorter differences; here they stay.
    """

    key = "bro-ell"
    family = "ELLPACK"
    survey_name = "BRO-ELL"
    reference = "Tang, Tan, Ray, Wong, Chen, Kuo, Goh, Turner & Wong, SC'13"
    wide_offsets = True
    by_length: ClassVar[bool] = False  # whether rows are in order of length
    piece: ClassVar[int] = 2**26  # entries that are converted at a time: steps take up to 100 bytes for each of them

    height = Parameter(256, "rows of a slice and threads of a block", choices=(32, 64, 128, 256))

    slice_ptr: Array  # (slices + 1,), int32, or int64 where slots need it: positions before each slice
    symbol_ptr: Array  # (slices + 1,), likewise: words of a row's stream before each slice
    widths: Array  # (positions,), uint8: bits of a difference
    symbols: Array  # (words of all streams,), uint32: word by word in a slice
    values: Array  # (slots,): position by position in a slice
    perm: Array  # (rows,), int32: row of each place; empty if rows keep their order

    @classmethod
    def _places(cls, a: Csr) -> tuple[Array, Array]:
        """`perm`, and the place of each row."""
        xp = a.xp
        if not cls.by_length:
            return nothing(xp, np.int32), xp.arange(a.rows, dtype=np.int32)
        perm = sorted_rows(a, 0)
        return perm, inverse(perm)

    @classmethod
    def _tables(cls, a: Csr, place: Array, height: int) -> tuple[dict[str, Array], Array, Array]:
        """The fields that say where streams are, and the position of each entry among all, and its difference."""
        xp, slices = a.xp, cdiv(a.rows, height)
        lengths = xp.zeros(slices * height, dtype=np.int64)
        lengths[place] = a.row_lengths
        slice_ptr = offsets(lengths.reshape(slices, height).max(axis=1) if slices else lengths)
        positions = int(slice_ptr[-1])
        index = index_dtype(positions * height)
        slice_ptr = slice_ptr.astype(index)
        at = slice_ptr[place[a.row_idx] // height] + a.rank_in_row.astype(index)
        step = a.col_idx - columns_before(a)
        most = xp.zeros(positions, dtype=np.int32)
        xp.maximum.at(most, at, step)
        widths = bit_lengths(most)
        before = xp.zeros(positions + 1, dtype=np.int64)
        xp.cumsum(widths, out=before[1:])
        words = cdiv(before[slice_ptr[1:]] - before[slice_ptr[:-1]], WORD)
        tables = {"slice_ptr": slice_ptr, "symbol_ptr": offsets(words).astype(index), "widths": widths}
        return tables, at, step

    @classmethod
    def _pieces(cls, a: Csr, height: int) -> Iterator[Csr]:
        """The matrix in blocks of whole slices, if it is large: slices are independent. Sorted rows are one block."""
        if cls.by_length or a.nnz <= cls.piece:
            yield a
        else:
            yield from (block for _, block in a.row_blocks(height, cls.piece))

    @classmethod
    def estimate(cls, a: Csr, *, height: int) -> int:
        positions = words = sorted_bytes = 0
        for piece in cls._pieces(a, height):
            perm, place = cls._places(piece)
            tables, _, _ = cls._tables(piece, place, height)
            positions += len(tables["widths"])
            words += int(tables["symbol_ptr"][-1])
            sorted_bytes += perm.nbytes
        pointers = 2 * (cdiv(a.rows, height) + 1) * index_dtype(positions * height).itemsize
        return sorted_bytes + pointers + positions + height * (positions * a.dtype.itemsize + 4 * words)

    @classmethod
    def convert(cls, a: Csr, *, height: int) -> dict[str, Any]:
        if run := runner(a):
            beside, fields = cls.started(a, height, run)
            state = zeros(a.xp, beside.words, np.uint64)
            beside.launch(state)
            return fields(noted(state)[-1])
        pieces = [cls._converted(piece, height) for piece in cls._pieces(a, height)]
        if len(pieces) == 1:
            return pieces[0]
        xp, found = a.xp, {}
        for name in ("widths", "symbols", "values", "perm"):
            found[name] = xp.concatenate([piece.pop(name) for piece in pieces])
        index = index_dtype(len(found["values"]))
        for name in ("slice_ptr", "symbol_ptr"):
            each = [xp.diff(piece[name]) for piece in pieces]
            found[name] = offsets(xp.concatenate(each)).astype(index)
        return found

    @classmethod
    def _converted(cls, a: Csr, height: int) -> dict[str, Array]:
        """The fields, all at once."""
        xp, (perm, place) = a.xp, cls._places(a)
        tables, at, step = cls._tables(a, place, height)
        symbols = xp.zeros(int(tables["symbol_ptr"][-1]) * height, dtype=np.uint32)
        values = xp.zeros(len(tables["widths"]) * height, dtype=a.dtype)
        if a.nnz:
            slice_, lane = xp.divmod(place[a.row_idx].astype(np.int64), height)
            values[at.astype(np.int64) * height + lane] = a.values
            word = tables["symbol_ptr"][slice_].astype(np.int64) * height + lane
            pack(symbols, step, tables["widths"][at], word, _bit_of(tables)[at], height, most_first=True)
        return tables | {"symbols": symbols, "values": values, "perm": perm}

    @classmethod
    def started(
        cls, a: Csr, height: int, run: Run, upto: int = INT32_MAX
    ) -> tuple[Beside, Callable[[int], dict[str, Array]]]:
        """The same fields of the first `upto` entries of every row, by kernels, in two steps.

        One notes the words of a row's stream in every slice, the other makes the fields when the host knows them.
        """
        xp, rows, positions, perm = a.xp, np.int32(a.rows), None, None
        if cls.by_length:
            bins = rows_by_length(a, run)
            most = min(longest_row(a), upto)
            perm = falling_order(a.row_ptr, a.rows, max(a.rows, 1), most, run, differences=True)
            if most < len(bins):
                positions = int(cdiv(a.rows - bins[:most].cumsum(), height).sum())
        s = Slices.of(a, height, run, perm=perm, upto=upto, unit=height, slots=positions)
        slices, index = len(s.ptr) - 1, index_dtype(s.slots * height)
        slice_ptr, widths = s.ptr.astype(index, copy=False), xp.empty(s.slots, dtype=np.uint8)
        symbol_ptr, words = xp.empty(slices + 1, dtype=index), xp.empty(slices, dtype=np.int32)
        types = f"{ctype(a.row_ptr)}, {ctype(slice_ptr)}, {cbool(cls.by_length)}"
        given = rows, np.int32(upto), s.perm, a.row_ptr, a.col_idx

        def note(state: Array) -> None:
            run(Launch(CONVERT, f"bro_widths<{types}>", slices, height, (*given, slice_ptr, widths, words)))
            run(summing(OFFSETS, f"offsets<int, {ctype(index)}>", (np.int64(slices), words, symbol_ptr), state))

        def fields(held: int) -> dict[str, Array]:
            symbols, values = xp.empty(held * height, dtype=np.uint32), xp.empty(s.slots * height, dtype=a.dtype)
            args = (*given, a.values, slice_ptr, symbol_ptr, widths, symbols, values)
            run(Launch(CONVERT, f"bro_fill<{ctype(values)}, {types}>", slices, height, args))
            tables = {"slice_ptr": slice_ptr, "symbol_ptr": symbol_ptr, "widths": widths}
            return tables | {"symbols": symbols, "values": values, "perm": s.perm}

        return Beside(note, note_words(slices)), fields

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, height = self.xp, self.height
        tables = {"slice_ptr": self.slice_ptr, "widths": self.widths}
        position, lane = xp.divmod(xp.arange(len(self.values)), height)
        slice_ = expand(self.slice_ptr, len(self.widths))[position]
        word = self.symbol_ptr[slice_].astype(np.int64) * height + lane
        width = self.widths[position].astype(np.int64)
        step = unpack(self.symbols, width, word, _bit_of(tables)[position], height, most_first=True)
        # Sums along a row, position by position of a slice; a slice's first position starts again.
        order = xp.argsort(slice_.astype(np.int64) * height + lane, kind="stable")
        sums = xp.cumsum(step[order])
        first = position[order] == self.slice_ptr[slice_[order]]
        start = xp.flatnonzero(first)[xp.cumsum(first) - 1]  # CuPy has no running maximum
        column = xp.empty(len(order), dtype=np.int64)
        column[order] = sums - (sums - step[order])[start] - 1
        slot = xp.flatnonzero(step)
        place = slice_[slot].astype(np.int64) * height + lane[slot]
        return self.perm[place] if len(self.perm) else place, column[slot], self.values[slot]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}"
        kernel = f"bro_ell<{types}, {self.height}, {cbool(self.by_length)}, {cbool(add)}>"
        tables = (self.slice_ptr, self.symbol_ptr, self.widths, self.symbols, self.perm)
        args = (np.int32(self.shape[0]), *tables, self.values, x, y)
        return [Launch("compressed/bro.cu", kernel, len(self.slice_ptr) - 1, self.height, args)]

    @property
    def detail(self) -> dict[str, Any]:
        slots = max(len(self.values), 1)
        return {"index_bytes_per_slot": (self.symbols.nbytes + self.widths.nbytes) / slots}


def _bit_of(tables: dict[str, Array]) -> Array:
    """The bit of a row's stream at which each position begins, (positions,), int64."""
    widths, slice_ptr = tables["widths"], tables["slice_ptr"]
    before = widths.astype(np.int64).cumsum() - widths
    first = before[slice_ptr[:-1][slice_ptr[1:] > slice_ptr[:-1]]] if len(widths) else before
    lengths = slice_ptr[1:] - slice_ptr[:-1]
    return before - first[expand(offsets(lengths[lengths > 0]), len(widths))] if len(widths) else before


class BroEllByLength(BroEll):
    """BRO-ELL of rows in order of length: a part of a hybrid."""

    key = ""
    reference = "Tang et al., TPDS 26(9), 2015"
    by_length = True


@register
class BroCoo(Format):
    """COO with row differences packed into as few bits as an interval of 32 * `steps` entries needs.

    A warp takes an interval, a thread every 32nd entry of it: differences are to the thread's own entry before, so that
    none is negative and streams of the threads are side by side. How differences are assigned to threads is our reading
    of the paper.
    """

    key = "bro-coo"
    family = "COO"
    survey_name = "BRO-COO"
    reference = "Tang, Tan, Ray, Wong, Chen, Kuo, Goh, Turner & Wong, SC'13"

    steps = Parameter(32, "entries per thread in an interval", choices=(16, 32, 64, 128))

    base: Array  # (intervals,), int32: row of each one's first entry
    widths: Array  # (intervals,), uint8: bits of a difference
    word_ptr: Array  # (intervals + 1,), int32: words before each
    words: Array  # (words,), uint32: word by word, neighbouring threads' next to each other
    col_idx: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,)

    @classmethod
    def _rows(cls, a: Csr, steps: int) -> tuple[Array, Array, Array]:
        """Rows by interval, step and thread, differences likewise, and the bits that each interval needs."""
        xp, slots = a.xp, round_up(a.nnz, LANES * steps)
        rows = xp.empty(slots, dtype=np.int32)
        rows[: a.nnz] = a.row_idx
        if a.nnz:
            rows[a.nnz :] = a.row_idx[-1]
        rows = rows.reshape(-1, steps, LANES)
        step = rows.copy()
        step[:, 1:] -= rows[:, :-1]
        step[:, 0] -= rows[:, :1, 0]
        return rows, step, bit_lengths(step.reshape(len(rows), -1).max(axis=1) if len(rows) else step.ravel())

    @classmethod
    def estimate(cls, a: Csr, *, steps: int) -> int:
        _, _, widths = cls._rows(a, steps)
        words = LANES * int(cdiv(widths.astype(np.int64) * steps, WORD).sum())
        slots = round_up(a.nnz, LANES * steps)
        return 9 * len(widths) + 4 + 4 * words + slots * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, steps: int) -> dict[str, Any]:
        xp, (rows, step, widths) = a.xp, cls._rows(a, steps)
        word_ptr = offsets(LANES * cdiv(widths.astype(np.int64) * steps, WORD)).astype(np.int32)
        words = xp.zeros(int(word_ptr[-1]), dtype=np.uint32)
        intervals, slots = len(rows), rows.size
        col_idx, values = xp.full(slots, -1, dtype=np.int32), xp.zeros(slots, dtype=a.dtype)
        col_idx[: a.nnz], values[: a.nnz] = a.col_idx, a.values
        if intervals:
            width, word, bit = _lane_streams(xp, intervals, steps, word_ptr, widths)
            named = xp.flatnonzero(width > 0)
            pack(words, step.ravel()[named], width[named], word[named], bit[named], LANES, most_first=False)
        return {
            "base": rows[:, 0, 0].copy(),
            "widths": widths,
            "word_ptr": word_ptr,
            "words": words,
            "col_idx": col_idx,
            "values": values,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, intervals = self.xp, len(self.base)
        where = _lane_streams(xp, intervals, self.steps, self.word_ptr, self.widths)
        step = unpack(self.words, *where, LANES, most_first=False).reshape(intervals, self.steps, LANES)
        rows = (self.base[:, None, None] + step.cumsum(axis=1)).ravel()
        stored = xp.flatnonzero(self.col_idx >= 0)
        return rows[stored], self.col_idx[stored], self.values[stored]

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        intervals = len(self.base)
        carry_row = self.xp.empty(intervals, dtype=np.int32)
        carry_sum = self.xp.empty(intervals, dtype=y.dtype)
        streams = (self.base, self.widths, self.word_ptr, self.words, self.col_idx, self.values)
        args = (np.int32(intervals), np.int32(self.steps), *streams, x, y, carry_row, carry_sum)
        kernel, threads = f"bro_coo<{ctype(self.values)}>", per_thread(intervals * LANES)
        product = Launch("compressed/bro.cu", kernel, *threads, args)
        return [product, fix_up("compressed/bro.cu", carry_row, carry_sum, y)]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), *self.accumulate(x, y)]

    @property
    def detail(self) -> dict[str, Any]:
        bytes_of_rows = self.words.nbytes + self.widths.nbytes + self.base.nbytes + self.word_ptr.nbytes
        return {"row_bytes_per_slot": bytes_of_rows / max(len(self.values), 1)}


def _lane_streams(
    xp: ArrayModule, intervals: int, steps: int, word_ptr: Array, widths: Array
) -> tuple[Array, Array, Array]:
    """Width, first word and bit of each slot's difference, by interval, step and thread."""
    shape = (intervals, steps, LANES)
    width = xp.broadcast_to(widths.astype(np.int64)[:, None, None], shape)
    word = word_ptr[:-1].astype(np.int64)[:, None, None] + xp.arange(LANES)
    bit = xp.arange(steps)[:, None] * width
    return width.ravel(), xp.broadcast_to(word, shape).ravel(), bit.ravel()


@register
class BroCsr(Adding):
    """CSR with column differences packed into bits, in rounds of one entry for each thread of a row.

    Threads of a row take a round at a time: each reads its difference out of two words, and a scan over the threads
    gives the columns. The survey has no more than the name: our reading.
    """

    key = "bro-csr"
    family = "CSR"
    survey_name = "BRO-CSR"
    reference = "Tang et al., TPDS 26(9), 2015"
    listed: ClassVar[bool] = False  # whether rows without entries are left out, as a part of a hybrid does

    lanes = Parameter(
        0, "threads per row; 0: the power of two, at least 4, that holds the mean row", choices=(0, 4, 8, 16, 32)
    )

    rows: Array  # (stored rows,), int32: the row of each; empty if all are stored
    row_ptr: Array  # (stored rows + 1,), int32, or int64 where nnz needs it
    round_ptr: Array  # (stored rows + 1,), int32: rounds before each
    base: Array  # (rounds,), int32: column of each one's first entry
    widths: Array  # (rounds,), uint8
    word_ptr: Array  # (rounds + 1,), int32
    words: Array  # (words,), uint32
    values: Array  # (nnz,)
    width: int  # threads in use

    @classmethod
    def _tables(cls, a: Csr, lanes: int) -> tuple[dict[str, Array], int, Array, Array, Array]:
        """The fields that say where strings are, the threads, and of each entry its round, rank there and field."""
        xp = a.xp
        rows, row_ptr = nothing(xp, np.int32), a.row_ptr
        if cls.listed:
            rows = xp.flatnonzero(a.row_lengths).astype(np.int32)
            row_ptr = xp.concatenate([a.row_ptr[rows], a.row_ptr[-1:]])
        lengths = xp.diff(row_ptr)
        lanes = cls._lanes(a.nnz, len(lengths), lanes)
        round_ptr = offsets(cdiv(lengths, lanes)).astype(np.int32)
        owner = expand(row_ptr, a.nnz)
        inside = xp.arange(a.nnz) - row_ptr[owner]
        round_, rank = round_ptr[owner] + inside // lanes, inside % lanes
        field = xp.where(rank > 0, a.col_idx - columns_before(a) - 1, 0)
        most = xp.zeros(int(round_ptr[-1]), dtype=np.int32)
        xp.maximum.at(most, round_, field.astype(np.int32))
        held = xp.bincount(round_, minlength=len(most)) if a.nnz else most
        widths = bit_lengths(most)
        word_ptr = offsets(cdiv((held - 1) * widths.astype(np.int64), WORD)).astype(np.int32)
        tables = {"rows": rows, "row_ptr": row_ptr, "round_ptr": round_ptr, "widths": widths, "word_ptr": word_ptr}
        return tables, lanes, round_, rank, field

    @classmethod
    def estimate(cls, a: Csr, *, lanes: int) -> int:
        tables, *_ = cls._tables(a, lanes)
        words = int(tables["word_ptr"][-1])
        return sum(t.nbytes for t in tables.values()) + 4 * len(tables["widths"]) + 4 * words + a.values.nbytes

    @classmethod
    def _lanes(cls, nnz: int, rows: int, lanes: int) -> int:
        """Threads of a row, where so many entries and rows are stored."""
        mean = nnz / max(rows, 1)
        return lanes or next((n for n in (4, 8, 16) if mean <= n), 32)

    @classmethod
    def by_kernels(cls, a: Csr, lanes: int, run: Run, first: int = 0, beside: Beside | None = None) -> dict[str, Any]:
        """The fields by kernels. first: of listed rows, entries before these are left out. beside: as for `summed`."""
        xp, index, stored, nnz, total = a.xp, ctype(a.row_ptr), a.rows, a.nnz, None
        rows, row_ptr, values = nothing(xp, np.int32), a.row_ptr, a.values
        if cls.listed:
            bins = rows_by_length(a, run)
            longer = a.rows - bins[: first + 1].cumsum()  # than 0, 1, ..
            stored, nnz = int(longer[-1]), a.nnz - int(longer[:-1].sum())
            rows = xp.empty(stored, dtype=np.int32)
            args: tuple[Any, ...] = np.int32(a.rows), np.int32(first), a.row_ptr, rows
            run(summing(CONVERT, f"bro_longer<{index}>", args, notes(xp, a.rows)))
            row_ptr = xp.empty(stored + 1, dtype=index_dtype(nnz) if first else a.row_ptr.dtype)
            values = xp.empty(nnz, dtype=a.dtype) if first else a.values
        lanes = cls._lanes(nnz, stored, lanes)
        if cls.listed and "rows_by_length" in a.__dict__:
            total = int(bins[first + 1 :] @ cdiv(np.arange(1, len(bins) - first), lanes))
        rest = Struct((np.int32(stored), np.int32(first), rows, a.row_ptr, row_ptr))
        kinds = f"{index}, {ctype(row_ptr)}, {cbool(cls.listed)}"
        args = rest, np.int32(lanes), notes(xp, stored)
        round_ptr, (*_, rounds) = summed(xp, stored, CONVERT, f"bro_rounds<{kinds}", args, run, total=total)
        base, widths = xp.empty(rounds, dtype=np.int32), xp.empty(rounds, dtype=np.uint8)
        kinds, given = f"{kinds}, {ctype(round_ptr)}", (rest, np.int32(rounds), np.int32(lanes), round_ptr, a.col_idx)
        kernel, args = f"bro_round_widths<{kinds}", (*given, base, widths)
        word_ptr, (*_, held) = summed(xp, rounds, CONVERT, kernel, args, run, each=1, beside=beside)
        word_ptr, words = word_ptr.astype(np.int32, copy=False), xp.empty(held, dtype=np.uint32)
        kernel, args = f"bro_round_fill<{ctype(values)}, {kinds}>", (*given, a.values, widths, word_ptr, words, values)
        run(Launch(CONVERT, kernel, *per_thread(rounds), args))
        pointers = {"row_ptr": row_ptr, "round_ptr": round_ptr.astype(np.int32, copy=False), "word_ptr": word_ptr}
        arrays = {"rows": rows, "base": base, "widths": widths, "words": words, "values": values}
        return pointers | arrays | {"width": lanes}

    @classmethod
    def convert(cls, a: Csr, *, lanes: int) -> dict[str, Any]:
        if run := runner(a):
            return cls.by_kernels(a, lanes, run)
        xp = a.xp
        tables, lanes, round_, rank, field = cls._tables(a, lanes)
        base = xp.zeros(len(tables["widths"]), dtype=np.int32)
        words = xp.zeros(int(tables["word_ptr"][-1]), dtype=np.uint32)
        first = xp.flatnonzero(rank == 0)
        base[round_[first]] = a.col_idx[first]
        width = tables["widths"][round_].astype(np.int64)
        named = xp.flatnonzero((rank > 0) & (width > 0))
        bit = (rank[named] - 1) * width[named]
        word = tables["word_ptr"][round_[named]].astype(np.int64)
        pack(words, field[named], width[named], word, bit, 1, most_first=False)
        return tables | {"base": base, "words": words, "values": a.values, "width": lanes}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, nnz = self.xp, len(self.values)
        owner = expand(self.row_ptr, nnz)
        inside = xp.arange(nnz) - self.row_ptr[owner]
        round_, rank = self.round_ptr[owner] + inside // self.width, inside % self.width
        width = xp.where(rank > 0, self.widths[round_], 0).astype(np.int64)
        word, bit = self.word_ptr[round_].astype(np.int64), xp.maximum(rank - 1, 0) * width
        step = xp.where(rank > 0, unpack(self.words, width, word, bit, 1, most_first=False) + 1, 0)
        sums = xp.cumsum(step)
        first = xp.flatnonzero(rank == 0)[round_] if nnz else round_
        columns = self.base[round_] + sums - sums[first]
        return self.rows[owner] if self.listed else owner, columns, self.values

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows = len(self.row_ptr) - 1
        types = f"{ctype(self.values)}, {ctype(self.row_ptr)}"
        kernel = f"bro_csr<{types}, {self.width}, {cbool(self.listed)}, {cbool(add)}>"
        strings = (self.round_ptr, self.base, self.widths, self.word_ptr, self.words)
        args = (np.int32(rows), self.rows, self.row_ptr, *strings, self.values, x, y)
        return [Launch("compressed/bro.cu", kernel, *per_thread(rows * self.width, 128), args)]


class BroCsrRows(BroCsr):
    """BRO-CSR of the rows that have entries, with the list of them: a part of a hybrid."""

    key = ""
    listed = True

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), *self.accumulate(x, y)]
