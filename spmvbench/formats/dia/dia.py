"""Diagonals, of all rows or of slices of 32 rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmvbench.formats import transposed
from spmvbench.formats.arrays import (
    Array,
    ArrayModule,
    Csr,
    cdiv,
    expand,
    nonzero_mask,
    nothing,
    put,
    round_up,
    run_starts,
    tabled,
)
from spmvbench.formats.conversion import (
    OFFSETS_BLOCK,
    Run,
    noted,
    notes,
    numbers,
    offsets_upto,
    private_share,
    refuse_more_than_memory,
    runner,
    stays_in_cache,
    stays_in_part,
    summed,
    summing,
    zeros,
)
from spmvbench.formats.conversion import offsets as offsets_by
from spmvbench.formats.format import Adding
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Step, cbool, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

HACK = 32  # rows of a hack: a warp
BLOCK, FEW_BLOCK = (constant("dia/dia.cu", name) for name in ("BLOCK", "FEW_BLOCK"))  # threads
FEW = 8  # diagonals, of which all loads of a row are in flight together
CONVERT = "dia/dia_convert.cu"
SIDE = constant("include/side_by_side.cuh", "SIDE")  # entries of a row that a warp reads at once
SHARE, PIECE = constant(CONVERT, "SHARE"), constant(CONVERT, "PIECE")  # entries of a block, and of a part of a hack
TAKE_BLOCK, SIZES_BLOCK, REST_BLOCK, HDI_BLOCK = (
    constant(CONVERT, f"{name}_BLOCK") for name in ("TAKE", "SIZES", "REST", "HDI")
)
MOST = constant(CONVERT, "MOST")  # rows and columns of a block
TAKE_BLOCKS = 4096  # that fill a GPU
FEW_ENTRIES = 2**20  # with which parts that are none take less time than a wait for their number
NEVER = 2.0  # a fill that no diagonal has
ROOM = 2**17  # diagonals that an array may have room for, more than there are


def diagonal_keys(a: Csr, hack: int) -> Array:
    """The diagonal of each entry, (nnz,) int64: in order of hacks of `hack` rows, in a hack of col - row.

    A key is hack * (rows + cols) + col - row + rows - 1.
    """
    return (a.row_idx // hack).astype(np.int64) * sum(a.shape) + (a.col_idx - a.row_idx).astype(np.int64) + (a.rows - 1)


def hack_keys(a: Csr) -> Array:
    """The keys of the diagonals that hold an entry, hack by hack, (diagonals,) int64, ascending."""
    keys = a.xp.sort(diagonal_keys(a, HACK), kind="stable")  # rows are in order already: runs to be merged
    return keys[run_starts(keys)]


def _table(a: Csr, run: Run, kernel: str = "dia_sizes", *given: Any) -> Array:
    """What a kernel, which takes `given` last, finds about every diagonal, by col - row + rows - 1: its entries."""
    held = zeros(a.xp, a.rows + a.cols - 1, np.int32)
    parts = min(1 << (max(int(a.row_len_mean) // SIDE, 1) - 1).bit_length(), SIZES_BLOCK // HACK)
    share = round_up(max(int(private_share(a.nnz) / max(a.row_len_mean, 1)), 1), SIZES_BLOCK // parts)
    args = *map(np.int32, (a.rows, share, parts)), a.row_ptr, a.col_idx, held, *given
    run(Launch(CONVERT, f"{kernel}<{ctype(a.row_ptr)}>", cdiv(a.rows, share), SIZES_BLOCK, args))
    return held


def block_diagonals(a: Csr, widths: Sequence[int], run: Run) -> tuple[int, Array]:
    """The width of blocks, one of `widths`, whose diagonals take the fewest bytes, and their offsets, ascending, int32.

    By four kernels and one wait. widths: divisors of rows and columns up to MOST, ascending. run: runs a launch on the
    arrays of `a`.
    """
    xp, asked = a.xp, np.uint32(sum(1 << (width - 1) for width in widths))
    size, seen = (np.int32(a.rows + a.cols - 1), np.int32(a.rows)), _table(a, run, "cds_see", asked)
    counts, grid = zeros(xp, MOST, np.uint64), min(cdiv(a.rows + a.cols, SIZES_BLOCK), 1024)
    run(Launch(CONVERT, "cds_count", grid, SIZES_BLOCK, (*size, seen, asked, counts)))
    found = numbers(counts)
    width = min(widths, key=lambda width: width * found[width - 1])
    offset = xp.empty(found[width - 1], dtype=np.int32)
    state = notes(xp, int(size[0]))
    run(summing(CONVERT, "cds_list", (*size, seen, np.int32(width), offset), state))
    return width, offset


def diagonal_sizes(a: Csr, run: Run | None) -> tuple[Array, Array, Array]:
    """The non-empty diagonals: their offsets, ascending, int32; the entries on each; its length inside the matrix.

    run: runs a launch on the arrays of `a`; None for NumPy.
    """
    xp, rows, cols = a.xp, a.rows, a.cols
    if not tabled(a.nnz, rows + cols):
        offset, held = xp.unique(a.diagonal, return_counts=True)
    else:
        table = xp.bincount(a.diagonal + np.int32(rows - 1)) if run is None else _table(a, run)
        used = xp.flatnonzero(table)
        offset, held = (used - (rows - 1)).astype(np.int32), table[used]
    wide = offset.astype(np.int64)
    return offset, held, xp.minimum(rows, cols - wide) - xp.maximum(-wide, 0)


def saves_bytes(held: Array, places: Array, dtype: np.dtype) -> Array:
    """Which diagonals take fewer bytes as dense arrays of so many places than as entries with a column each, bool.

    held: as `diagonal_sizes` gives it. In double precision more than 2/3 of the places are filled, in single more than
    1/2.
    """
    return held.astype(np.int64) * (dtype.itemsize + 4) > places * dtype.itemsize


def counted_places(a: Csr, length: Array) -> Array:
    """The length of each diagonal, or half of the rows if that is more: `Dia` stores all rows."""
    return length.clip(a.rows // 2, None)


def well_filled(a: Csr, theta: float, near: float = NEVER) -> Array:
    """The diagonals whose fill reaches `theta`, or that save bytes if it is 0: their offsets, ascending, int32.

    Fill: the share of the `counted_places` with an entry. near: the main diagonal and its two neighbours are kept from
    this share of their length, too. By kernels and one wait where there are any.
    """
    run = runner(a)
    if run and tabled(a.nnz, a.rows + a.cols):
        return _listed(a, theta, run, near)
    offset, held, length = diagonal_sizes(a, run)
    places = counted_places(a, length)
    kept = held >= theta * places if theta else saves_bytes(held, places, a.dtype)
    return offset[kept | (abs(offset) <= 1) & (held >= near * length)]


def _listed(a: Csr, theta: float, run: Run, near: float = NEVER) -> Array:
    """The diagonals that the kernel `dia_list` keeps, ascending, int32; the matrix knows how many entries they hold."""
    count, held = a.rows + a.cols - 1, _table(a, run)
    fill = theta or a.dtype.itemsize / (a.dtype.itemsize + 4)
    most = min(count, a.nnz)
    if theta >= 0:  # so many hold all entries: two are as short as each other, the longest ones of other shapes more
        places = a.nnz / fill
        most = min(most, int(2 * places**0.5 + places / min(a.shape)) + 5)  # with the three near the main one
    offset, state = a.xp.empty(most, dtype=np.int32), notes(a.xp, count)
    args = np.int32(a.rows), np.int32(a.cols), held, *map(np.float64, (theta, near)), np.int32(a.dtype.itemsize), offset
    run(summing(CONVERT, "dia_list", args, state))
    on, *_, kept = noted(state)
    offset = offset[:kept] if most - kept < ROOM else offset[:kept].copy()
    a.__dict__["on_diagonals"] = offset, on
    return offset


def filled(a: Csr, hack: int, keys: Array) -> Array:
    """The values of the diagonals that `keys`, ascending, name, (diagonals, hack); 0 if there is no entry."""
    refuse_more_than_memory(len(keys) * hack * a.dtype.itemsize, a)
    values = a.xp.zeros((len(keys), hack), dtype=a.dtype)
    put(values, (a.xp.searchsorted(keys, diagonal_keys(a, hack)), a.row_idx % hack), a.values)
    return values


def dense(a: Csr, offset: Array, run: Run, width: int = 1, others: bool = False) -> tuple[dict[str, Any], Array]:
    """The fields of `Dia` for some diagonals, of blocks of `width` rows and columns those of `Cds`.

    others: and how many entries of each row are on none, (rows,), int32, where all are of width 1.
    """
    xp, pitch, diagonals = a.xp, round_up(a.rows, HACK), len(offset)
    refuse_more_than_memory(diagonals * width * pitch * a.dtype.itemsize, a)
    values = xp.empty((diagonals * width, pitch), dtype=a.dtype)
    counts = xp.empty(a.rows, dtype=np.int32) if others else nothing(xp, np.int32)
    across = cdiv(pitch, TAKE_BLOCK)
    share = diagonals if others else max(cdiv(diagonals, max(TAKE_BLOCKS // across, 1)), cdiv(HACK, width))
    sizes = *map(np.int32, (a.rows, width, diagonals, share)), np.int64(pitch)
    args = *sizes, a.row_ptr, a.col_idx, a.values, offset, values
    kernel = f"dia_take<{ctype(values)}, {ctype(a.row_ptr)}, {cbool(others)}>"
    run(Launch(CONVERT, kernel, (across, cdiv(diagonals, share)), TAKE_BLOCK, (*args, counts)))
    return {"offset": offset, "values": values}, counts


def hdi_by_kernels(a: Csr, footprint: str, run: Run) -> dict[str, Any]:
    """The fields of `Hdi` by kernels of this project, for nnz > 0. run: runs a launch on the arrays of `a`.

    A warp reads the rows of a hack side by side, from diagonal to diagonal, once to count them and once to fill
    them: no sort, and every slot is written once. Where a row is long, several warps share the diagonals of its hack.
    """
    xp, index, hacks = a.xp, ctype(a.row_ptr), cdiv(a.rows, HACK)
    size, matrix = (np.int32(a.rows), np.int32(hacks)), (a.row_ptr, a.col_idx)
    most = hacks + a.nnz // PIECE if a.nnz < FEW_ENTRIES else None  # parts, of which kernels find how many there are
    kernel = f"hdi_parts<{index}"
    part_ptr, (*_, parts) = summed(xp, hacks, CONVERT, kernel, (*size, a.row_ptr), run, each=1, total=most)
    args: tuple[Any, ...] = (*size, np.int64(parts), part_ptr, *matrix)
    kernel = f"hdi_count<{index}, {ctype(part_ptr)}"
    ptr, (*_, diagonals) = summed(xp, parts, CONVERT, kernel, args, run, each=1, block=OFFSETS_BLOCK // HACK)
    hack_ptr, offset = xp.empty(hacks + 1, dtype=a.row_ptr.dtype), offset_array(xp, diagonals, footprint)
    values = xp.empty((diagonals, HACK), dtype=a.dtype)
    args = (*size, part_ptr, ptr, *matrix, a.values, hack_ptr, offset, values)
    kernel = f"hdi_fill<{ctype(values)}, {index}, {ctype(part_ptr)}, {ctype(ptr)}>"
    run(Launch(CONVERT, kernel, *per_thread(parts * HACK, HDI_BLOCK), args))
    return {"hack_ptr": hack_ptr, "offset": offset, "values": values}


def offset_array(xp: ArrayModule, diagonals: int, footprint: str) -> Array:
    """`Hdi.offset`, zero after the last diagonal's."""
    return xp.zeros(HACK * diagonals, dtype=np.int32) if footprint == "psblas" else xp.empty(diagonals, dtype=np.int32)


