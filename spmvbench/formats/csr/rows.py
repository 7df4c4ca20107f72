"""Compressed sparse rows by a list of rows, and as parts of hybrids."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats import transposed
from spmvbench.formats.arrays import Array, Csr, aligned, cdiv, expand, offsets, on_host, stable_order
from spmvbench.formats.conversion import (
    TAKE_EACH,
    Run,
    filled_rows,
    offsets_upto,
    runner,
    summed,
)
from spmvbench.formats.csr.csr import LANES, CsrArrays, lanes_by_mean
from spmvbench.formats.format import Adding
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter

CONVERT = "csr/rows_convert.cu"


def listed_rows(a: Csr, rows: Array, nnz: int, run: Run) -> dict[str, Any]:
    """The fields of `CsrRows` for some rows, (n,), int32, ascending, that have `nnz` entries; by kernels."""
    xp, index, size = a.xp, ctype(a.row_ptr), np.int32(len(rows))
    args = (size, rows, a.row_ptr)
    ptr, _ = summed(xp, len(rows), CONVERT, f"listed_counts<{index}", args, run, total=nnz)
    col_idx, values = xp.empty(nnz, dtype=np.int32), xp.empty(nnz, dtype=a.dtype)
    given = (size, np.int64(nnz), rows, a.row_ptr, ptr, a.col_idx, a.values, col_idx, values)
    kernel = f"listed_entries<{ctype(values)}, {index}, {ctype(ptr)}>"
    run(Launch(CONVERT, kernel, *per_thread(cdiv(nnz, TAKE_EACH)), given))
    return {"rows": rows, "row_ptr": ptr, "col_idx": col_idx, "values": values}


ALL, LISTED, OWN = (constant("csr/rows.cu", name) for name in ("ALL", "LISTED", "OWN"))  # the rows of a launch


def rows_launch(
    a: CsrArrays, which: int, rows: Array, x: Array, y: Array, lanes: int, step: int, add: bool, block: int = 128
) -> Launch:
    """The launch that sums some rows: ALL, those LISTED in `rows`, or those and row pointers hold their OWN alone.

    threads: that share a row; step: entries that a thread takes at a time. add: y += A x. block: threads, or the
    threads where they are more than a warp.
    """
    places = len(a.row_ptr) - 1 if which == ALL else len(rows)
    kernel = f"csr_rows<{ctype(a.values)}, {ctype(a.row_ptr)}, {lanes}, {step}, {which}, {cbool(add)}>"
    sizes = np.int32(places), a.row_ptr.dtype.type(len(a.values))
    args = (*sizes, rows, a.row_ptr, a.col_idx, a.values, x, y)
    threads = per_thread(places * lanes, lanes if lanes > 32 else block)
    return Launch("csr/rows.cu", kernel, *threads, args, row_lanes=lanes if lanes <= 32 else 0)


class Pieces(NamedTuple):
    """Rows cut into pieces: the entries begin .. end of each, and its row."""

    row: Array  # (pieces,), int32, ascending
    begin: Array  # (pieces,), of row_ptr's type
    end: Array  # (pieces,), likewise

    @classmethod
    def of(cls, a: Csr, rows: Array, size: int, *, even: bool = False) -> Pieces:
        """The rows `rows`, ascending, in pieces of `size` entries, the last of a row with what is left.

        even: no row in more pieces, but all of a row of one size or one less.
        """
        xp, lengths = a.xp, a.row_lengths[rows]
        count = cdiv(lengths, size)
        ptr = offsets(count)
        owner = expand(ptr, int(ptr[-1]))
        rank = xp.arange(len(owner), dtype=np.int64) - ptr[owner]
        if even:
            cuts = (each * lengths[owner] // count[owner] for each in (rank, rank + 1))
        else:
            cuts = (each * size for each in (rank, rank + 1))
        first = a.row_ptr[rows][owner]
        begin, end = (first + xp.minimum(cut, lengths[owner]).astype(first.dtype) for cut in cuts)
        return cls(rows[owner].astype(np.int32), begin, end)

    def launch(self, a: CsrArrays, x: Array, y: Array, lanes: int, step: int) -> Launch:
        """The launch that adds each piece to y, `lanes` threads per piece, `step` entries of a thread at a time."""
        pieces = len(self.row)
        kernel = f"csr_pieces<{ctype(a.values)}, {ctype(a.row_ptr)}, {lanes}, {step}>"
        args = (np.int32(pieces), a.row_ptr.dtype.type(len(a.values)), *self, a.col_idx, a.values, x, y)
        threads = per_thread(pieces * lanes, lanes if lanes > 32 else 128)
        return Launch("csr/rows.cu", kernel, *threads, args, row_lanes=lanes if lanes <= 32 else 0)


class CsrRows(Adding, CsrArrays):
    """CSR of the rows that have entries, with the list of them: a part of a hybrid.

    Where rows are few, row pointers of all would be most of what is stored and read.
    """

    reference = "after Liu, Yu, Chen, Hsieh & Shao, IJNAM-B 3(2), 2012"

    lanes = Parameter(0, "threads per row; 0 chooses them by the mean row length", choices=(0, *LANES))
    step = Parameter(2, "entries that a thread takes at a time", choices=(1, 2))

    rows: Array  # (stored rows,), int32, ascending
    row_ptr: Array  # (stored rows + 1,), int32, or int64 where the entries need it

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        rows = int(a.xp.count_nonzero(a.row_lengths))
        return a.nnz * (4 + a.dtype.itemsize) + 4 * rows + (rows + 1) * a.row_ptr.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        rows, row_ptr = filled_rows(a)
        return {"rows": rows, "row_ptr": row_ptr, "col_idx": aligned(a.col_idx), "values": aligned(a.values)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.rows[expand(self.row_ptr, len(self.values))], self.col_idx, self.values

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        stored = len(self.rows)
        lanes = self.lanes or lanes_by_mean(len(self.values) / max(stored, 1))
        zero = [zero_fill(y)] if stored < len(y) and not add else []
        return [*zero, rows_launch(self, OWN, self.rows, x, y, lanes, self.step, add)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        return [transposed.by_rows(self.row_ptr, self.col_idx, self.values, x, y, self.rows)]


class CsrPieces(CsrArrays):
    """CSR of some rows, cut into even pieces that have threads by their length: a part of a hybrid.

    Pieces are in order of their threads, a launch for each number of threads. All are added by atomics, for a row may
    have several. block: every piece has as many threads, for rows of very many entries.
    """

    reference = "after Matam & Kothapalli, ICPP 2011"

    per_thread = Parameter(8, "entries of a piece for each of its threads", low=1)
    per_warp = Parameter(256, "most entries of a piece", low=1)
    block = Parameter(0, "threads of every piece; 0: by its length, at most a warp", choices=(0, 128))

    row_ptr: Array  # (0,): pieces have their own
    piece_row: Array  # (pieces,), int32
    piece_begin: Array  # (pieces,), of row_ptr's type: the first entry
    piece_end: Array  # (pieces,), likewise: the first entry after
    piece_lanes: Array  # (pieces,), uint8, ascending
    shares: tuple[int, ...]  # where the pieces of 1, 2, 4 .. 32 threads begin, and the end

    @classmethod
    def estimate(cls, a: Csr, *, per_warp: int, **params: Any) -> int:
        pieces = int(cdiv(a.row_lengths, per_warp).sum())
        return a.nnz * (4 + a.dtype.itemsize) + pieces * (5 + 2 * a.row_ptr.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, per_thread: int, per_warp: int, block: int) -> dict[str, Any]:
        if (run := runner(a)) is not None:
            return cls._by_kernels(a, per_thread, per_warp, block, run)
        xp = a.xp
        pieces = Pieces.of(a, filled_rows(a)[0], per_warp, even=True)
        lanes = xp.asarray((block,) if block else LANES, dtype=np.int64)
        kind = xp.minimum(xp.searchsorted(lanes, cdiv(pieces.end - pieces.begin, per_thread)), len(lanes) - 1)
        order = stable_order(kind, len(lanes))
        firsts = xp.searchsorted(kind[order], xp.arange(len(lanes) + 1))
        return {
            "row_ptr": a.row_ptr[:0],
            "col_idx": aligned(a.col_idx),
            "values": aligned(a.values),
            **{f"piece_{name}": array[order] for name, array in pieces._asdict().items()},
            "piece_lanes": lanes[kind[order]].astype(np.uint8),
            "shares": tuple(on_host(firsts).tolist()),
        }

    @classmethod
    def _by_kernels(cls, a: Csr, each: int, most: int, block: int, run: Run) -> dict[str, Any]:
        """As `convert`, by kernels and two waits. each, most: `per_thread` and `per_warp`."""
        xp, index, rows, kinds = a.xp, ctype(a.row_ptr), np.int32(a.rows), 1 if block else len(LANES)
        counted = (rows, np.int32(most), a.row_ptr)
        ptr, (*_, total) = summed(xp, a.rows, CONVERT, f"pieces_count<{index}", counted, run)
        cut = [xp.empty(total, dtype=dtype) for dtype in (np.int32, a.row_ptr.dtype, a.row_ptr.dtype)]
        flags = xp.empty(kinds * total, dtype=np.int32)
        args: tuple[Any, ...] = (rows, *map(np.int32, (total, each, kinds)), a.row_ptr, ptr, *cut, flags)
        run(Launch(CONVERT, f"pieces_cut<{index}, {ctype(ptr)}>", *per_thread(total), args))
        places = offsets_upto(flags, total, run)
        found, lanes = [xp.empty_like(array) for array in cut], xp.empty(total, dtype=np.uint8)
        args = (*map(np.int32, (total, kinds, block)), places, *cut, *found, lanes)
        run(Launch(CONVERT, f"pieces_place<{index}, {ctype(places)}>", *per_thread(total), args))
        shares = on_host(places[::total]).tolist() if total else [0] * (kinds + 1)
        fields = {"row_ptr": a.row_ptr[:0], "col_idx": aligned(a.col_idx), "values": aligned(a.values)}
        pieces = dict(zip(("piece_row", "piece_begin", "piece_end"), found, strict=True))
        return {**fields, **pieces, "piece_lanes": lanes, "shares": tuple(shares)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        rows, begins = self._in_order()
        return rows[expand(begins, len(self.values))], self.col_idx, self.values

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        pieces = Pieces(self.piece_row, self.piece_begin, self.piece_end)
        kinds, step = ((self.block,), 2) if self.block else (LANES, 1)
        return [
            Pieces(*(array[begin:end] for array in pieces)).launch(self, x, y, lanes, step)
            for lanes, (begin, end) in zip(kinds, pairwise(self.shares), strict=True)
            if begin < end
        ]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), *self.accumulate(x, y)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        rows, begins = self._in_order()
        return [transposed.by_rows(begins, self.col_idx, self.values, x, y, rows)]

    def _in_order(self) -> tuple[Array, Array]:
        """The rows of the pieces as their entries are stored, (pieces,), and where they begin, with the end."""
        order = self.xp.argsort(self.piece_begin)
        begins = self.xp.append(self.piece_begin[order], self.piece_begin.dtype.type(len(self.values)))
        return self.piece_row[order], begins
