"""Jagged diagonals: the first entries of all rows, then the second ones, rows in order of length."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, expand, index_dtype, inverse, longest_first, offsets, round_up
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register


def slot_dtype(nnz: int, diagonals: int, br: int) -> np.dtype:
    """The type of diag_ptr: int32 where the most slots that there could be fit."""
    return index_dtype(nnz + (br - 1) * diagonals)


def diagonal_sizes(a: Csr, br: int) -> Array:
    """Slots of each jagged diagonal, (row_len_max,): the rows that reach it, rounded up to a multiple of br."""
    position = a.xp.arange(a.row_len_max, dtype=a.row_ptr.dtype)
    short = a.xp.searchsorted(a.xp.sort(a.row_lengths), position, side="right")
    return round_up(a.rows - short, br)


def by_kernels(a: Csr, br: int, run: Run) -> dict[str, Any]:
    """The fields of `Jad` by kernels of this project, for nnz > 0. run: runs a launch on the arrays of `a`.

    As array operations they are three times as many launches, and passes over all entries for the slot of each.
    """
    xp, rows, index = a.xp, np.int32(a.rows), ctype(a.row_ptr)

    def launch(kernel: str, threads: tuple[int, int], *args: Any) -> None:
        run(Launch("ellpack/jad_convert.cu", kernel, *threads, args))

    keys = xp.empty(a.rows, dtype=np.int64)
    launch(f"jad_keys<{index}>", per_thread(a.rows), rows, a.row_ptr, keys)
    keys.sort()
    diagonals = 2**31 - 1 - (int(keys[0]) >> 32)
    slot = slot_dtype(a.nnz, diagonals, br)
    perm = xp.empty(a.rows, dtype=np.int32)
    sizes = xp.empty(diagonals + 1, dtype=slot)
    launch(f"jad_sizes<{ctype(slot)}>", per_thread(a.rows), rows, np.int32(br), keys, perm, sizes)
    diag_ptr = xp.cumsum(sizes, dtype=slot)
    slots = a.nnz if br == 1 else int(diag_ptr[-1])
    columns, values = xp.empty(slots, dtype=np.int32), xp.empty(slots, dtype=a.dtype)
    entries = rows, np.int32(diagonals), a.row_ptr, a.col_idx, a.values, perm, diag_ptr, columns, values
    launch(f"jad_fill<{ctype(values)}, {index}, {ctype(slot)}>", per_thread(round_up(a.rows, br)), *entries)
    return {"perm": perm, "diag_ptr": diag_ptr, "columns": columns, "values": values}


@register
class Jad(Format):
    """Rows sorted by length; the first entries of all rows are stored, then the second entries, and so on.

    A jagged diagonal is what is at one position of every row that has one: as long as there are such rows, so that
    nothing is padded, or rounded up to a multiple of br, so that each begins on a boundary of memory. One thread per
    row, which stores y at the row's own place. Any matrix fits, but one thread reads the longest row alone. Padding
    holds the column -1, which the kernel tests.
    """

    key = "jad"
    family = "JAD"
    survey_name = "JAD optimization"
    reference = "Li & Saad, J. Supercomputing 2013"
    shared_implementation = "jagged diagonals: br=1"

    br = Parameter(1, "jagged diagonals are padded to a multiple of this many slots", choices=(1, 16, 32))

    perm: Array  # (rows,), int32: the rows, the longest first, equal ones in order
    diag_ptr: Array  # (longest row + 1,), int32, or int64 where the slots need it: where each jagged diagonal begins
    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,)

    @classmethod
    def estimate(cls, a: Csr, *, br: int, **params: Any) -> int:
        sizes = diagonal_sizes(a, br)
        diag_ptr = (len(sizes) + 1) * slot_dtype(a.nnz, a.row_len_max, br).itemsize
        return 4 * a.rows + diag_ptr + int(sizes.sum()) * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, br: int, **params: Any) -> dict[str, Any]:
        if a.nnz and (run := runner(a)):
            return by_kernels(a, br, run)
        xp = a.xp
        perm = longest_first(a.row_lengths, a.row_len_max).astype(np.int32)
        diag_ptr = offsets(diagonal_sizes(a, br)).astype(slot_dtype(a.nnz, a.row_len_max, br))
        slots = int(diag_ptr[-1])
        slot = diag_ptr[a.rank_in_row] + inverse(perm)[a.row_idx]
        columns = xp.full(slots, -1, dtype=np.int32)
        values = xp.zeros(slots, dtype=a.dtype)
        columns[slot] = a.col_idx
        values[slot] = a.values
        return {"perm": perm, "diag_ptr": diag_ptr, "columns": columns, "values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.columns >= 0)
        place = slot - self.diag_ptr[expand(self.diag_ptr, len(self.columns))[slot]]
        return self.perm[place], self.columns[slot], self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [self._launch((), x, y)]

    def _launch(self, lengths: tuple[Array, ...], x: Array, y: Array) -> Launch:
        rows, diagonals = self.shape[0], len(self.diag_ptr) - 1
        kernel = f"{'pjds' if lengths else 'jad'}_spmv<{ctype(self.values)}, {ctype(self.diag_ptr)}>"
        arrays = self.diag_ptr, *lengths, self.perm, self.columns, self.values, x, y
        args = np.int32(rows), np.int32(diagonals), *arrays
        return Launch("ellpack/jad.cu", kernel, *per_thread(rows, 128), args, row_lanes=1)


@register
class JdsEnhanced(Jad):
    """JAD with every jagged diagonal padded to a multiple of 16 slots, so that loads are aligned.

    Made for the GPUs of 2008, which loaded by half warps; br=32 is the boundary of today's. Rows are sorted and x is
    read through a cache, as in the paper. The alignment of diagonals, the number 16 and one thread per row are our
    reading of the survey's sentence.
    """

    key = "jds-enh"
    survey_name = "Enhanced JDS"
    reference = "Cevahir, Nukada & Matsuoka, ICCS 2009"
    shared_implementation = "jagged diagonals: br=16"
    br = Jad.br.defaulting(16)


@register
class Pjds(Jad):
    """JAD with every jagged diagonal padded to a multiple of 32 slots, and with row lengths.

    In other words ELLPACK-R, rows sorted, every 32 of them padded to their longest. As many slots as sliced ELLPACK
    with slices of 32 sorted rows has.
    """

    key = "pjds"
    survey_name = "pJDS"
    reference = "Kreutzer et al., IPDPSW 2012"
    shared_implementation = "jagged diagonals: br=32, row lengths"
    br = Jad.br.defaulting(32)

    lengths: Array  # (rows,), int32: entries of each row, in the order of perm

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return super().estimate(a, **params) + 4 * a.rows

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        found = super().convert(a, **params)
        return found | {"lengths": a.row_lengths[found["perm"]].astype(np.int32)}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [self._launch((self.lengths,), x, y)]
