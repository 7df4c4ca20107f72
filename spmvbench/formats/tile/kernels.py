"""CSR to tiles by kernels of this project: what `convert` and `layout` compute by arrays, in a dozen launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, index_dtype, nothing, round_up
from spmvbench.formats.conversion import Run, narrow_offsets, numbers, offsets, zeros
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, ctype, per_thread
from spmvbench.formats.tile.convert import COO, CSR, DNS_COL, DNS_ROW, ELL, HYB, NAMES, TILE, Rules, hyb_rows
from spmvbench.formats.tile.layout import ALIGNED

FORMATS = len(NAMES)
SOURCE = "tile/tile_convert.cu"
SEGMENT = constant(SOURCE, "SEGMENT")  # entries of a tile row for each of its segments, about
GROUP = constant(SOURCE, "GROUP")  # tiles of a warp
PACKED_TILES = constant(SOURCE, "PACKED_TILES")  # of half a warp
SUMS = constant(SOURCE, "SUMS")  # kinds of sums: four for each format, and two
ON_HOST = 2**13  # most numbers that are copied whole where some are wanted


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
        """From the running sum over all groups of one kind of sum after the other, (SUMS + 1,)."""
        each = np.diff(sums).tolist()
        values, units, entries, tiles = (each[f : f + FORMATS] for f in range(0, 4 * FORMATS, FORMATS))
        return cls(values, units, entries, tiles, *each[4 * FORMATS :])


class Packed(NamedTuple):
    """A matrix in tiles. fields: the storage by name, with tile_ptr and chunks. rest: what is computed separately."""

    fields: dict[str, Any]
    rest: Csr | None
    room: Room


def by_kernels(a: Csr, rules: Rules | None, tbalance: Callable[[int], int], run: Run, *, defer: bool = False) -> Packed:
    """A matrix in tiles, for nnz > 0; three waits for the device.

    rules: None for CSR alone. tbalance: the most tiles of a chunk, from the number of tiles. defer: whether COO tiles
    and tails of HYB are computed separately. run: runs a launch on the arrays of `a`.
    """
    xp, index, value = a.xp, ctype(a.row_ptr), ctype(a.values)
    rows = np.int32(a.rows)
    all_csr, deferred = str(rules is None).lower(), str(defer).lower()

    def launch(kernel: str, threads: int, *args: Any) -> None:
        run(Launch(SOURCE, kernel, *per_thread(threads, 128), args))

    def empty(n: int, dtype: Any) -> Array:
        return xp.empty(n, dtype=dtype) if n else nothing(xp, dtype)

    # Tiles of each segment of a tile row, and how many are before it.
    tile_rows = cdiv(a.rows, TILE)
    segments = tile_rows + a.nnz // SEGMENT
    walk = rows, np.int32(cdiv(a.cols, TILE)), np.int32(tile_rows), a.row_ptr, a.col_idx
    counts = empty(segments, np.int32)
    launch(f"count_tiles<{index}>", segments * TILE, *walk, counts)
    first_tile, tiles = offsets(counts, run)

    row, col, entries = empty(tiles, np.int32), empty(tiles, np.int32), empty(tiles, np.uint16)
    fmt, tail = empty(tiles, np.uint8), empty(tiles, np.uint8)
    apart = xp.zeros(a.nnz // 32 + 1, dtype=np.uint32) if defer else nothing(xp, np.uint32)
    coo, dns, te, th, least = rules or Rules(0, 0, 0.0, 0.0, 0)
    limits = np.int32(coo), np.int32(dns), *(np.float64(t * abs(t)) for t in (te, th))
    limits = *limits, np.int32(hyb_rows(a.dtype.itemsize)), np.int32(least)
    described = row, col, entries, fmt, tail, apart
    kernel = f"describe_tiles<{index}, {ctype(first_tile)}, {all_csr}, {deferred}>"
    launch(kernel, segments * TILE, *walk, first_tile, Struct(limits), *described)

    groups = cdiv(tiles, GROUP)
    of_tiles = np.int32(tiles), np.int32(groups), entries, fmt, tail
    sums = empty(1 + SUMS * groups, np.int32)
    launch(f"count_room<{deferred}>", groups * 32, *of_tiles, sums)
    sums = narrow_offsets(sums[1:], run, np.int64)
    if len(sums) > ON_HOST:
        room = Room.of(sums[::groups].tolist())
    else:  # to copy them takes less than a kernel that picks every so many
        room = Room.of(numbers(sums)[::groups])

    stored = room.stored_tiles
    offset = index_dtype(max(*room.values, *room.units, a.nnz))
    tile_row = empty(stored, np.int32)
    level1 = {
        "tile_col": empty(stored, np.int32),
        "fmt": empty(stored, np.uint8),
        "tail": empty(stored, np.uint8),
        "tile_nnz": empty(stored + 1, offset),
        "off1": empty(stored, offset),
        "off2": empty(stored, offset),
    }
    stored_before = empty(tiles + 1 if defer else 0, np.int32)
    kernel = f"place_tiles<{ctype(offset)}, {deferred}>"
    launch(kernel, groups * 32, *of_tiles, sums, row, col, tile_row, *level1.values(), stored_before)

    kernel = f"pack_tiles<{value}, {index}, {ctype(offset)}, {deferred}>"
    fields: dict[str, Any] = level1 | _packed_tiles(kernel, a, room, level1, tile_row, launch)

    # Tile rows, and their chunks.
    rest_nnz = a.nnz - room.stored_entries
    tile_ptr, counts = empty(tile_rows + 1, np.int32), zeros(xp, tile_rows + 2, np.int32)
    schedule = stored_before, np.int32(tbalance(stored)), np.int32(not rest_nnz), tile_ptr, counts
    kernel = f"count_chunks<{index}, {ctype(first_tile)}, {deferred}>"
    launch(kernel, tile_rows + 1, rows, np.int32(tile_rows), a.row_ptr, first_tile, *schedule)
    first = narrow_offsets(counts[1:], run)
    chunks, and_split = numbers(first[-2:])
    chunk_ptr, chunk_row = empty(chunks + 1, np.int32), empty(chunks, np.int32)
    launch("fill_chunks", tile_rows, np.int32(tile_rows), tile_ptr, first, chunk_ptr, chunk_row)

    rest = None
    if rest_nnz:
        rest = a if rest_nnz == a.nnz else _taken(a, apart, rest_nnz, launch)
    fields |= {"tile_ptr": tile_ptr, "chunk_ptr": chunk_ptr, "chunk_row": chunk_row, "split_rows": and_split - chunks}
    return Packed(fields, rest, room)


def _packed_tiles(
    kernel: str, a: Csr, room: Room, level1: dict[str, Array], tile_row: Array, launch: Callable[..., None]
) -> dict[str, Array]:
    """The arrays of all tiles' entries by name. level1, tile_row: by tile, (stored tiles,)."""

    def empty(n: int, dtype: Any = np.uint8) -> Array:
        return a.xp.empty(n, dtype=dtype) if n else nothing(a.xp, dtype)

    val = {
        name: empty(round_up(n, 2) if name == "csr" else n, a.dtype) for name, n in zip(NAMES, room.values, strict=True)
    }
    if room.values[CSR] % 2:
        val["csr"][room.values[CSR] :] = 0
    sizes = {CSR: round_up(room.values[CSR], ALIGNED), ELL: room.values[ELL], HYB: 2 * room.units[HYB]}
    halves = {f: empty(n) for f, n in sizes.items()}
    if room.values[CSR] % ALIGNED:
        halves[CSR][room.values[CSR] :] = 0
    csr_row_ptr, coo_idx = empty(room.units[CSR]), empty(room.values[COO])
    row_id, col_id = empty(room.units[DNS_ROW]), empty(room.units[DNS_COL])
    csr_coo = val["csr"], halves[CSR], csr_row_ptr, val["coo"], coo_idx
    dense = val["dns"], val["dns_row"], row_id, val["dns_col"], col_id
    launch(
        kernel,
        cdiv(room.stored_tiles, PACKED_TILES) * TILE,
        *(np.int32(a.rows), np.int32(room.stored_tiles), a.row_ptr, a.col_idx, a.values, tile_row),
        *(level1[name] for name in ("tile_col", "fmt", "off1", "off2")),
        Struct((*csr_coo, val["ell"], halves[ELL], val["hyb"], halves[HYB], *dense)),
    )

    def packed(halves: Array) -> Array:
        found = empty(cdiv(len(halves), 2))
        launch("pack_halves", len(found), np.int64(len(halves)), halves, found)
        return found

    found = {f"{name}_val": array for name, array in val.items()}
    found |= {"csr_col": packed(halves[CSR]), "ell_col": packed(halves[ELL]), "hyb_idx": packed(halves[HYB])}
    return found | {"csr_row_ptr": csr_row_ptr, "coo_idx": coo_idx, "row_id": row_id, "col_id": col_id}


def _taken(a: Csr, bits: Array, nnz: int, launch: Callable[..., None]) -> Csr:
    """The `nnz` entries that are marked, in a matrix of the same shape. bits: (entries / 32 + 1,), one per entry."""
    xp = a.xp
    counts = xp.empty(len(bits) + 1, dtype=a.row_ptr.dtype)
    launch(f"count_marks<{ctype(counts)}>", len(bits), np.int64(len(bits)), bits, counts)
    before = xp.cumsum(counts, dtype=counts.dtype)
    row_ptr = xp.empty(a.rows + 1, dtype=index_dtype(nnz))
    col_idx, values = xp.empty(nnz, dtype=np.int32), xp.empty(nnz, dtype=a.dtype)
    kernel = f"take_marked<{ctype(a.values)}, {ctype(a.row_ptr)}, {ctype(row_ptr)}>"
    matrix = np.int32(a.rows), a.row_ptr.dtype.type(a.nnz), a.row_ptr, a.col_idx, a.values
    launch(kernel, max(a.nnz, a.rows + 1), *matrix, bits, before, row_ptr, col_idx, values)
    return Csr(a.shape, row_ptr, col_idx, values)
