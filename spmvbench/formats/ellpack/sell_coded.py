"""Sliced ELLPACK with coded columns: by a dictionary of offsets, or as differences in free bits of the values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, cdiv, diagonal_places, expand, inverse, offsets, put
from spmvbench.formats.conversion import Beside, Run, device_limits, runner
from spmvbench.formats.conversion import offsets as offsets_by
from spmvbench.formats.ellpack.sell import block_of, threads_by_size
from spmvbench.formats.ellpack.sell_convert import WARP, Slices
from spmvbench.formats.ellpack.sell_local import BY_PADDING, SellLocal, slices_of
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "ellpack/sell_coded.cu"
CONVERT = "ellpack/pack_convert.cu"
BYTES = constant(KERNEL, "WORD_BYTES")


def places(a: Csr, s: Slices) -> tuple[Array, Array]:
    """The slice of every entry and the place of its row in the slice, both (nnz,), int32."""
    place = inverse(s.perm)[a.row_idx] if len(s.perm) else a.row_idx
    return place // np.int32(WARP), place % np.int32(WARP)


class Codes(NamedTuple):
    """What replaces the columns, known before the slots are allocated."""

    slices: Slices
    table: Array  # (offsets,), int32, ascending
    code: Array  # (nnz,): the place of the entry's offset in the table
    uniform: Array  # (slices,), bool: every row has the same offsets, and there are 32
    kind: np.dtype  # of a code
    word_ptr: Array  # (slices + 1,): first word of each slice

    @classmethod
    def of(cls, a: Csr, sigma: int) -> Codes:
        """Raises Skip if there are more offsets than codes."""
        xp, table = a.xp, a.diagonals
        kind = np.dtype(np.uint8 if len(table) < 255 else np.uint16)
        if len(table) >= 65_535:
            raise Skip(f"{len(table):,} distinct offsets of columns from their row: codes count 65,535")
        s = slices_of(a, sigma)
        code = diagonal_places(a.diagonal, table, a.shape).astype(kind)
        slices = len(s.ptr) - 1
        order = s.perm if len(s.perm) else xp.arange(a.rows, dtype=np.int32)
        first = order[::WARP]  # the first row of each slice
        lengths = a.row_lengths[order]
        uniform = xp.ones(slices, dtype=bool)
        slice_of_place = xp.arange(a.rows, dtype=np.int32) // np.int32(WARP)
        uniform[slice_of_place[lengths != a.row_lengths[first][slice_of_place]]] = False
        uniform[a.rows // WARP :] = False  # the last, unless it has 32 rows
        slice_, _ = places(a, s)
        like = xp.minimum(a.row_ptr[:-1][first[slice_]] + a.rank_in_row, max(a.nnz - 1, 0))
        uniform[slice_[code != code[like]]] = False
        words = cdiv(xp.diff(s.ptr) // WARP, BYTES // kind.itemsize)  # for a row
        word_ptr = offsets(xp.where(uniform, words, WARP * words)).astype(s.ptr.dtype)
        return cls(s, table, code, uniform, kind, word_ptr)

    def at(self, slice_: Array, place: Array, position: Array) -> Array:
        """The place of some codes among all, int64; codes of a uniform slice are those of its first row."""
        each = BYTES // self.kind.itemsize
        uniform = self.uniform[slice_]
        place = place * ~uniform
        step = 1 + (WARP - 1) * ~uniform
        word = self.word_ptr[slice_].astype(np.int64) + position // each * step + place
        found: Array = word * each + position % each
        return found


@register
class SellDict(Format):
    """Slices of 32 rows with codes of 8 or 16 bits in place of columns: places in a table of all offsets col - row.

    A slice whose rows all have the same offsets holds the codes of one row for all: on a structured grid almost nothing
    is left of the columns. A slice has 32 codes per position otherwise. Codes take 8 bits for up to 254 offsets, 16 for
    up to 65,534; matrices with more are refused. Rows are sorted by length as in `sell-local`.

    Of CoD-SELL the abstract was read, which leaves open how positions form the dictionary: table and kinds of slices
    are our reading.
    """

    key = "sell-dict"
    family = "ELLPACK"
    reference = "this project, after Murakami et al., CoD-SELL"
    shared_implementation = "sliced ELLPACK: C=32, sigma and T by rule, columns as codes of offsets"
    project_kernel = True

    sigma = SellLocal.sigma.defaulting(BY_PADDING)
    threads = Parameter(0, "threads per row; 0: by the size of the matrix", choices=(0, 1, 4, 8, 32))

    slice_ptr: Array  # (slices + 1,), int32 or int64: first slot of each slice
    word_ptr: Array  # (slices + 1,), likewise: its first word of codes
    codes: Array  # (words, 4 or 2), uint8 or uint16; all bits set in padding
    table: Array  # (offsets,), int32, ascending: col - row of each code
    values: Array  # (slots,); 0 in padding
    perm: Array  # (rows,), int32: row of each place; (0,) where rows keep their order
    row_threads: int  # threads per row

    @classmethod
    def estimate(cls, a: Csr, *, sigma: int, **params: Any) -> int:
        found = Codes.of(a, sigma)
        s = found.slices
        words = BYTES * int(found.word_ptr[-1]) + found.word_ptr.nbytes + found.table.nbytes
        return s.slots * a.dtype.itemsize + s.nbytes + words

    @classmethod
    def convert(cls, a: Csr, *, sigma: int, threads: int) -> dict[str, Any]:
        xp, found = a.xp, Codes.of(a, sigma)
        s, each = found.slices, BYTES // found.kind.itemsize
        slice_, place = places(a, s)
        position = a.rank_in_row
        codes = xp.full(each * int(found.word_ptr[-1]), np.iinfo(found.kind).max, dtype=found.kind)
        put(codes, found.at(slice_, place, position), found.code)
        values = xp.zeros(s.slots, dtype=a.dtype)
        put(values, s.ptr[slice_].astype(np.int64) + position * WARP + place, a.values)
        return {
            "slice_ptr": s.ptr,
            "word_ptr": found.word_ptr,
            "codes": codes.reshape(-1, each),
            "table": found.table,
            "values": values,
            "perm": s.perm,
            "row_threads": threads or threads_by_size(a),
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, each = self.xp, self.codes.shape[1]
        slots = xp.arange(len(self.values))
        slice_ = expand(self.slice_ptr, len(slots))
        inside = slots - self.slice_ptr[slice_]
        words = cdiv(xp.diff(self.slice_ptr) // WARP, each)
        uniform = (xp.diff(self.word_ptr) == words) & (words > 0)
        s = Slices.kept(self.shape[0], len(slots), WARP, self.slice_ptr)._replace(perm=self.perm)
        held = Codes(s, self.table, self.codes, uniform, self.codes.dtype, self.word_ptr)
        code = self.codes.reshape(-1)[held.at(slice_, inside % WARP, inside // WARP)]
        used = xp.flatnonzero(code != np.iinfo(code.dtype).max)
        row = s.row_of(used)
        return row, (row + self.table[code[used]]).astype(np.int32), self.values[used]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, threads = self.shape[0], self.row_threads
        block = block_of(threads)
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}, {ctype(self.codes)}"
        kernel = f"sell_dict_spmv<{types}, {threads}, {block[0]}, {cbool(len(self.perm) > 0)}>"
        table = np.int32(len(self.table)), self.table
        args = (np.uint32(rows), self.slice_ptr, self.word_ptr, self.codes, *table, self.perm, self.values, x, y)
        return [Launch(KERNEL, kernel, cdiv(rows, block[0]), block, args)]

    @property
    def detail(self) -> dict[str, Any]:
        words = cdiv(self.xp.diff(self.slice_ptr) // WARP, self.codes.shape[1])
        uniform = int(((self.xp.diff(self.word_ptr) == words) & (words > 0)).sum())
        return {"offsets": len(self.table), "uniform_share": uniform / max(len(self.slice_ptr) - 1, 1)}


MOST_BITS = constant(KERNEL, "MOST_BITS")
LEAST_BITS = 4
SPARE_SLOTS = 2  # times the entries, which slots may at most be: with more it would be no smaller than CSR


def free_bits(values: Array) -> int:
    """Low bits that are zero in every value, 0 to MOST_BITS."""
    pattern = values.view(f"u{values.itemsize}")
    kind = pattern.dtype.type
    lowest = pattern & (~pattern + kind(1))  # the lowest bit that is set, 0 in a zero
    lowest[lowest == 0] = kind(1 << min(MOST_BITS, 8 * values.itemsize - 1))
    return free_of(int(lowest.min()) if len(values) else 0, values.itemsize)


def free_of(some: int, itemsize: int) -> int:
    """The same from the bits that are set in some value."""
    most = min(MOST_BITS, 8 * itemsize - 1)
    return min((some & -some).bit_length() - 1, most) if some else most


def refuse_bits(bits: int) -> int:
    """The bits that values leave free. Raises Skip if they are too few."""
    if bits < LEAST_BITS:
        raise Skip(f"the values leave {bits} low bits free, and differences of columns need {LEAST_BITS} or more")
    return bits


def refuse_slots(a: Csr, bits: int, slots: int, least: int) -> None:
    """Raises Skip for slots of which most bridge gaps. least: slots without differences."""
    if slots > SPARE_SLOTS * max(a.nnz, least):
        raise Skip(f"{bits} free bits: {slots:,} slots for {a.nnz:,} entries, most to bridge gaps between columns")


class Deltas(NamedTuple):
    """Where every entry goes and the difference that it holds, known before the slots are allocated."""

    bits: int
    perm: Array  # (rows,), int32: row of each place; (0,) where rows keep their order
    ptr: Array  # (slices + 1,): first slot of each slice
    bases: Array  # (slices,), int32: the least column of each slice
    delta: Array  # (nnz,): the column less that of the slot before
    slot: Array  # (nnz,), int64

    @classmethod
    def of(cls, a: Csr, sigma: int) -> Deltas:
        """Raises Skip if the values leave too few bits."""
        xp, bits = a.xp, refuse_bits(free_bits(a.values))
        s = slices_of(a, sigma)
        slice_, place = places(a, s)
        order = s.perm if len(s.perm) else xp.arange(a.rows, dtype=np.int32)
        begins = a.row_ptr[:-1][order]
        held = a.row_lengths[order] > 0
        first = xp.full(WARP * (len(s.ptr) - 1), a.cols, dtype=np.int32)
        first[: a.rows][held] = a.col_idx[begins[held]]
        bases = first.reshape(-1, WARP).min(axis=1) if len(first) else first
        before = xp.empty(a.nnz, dtype=np.int32)
        before[1:] = a.col_idx[:-1]
        starts = xp.flatnonzero(a.rank_in_row == 0)
        before[starts] = bases[slice_[starts]]
        jump = (1 << bits) - 1  # what a slot without an entry moves on by
        jumps, delta = xp.divmod(a.col_idx - before, np.int32(jump))
        total = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(jumps, dtype=np.int64)])
        lengths = a.row_lengths + total[a.row_ptr[1:]] - total[a.row_ptr[:-1]]
        position = a.rank_in_row + total[1:] - total[a.row_ptr[:-1]][a.row_idx]
        padded = xp.zeros(WARP * (len(s.ptr) - 1), dtype=np.int64)
        padded[: a.rows] = lengths[order]
        ptr = offsets(WARP * (padded.reshape(-1, WARP).max(axis=1) if len(padded) else padded))
        slots = int(ptr[-1])
        refuse_slots(a, bits, slots, s.slots)
        slot = ptr[slice_].astype(np.int64) + position * WARP + place
        return cls(bits, s.perm, ptr, bases, delta, slot)


@register
class SellPack(Format):
    """Slices of 32 rows with each column's difference from the one before in low bits that the value leaves free.

    Integers, small fractions and values rounded to single precision leave low bits zero: as many as are zero in every
    value hold the difference, so an entry takes 8 bytes in double and 4 in single precision. All of these bits set
    means no entry: it is padding, or bridges a larger difference. Values and columns are exact. A matrix whose values
    leave fewer than 4 bits is refused, as is one that would take more than twice its slots.

    PackSELL, of which the abstract was read, rounds values to make room; that no bit of a value is lost is ours, as are
    the base column of a slice and the bridges.
    """

    key = "sell-pack"
    vectors_together = 1
    values_decide = True
    family = "ELLPACK"
    reference = "this project, after Suzuki & Iwashita, arXiv:2604.13433, 2026"
    shared_implementation = "sliced ELLPACK: C=32, sigma by rule, T=1, columns in low bits of the values"
    project_kernel = True

    sigma = SellLocal.sigma.defaulting(BY_PADDING)

    slice_ptr: Array  # (slices + 1,), int32 or int64: first slot of each slice
    bases: Array  # (slices,), int32: the column that differences of a slice begin at
    packed: Array  # (slots,), as the values: their bits, the lowest `bits` of them a difference, all set for no entry
    perm: Array  # (rows,), int32: row of each place; (0,) where rows keep their order
    bits: int  # of a difference

    @classmethod
    def estimate(cls, a: Csr, *, sigma: int) -> int:
        found = Deltas.of(a, sigma)
        arrays = found.ptr.nbytes + found.bases.nbytes + found.perm.nbytes
        return int(found.ptr[-1]) * a.dtype.itemsize + arrays

    @classmethod
    def convert(cls, a: Csr, *, sigma: int) -> dict[str, Any]:
        if (run := runner(a)) is not None and a.nnz:
            return cls._by_kernels(a, sigma, run)
        found = Deltas.of(a, sigma)
        word = f"u{a.dtype.itemsize}"
        packed = a.xp.full(int(found.ptr[-1]), (1 << found.bits) - 1, dtype=word)
        packed[found.slot] = a.values.view(word) | found.delta.astype(word)
        return {
            "slice_ptr": found.ptr,
            "bases": found.bases,
            "packed": packed.view(a.dtype),
            "perm": found.perm,
            "bits": found.bits,
        }

    @classmethod
    def _by_kernels(cls, a: Csr, sigma: int, run: Run) -> dict[str, Any]:
        xp, index = a.xp, ctype(a.row_ptr)
        block = constant(CONVERT, "CONVERT_BLOCK")
        grid = min(cdiv(a.nnz, block), 16 * device_limits(a).multiprocessors)
        kernel, of_values = f"pack_bits<{ctype(a.values)}>", (np.int64(a.nnz), a.values)
        some = Beside(lambda words: run(Launch(CONVERT, kernel, grid, block, (*of_values, words))), 1)
        s = slices_of(a, sigma, lambda perm: Slices.of(a, WARP, run, perm=perm, beside=None if some.noted else some))
        bits = refuse_bits(free_of(some.noted[0], a.dtype.itemsize))
        slices, ordered, jump = len(s.ptr) - 1, cbool(len(s.perm) > 0), np.int32((1 << bits) - 1)
        bases, counts = xp.empty(slices, dtype=np.int32), xp.empty(slices, dtype=np.int64)
        matrix, sizes = (s.perm, a.row_ptr, a.col_idx), (np.int32(a.rows), np.int32(a.cols), np.int32(slices))
        warps = cdiv(slices * WARP, block)
        run(Launch(CONVERT, f"pack_slots<{index}, {ordered}>", warps, block, (*sizes, jump, *matrix, bases, counts)))
        ptr, slots = offsets_by(counts, run)
        refuse_slots(a, bits, slots, s.slots)
        packed = xp.empty(slots, dtype=a.dtype)
        args = (sizes[0], sizes[2], jump, ptr, bases, *matrix, a.values, packed)
        run(Launch(CONVERT, f"pack_fill<{ctype(packed)}, {index}, {ctype(ptr)}, {ordered}>", warps, block, args))
        return {"slice_ptr": ptr, "bases": bases, "packed": packed, "perm": s.perm, "bits": bits}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, jump = self.xp, (1 << self.bits) - 1
        s = Slices.kept(self.shape[0], len(self.packed), WARP, self.slice_ptr)._replace(perm=self.perm)
        slots = xp.arange(s.slots)
        slice_ = expand(self.slice_ptr, s.slots)
        inside = slots - self.slice_ptr[slice_]
        # In order of rows, so that one sum over all slots gives the columns.
        width = xp.diff(self.slice_ptr)[slice_] // WARP
        order = inverse(self.slice_ptr[slice_] + inside % WARP * width + inside // WARP, dtype=np.int64)
        word = self.packed.view(f"u{self.packed.itemsize}")[order]
        delta = (word & word.dtype.type(jump)).astype(np.int64)
        total = xp.cumsum(delta)
        starts = xp.flatnonzero(inside[order] < WARP)
        owner = xp.searchsorted(starts, slots, side="right") - 1
        column = total - (total - delta)[starts[owner]] + self.bases[slice_[order]]
        used = xp.flatnonzero(delta != jump)
        values = (word & ~word.dtype.type(jump)).view(self.packed.dtype)
        return s.row_of(order[used]), column[used].astype(np.int32), values[used]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows = self.shape[0]
        kernel = f"sell_pack_spmv<{ctype(self.packed)}, {ctype(self.slice_ptr)}, {cbool(len(self.perm) > 0)}>"
        args = (np.uint32(rows), np.int32(self.bits), self.slice_ptr, self.bases, self.perm, self.packed, x, y)
        block = constant(KERNEL, "PACK_BLOCK")
        return [Launch(KERNEL, kernel, cdiv(rows, block), block, args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"bits": self.bits}