def taken(a: Csr, offset: Array, run: Run) -> tuple[dict[str, Any], Csr]:
    """The fields of `Dia` for the diagonals of these offsets, and the entries that are on none of them, for nnz > 0.

    offset: ascending, int32. run: runs a launch on the arrays of `a`.
    """
    xp, index = a.xp, ctype(a.row_ptr)
    if not len(offset):
        return {"offset": offset, "values": xp.empty((0, round_up(a.rows, HACK)), dtype=a.dtype)}, a
    counted, on = a.__dict__.get("on_diagonals", (None, 0))
    total = a.nnz - on if counted is offset else a.nnz
    dia, others = dense(a, offset, run, others=total > 0)
    if not total:
        row_ptr = xp.zeros(a.rows + 1, dtype=np.int32)
    elif counted is offset:
        row_ptr = offsets_upto(others, total, run)
    else:
        row_ptr, total = offsets_by(others, run)
    del others
    if total == a.nnz:
        return dia, a
    columns, rest = xp.empty(total, dtype=np.int32), xp.empty(total, dtype=a.dtype)
    if total:
        kernel = f"dia_rest<{ctype(rest)}, {index}, {ctype(row_ptr)}>"
        sizes = a.row_ptr.dtype.type(a.nnz), np.int32(a.rows), np.int32(len(offset))
        args = (*sizes, a.row_ptr, a.col_idx, a.values, offset, row_ptr, columns, rest)
        run(Launch(CONVERT, kernel, cdiv(a.nnz, SHARE), REST_BLOCK, args))
    return dia, Csr(a.shape, row_ptr, columns, rest, a.vectors)


