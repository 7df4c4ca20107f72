"""SCOO: coordinates in slices of rows whose y is in shared memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, offsets, on_host, stable_order
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "cache_blocking/windows.cu"
THREADS = constant(SOURCE, "SCOO_THREADS")  # of a block
BATCH = constant(SOURCE, "SCOO_BATCH")  # entries of a thread at a time
RESIDENT = constant(SOURCE, "SCOO_RESIDENT")  # blocks of a multiprocessor at once
# Times as many slices as run at once, where slices of one round would not be even. On an H200, in double precision,
# rmat:20:16 has 201 GFLOPS with 4, 106 with 2 and 66 with 1; denserow:1000000 has 206, 261 and 270.
ROUNDS = 4


class Slices(NamedTuple):
    """Where a matrix is cut; on the host, all (slices,) but for the ends."""

    first_row: np.ndarray  # (slices + 1,), int32; the next slice's is the same where a row goes on there
    first_entry: np.ndarray  # (slices + 1,), int64, in the order of rows
    copies: np.ndarray  # int32

    @classmethod
    def of(cls, a: Csr, room: int, copies: int) -> Slices:
        """Slices of at most `room` values of y, with `copies` of each; 0: as many as there is room for."""
        rows_most = room // max(copies, 1)
        at_once = RESIDENT * device_limits(a).multiprocessors
        one_round = max(cdiv(2 * a.rows, at_once * rows_most), 1) * at_once
        number = max(min(one_round, cdiv(a.nnz, THREADS * BATCH)), cdiv(2 * a.rows, rows_most), 1)
        found = cls._even(a, rows_most, number)
        if len(found[0]) > number + 1 or np.diff(found[1]).max(initial=0) * number > 1.25 * a.nnz:
            found = cls._even(a, rows_most, max(min(ROUNDS * number, cdiv(a.nnz, THREADS * BATCH)), number))
        first_row, first_entry = found
        height = np.maximum(np.diff(first_row), 1)
        by_room = 2 ** np.minimum(np.log2(room // height).astype(np.int32), THREADS.bit_length() - 1)
        return cls(first_row, first_entry, np.where(copies, copies, by_room).astype(np.int32))

    @staticmethod
    def _even(a: Csr, rows_most: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """First rows and first entries of about `number` slices.

        Each has its share of a path through the matrix on which a row takes as much as keeps every share to
        `rows_most` rows, and entries the rest. Rows longer than half a share are in slices of their own, several
        where they are longer than a share.
        """
        xp = a.xp
        of_entry, of_row = number * rows_most - a.rows, max(a.nnz, 1)  # on the path; a share is rows_most rows long
        share = max(of_row * rows_most // of_entry, THREADS * BATCH)  # entries
        path = xp.arange(a.rows, dtype=np.int64) * of_row + a.row_ptr[:-1].astype(np.int64) * of_entry
        cuts = on_host(xp.searchsorted(path, xp.arange(number, dtype=np.int64) * (of_row * rows_most)))
        long = on_host(xp.flatnonzero(a.row_lengths > share // 2))
        starts = np.unique(np.concatenate([cuts, long, long + 1]))
        starts = starts[starts < a.rows]
        ends = on_host(a.row_ptr[xp.asarray(np.append(starts, a.rows))]).astype(np.int64)
        pieces = np.maximum(np.where(np.isin(starts, long), cdiv(np.diff(ends), share), 1), 1)
        ptr = offsets(pieces)
        owner = expand(ptr, int(ptr[-1]))
        first_entry = ends[owner] + (np.arange(len(owner)) - ptr[owner]) * share
        return np.append(starts[owner], a.rows).astype(np.int32), np.append(first_entry, a.nnz)


@register
class Scoo(Format):
    """Slices of rows, one thread block each, entries sorted by column; products are added to y in shared memory.

    Several copies of a slice's y let threads add to a row at once: as many as have room, which is one for each thread
    where a slice has few rows. The authors choose the copies for one region of rows after the other, from the lengths
    there, and sort rows where lengths differ much. Here slices that are even in rows and entries have few rows where
    rows are long, a row that is longer than a slice is in several, which add it to y, and rows keep their order: our
    reading. Slices are as many as run at once, three per multiprocessor, or a multiple of that. Sums are not
    reproducible.
    """

    key = "scoo"
    vectors_together = 4
    family = "COO"
    survey_name = "SCOO"
    reference = "Dang & Schmidt, ICCS 2012; Parallel Computing 2013"

    copies = Parameter(0, "copies of y; 0: by the rule", choices=(0, 1, 2, 4, 8, 16, 32))
    shared_bytes = Parameter(
        49152, "shared memory of a block in bytes; the default is what every GPU has", low=1024, high=49152
    )

    slice_row: Array  # (slices + 1,), int32: first row of each; the next one's is the same where a row goes on there
    slice_ptr: Array  # (slices + 1,), of the row pointers' type: first entry of each
    slice_copies: Array  # (slices,), int32: copies of y
    row_idx: Array  # (nnz,), uint16: row in the slice
    col_idx: Array  # (nnz,), int32
    values: Array  # (nnz,)
    window: int  # values of y in shared memory

    @classmethod
    def _slices(cls, a: Csr, copies: int, shared_bytes: int) -> Slices:
        return Slices.of(a, shared_bytes // a.vector_dtype.itemsize, copies)

    @classmethod
    def estimate(cls, a: Csr, *, copies: int, shared_bytes: int) -> int:
        slices = len(cls._slices(a, copies, shared_bytes).copies)
        return (slices + 1) * (4 + a.row_ptr.itemsize) + 4 * slices + a.nnz * (6 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, copies: int, shared_bytes: int) -> dict[str, Any]:
        xp, found = a.xp, cls._slices(a, copies, shared_bytes)
        slice_row, slice_ptr = xp.asarray(found.first_row), xp.asarray(found.first_entry.astype(a.row_ptr.dtype))
        slices = len(found.copies)
        slice_ = expand(slice_ptr, a.nnz)
        order = stable_order(slice_.astype(np.int64) * max(a.cols, 1) + a.col_idx, max(slices * a.cols, 1))
        return {
            "slice_row": slice_row,
            "slice_ptr": slice_ptr,
            "slice_copies": xp.asarray(found.copies),
            "row_idx": (a.row_idx - slice_row[slice_])[order].astype(np.uint16),
            "col_idx": a.col_idx[order],
            "values": a.values[order],
            "window": int((np.maximum(np.diff(found.first_row), 1) * found.copies).max(initial=0)),
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        slice_ = expand(self.slice_ptr, len(self.values))
        return self.slice_row[slice_] + self.row_idx, self.col_idx, self.values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        kernel = f"scoo<{ctype(self.values)}, {ctype(self.slice_ptr)}>"
        args = (self.slice_row, self.slice_ptr, self.slice_copies, self.row_idx, self.col_idx, self.values, x, y)
        window = self.window * y.dtype.itemsize
        slices = Launch("cache_blocking/windows.cu", kernel, len(self.slice_copies), THREADS, args, window)
        return [zero_fill(y), slices] if self.rows_cut else [slices]

    @property
    def rows_cut(self) -> int:
        """Rows that are in several slices."""
        goes_on = on_host(self.slice_row[1:] == self.slice_row[:-1])
        return len(np.unique(on_host(self.slice_row)[1:][goes_on]))

    @property
    def detail(self) -> dict[str, Any]:
        height, copies = np.maximum(np.diff(on_host(self.slice_row)), 1), on_host(self.slice_copies)
        return {
            "slices": len(copies),
            "rows_of_slice": int(height.max(initial=0)),
            "copies": int(copies.min(initial=THREADS)),
            "rows_cut": self.rows_cut,
        }
