"""Sliced ELLPACK with 16-bit columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import INT32_MAX, Array, Csr, array_module, cdiv, offsets, round_up
from spmvbench.formats.base import Format, Launch, Parameter, ctype, register
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.sell import block_of, threads_by_size
from spmvbench.formats.sell_convert import BLOCK, WARP, Slices, slots_of, sorted_rows, text

PADDING = 0xFFFF  # among 16-bit columns; a piece's columns lie less than this apart
BY_PADDING = -1  # for sigma
SPARE_SLOTS = 1.25  # slots an entry in the rows' own order, up to which sigma -1 keeps it
WINDOW = 256  # that sigma -1 sorts else


def slices_of(a: Csr, sigma: int) -> Slices:
    """Slices of 32 rows, the rows sorted within windows of `sigma`; -1 is for the class to say."""
    natural = Slices.of(a, WARP, runner(a))
    if sigma == BY_PADDING:
        sigma = 1 if natural.slots <= SPARE_SLOTS * a.nnz else WINDOW
    perm = sorted_rows(a, sigma)
    return natural if perm is None else Slices.of(a, WARP, runner(a), perm=perm)


class Bases(NamedTuple):
    """How the columns of every slice are stored, its positions in `pieces` parts of the same number."""

    pieces: int
    columns: Array  # (slices, pieces), int32: the lowest column; -1 where columns lie too far apart
    wide: Array  # (slices, pieces), int32: positions with upper halves
    total: int  # of them

    @classmethod
    def of(cls, a: Csr, s: Slices, pieces: int, run: Run | None) -> Bases:
        """For slices of 32 rows, in their order or sorted."""
        xp, slices, ordered = a.xp, len(s.ptr) - 1, len(s.perm) > 0
        if run is not None:
            columns, wide = (xp.empty((slices, pieces), dtype=np.int32) for _ in range(2))
            total = xp.zeros(1, dtype=np.uint64)
            kernel = f"sell_local_bases<{ctype(a.row_ptr)}, {pieces}, {text(ordered)}>"
            args = (np.int32(a.rows), np.int32(slices), s.perm, a.row_ptr, a.col_idx, columns, wide, total)
            run(Launch("sell_convert.cu", kernel, cdiv(slices * WARP, BLOCK), BLOCK, args))
            return cls(pieces, columns, wide, int(total[0]))
        begin, length = (np.zeros(round_up(a.rows, WARP), dtype=np.int64) for _ in range(2))
        order = s.perm if ordered else slice(None)
        begin[: a.rows], length[: a.rows] = a.row_ptr[:-1][order], a.row_lengths[order]
        begin, length = begin.reshape(-1, WARP), length.reshape(-1, WARP)
        width = length.max(axis=1, initial=0)
        half = cdiv(width, pieces)
        columns, wide = (np.zeros((slices, pieces), dtype=np.int32) for _ in range(2))
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
        return cls(pieces, columns, wide, int(wide.sum()))

    @classmethod
    def chosen(cls, a: Csr, s: Slices, pieces: int) -> Bases:
        """With `pieces`; for 0 with one, or with two where that leaves fewer columns wide."""
        run = runner(a)
        one = cls.of(a, s, pieces or 1, run)
        if pieces or not one.total:
            return one
        two = cls.of(a, s, 2, run)
        return two if two.total < one.total else one


@register
class SellLocal(Format):
    """Slices of 32 rows, columns as 16-bit offsets from a base column of the slice where they fit.

    A slice has one base, or two, for the first and second half of its positions, where one does not reach: columns of
    a row ascend, so each half spans less. Columns that still lie 65,535 or more apart are stored in 32 bits, upper
    halves in an array of their own, piece by piece: any matrix fits, and none loses a bit. 2 bytes an entry are saved
    wherever 16 bits suffice, of 12 in double precision.

    Rows keep their order, and with it what they share of x, unless that pads them by more than a quarter: then they are
    sorted as in `sell-c-sigma`.

    The idea of short local columns is EHYB's, which partitions and reorders the matrix for it and puts each part's x in
    shared memory; here none does. Staging x too was tried on the banded matrix, whose slices have the compactest x,
    and lost: 1059 against 1165 GFLOPS (band:1048576:24:2000, f32, H200); the L1 cache does as well.
    """

    key = "sell-local"
    family = "ELLPACK"
    reference = "this project; 16-bit columns after Chen, Explicit caching HYB, 2022"
    core = "sliced ELLPACK: C=32, sigma and T by rule, 16-bit columns"
    sources = ("sell_local.cu", "sell_convert.cu")

    pieces = Parameter(
        0, "base columns of a slice; 0 takes 2 where that leaves fewer 32-bit columns", choices=(0, 1, 2)
    )

    sigma = Parameter(
        BY_PADDING,
        "rows of a window that is sorted by length; 0: all, 1: none, -1: 256 where more than a fifth of the slots were "
        "padding else",
        low=BY_PADDING,
    )

    slice_ptr: Array  # (slices + 1,), int32 or int64: first slot of each slice
    bases: Array  # (slices, pieces), int32: base column; ~i where columns take 32 bits, upper halves from 32 i on
    low: Array  # (slots,), uint16: column less its base, 65,535 in padding; or the lower half of the column
    high: Array  # (32-bit slots,), uint16: upper half of the column, 65,535 in padding
    values: Array  # (slots,); 0 in padding
    perm: Array  # (rows,), int32: row of each place; (0,) where rows keep their order
    row_threads: int  # threads that share a row

    @classmethod
    def estimate(cls, a: Csr, *, pieces: int, sigma: int, **params: Any) -> int:
        s = slices_of(a, sigma)
        bases = Bases.chosen(a, s, pieces)
        return s.slots * (2 + a.dtype.itemsize) + s.nbytes + bases.columns.nbytes + bases.total * WARP * 2

    @classmethod
    def convert(cls, a: Csr, *, pieces: int, sigma: int, **params: Any) -> dict[str, Any]:
        xp, run, s = a.xp, runner(a), slices_of(a, sigma)
        chosen = Bases.chosen(a, s, pieces)
        bases = chosen.columns
        if chosen.total:
            begins = offsets(chosen.wide.reshape(-1))[:-1].reshape(bases.shape)
            bases = xp.where(bases < 0, ~begins, bases).astype(np.int32)
        low = xp.empty(s.slots, dtype=np.uint16)
        high = xp.empty(chosen.total * WARP, dtype=np.uint16)
        values = xp.empty(s.slots, dtype=a.dtype)
        if run is None:
            low[:], high[:], values[:] = PADDING, PADDING, 0
            slot = slots_of(a, s)
            values[slot] = a.values
            base, upper = column_places(s.ptr, bases, slot)
            low[slot] = np.where(base < 0, a.col_idx & PADDING, a.col_idx - base)
            high[upper[base < 0]] = a.col_idx[base < 0] >> 16
        else:
            kernel = f"sell_local_fill<{ctype(values)}, {ctype(a.row_ptr)}, {ctype(s.ptr)}, {text(len(s.perm) > 0)}>"
            size = np.int32(a.rows), np.int32(chosen.pieces)
            args = (*size, s.ptr, bases, s.perm, a.row_ptr, a.col_idx, a.values, low, high, values)
            run(Launch("sell_convert.cu", kernel, len(s.ptr) - 1, BLOCK, args))
        columns = {"bases": bases, "low": low, "high": high}
        return {"slice_ptr": s.ptr, **columns, "values": values, "perm": s.perm, "row_threads": threads_by_size(a)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        slots = xp.arange(len(self.low))
        base, upper = column_places(self.slice_ptr, self.bases, slots)
        column = self.low + base
        column[self.low == PADDING] = -1
        wide = base < 0
        column[wide] = (self.high[upper[wide]].astype(np.int32) << 16) | self.low[wide]
        used = xp.flatnonzero(column >= 0)
        kept = Slices.kept(self.shape[0], len(slots), WARP, self.slice_ptr)._replace(perm=self.perm)
        return kept.row_of(used), column[used].astype(np.int32), self.values[used]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, threads = self.shape[0], self.row_threads
        block = block_of(threads)
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}"
        flags = f"{text(len(self.high) > 0)}, {text(len(self.perm) > 0)}"
        kernel = f"sell_local_spmv<{types}, {self.bases.shape[1]}, {threads}, {block[0]}, {flags}>"
        args = (np.uint32(rows), self.slice_ptr, self.bases, self.perm, self.low, self.high, self.values, x, y)
        return [Launch("sell_local.cu", kernel, cdiv(rows, block[0]), block, args)]

    @property
    def detail(self) -> dict[str, Any]:
        columns = self.bases.nbytes + self.low.nbytes + self.high.nbytes
        return {
            "pieces": self.bases.shape[1],
            "sorted": len(self.perm) > 0,
            "narrow_share": 1 - len(self.high) / max(len(self.low), 1),
            "bytes_saved": 4 * len(self.low) - columns,  # against 32-bit columns
        }


def column_places(slice_ptr: Array, bases: Array, slot: Array) -> tuple[Array, Array]:
    """For some slots: the base of their piece, int64, and, where it is negative, the place of their upper half."""
    slice_ = array_module(slice_ptr).searchsorted(slice_ptr, slot, side="right") - 1
    begin = slice_ptr[slice_]
    position = (slot - begin) // WARP
    half = cdiv((slice_ptr[slice_ + 1] - begin) // WARP, bases.shape[1])
    piece = position // half
    base = bases[slice_, piece].astype(np.int64)
    return base, (~base + position - piece * half) * WARP + (slot - begin) % WARP