class Diagonals(Adding):
    """Rows in hacks, each with its own list of non-empty diagonals, stored whole; no column indices.

    A stored zero cannot be distinguished from padding, so decoding leaves it out.
    """

    family = "DIA"
    keeps_zeros = False
    multiplies_padding = True

    offset: Array  # (diagonals of all hacks,), int32: col - row, ascending in a hack
    values: Array  # (diagonals of all hacks, rows of a hack): the entry of each row on each diagonal, 0 if none is

    def _first_row(self, diagonal: Array) -> Array | int:
        """The first row of the hack that each of some diagonals belongs to."""
        raise NotImplementedError

    def to_coo(self) -> tuple[Array, Array, Array]:
        diagonal, place = self.xp.nonzero(nonzero_mask(self.values))
        row = self._first_row(diagonal) + place
        return row, row + self.offset[diagonal], self.values[diagonal, place]


@register
class Dia(Diagonals):
    """One dense array per nonempty diagonal and no column indices: about 8 bytes per entry for a stencil.

    Impossible if entries are scattered: a random matrix has nearly rows + cols diagonals. A stored zero cannot be
    distinguished from padding, so decoding leaves it out. All rows are one hack, rounded up to a multiple of 32.
    """

    key = "dia"
    survey_name = "DIA"
    reference = "Saad 1989; Bell & Garland, NVR-2008-004"
    shared_implementation = "diagonals by slices of rows: one slice"

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return len(a.diagonals) * (round_up(a.rows, HACK) * a.dtype.itemsize + 4)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        if a.nnz and (run := runner(a)):
            offset = _listed(a, -1.0, run) if tabled(a.nnz, a.rows + a.cols) else a.diagonals
            return dense(a, offset, run)[0]
        keys = a.diagonals.astype(np.int64) + (a.rows - 1)
        return {"offset": a.diagonals, "values": filled(a, round_up(max(a.rows, 1), HACK), keys)}

    def _first_row(self, diagonal: Array) -> int:
        return 0

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        (rows, cols), (diagonals, pitch) = self.shape, self.values.shape
        sizes = np.int32(rows), np.int32(cols), np.int32(diagonals), np.int64(pitch)
        threads = per_thread(cdiv(rows, 2), BLOCK)
        kernel = f"dia_spmv<{ctype(self.values)}, {cbool(add)}>"
        args = (*sizes, self.offset, self.values, x, y)
        source = "partly_kept/dia.cu" if stays_in_part(self.values) else "dia/dia.cu"
        if stays_in_cache(self.values, x, y):
            source = "kept/dia.cu"
        return [Launch(source, kernel, *threads, args, row_lanes=1, row_bytes=16)]

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        return self.by_vectors(self._few if 0 < len(self.offset) <= FEW else self.launches, x, y, k, layout)

    def _few(self, x: Array, y: Array) -> list[Launch]:
        (rows, cols), (diagonals, pitch) = self.shape, self.values.shape
        args = np.int32(rows), np.int32(cols), np.int64(pitch), self.offset, self.values, x, y
        kernel = f"dia_few<{ctype(self.values)}, {diagonals}>"
        return [Launch("dia/dia.cu", kernel, *per_thread(rows, FEW_BLOCK), args, row_lanes=1, row_bytes=16)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        return [transposed.by_diagonals(self.shape, self.offset, self.values, x, y)]


@register
class Hdi(Diagonals):
    """Slices of 32 rows, each with its own nonempty diagonals as dense arrays, and no column indices.

    Padding stays small where diagonals come and go along the matrix, but a scattered entry still takes 32 slots. In
    double precision the grids pde:60, pde:80 and pde:100 take 8.20, 8.18 and 8.17 bytes per entry. The PSBLAS library
    allocates as many offsets as it has values, not one per diagonal, and then takes 12.10, 12.07 and 12.06, as in Table
    9 of Filippone et al. (2017): footprint=psblas stores that array; the kernel is the same. A stored zero cannot be
    distinguished from padding, so decoding leaves it out.
    """

    key = "hdi"
    survey_name = "HDI"
    reference = "Barbieri, Cardellini, Fanfarillo & Filippone 2015 (PSBLAS)"
    shared_implementation = "diagonals by slices of rows: 32 rows"

    footprint = Parameter(
        "exact", "psblas: 32 offsets are allocated for every diagonal, as the library does", choices=("exact", "psblas")
    )

    hack_ptr: Array  # (hacks + 1,), of the row pointers' type: the first diagonal of each hack

    @classmethod
    def estimate(cls, a: Csr, *, footprint: str, **params: Any) -> int:
        diagonals = len(hack_keys(a))
        hack_ptr = (cdiv(a.rows, HACK) + 1) * a.row_ptr.itemsize
        return hack_ptr + diagonals * (HACK * a.dtype.itemsize + 4 * (HACK if footprint == "psblas" else 1))

    @classmethod
    def convert(cls, a: Csr, *, footprint: str, **params: Any) -> dict[str, Any]:
        if a.nnz and (run := runner(a)):
            return hdi_by_kernels(a, footprint, run)
        xp, span, keys = a.xp, sum(a.shape), hack_keys(a)
        hack_ptr = xp.searchsorted(keys, xp.arange(cdiv(a.rows, HACK) + 1) * span).astype(a.row_ptr.dtype)
        offset = offset_array(xp, len(keys), footprint)
        offset[: len(keys)] = keys % max(span, 1) - (a.rows - 1)
        return {"hack_ptr": hack_ptr, "offset": offset, "values": filled(a, HACK, keys)}

    @property
    def bytes_read(self) -> int:
        """Bytes of the arrays without offsets that footprint=psblas stores and no kernel reads."""
        return self.nbytes - (len(self.offset) - len(self.values)) * self.offset.itemsize

    def _first_row(self, diagonal: Array) -> Array:
        return expand(self.hack_ptr, len(self.values))[diagonal] * HACK

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows, cols = self.shape
        kernel = f"hdi_spmv<{ctype(self.values)}, {ctype(self.hack_ptr)}, {cbool(add)}>"
        args = np.int32(rows), np.int32(cols), self.hack_ptr, self.offset, self.values, x, y
        return [Launch("dia/dia.cu", kernel, *per_thread(rows, BLOCK), args, row_lanes=1)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        rows, cols = self.shape
        kernel = f"hdi_transposed<{ctype(self.values)}, {ctype(self.hack_ptr)}>"
        args = np.int32(rows), np.int32(cols), self.hack_ptr, self.offset, self.values, x, y
        return [Launch(transposed.SOURCE, kernel, *per_thread(rows, transposed.BLOCK), args)]
