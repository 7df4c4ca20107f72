"""Sliced ELLPACK with 16-bit columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    INT32_MAX,
    Array,
    Csr,
    aligned,
    array_module,
    cdiv,
    expand,
    inverse,
    nothing,
    offsets,
)
from spmvbench.formats.conversion import Beside, Run, offsets_upto, runner, summed, taken
from spmvbench.formats.csr.rows import Pieces
from spmvbench.formats.ellpack.sell import block_of, threads_by_size
from spmvbench.formats.ellpack.sell_convert import SOURCE as CONVERT
from spmvbench.formats.ellpack.sell_convert import WARP, Slices, fill_block, parts, slots_of, sorted_rows
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "ellpack/sell_local.cu"
PIECE = constant(SOURCE, "PIECE")  # entries of a long row that a block takes
LONG, LONG_MEANS = 512, 16  # entries, and mean rows, both of which a row that is stored apart exceeds
NO_LONG = -1  # for `long`
# Among 16-bit columns. The columns of a piece differ by less.
PADDING = constant("include/sell.cuh", "LOCAL_PADDING")
BY_PADDING = -1  # for sigma
SPARE_SLOTS = 1.25  # slots per entry in the rows' own order, up to which sigma -1 keeps it
WINDOW = 256  # that sigma -1 sorts else
WORTH_A_BASE = 0.05  # of the slots, that a second base must make short; it costs 4 % (pde:100, f64, H200)


def slices_of(a: Csr, sigma: int, of: Callable[[Array | None], Slices] | None = None) -> Slices:
    """Slices of 32 rows, the rows sorted within windows of `sigma`; BY_PADDING where that saves slots.

    of: makes those of an order, as `order_of` gives it, in place of `Slices.of`. The latest order counts.
    """
    made, natural = of or (lambda perm: Slices.of(a, WARP, runner(a), perm=perm)), None
    if sigma == BY_PADDING and "slice_slots" not in a.__dict__:
        natural = made(None)
        a.__dict__["slice_slots"] = natural.slots
    perm = order_of(a, sigma)
    return made(perm) if natural is None or perm is not None else natural


def order_of(a: Csr, sigma: int) -> Array | None:
    """The row of each place of `slices_of`, None if rows keep their order."""
    if sigma == BY_PADDING:
        known = a.__dict__.get("slice_slots")  # `taken` finds it beside other numbers
        slots = slices_of(a, 1).slots if known is None else known
        sigma = 1 if slots <= SPARE_SLOTS * a.nnz else WINDOW
    return None if sigma == 1 else sorted_rows(a, sigma)


def long_apart(a: Csr, long: int, beside: Beside | None = None) -> tuple[Csr, Csr | None]:
    """The matrix without rows of more than `long` entries, and these; 0: LONG, or LONG_MEANS mean rows if that is more.

    None if there are no such rows; NO_LONG leaves all where they are. beside: as for `summed`, if there is a wait.
    """
    most = long or max(LONG, LONG_MEANS * a.row_len_mean)
    if long == NO_LONG or (short := taken(a, upto=int(most), beside=beside)) is a:
        return a, None
    return short, taken(a, above=int(most))


class LongRows(NamedTuple):
    """Long rows in compressed rows of their own, cut into even pieces of at most PIECE entries."""

    apart: Array  # (slices,), uint32: a bit for each place whose row is stored here
    piece_row: Array  # (pieces,), int32
    piece_of: Array  # (pieces, 2), int32: the first piece of the row, and how many it has
    piece_begin: Array  # (pieces,), of row_ptr's type: first entry
    piece_end: Array  # (pieces,), likewise
    long_columns: Array  # (entries,), int32
    long_values: Array  # (entries,)

    @classmethod
    def of(cls, a: Csr, s: Slices) -> LongRows:
        """Of the rows that have entries; s: the slices of all others."""
        xp, slices = a.xp, len(s.ptr) - 1
        rows = xp.flatnonzero(a.row_lengths)
        pieces = Pieces.of(a, rows, PIECE, even=True)
        counts = cdiv(a.row_lengths[rows], PIECE)
        owner = expand(offsets(counts), len(pieces.row))
        is_apart = xp.zeros(slices * WARP, dtype=bool)
        is_apart[inverse(s.perm)[rows] if len(s.perm) else rows] = True
        piece_of = xp.stack([offsets(counts)[owner], counts[owner]], axis=1).astype(np.int32)
        bits = xp.packbits(is_apart, bitorder="little").view(np.uint32)
        return cls(bits, pieces.row, piece_of, pieces.begin, pieces.end, aligned(a.col_idx), aligned(a.values))

    @classmethod
    def none(cls, a: Csr) -> LongRows:
        """No rows: always the same, for most matrices have none."""
        xp, kind = a.xp, a.row_ptr.dtype
        values = nothing(xp, a.dtype)
        if (found := _NO_ROWS.get((id(values), kind))) is None:
            empty, index = nothing(xp, np.int32), nothing(xp, kind)
            made = cls(nothing(xp, np.uint32), empty, empty.reshape(0, 2), index, index, empty, values)
            found = _NO_ROWS[id(values), kind] = made
        return found

    @classmethod
    def nbytes(cls, a: Csr | None, slices: int) -> int:
        """Of the arrays; a: as for `of`, None if there are no such rows."""
        if a is None:
            return 0
        pieces = int(cdiv(a.row_lengths, PIECE).sum())
        return 4 * slices + pieces * (12 + 2 * a.row_ptr.itemsize) + a.nnz * (4 + a.dtype.itemsize)


_NO_ROWS: dict[tuple[int, np.dtype], LongRows] = {}


class Bases(NamedTuple):
    """How the columns of every slice are stored, its positions in parts of the same number, the pieces."""

    columns: Array  # (slices, pieces), int32: the lowest column; -1 if columns differ by too much
    units: Array  # (slices,), int32: 32 half words that the columns take
    total: int  # positions in 32 bits

    def column_ptr(self, s: Slices, run: Run | None) -> Array:
        """(slices + 1,): 32 half words before each slice's columns; (0,) where all take 16 bits."""
        if not self.total:
            return nothing(array_module(s.ptr), s.ptr.dtype)
        if run is None:
            return offsets(self.units).astype(s.ptr.dtype)
        return offsets_upto(self.units, s.slots, run)  # a unit is more than a slot

    @classmethod
    def of(cls, a: Csr, sigma: int, pieces: int) -> tuple[Slices, dict[int, Bases]]:
        """The slices, and by the number of pieces, of which 0 is one and two; by kernels and one wait if any."""
        xp, run, slices = a.xp, runner(a), cdiv(a.rows, WARP)
        wanted = [pieces] if pieces else [1, 2]
        if "natural_bases" in a.__dict__ and order_of(a, sigma) is None:
            found: tuple[Slices, dict[int, Bases]] = a.__dict__.pop("natural_bases")
            return found
        if run is not None:
            bases: dict[int, Bases] = {}

            def made(perm: Array | None) -> Slices:
                arrays = {
                    n: (xp.empty((slices * (n in wanted), n), dtype=np.int32), xp.empty(slices, dtype=np.int32))
                    for n in (1, 2)
                }
                order = nothing(xp, np.int32) if perm is None else perm
                args = (np.int32(a.rows), np.int32(slices), order, a.row_ptr, a.col_idx, *arrays[1], *arrays[2])
                kernel = f"sell_local_slots<{ctype(a.row_ptr)}, {pieces}, {cbool(perm is not None)}"
                ptr, noted = summed(xp, slices, CONVERT, kernel, args, run, by_warps=True)
                a.__dict__["row_len_max"], *totals, slots = noted
                bases.update({n: cls(*arrays[n], totals[n - 1]) for n in wanted})
                return Slices(a.rows, slots, WARP, 1, ptr, order, nothing(xp, np.int32))

            return slices_of(a, sigma, made), bases
        s = slices_of(a, sigma)
        begin, length = (np.zeros((cdiv(a.rows, WARP), WARP), dtype=np.int64) for _ in range(2))
        order = s.perm if len(s.perm) else slice(None)
        begin.reshape(-1)[: a.rows], length.reshape(-1)[: a.rows] = a.row_ptr[:-1][order], a.row_lengths[order]
        return s, {n: cls._by_arrays(a, begin, length, n) for n in wanted}

    @classmethod
    def _by_arrays(cls, a: Csr, begin: Array, length: Array, pieces: int) -> Bases:
        width = length.max(axis=1, initial=0)
        half = cdiv(width, pieces)
        columns, wide = (np.zeros((len(width), pieces), dtype=np.int32) for _ in range(2))
        for piece in range(pieces):
            first = (piece * half)[:, None]
            last = np.minimum(length, first + half[:, None]) - 1
            used = first <= last
            lowest, highest = np.full(begin.shape, INT32_MAX), np.full(begin.shape, -1)
            lowest[used] = a.col_idx[(begin + first)[used]]
            highest[used] = a.col_idx[(begin + last)[used]]
            low, high = lowest.min(axis=1, initial=INT32_MAX), highest.max(axis=1, initial=-1)
            spread = high - low >= PADDING
            columns[:, piece] = np.where(spread, -1, np.where(high < 0, 0, low))
            wide[:, piece] = np.where(spread, np.minimum(width, (piece + 1) * half) - piece * half, 0)
        return cls(columns, (width + wide.sum(axis=1)).astype(np.int32), int(wide.sum()))

    @classmethod
    def chosen(cls, a: Csr, sigma: int, pieces: int) -> tuple[Slices, Bases]:
        """The slices, with `pieces`; for 0 with one, or with two where that makes enough columns short."""
        s, found = cls.of(a, sigma, pieces)
        if pieces:
            return s, found[pieces]
        one, two = found[1], found[2]
        return s, two if one.total and WARP * (one.total - two.total) >= WORTH_A_BASE * s.slots else one


