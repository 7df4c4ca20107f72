"""CSR to tiles by kernels of this project: what `convert` and `layout` compute by arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import LINE_BYTES, Array, ArrayModule, Csr, cdiv, index_dtype, nothing, round_up
from spmvbench.formats.conversion import OFFSETS_BLOCK, Run, numbers, scratch, summed, zeros
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype, per_thread
from spmvbench.formats.tile.convert import COO, CSR, DNS_COL, DNS_ROW, ELL, HYB, NAMES, TILE, Rules, hyb_rows
from spmvbench.formats.tile.layout import ALIGNED

FORMATS = len(NAMES)
SOURCE = "tile/tile_convert.cu"
SEGMENT = constant(SOURCE, "SEGMENT")  # entries of a long tile row for each of its segments, about
NUMBER_BITS = constant(SOURCE, "NUMBER_BITS")
CHUNK_BITS = constant(SOURCE, "CHUNK_BITS")
BLOCK = constant(SOURCE, "CONVERT_BLOCK")
_EACH, NOTES = (constant("include/offsets.cuh", f"OFFSETS_{name}") for name in ("EACH", "NOTES"))
SUMMED = OFFSETS_BLOCK * _EACH  # numbers of a thread block
SUMS = constant(SOURCE, "SUMS")  # kinds of sums: four for each format, and two
PACKED = (  # in the order of struct Packed
    *("tile_col", "fmt", "tail", "tile_nnz", "off1", "off2", "csr_val", "csr_col", "csr_row_ptr", "coo_val", "coo_idx"),
    *("ell_val", "ell_col", "hyb_val", "hyb_idx", "dns_val", "dns_row_val", "row_id", "dns_col_val", "col_id"),
)
GROUPS, MOST_EACH = 2**15, 8  # warps that fill a GPU; segments of one, at most


class Balance(NamedTuple):
    """The most tiles of a chunk, by those of the matrix: low to high, one more for each `share` tiles."""

    low: int
    high: int
    share: int

    def of(self, tiles: int) -> int:
        """For a matrix of so many tiles."""
        return min(max(tiles // self.share, self.low), self.high)


class Room(NamedTuple):
    """What the tiles of a matrix come to. The first four by format, (7,) each.

    values, units: value slots and units of what off2 counts, as they are stored. entries, tiles: of the matrix.
    stored_entries, stored_tiles: what is not computed apart.
    """

    values: list[int]
    units: list[int]
    entries: list[int]
    tiles: list[int]
    stored_entries: int
    stored_tiles: int

    @classmethod
    def of(cls, sums: list[int]) -> Room:
        """From what is before each kind of sum, and all, (SUMS + 1,)."""
        each = [end - begin for begin, end in pairwise(sums)]
        values, units, entries, tiles = (each[f : f + FORMATS] for f in range(0, 4 * FORMATS, FORMATS))
        return cls(values, units, entries, tiles, *each[4 * FORMATS :])


class Packed(NamedTuple):
    """A matrix in tiles. fields: the storage by name, with tile_ptr and chunks. rest: what is computed separately."""

    fields: dict[str, Any]
    rest: Csr | None
    room: Room


def by_kernels(a: Csr, rules: Rules | None, balance: Balance, run: Run, *, defer: bool = False) -> Packed:
    """A matrix in tiles, for nnz > 0; one wait for the device.

    rules: None for CSR alone. defer: whether COO tiles and tails of HYB are computed separately. run: runs a launch on
    the arrays of `a`.
    """
    xp, index, tile_rows = a.xp, ctype(a.row_ptr), cdiv(a.rows, TILE)
    coo, dns, te, th, least = rules or Rules(0, 0, 0.0, 0.0, 0)
    limits = np.int32(coo), np.int32(dns), *(np.float64(t * abs(t)) for t in (te, th))
    limits = Struct((*limits, np.int32(hyb_rows(a.dtype.itemsize)), np.int32(least)))
    segments = tile_rows + a.nnz // SEGMENT
    each = min(cdiv(segments, GROUPS), MOST_EACH)
    groups = cdiv(segments, each)
    rows = Struct((*map(np.int32, (a.rows, tile_rows, each)), a.row_ptr, a.col_idx))
    bits = (cdiv(a.cols, TILE) - 1).bit_length() + NUMBER_BITS
    key, whole = ("unsigned int" if bits <= 32 else "unsigned long long"), f"{cbool(rules is None)}, {cbool(defer)}>"

    def launch(kernel: str, threads: int, *args: Any) -> None:
        run(Launch(SOURCE, kernel, *per_thread(threads, BLOCK), args))

    sums, order, first_chunk = scratch(xp, (SUMS * groups, np.int64), (a.nnz, np.uint16), (tile_rows, np.int32))
    blocks = [cdiv(n, SUMMED) for n in (tile_rows, SUMS * groups)]
    noted = zeros(xp, SUMS + 3 + 2 * NOTES + sum(blocks) + cdiv(tile_rows, 2), np.uint64)
    state = Struct((noted, *map(np.int32, blocks)))
    launch(f"count_room<{key}, {index}, {whole}", 32 * groups, rows, np.int32(groups), limits, sums, order, state)
    tile_ptr = xp.empty(tile_rows + 1, dtype=np.int32)
    size = np.int32(tile_rows), np.int32(groups), np.int64(a.nnz)
    args: tuple[Any, ...] = (*size, Struct(map(np.int32, balance)), tile_ptr, first_chunk, sums, state)
    run(Launch(SOURCE, "sum_room", sum(blocks), OFFSETS_BLOCK, args))
    *ends, _, _, several, total = numbers(noted, SUMS + 1 + 4)
    room, chunks = Room.of(ends), total & 2**CHUNK_BITS - 1

    offset, tiles = index_dtype(max(*room.values, *room.units, a.nnz)), room.stored_tiles
    byte, int32 = np.dtype(np.uint8), np.dtype(np.int32)
    wanted: dict[str, tuple[int, np.dtype]] = {
        "chunk_ptr": (chunks + 1, int32),
        "chunk_row": (chunks, int32),
        "tile_col": (tiles, int32),
        "fmt": (tiles, byte),
        "tail": (tiles, byte),
        "tile_nnz": (tiles + 1, offset),
        "off1": (tiles, offset),
        "off2": (tiles, offset),
        **{f"{name}_val": (n, a.dtype) for name, n in zip(NAMES, room.values, strict=True)},
        "csr_val": (round_up(room.values[CSR], 2), a.dtype),
        "csr_col": (round_up(room.values[CSR], ALIGNED) // 2, byte),
        "csr_row_ptr": (room.units[CSR], byte),
        "coo_idx": (room.values[COO], byte),
        "ell_col": (room.values[ELL] // 2, byte),
        "hyb_idx": (room.units[HYB], byte),
        "row_id": (room.units[DNS_ROW], byte),
        "col_id": (room.units[DNS_COL], byte),
    }
    fields = _arrays(xp, wanted)
    fields["csr_col"].fill(0)
    apart = zeros(xp, a.nnz // 32 + 1, np.uint32) if defer else nothing(xp, np.uint32)
    rest_nnz = a.nnz - room.stored_entries
    cuts = np.int32(balance.of(tiles)), np.int32(not rest_nnz), tile_ptr, first_chunk
    args = Struct((*cuts, fields["chunk_ptr"], fields["chunk_row"])), Struct(fields[name] for name in PACKED), apart
    kernel = f"pack_tiles<{ctype(a.values)}, {index}, {ctype(offset)}, {whole}"
    launch(kernel, 32 * groups, rows, np.int32(groups), limits, a.values, sums, order, *args)

    rest = None
    if rest_nnz:
        rest = a if rest_nnz == a.nnz else _taken(a, apart, rest_nnz, run, launch)
    return Packed(fields | {"tile_ptr": tile_ptr, "split_rows": several}, rest, room)


def _arrays(xp: ArrayModule, wanted: dict[str, tuple[int, np.dtype]]) -> dict[str, Any]:
    """Arrays of these lengths and types by name, in one allocation."""
    sizes = [round_up(n * dtype.itemsize, LINE_BYTES) for n, dtype in wanted.values()]
    memory: Any = xp.empty(sum(sizes), dtype=np.uint8)
    held = memory if xp is np else memory.data
    found = {}
    for (name, (n, dtype)), begin in zip(wanted.items(), accumulate(sizes, initial=0), strict=False):
        if not n:
            found[name] = nothing(xp, dtype)
        else:
            found[name] = np.ndarray(n, dtype, held, begin) if xp is np else type(memory)(n, dtype, held + begin)
    return found


def _taken(a: Csr, bits: Array, nnz: int, run: Run, launch: Callable[..., None]) -> Csr:
    """The `nnz` entries that are marked, in a matrix of the same shape. bits: (entries / 32 + 1,), one per entry."""
    xp = a.xp
    marked = np.int64(len(bits)), bits
    before, _ = summed(xp, len(bits), SOURCE, f"count_marks<{ctype(bits)}", marked, run, total=nnz)
    row_ptr = xp.empty(a.rows + 1, dtype=index_dtype(nnz))
    col_idx, values = xp.empty(nnz, dtype=np.int32), xp.empty(nnz, dtype=a.dtype)
    kernel = f"take_marked<{ctype(a.values)}, {ctype(a.row_ptr)}, {ctype(row_ptr)}>"
    matrix = np.int32(a.rows), a.row_ptr.dtype.type(a.nnz), a.row_ptr, a.col_idx, a.values
    launch(kernel, max(a.nnz, a.rows + 1), *matrix, bits, before, row_ptr, col_idx, values)
    return Csr(a.shape, row_ptr, col_idx, values)
