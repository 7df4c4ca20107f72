"""Coordinates: a row, a column and a value for each entry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, aligned, cdiv, index_dtype, round_up
from spmvbench.formats.carries import fix_up
from spmvbench.formats.conversion import device_limits, rows_of
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, Step, after_zeros, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.multivector import LOADED, VECTORS, sharing
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

RUNS = (64, 32, 16, 8)  # entries of a thread that multiplies several vectors: the most that leave BUSY threads
BUSY = 45_000  # threads from which on an H200 more were not faster: more add more parts of rows
FEW = 2  # entries of a thread, if RUNS leave fewer and one loads a row of X at once: then warps add up their runs
WIDE_ROW = 256  # bytes of a row of X from which on a thread takes 32 bytes of it instead of 16


class Coo(Format):
    """COO sorted by row and column: 16 bytes per entry in double precision."""

    family = "COO"
    reference = "Bell & Garland, NVR-2008-004"
    survey_name = "COO"

    row_idx: Array  # (nnz,), int32
    col_idx: Array  # (nnz,), int32
    values: Array  # (nnz,)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nnz * (8 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        return {"row_idx": rows_of(a), "col_idx": aligned(a.col_idx), "values": aligned(a.values)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.row_idx, self.col_idx, self.values

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        return [self.by_entry(self.col_idx, self.row_idx, x, y)]

    def by_entry(self, row_idx: Array, col_idx: Array, x: Array, y: Array) -> Launch:
        """The launch that adds every product to y by an atomic, for these rows and columns of the entries."""
        kernel = f"coo_atomic<{ctype(self.values)}, {ctype(self._nnz)}>"
        args = (self._nnz, row_idx, col_idx, self.values, x, y)
        return Launch("coo/coo.cu", kernel, *per_thread(len(self.values)), args, row_lanes=1)

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        return [zero_fill(y), *self.accumulate(x, y)]

    @property
    def _nnz(self) -> np.integer:
        """The number of entries in the type that counts them in the kernels."""
        nnz: np.integer = index_dtype(len(self.values)).type(len(self.values))
        return nnz


@register
class CooAtomic(Coo):
    """COO, one thread per entry; products are added to y by atomics. Sums are not reproducible."""

    key = "coo-atomic"

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        return [self.by_entry(self.row_idx, self.col_idx, x, y)]


@register
class CooFlat(Coo):
    """COO, equal shares of entries per warp; runs of one row are summed, and a second kernel adds parts of cut rows.

    kernel=paper: a thread takes one entry at a time, as the report's. fast: 8 neighbouring ones; with lines=true those
    of a batch that is within one row are loaded side by side and without their rows. The last batch is masked (CUSP
    finishes it with one thread). Sums are reproducible. Of several vectors, kernel=fast gives a thread 8 to 64 entries,
    or 2 in warps that sum their runs if the threads would be few, and adds parts of cut rows by atomics.
    """

    key = "coo-flat"

    kernel = Parameter("fast", "paper: one entry per thread; fast: 8", choices=("fast", "paper"))
    lines = Parameter(False, "batches within one row are loaded side by side, without their rows (kernel=fast)")
    warps = Parameter(
        0,
        "most warps, each with an equal share of the entries; 0: 16 per multiprocessor",
        low=0,
        high=2**20,
    )

    most_warps: int  # in use

    @classmethod
    def convert(cls, a: Csr, *, warps: int, **params: Any) -> dict[str, Any]:
        # Two blocks per multiprocessor: as many as registers hold, and few enough for the fix-up by one block.
        return super().convert(a) | {"most_warps": warps or 16 * device_limits(a).multiprocessors}

    @property
    def _in_lines(self) -> bool:
        """Whether rows of batches within one are not read."""
        return self.lines and self.kernel == "fast"

    @property
    def bytes_read(self) -> int:
        return self.nbytes - (self.row_idx.nbytes if self._in_lines else 0)

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        if self.kernel == "paper":
            return super().multiplied(x, y, k, layout)
        wide = k * x.dtype.itemsize >= WIDE_ROW
        return self.by_vectors(partial(self._runs, row_bytes=32 if wide else 16), x, y, k, layout)

    def _runs(self, x: Array, y: Array, row_bytes: int) -> list[Launch]:
        nnz, beside = len(self.values), sharing(x.dtype.itemsize)
        if VECTORS.get() * x.dtype.itemsize <= LOADED and nnz < RUNS[-1] * BUSY:
            return after_zeros(zero_fill(y), self._flat(x, y, FEW, 32 * FEW, 128))
        run = next(run for run in RUNS if nnz * beside >= run * BUSY or run == RUNS[-1])
        kernel = f"coo_runs<{ctype(self.values)}, {ctype(self._nnz)}, {run}>"
        args = (self._nnz, self.row_idx, self.col_idx, self.values, x, y)
        threads = per_thread(cdiv(nnz, run))
        product = Launch("coo/coo.cu", kernel, *threads, args, row_lanes=1, row_bytes=row_bytes)
        return after_zeros(zero_fill(y), product)

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        # Entries of a thread: on an H200 4 to 8 are alike in double precision, 8 is the fastest in single.
        entries = 1 if self.kernel == "paper" else 8
        interval = round_up(cdiv(len(self.values), self.most_warps), 32 * entries)
        warps = cdiv(len(self.values), max(interval, 1))
        carry_row = self.xp.empty(warps, dtype=np.int32)
        carry_sum = self.xp.empty(warps, dtype=y.dtype)
        product = self._flat(x, y, entries, interval, 256, carry_row, carry_sum)
        return [product, fix_up("coo/coo.cu", carry_row, carry_sum, y)]

    def _flat(self, x: Array, y: Array, entries: int, interval: int, block: int, *carries: Array) -> Launch:
        """The launch of a warp for every `interval` entries; its open sum goes to `carries`, or to y by an atomic."""
        kinds = f"{ctype(self.values)}, {ctype(self._nnz)}, {entries}, {cbool(self._in_lines)}"
        carry_row, carry_sum = carries or (self.xp.empty(0, dtype=np.int32), self.xp.empty(0, dtype=y.dtype))
        matrix = self._nnz, np.int32(interval), self.row_idx, self.col_idx, self.values
        warps = cdiv(len(self.values), max(interval, 1))
        return Launch(
            "coo/coo.cu",
            f"coo_flat<{kinds}{'' if carries else ', false'}>",
            *(cdiv(warps * 32, block), block, (*matrix, x, y, carry_row, carry_sum)),
        )