@register
class SellLocal(Format):
    """Slices of 32 rows, columns as 16-bit offsets from a base column of the slice where they fit.

    A slice has one base, or two, for the first and second half of its positions, where one often does not reach:
    columns of a row ascend, so each half spans less. Columns that still differ by 65,535 or more are stored in 32 bits,
    piece by piece: any matrix fits, and all columns are exact. 2 bytes per entry are saved wherever 16 bits suffice, of
    12 in double precision. Storing lower and upper halves of the others separately would leave one loop for all, but
    take three loads per slot: 248 against 256 GFLOPS (uniform:1048576:12, f64, H200).

    Rows keep their order, which keeps the locality of x, unless that pads them by more than a quarter: then they are
    sorted as in `sell-c-sigma`.

    The idea of short local columns is EHYB's, which partitions and reorders the matrix for it and puts each part's x in
    shared memory; this format does not. Staging x in shared memory too was slower on the banded matrix, whose slices
    need the most compact x: 1059 against 1165 GFLOPS (band:1048576:24:2000, f32, H200). `sell-window` does better.

    With `long`, rows of very many entries are stored apart, in pieces for a block each, in the same launch. The last
    block with a piece of a row adds up the sums of all, so that results are reproducible.
    """

    key = "sell-local"
    vectors_together = 4
    family = "ELLPACK"
    reference = "this project; 16-bit columns after Chen, Explicit caching HYB, 2022"
    shared_implementation = "sliced ELLPACK: C=32, sigma and T by rule, 16-bit columns"
    project_kernel = True
    wide_offsets = True

    pieces = Parameter(0, "base columns per slice; 0 takes 2 if a twentieth of the columns need it", choices=(0, 1, 2))

    sigma = Parameter(
        BY_PADDING,
        "rows of a window that is sorted by length; 0: all, 1: none, -1: 256 where more than a fifth of the slots were "
        "padding else",
        low=BY_PADDING,
    )

    long = Parameter(
        NO_LONG,
        "rows that are stored apart: -1: none, 0: of more than 512 entries and 16 times the mean",
        choices=(NO_LONG, 0),
    )

    slice_ptr: Array  # (slices + 1,), int32 or int64: first slot of each slice
    bases: Array  # (slices, pieces), int32: base column; -1 if columns take 32 bits
    column_ptr: Array  # (slices + 1,): 32 half words before each slice's columns; (0,) where all take 16 bits
    columns: Array  # (slots and 32-bit slots,), uint16: column less its base, 65,535 in padding; or halves of an int32
    values: Array  # (slots,); 0 in padding
    perm: Array  # (rows,), int32: row of each place; (0,) where rows keep their order
    row_threads: int  # threads per row
    apart: Array  # (slices,), uint32: bits of the places whose rows are long; (0,) if there are none, as all below
    piece_row: Array  # (pieces,), int32: row of each piece of a long row
    piece_of: Array  # (pieces, 2), int32: the first piece of its row, and how many it has
    piece_begin: Array  # (pieces,): first entry of each piece
    piece_end: Array  # (pieces,): the first one after it
    long_columns: Array  # (entries of long rows,), int32
    long_values: Array  # (entries of long rows,)

    @classmethod
    def estimate(cls, a: Csr, *, pieces: int, sigma: int, long: int, **params: Any) -> int:
        a, rest = long_apart(a, long)
        s, bases = Bases.chosen(a, sigma, pieces)
        columns = 2 * (s.slots + WARP * bases.total) + bases.columns.nbytes + s.ptr.nbytes * (bases.total > 0)
        return s.slots * a.dtype.itemsize + s.nbytes + columns + LongRows.nbytes(rest, len(s.ptr) - 1)

    @classmethod
    def convert(cls, a: Csr, *, pieces: int, sigma: int, long: int, **params: Any) -> dict[str, Any]:
        a, rest = long_apart(a, long)
        xp, run, (s, bases) = a.xp, runner(a), Bases.chosen(a, sigma, pieces)
        column_ptr = bases.column_ptr(s, run)
        columns = xp.empty(s.slots + WARP * bases.total, dtype=np.uint16)
        values = xp.empty(s.slots, dtype=a.dtype)
        if run is None:
            columns[:], values[:] = PADDING, 0
            slot = slots_of(a, s)
            values[slot] = a.values
            base, at = column_places(s.ptr, bases.columns, column_ptr, slot)
            near, wide = base >= 0, base < 0
            columns[at[near]] = (a.col_idx - base)[near]
            columns.view(np.int32)[at[wide]] = a.col_idx[wide]
        else:
            kernel = f"sell_local_fill<{ctype(values)}, {ctype(a.row_ptr)}, {ctype(s.ptr)}, {cbool(len(s.perm) > 0)}>"
            counts = np.int32(a.rows), np.int32(len(s.ptr) - 1), np.int32(bases.columns.shape[1])
            size = *counts, np.bool_(bases.total > 0)
            args = (*size, s.ptr, bases.columns, column_ptr, s.perm, a.row_ptr, a.col_idx, a.values, columns, values)
            run(Launch(CONVERT, kernel, parts(a, s), fill_block(a, s), args))
        return {
            "slice_ptr": s.ptr,
            "bases": bases.columns,
            "column_ptr": column_ptr,
            "columns": columns,
            "values": values,
            "perm": s.perm,
            "row_threads": threads_by_size(a),
            **(LongRows.none(a) if rest is None else LongRows.of(rest, s))._asdict(),
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        slots = xp.arange(len(self.values))
        base, at = column_places(self.slice_ptr, self.bases, self.column_ptr, slots)
        near, wide = base >= 0, base < 0
        offset = self.columns[at[near]]
        column = xp.empty(len(slots), dtype=np.int64)
        column[near] = xp.where(offset == PADDING, -1, base[near] + offset)
        column[wide] = self.columns.view(np.int32)[at[wide]]
        used = xp.flatnonzero(column >= 0)
        kept = Slices.kept(self.shape[0], len(slots), WARP, self.slice_ptr)._replace(perm=self.perm)
        found = kept.row_of(used), column[used].astype(np.int32), self.values[used]
        if not len(self.apart):
            return found
        row = self.piece_row[expand(offsets(self.piece_end - self.piece_begin), len(self.long_values))]
        rest = row, self.long_columns, self.long_values
        rows, columns, values = (xp.concatenate(arrays) for arrays in zip(found, rest, strict=True))
        return rows, columns, values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, threads = self.shape[0], self.row_threads
        block = block_of(threads)
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}"
        flags = f"{cbool(len(self.column_ptr) > 0)}, {cbool(len(self.perm) > 0)}"
        given = f"{types}, {self.bases.shape[1]}, {threads}, {block[0]}, {flags}"
        grid = cdiv(rows, block[0])
        slices = (self.slice_ptr, self.bases, self.column_ptr, self.columns, self.perm, self.values)
        if not len(self.apart):
            return [Launch(SOURCE, f"sell_local_spmv<{given}>", grid, block, (np.uint32(rows), *slices, x, y))]
        xp, count, index = self.xp, len(self.piece_row), self.piece_begin.dtype
        pieces = self.piece_row, self.piece_of, self.piece_begin, self.piece_end
        sizes = np.int32(count), index.type(len(self.long_values))
        rest = Struct((*sizes, self.apart, *pieces, self.long_columns, xp.zeros(count, dtype=np.int32)))
        args = (np.uint32(rows), *slices, rest, self.long_values, xp.empty(count, dtype=y.dtype), x, y)
        kernel = f"sell_local_long<{given}, {ctype(self.piece_begin)}>"
        return [Launch(SOURCE, kernel, count + grid, block, args)]

    @property
    def detail(self) -> dict[str, Any]:
        slots = len(self.values)
        columns = self.bases.nbytes + self.column_ptr.nbytes + self.columns.nbytes
        return {
            "pieces": self.bases.shape[1],
            "sorted": len(self.perm) > 0,
            "narrow_share": 2 - len(self.columns) / max(slots, 1),
            "bytes_saved": 4 * slots - columns,  # against 32-bit columns
            "long_row_entries": len(self.long_values),
        }


def column_places(slice_ptr: Array, bases: Array, column_ptr: Array, slot: Array) -> tuple[Array, Array]:
    """For some slots: the base of their piece, int64, and where their column is.

    That is a place among the half words of `columns`, or, where the base is negative, among its words.
    """
    xp = array_module(slice_ptr)
    slice_ = xp.searchsorted(slice_ptr, slot, side="right") - 1
    begin = slice_ptr[slice_].astype(np.int64)
    position = (slot - begin) // WARP
    half = cdiv((slice_ptr[slice_ + 1] - begin) // WARP, bases.shape[1])
    piece = position // xp.maximum(half, 1)
    base = bases[slice_, piece].astype(np.int64)
    # Units of 32 half words; the second piece is after the first.
    unit = column_ptr[slice_].astype(np.int64) if len(column_ptr) else begin // WARP
    unit += piece * half * (1 + (bases[slice_, 0] < 0))
    inside = (position - piece * half) * WARP + (slot - begin) % WARP
    return base, xp.where(base < 0, WARP // 2, WARP) * unit + inside
