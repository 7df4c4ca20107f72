"""DASP: rows in three classes by their length, all in fragments that a tensor core multiplies at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    Array,
    Csr,
    array_module,
    cdiv,
    expand,
    inverse,
    offsets,
    put,
    round_up,
    stable_order,
)
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype, in_part
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "hybrid/dasp.cu"
FRAGMENT = constant(SOURCE, "FRAGMENT")  # slots of a fragment
ROWS = FRAGMENT // 4  # of a fragment
PIECE = constant(SOURCE, "PIECE")  # slots of a piece of a long row
FULL = 24  # entries that a fragment of medium rows has at least
FEWEST_PAIRS = 128
LONG_BLOCK = constant(SOURCE, "LONG_BLOCK")  # threads that sum the pieces of a long row
LOADS = 4  # fragments of medium rows that are in flight
SHORT = 1, 3, 4, 2  # in this order, after the medium rows


class Classes(NamedTuple):
    """The rows of a matrix by classes, and where their slots begin.

    A place is a row's number in the order of the classes: long rows, medium ones, the longest first, rows of one entry,
    pairs (8 rows of one entry alternating with 8 of three), rows of three or four, of two, and empty ones.
    """

    order: Array  # (rows,), int32: the row at each place
    counts: tuple[int, ...]  # rows that are long, medium, of one entry, in pairs, of three or four, of two, empty
    pieces: int
    long_ptr: Array  # (long rows + 1,), int32: first piece of each
    block_ptr: Array  # (blocks of 8 medium rows + 1,), int32 or int64: first slot of each, after the long rows'
    rest_ptr: Array  # (medium rows + 1,), int32 or int64: first entry after the fragments, of those of all rows
    bases: tuple[int, ...]  # first slot of medium rows, of one entry, of pairs, of three or four, of two, of the rest
    slots: int  # of all

    @classmethod
    def of(cls, lengths: Array, longest: int) -> Classes:
        """The classes of rows with these lengths, (rows,); `longest` entries make a long one."""
        xp = array_module(lengths)
        rank = np.empty(longest + 1, dtype=np.int64)  # of a length in the order
        rank[5:] = longest - np.arange(5, longest + 1)
        rank[[*SHORT, 0]] = longest - 4 + np.arange(5)
        keys = xp.asarray(rank)[xp.minimum(lengths, longest)]
        order = stable_order(keys, longest + 1).astype(np.int32)
        found = [int(n) for n in xp.bincount(keys, minlength=longest + 1).tolist()]
        in_long, in_medium = found[0], sum(found[1 : longest - 4])
        ones, threes, fours, twos, empty = found[longest - 4 :]

        paired = min(ones, threes) // ROWS * ROWS
        paired = paired if paired >= FEWEST_PAIRS else 0
        first = in_long + in_medium + ones
        turns = (first - paired, first), (first, first + paired)
        order[first - paired : first + paired] = xp.stack(
            [order[begin:end].reshape(-1, ROWS) for begin, end in turns], axis=1
        ).reshape(-1)
        counts = in_long, in_medium, ones - paired, 2 * paired, threes - paired + fours, twos, empty

        pieces_of = -(-lengths[order[:in_long]] // PIECE)
        long_ptr = offsets(pieces_of)
        medium = xp.zeros((cdiv(in_medium, ROWS), ROWS), dtype=np.int64)
        medium.reshape(-1)[:in_medium] = lengths[order[in_long : in_long + in_medium]]
        kept = xp.zeros(len(medium), dtype=np.int64)
        for done in range(0, int(medium[0, 0]) if len(medium) else 0, 4):
            kept += xp.clip(medium - done, 0, 4).sum(axis=1) >= FULL
        block_ptr = offsets(FRAGMENT * kept)
        rest_ptr = offsets(xp.maximum(medium - 4 * kept[:, None], 0).reshape(-1)[:in_medium])

        pieces = int(long_ptr[-1])
        sizes = [PIECE * pieces, int(block_ptr[-1]), counts[2]]
        sizes += [round_up(2 * counts[3], 64), round_up(4 * counts[4], 128), round_up(2 * counts[5], 64)]
        ends = np.cumsum([*sizes, int(rest_ptr[-1])]).tolist()
        return cls(order, counts, pieces, long_ptr, block_ptr, rest_ptr, tuple(ends[:-1]), ends[-1])

    def starts(self) -> tuple[Array, Array, Array]:
        """Of each place: its first slot, the entries that fragments hold of it, and where those after them begin.

        (rows,) each. Entry j of a medium row is 28 * (j // 4) + j slots after the first, of another j slots after.
        """
        xp, (in_long, in_medium, ones, pairs, fours, twos, empty) = array_module(self.order), self.counts
        medium_base, one_base, pair_base, four_base, two_base, rest_base = self.bases
        row, pair, two = (xp.arange(n, dtype=np.int64) for n in (in_medium, pairs, twos))
        block = row // ROWS
        first = xp.concatenate(
            (
                self.long_ptr[:-1].astype(np.int64) * PIECE,
                medium_base + self.block_ptr[block] + 4 * (row % ROWS),
                one_base + xp.arange(ones, dtype=np.int64),
                pair_base + pair // 16 * FRAGMENT + 4 * (pair % ROWS) + (pair % 16 >= ROWS),
                four_base + 4 * xp.arange(fours, dtype=np.int64),
                two_base + two // 16 * FRAGMENT + 4 * (two % ROWS) + 2 * (two % 16 >= ROWS),
                xp.zeros(empty, dtype=np.int64),
            )
        )
        of_medium = slice(in_long, in_long + in_medium)
        held = xp.full(len(self.order), np.iinfo(np.int64).max)
        held[of_medium] = (self.block_ptr[block + 1] - self.block_ptr[block]) // ROWS
        rest = xp.zeros(len(self.order), dtype=np.int64)
        rest[of_medium] = rest_base + self.rest_ptr[:-1]
        return first, held, rest

    def owners(self) -> Array:
        """The place of each slot, (slots,); slots that belong to no row have any place."""
        xp, (in_long, in_medium, ones, pairs, fours, *_) = array_module(self.order), self.counts
        medium_base, one_base, pair_base, four_base, two_base, rest_base = self.bases
        first = np.cumsum([0, in_long, in_medium, ones, pairs, fours]).tolist()

        def slots(begin: int, end: int) -> Array:
            return xp.arange(end - begin, dtype=np.int64)

        medium, paired, two = slots(medium_base, one_base), slots(pair_base, four_base), slots(two_base, rest_base)
        found = (
            expand(self.long_ptr, self.pieces)[slots(0, medium_base) // PIECE],
            first[1] + ROWS * expand(self.block_ptr, len(medium)) + medium % FRAGMENT // 4,
            first[2] + slots(one_base, pair_base),
            first[3] + paired // FRAGMENT * 16 + paired % FRAGMENT // 4 + ROWS * (paired % 4 > 0),
            first[4] + slots(four_base, two_base) // 4,
            first[5] + two // FRAGMENT * 16 + two % FRAGMENT // 4 + ROWS * (two % 4 > 1),
            first[1] + expand(self.rest_ptr, self.slots - rest_base),
        )
        return xp.concatenate([part.astype(np.int64, copy=False) for part in found])


@register
class Dasp(Format):
    """Rows in classes by length, stored as 8 x 4 fragments that tensor cores multiply in double precision.

    The dot products of 8 rows with 4 entries of x each are the diagonal of one 8 x 4 by 4 x 8 product. Long rows are
    cut into pieces of two fragments each; medium rows, sorted by length, share blocks of 8, whose fragments end where
    less than three quarters of one would be filled, and what is left of their rows is after; short rows are packed
    several per fragment. Single precision, GPUs before compute capability 8.0 and the emulated device take the same
    arrays and multiply slot by slot. The pieces of a long row are added up by a block of threads, the authors' by a
    warp. order=native gives y in the order of the classes, as the paper times it.
    """

    key = "dasp"
    family = "Hybrid"
    reference = "Lu & Liu, SC'23"

    longest = Parameter(256, "rows with more entries are long", low=5, high=4096)
    loop = Parameter(
        0,
        "blocks of 8 medium rows per warp; 0 takes the authors' numbers for an A100: 1 below 59,990 medium rows, "
        "2 below 400,000, else 4",
        choices=(0, 1, 2, 4),
    )
    order = Parameter("natural", "order of y: the matrix's, or the classes'", choices=("natural", "native"))

    permutation: Array  # (rows,), int32: the row at each place, in the order of the classes
    long_ptr: Array  # (long rows + 1,), int32: first piece of each, of 64 slots
    block_ptr: Array  # (blocks of 8 medium rows + 1,), int32 or int64: first slot of each, after the long rows'
    rest_ptr: Array  # (medium rows + 1,), int32 or int64: first entry after the fragments
    columns: Array  # (slots,), int32; -1 if a slot has no entry
    values: Array  # (slots,)
    classes: Classes  # the same pointers, counts and places of slots

    @classmethod
    def estimate(cls, a: Csr, *, longest: int, **params: Any) -> int:
        found = Classes.of(a.row_lengths, longest)
        pointers = found.order, found.long_ptr, found.block_ptr, found.rest_ptr
        return sum(array.nbytes for array in pointers) + found.slots * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, longest: int, **params: Any) -> dict[str, Any]:
        xp, found = a.xp, Classes.of(a.row_lengths, longest)
        place = inverse(found.order)
        first, held, rest = (of_place[place] for of_place in found.starts())
        is_medium = xp.where(held < np.iinfo(np.int64).max, np.int64(28), np.int64(0))
        row, rank = a.row_idx, a.rank_in_row.astype(np.int64)
        slot = first[row] + rank + rank // 4 * is_medium[row]
        behind = rank - held[row]
        slot = xp.where(behind < 0, slot, rest[row] + behind)
        columns, values = xp.full(found.slots, -1, dtype=np.int32), xp.zeros(found.slots, dtype=a.dtype)
        put(columns, slot, a.col_idx)
        put(values, slot, a.values)
        return {
            "permutation": found.order,
            "long_ptr": found.long_ptr,
            "block_ptr": found.block_ptr,
            "rest_ptr": found.rest_ptr,
            "columns": columns,
            "values": values,
            "classes": found,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.columns >= 0)
        return self.permutation[self.classes.owners()[slot]], self.columns[slot], self.values[slot]

    @property
    def y_order(self) -> Array | None:
        return self.permutation if self.params["order"] == "native" else None

    @property
    def detail(self) -> dict[str, Any]:
        """Rows of each class, slots per entry, and the share of the entries after the fragments."""
        names = "long", "medium", "ones", "pairs", "fours", "twos", "empty"
        entries = int((self.columns >= 0).sum())
        rest = self.classes.slots - self.classes.bases[-1]
        shares = {"slots_per_entry": len(self.columns) / max(entries, 1), "rest_share": rest / max(entries, 1)}
        return dict(zip(names, self.classes.counts, strict=True)) | shares

    def launches(self, x: Array, y: Array) -> list[Launch]:
        counts, bases, pieces = self.classes.counts, self.classes.bases, self.classes.pieces
        in_long, in_medium, *short = counts
        loop = self.loop or (1 if in_medium < 59_990 else 2 if in_medium < 400_000 else 4)
        warps = pieces + cdiv(cdiv(in_medium, ROWS), loop) + sum(cdiv(n, 32) for n in short)
        block_ptr, rest_ptr = self.block_ptr, self.rest_ptr
        if block_ptr.dtype != rest_ptr.dtype:  # the longer type for both
            block_ptr, rest_ptr = (ptr.astype(np.int64) for ptr in (block_ptr, rest_ptr))
        partial = self.xp.empty(pieces, dtype=y.dtype)
        natural = cbool(self.params["order"] == "natural")
        value, block = ctype(self.values), 128
        classes = Struct((*map(np.int32, (*counts, pieces)), *map(np.int64, bases)))
        matrix = block_ptr, rest_ptr, self.permutation, self.columns, self.values, x, y, partial
        name = f"dasp_spmv<{value}, {ctype(block_ptr)}, {natural}, {loop}, {LOADS}>"
        launches = in_part("rows", [Launch(SOURCE, name, cdiv(warps * 32, block), block, (classes, *matrix))])
        if in_long:
            args = self.long_ptr, self.permutation, partial, y
            name = f"dasp_long<{value}, {natural}>"
            launches += in_part("long rows", [Launch(SOURCE, name, in_long, LONG_BLOCK, args)])
        return launches
