"""CSR whose column differences and values are entropy-coded; the product decodes them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import log2
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import (
    Array,
    ArrayModule,
    Csr,
    array_module,
    cdiv,
    expand,
    longest_first,
    offsets,
    on_host,
    round_up,
)
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "compressed/csr_ans.cu"
SLOTS = constant(SOURCE, "SLOTS")  # of a table
SLOT_BITS = constant(SOURCE, "SLOT_BITS")
ENTRIES = constant(SOURCE, "ENTRIES")  # of a segment, of two symbols each
THREADS = constant(SOURCE, "THREADS")
WORDS = 3  # of a segment
LANES = 32
MOST = 256  # slots of a symbol
WINDOW = 1024  # lines that are sorted by length
U = np.uint64


class Symbols(NamedTuple):
    """A table of symbols with slots in proportion to how often they occur, and the symbol of each entry.

    Slots of a symbol follow each other, those of the last one stand for all that the table does not hold.
    """

    known: Array  # (symbols,): what each stands for, as unsigned integers; the escape, if there is one, for 0
    slots: Array  # (symbols,), uint64: slots of each
    first: Array  # (symbols,), uint64: first slot of each
    escape: int  # number of the symbol for what is not in the table; that of symbols if there is none
    symbol: Array  # (entries,), int32

    @classmethod
    def of(cls, patterns: Array, least: int) -> Symbols:
        """Of unsigned integers, (entries,); those that occur fewer than `least` times are not in the table."""
        xp = array_module(patterns)
        known, symbol, count = xp.unique(patterns, return_inverse=True, return_counts=True)
        by_count = xp.argsort(-count, kind="stable")[: SLOTS - 1]
        kept = by_count[count[by_count] >= least]
        escapes = len(kept) < len(known)
        number = xp.full(len(known), len(kept), dtype=np.int32)
        number[kept] = xp.arange(len(kept), dtype=np.int32)
        counts = on_host(count[kept]).tolist()
        if escapes:
            counts.append(len(patterns) - sum(counts))
        slots = shares(counts)
        table = xp.zeros(len(counts), dtype=patterns.dtype)
        table[: len(kept)] = known[kept]
        first = np.cumsum([0, *slots])[:-1]
        held = xp.asarray(np.array(slots, dtype=U)), xp.asarray(first.astype(U))
        return cls(table, *held, len(kept), number[symbol.reshape(-1)])

    @property
    def places(self) -> int:
        """Slots in use."""
        return int(self.slots.sum())

    def table(self) -> tuple[Array, Array]:
        """Of each slot what it stands for, and 256 times its number among those of its symbol plus their number less 1.

        (slots,), and (slots,) uint16.
        """
        xp = array_module(self.known)
        owner = expand(offsets(self.slots.astype(np.int64)), self.places)
        digit = xp.arange(len(owner), dtype=U) - self.first[owner]
        return self.known[owner], (digit * U(MOST) + self.slots[owner] - U(1)).astype(np.uint16)


def shares(counts: list[int]) -> list[int]:
    """Slots of each symbol, 1 to 256 and at most 4,096 in all, by how often it occurs: fewest bits, greedily."""
    found = [1] * len(counts)
    queue = [(-float(count), i) for i, count in enumerate(counts)]  # log2(2) bits less by a second slot
    heapq.heapify(queue)
    for _ in range(SLOTS - len(counts)):
        if not queue:
            break
        _, i = heapq.heappop(queue)
        found[i] += 1
        if found[i] < MOST:
            heapq.heappush(queue, (-counts[i] * log2((found[i] + 1) / found[i]), i))
    return found


class Lines(NamedTuple):
    """Rows, long ones in pieces, in the order of lanes."""

    row: Array  # (lines,), int64
    first: Array  # (lines,), int64: first entry
    length: Array  # (lines,), int64
    cut: Array  # (lines,), bool: a piece of a row
    plain: bool  # lines are rows in their order

    @classmethod
    def of(cls, a: Csr, longest: int) -> Lines:
        """Lines of at most `longest` entries, in windows sorted by length. 0: as many as twice a mean row at least."""
        xp = a.xp
        longest = longest or next((n for n in (64, 128) if 2 * a.row_len_mean <= n), 256)
        pieces = xp.maximum(cdiv(a.row_lengths, longest), 1)
        ptr = offsets(pieces)
        row = expand(ptr, int(ptr[-1])).astype(np.int64)
        begin = (xp.arange(len(row)) - ptr[row]) * longest
        length = xp.minimum(a.row_lengths[row] - begin, longest).astype(np.int64)
        segments = cdiv(length, ENTRIES)
        cut = pieces[row] > 1
        window = xp.arange(len(row), dtype=np.int64) // WINDOW
        order = longest_first(segments, cdiv(longest, ENTRIES), window, cdiv(len(row), WINDOW))
        plain = not bool(cut.any()) and bool((order == xp.arange(len(row))).all())
        return cls(row[order], (a.row_ptr[row] + begin)[order].astype(np.int64), length[order], cut[order], plain)

    @property
    def segments(self) -> Array:
        """Of each line, (lines,), int64."""
        return cdiv(self.length, ENTRIES)


class Pieces(NamedTuple):
    """The segments of all lines, those of a line one after the other."""

    segments: Array  # (lines,), int64: of each line
    first: Array  # (lines + 1,): segments before each line
    line: Array  # (total,), int32
    number: Array  # (total,), int64: of the segment in its line
    begin: Array  # (total,), int64: its first entry
    left: Array  # (total,), int64: entries of the line from there on
    total: int
    longest: int  # segments of a line

    @classmethod
    def of(cls, lines: Lines) -> Pieces:
        """Of some lines."""
        xp, segments = array_module(lines.row), lines.segments
        first = offsets(segments)
        total = int(first[-1])
        line = expand(first, total)
        number = xp.arange(total, dtype=np.int64) - first[line]
        begin, left = lines.first[line] + number * ENTRIES, lines.length[line] - number * ENTRIES
        return cls(segments, first, line, number, begin, left, total, int(segments.max()) if len(segments) else 0)

    @property
    def goes_on(self) -> Array:
        """Whether a segment is not the last of its line, (total,), bool."""
        return self.left > ENTRIES

    def at(self, t: int) -> tuple[Array, Array]:
        """The lines that have a t-th segment, and the numbers of these."""
        live = array_module(self.first).flatnonzero(self.segments > t)
        return live, self.first[live] + t

    def entries(self, nnz: int) -> tuple[Array, Array]:
        """Of each place whether its line has an entry there, and which (any other if not), (ENTRIES, total) each."""
        xp = array_module(self.begin)
        places = xp.arange(ENTRIES, dtype=np.int64)[:, None]
        return places < self.left, xp.minimum(self.begin + places, max(nnz - 1, 0))


class Plan(NamedTuple):
    """What is decided before words are made."""

    deltas: Symbols
    values: Symbols
    lines: Lines
    pieces: Pieces
    # (segments,), bool, each: whether the state holds the next segment's second word, and its third. False for the last
    # segment of a line, which has no next.
    second: Array
    third: Array
    words: int

    @classmethod
    def of(cls, a: Csr, longest: int, least: int) -> Plan:
        """Tables, lines, and which words are taken out of the state."""
        xp, lines = a.xp, Lines.of(a, longest)
        starts = xp.zeros(a.nnz, dtype=bool)
        starts[lines.first[lines.length > 0]] = True
        before = xp.zeros(a.nnz, dtype=np.int32)
        before[1:] = a.col_idx[:-1]
        before[starts] = a.row_idx[starts]
        deltas = Symbols.of((a.col_idx - before).view(np.uint32), least)
        values = Symbols.of(a.values.view(f"u{a.dtype.itemsize}"), least)
        pieces = Pieces.of(lines)
        second, third = (xp.zeros(pieces.total, dtype=bool) for _ in range(2))
        weight = deltas.slots[deltas.symbol] * values.slots[values.symbol]  # of an entry: at most 2^16
        padding = (deltas.slots[:1] * values.slots[:1]).sum()
        inside, entry = pieces.entries(a.nnz)
        weights = xp.where(inside, weight[entry] if a.nnz else padding, padding)
        halves = (second, weights[0] * weights[1]), (third, weights[2] * weights[3])
        r = xp.ones(len(lines.row), dtype=U)
        for t in range(pieces.longest):
            live, at = pieces.at(t)
            state = r[live]
            for flags, half in halves:
                state = state * half[at]
                full = state >= U(1 << 32)
                flags[at] = full
                state = xp.where(full, state >> U(32), state)
            r[live] = state
        for flags in (second, third):
            flags &= pieces.goes_on
        escapes = int((deltas.symbol == deltas.escape).sum())
        escapes += int((values.symbol == values.escape).sum()) * (a.dtype.itemsize // 4)
        words = WORDS * pieces.total + escapes - int(second.sum()) - int(third.sum())
        return cls(deltas, values, lines, pieces, second, third, words)

    def nbytes(self, itemsize: int) -> int:
        """Of the arrays of the format."""
        lines = len(self.lines.row)
        tables = self.deltas.places * 6 + self.values.places * (itemsize + 2)
        return tables + 4 * self.words + 2 * lines + 4 * lines * (not self.lines.plain) + 8 * (cdiv(lines, LANES) + 1)


class Stream:
    """Words as they are made: each with the point of the decoder's way at which its lane loads it."""

    def __init__(self, points: int):
        self.points = points  # of a segment
        self.keys: list[Array] = []
        self.words: list[Array] = []

    def put(self, line: Array, point: Array, word: Array) -> None:
        """The words that some lines load at some points, (words,) each."""
        line = line.astype(np.int64)
        self.keys.append((line // LANES << np.int64(32)) + (point * LANES + line % LANES))
        self.words.append(word.astype(np.uint32))


def points_of(itemsize: int) -> int:
    """Points of a segment at which a word may be loaded: literals of its symbols, then the words of the next."""
    return ENTRIES * (1 + itemsize // 4) + WORDS


def encoded(a: Csr, plan: Plan) -> tuple[Array, Array]:
    """The words of all lines, uint32, and the first of each 32 lines, (groups + 1,), int64."""
    xp, lines, pieces, item = a.xp, plan.lines, plan.pieces, a.dtype.itemsize
    per_value = item // 4
    stream = Stream(points_of(item))
    deltas, values = plan.deltas, plan.values
    inside, entry = pieces.entries(a.nnz)
    where = WORDS + pieces.number * stream.points  # the first point of a segment
    before = xp.zeros(a.nnz, dtype=np.int32)
    before[1:] = a.col_idx[:-1]
    starts = lines.first[lines.length > 0]
    before[starts] = a.row_idx[starts]
    literals = (deltas, (a.col_idx - before).view(np.uint32)), (values, a.values.view(f"u{item}"))
    # Of the symbols of each segment, in their order: slots, and the first of them.
    counts, firsts = (xp.empty((2 * ENTRIES, pieces.total), dtype=np.uint16) for _ in range(2))
    for number, (table, bits) in enumerate(literals):
        symbol = xp.where(inside, table.symbol[entry], 0)
        counts[number::2] = table.slots[symbol].astype(np.uint16)
        firsts[number::2] = table.first[symbol].astype(np.uint16)
        k, out = xp.nonzero(inside & (symbol == table.escape))
        literal, point = bits[entry[k, out]].astype(U), where[out] + k * (1 + per_value)
        stream.put(pieces.line[out], point + number, literal & U(0xFFFFFFFF))
        if number and per_value > 1:
            stream.put(pieces.line[out], point + 2, literal >> U(32))

    # From the last segment of a line back: words that the state takes up, then the slots which it chooses.
    words = xp.zeros((WORDS, pieces.total + 1), dtype=U)  # of each segment, and what may be read after the last
    d = xp.zeros(len(lines.row), dtype=U)
    for t in reversed(range(pieces.longest)):
        live, at = pieces.at(t)
        state, count = d[live], counts[:, at].astype(U)
        slots = firsts[:, at].astype(U)
        for half, flags in ((1, plan.third), (0, plan.second)):
            state = xp.where(flags[at], (state << U(32)) | words[half + 1, at + 1], state)
            for i in reversed(range(half * ENTRIES, (half + 1) * ENTRIES)):
                slot = slots[i]
                slot += state % count[i]
                state = state // count[i]
        for w, packed in enumerate(packed_words(slots)):
            words[w, at] = packed
        d[live] = state

    starting = pieces.number == 0
    in_state = xp.zeros(pieces.total, dtype=bool), plan.second, plan.third
    for w, flags in enumerate(in_state):
        found = xp.flatnonzero(pieces.goes_on & ~flags)
        stream.put(pieces.line[found], where[found] + stream.points - WORDS + w, words[w, found + 1])
        found = xp.flatnonzero(starting)
        stream.put(pieces.line[found], where[found] - WORDS + w, words[w, found])
    keys = xp.concatenate(stream.keys)
    order = xp.argsort(keys)
    ends = xp.arange(cdiv(len(lines.row), LANES) + 1, dtype=np.int64) << np.int64(32)
    return xp.concatenate(stream.words)[order], xp.searchsorted(keys[order], ends).astype(np.int64)


FIVE = 5  # slots that 64 bits hold; the other three follow


def packed_words(slots: Array) -> list[Array]:
    """Eight slots of 12 bits, (8, n) uint64, as three words, the first in the lowest bits."""
    xp = array_module(slots)
    bits = xp.asarray(np.arange(2 * ENTRIES, dtype=U) % U(FIVE) * U(SLOT_BITS))
    at = slots << bits[:, None]
    low, high = at[0] | at[1] | at[2] | at[3] | at[4], at[5] | at[6] | at[7]
    return [low & U(0xFFFFFFFF), (low >> U(32) | high << U(28)) & U(0xFFFFFFFF), high >> U(4)]


def unpacked_slots(words: Sequence[Array] | Array) -> Array:
    """The eight slots of three words, (8, n) int64."""
    xp = array_module(words[0])
    bits = xp.asarray(np.arange(FIVE, dtype=U) * U(SLOT_BITS))[:, None]
    low, high = words[0] | words[1] << U(32), words[1] >> U(28) | words[2] << U(4)
    slots = xp.concatenate([low[None] >> bits, high[None] >> bits[: 2 * ENTRIES - FIVE]])
    return (slots & U(SLOTS - 1)).astype(np.int64)


class Reader:
    """The words of all groups of 32 lines as their lanes load them."""

    def __init__(self, words: Array, group_ptr: Array, lanes: int):
        self.xp, self.words = array_module(words), words
        self.at, self.lanes = group_ptr[:-1].copy(), lanes

    def load(self, wants: Array) -> Array:
        """The next words of lines that want one at some points, (points, lines) bool, 0 for others: uint64."""
        xp, points = self.xp, len(wants)
        asked = xp.zeros((points, len(self.at) * LANES), dtype=bool)
        asked[:, : self.lanes] = wants
        asked = asked.reshape(points, -1, LANES).transpose(1, 0, 2).reshape(-1, points * LANES)
        after = xp.cumsum(asked, axis=1, dtype=np.int64) + self.at[:, None]  # of the words up to each
        self.at = after[:, -1]
        if not len(self.words):
            return xp.zeros((points, self.lanes), dtype=U)
        found = xp.where(asked, self.words[xp.where(asked, after - 1, 0)], np.uint32(0)).astype(U)
        return found.reshape(-1, points, LANES).transpose(1, 0, 2).reshape(points, -1)[:, : self.lanes]


@register
class CsrAns(Format):
    """CSR without indices or values as such: column differences and values are symbols of an entropy code.

    The code is a tabled variant of asymmetric numeral systems, dtANS. A table has up to 4,096 slots, and a symbol as
    many of them, 1 to 256, as its frequency asks for; a slot takes 12 bits. Eight slots, three words, are a segment of
    four entries, so that all look-ups of a segment are independent. Which of a symbol's slots is taken is free
    information: a state collects it, and once it holds 32 bits the next segment's second or third word comes from it in
    place of memory. Words of 32 rows, one per lane, lie in the order in which lanes load them. Symbols that are not in
    the tables, the rare ones, follow their segment as literals. Decoding is exact.

    Neither the paper's text nor its program was to be had beyond the abstract. The words, tables and constants are
    those that secondary sources name; how state, segments and literals fit together is our reading. So is that the
    first column counts from the row's number, that rows are sorted by length in windows of 1,024, and that rows of more
    than `longest` entries are cut, whose pieces add to y. `longest` is 64, 128 or 256, at least twice a mean row:
    rmat:20:16 had 57 GFLOPS with 64 and 29 with 256, fem:40:3 122 and 164 (f64, H200).

    It pays if differences and values repeat. Distinct values take their own bytes and about one more each.
    """

    key = "csr-ans"
    vectors_together = 1
    values_decide = True
    family = "CSR"
    reference = "Schätzle, Pegolotti & Püschel, Fast Entropy Decoding for Sparse MVM on GPUs, 2026, arXiv 2603.01915"

    longest = Parameter(0, "entries of a row, beyond which it is cut; 0: 64 to 256, by the mean", low=0, high=1024)
    least = Parameter(2, "occurrences of a symbol, below which it is a literal", low=1, high=1_000_000)

    words: Array  # (words,), uint32
    group_ptr: Array  # (groups of 32 lines + 1,), int64: first word of each
    lengths: Array  # (lines,), uint16: entries of a row, or of a piece of one
    line_row: Array  # (lines,), int32: its row, ~ it if the row is cut; (0,) if lines are the rows
    delta_table: Array  # (slots,), uint32: column less the one before
    delta_slots: Array  # (slots,), uint16: slots of the symbol less 1, and in the upper byte the slot's number
    value_table: Array  # (slots,): value
    value_slots: Array  # (slots,), uint16, likewise
    escapes: tuple[int, int]  # first slot of literals in either table
    adds: bool  # pieces add to y
    blocks: int  # that a device runs at once

    @classmethod
    def estimate(cls, a: Csr, *, longest: int, least: int) -> int:
        return Plan.of(a, longest, least).nbytes(a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, longest: int, least: int) -> dict[str, Any]:
        if a.dtype.itemsize < 4:
            raise Skip("a literal takes whole words of 32 bits, values have 16")
        xp, plan = a.xp, Plan.of(a, longest, least)
        words, group_ptr = encoded(a, plan) if a.nnz else nothing(xp, len(plan.lines.row))
        lines = plan.lines
        row = xp.where(lines.cut, ~lines.row, lines.row).astype(np.int32)
        (deltas, delta_slots), (values, value_slots) = plan.deltas.table(), plan.values.table()
        firsts = [
            int(table.first[table.escape]) if table.escape < len(table.known) else SLOTS
            for table in (plan.deltas, plan.values)
        ]
        limits = device_limits(a)
        shared = deltas.nbytes + delta_slots.nbytes + values.nbytes + value_slots.nbytes
        at_once = max(min(2048 // THREADS, limits.shared_bytes // max(shared + 1024, 1)), 1)
        return {
            "words": words,
            "group_ptr": group_ptr,
            "lengths": lines.length.astype(np.uint16),
            "line_row": row[:0] if lines.plain else row,
            "delta_table": deltas,
            "delta_slots": delta_slots,
            "value_table": values.view(a.dtype),
            "value_slots": value_slots,
            "escapes": (firsts[0], firsts[1]),
            "adds": bool(lines.cut.any()),
            "blocks": limits.multiprocessors * at_once,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, lines, item = self.xp, len(self.lengths), self.value_table.itemsize
        length = self.lengths.astype(np.int64)
        row = self.line_row.astype(np.int64) if len(self.line_row) else xp.arange(lines)
        row = xp.where(row < 0, ~row, row)
        reader = Reader(self.words, self.group_ptr, lines)
        words: Array = reader.load(xp.broadcast_to(length > 0, (WORDS, lines)))
        column = row.astype(np.int32)
        d, r = xp.zeros(lines, dtype=U), xp.ones(lines, dtype=U)
        values = self.value_table.view(f"u{item}")
        places, parts = xp.arange(ENTRIES, dtype=np.int64)[:, None], item // 4
        found: list[tuple[Array, Array, Array]] = []
        for t in range(0, int(length.max()) if lines else 0, ENTRIES):
            live, goes_on, used = length > t, length > t + ENTRIES, length > t + places
            slots = unpacked_slots(words) * live
            of_delta, of_value = slots[0::2], slots[1::2]
            codes = xp.stack([self.delta_slots[of_delta], self.value_slots[of_value]], axis=1).reshape(slots.shape)
            taken, digits = (codes % np.uint16(MOST)).astype(U) + U(1), (codes // np.uint16(MOST)).astype(U)
            full, inner = [], []
            for half in range(2):
                state, weight = d, r
                for i in range(half * ENTRIES, (half + 1) * ENTRIES):
                    state, weight = state * taken[i] + digits[i], weight * taken[i]
                full.append(live & (weight >= U(1 << 32)))
                inner.append(state & U(0xFFFFFFFF))
                d, r = xp.where(full[-1], state >> U(32), state), xp.where(full[-1], weight >> U(32), weight)
            no_delta, no_value = used & (of_delta >= self.escapes[0]), used & (of_value >= self.escapes[1])
            wants = [xp.stack([no_delta, *[no_value] * parts], axis=1).reshape(-1, lines)]
            wants.append(xp.stack([goes_on, goes_on & ~full[0], goes_on & ~full[1]]))
            loaded = reader.load(xp.concatenate(wants))
            literals = loaded[:-WORDS].reshape(ENTRIES, 1 + parts, lines)
            words = loaded[-WORDS:]
            for half in range(2):
                words[half + 1] = xp.where(full[half], inner[half], words[half + 1])
            whole = literals[:, 1] if parts == 1 else literals[:, 1] | literals[:, 2] << U(32)
            delta = xp.where(no_delta, literals[:, 0].astype(np.uint32), self.delta_table[of_delta])
            value = xp.where(no_value, whole.astype(values.dtype), values[of_value])
            columns = column + xp.cumsum(xp.where(used, delta.view(np.int32), 0), axis=0, dtype=np.int32)
            column = columns[-1]
            which = xp.flatnonzero(used)
            entries = value.reshape(-1)[which].view(self.value_table.dtype)
            found.append((row[which % lines], columns.reshape(-1)[which], entries))
        if not found:
            return row[:0], row[:0].astype(np.int32), self.value_table[:0]
        all_rows, all_columns, all_values = (xp.concatenate(arrays) for arrays in zip(*found, strict=True))
        return all_rows, all_columns, all_values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        lines, slots = len(self.lengths), (len(self.delta_table), len(self.value_table))
        name = f"csr_ans_spmv<{ctype(x)}, {cbool(len(self.line_row) > 0)}>"
        sizes = (lines, *slots, *self.escapes)
        tables = self.delta_table, self.delta_slots, self.value_table, self.value_slots
        args = (*map(np.int32, sizes), *tables, self.words, self.group_ptr, self.lengths, self.line_row, x, y)
        shared = sum(table.nbytes for table in tables)
        grid = min(cdiv(round_up(lines, LANES), THREADS), self.blocks)
        spmv = Launch(SOURCE, name, grid, THREADS, args, round_up(shared, 16))
        return [zero_fill(y), spmv] if self.adds else [spmv]

    @property
    def detail(self) -> dict[str, Any]:
        return {
            "delta_slots": len(self.delta_table),
            "value_slots": len(self.value_table),
            "words": len(self.words),
            "sorted": len(self.line_row) > 0,
        }


def nothing(xp: ArrayModule, lines: int) -> tuple[Array, Array]:
    """The words of no entries."""
    return xp.zeros(0, dtype=np.uint32), xp.zeros(cdiv(lines, LANES) + 1, dtype=np.int64)
