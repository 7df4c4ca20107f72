"""CSR to tiles by kernels of this project: what `convert` and `layout` compute by arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, index_dtype, nothing, round_up
from spmvbench.formats.conversion import OFFSETS_BLOCK, Run, note_words, notes, numbers, summed, summing, zeros
from spmvbench.formats.found_tiles import FIND_BLOCK, count_tiles, cut_shares, key_type, shares_of
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype, per_thread
from spmvbench.formats.tile.convert import COO, CSR, DNS_COL, DNS_ROW, ELL, HYB, NAMES, TILE, Rules, hyb_rows
from spmvbench.formats.tile.layout import ALIGNED

FORMATS = len(NAMES)
SOURCE = "tile/tile_convert.cu"
SEGMENT = constant(SOURCE, "SEGMENT")  # entries of a tile row for each of its segments, about
GROUP = constant(SOURCE, "GROUP")  # tiles of a warp
PACKED_TILES = constant(SOURCE, "PACKED_TILES")  # of half a warp
SUMS = constant(SOURCE, "SUMS")  # kinds of sums: four for each format, and two
HALVES_EACH = constant(SOURCE, "HALVES_EACH")  # half bytes of a thread
LARGE = 2**18  # entries from which on a sample is worth its wait
SAMPLED_SEGMENTS = 2**12
DENSE = 5  # entries of a tile from which on walks take less, about


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


class Described(NamedTuple):
    """The tiles of a matrix. Of each: row (by walks alone) and col, entries, fmt, tail.

    first_tile: the first tile of each tile row, by walks of each segment of one, with the end. apart: a bit for each
    entry that is computed separately. shares: where the shares of thread blocks begin, and the first tile of each, with
    the end; none by walks.
    """

    tiles: int
    first_tile: Array
    row: Array
    col: Array
    entries: Array
    fmt: Array
    tail: Array
    apart: Array
    shares: tuple[Struct, Array] | None


def by_kernels(a: Csr, rules: Rules | None, tbalance: Callable[[int], int], run: Run, *, defer: bool = False) -> Packed:
    """A matrix in tiles, for nnz > 0; two waits for the device, one more if it is large, one if `defer`.

    rules: None for CSR alone. tbalance: the most tiles of a chunk, from the number of tiles. defer: whether COO tiles
    and tails of HYB are computed separately. run: runs a launch on the arrays of `a`.
    """
    xp, index, deferred = a.xp, ctype(a.row_ptr), cbool(defer)

    def launch(kernel: str, threads: int, *args: Any) -> None:
        run(Launch(SOURCE, kernel, *per_thread(threads, 128), args))

    def empty(n: int, dtype: Any) -> Array:
        return xp.empty(n, dtype=dtype) if n else nothing(xp, dtype)

    found = _described(a, rules, run, launch, defer=defer)
    groups, tile_rows = cdiv(found.tiles, GROUP), cdiv(a.rows, TILE)
    of_tiles = np.int32(found.tiles), np.int32(groups), found.entries, found.fmt, found.tail
    each = xp.empty(SUMS * groups, dtype=np.int32)
    launch(f"count_room<{deferred}>", groups * 32, *of_tiles, each)
    sums, noted = xp.empty(SUMS * groups, dtype=np.int64), zeros(xp, SUMS + 1 + note_words(tile_rows), np.uint64)
    size = np.int32(SUMS * groups), np.int32(groups)
    run(summing(SOURCE, "sum_room<long long>", (*size, each, sums, noted), notes(xp, SUMS * groups)))

    def cut(stored: int, stored_before: Array, least: int) -> list[Array]:
        """The first tile of each tile row, and the chunks, in room for the most that there can be."""
        balance = tbalance(stored)
        most = tile_rows + stored // balance
        cuts = [xp.empty(n, dtype=np.int32) for n in (tile_rows + 1, most + 1, most)]
        of_rows = np.int32(a.rows), np.int32(tile_rows), a.row_ptr, found.first_tile, stored_before
        kernel = f"cut_chunks<{index}, {ctype(found.first_tile)}, {cbool(not found.shares)}, {deferred}>"
        run(summing(SOURCE, kernel, (*of_rows, np.int32(balance), np.int32(least), *cuts), noted[SUMS + 1 :]))
        return cuts

    none = nothing(xp, np.int32)
    chunks = None if defer else cut(found.tiles, none, 1)  # all tiles are stored
    *ends, several, _, _, number = numbers(noted, SUMS + 1 + 4)
    room = Room.of(ends)

    stored = room.stored_tiles
    offset = index_dtype(max(*room.values, *room.units, a.nnz))
    stored_row = none if found.shares else empty(stored, np.int32)
    level1: dict[str, Array] = {
        "tile_col": empty(stored, np.int32),
        "fmt": empty(stored, np.uint8),
        "tail": empty(stored, np.uint8),
        "tile_nnz": empty(stored + 1, offset),
        "off1": empty(stored, offset),
        "off2": empty(stored, offset),
    }
    stored_before = empty(found.tiles + 1 if defer else 0, np.int32)
    kernel = f"place_tiles<{ctype(offset)}, {cbool(not found.shares)}, {deferred}>"
    launch(kernel, groups * 32, *of_tiles, sums, found.row, found.col, stored_row, *level1.values(), stored_before)
    found = found._replace(row=none, col=none, entries=none, tail=none)
    del of_tiles, sums, each  # their memory is wanted

    pack = partial(_pack, a, found, level1, stored_row, stored_before, run, launch, deferred)
    fields: dict[str, Any] = level1 | _packed_tiles(a, room, pack, launch)

    rest_nnz = a.nnz - room.stored_entries
    if chunks is None:
        chunks = cut(stored, stored_before, int(not rest_nnz))
        several, _, _, number = numbers(noted[SUMS + 1 :], 4)
    tile_ptr, chunk_ptr, chunk_row = chunks
    if number < len(chunk_row):
        chunk_ptr, chunk_row = chunk_ptr[: number + 1], chunk_row[:number]

    rest = None
    if rest_nnz:
        rest = a if rest_nnz == a.nnz else _taken(a, found.apart, rest_nnz, run, launch)
    fields |= {"tile_ptr": tile_ptr, "chunk_ptr": chunk_ptr, "chunk_row": chunk_row, "split_rows": several}
    return Packed(fields, rest, room)


def _described(a: Csr, rules: Rules | None, run: Run, launch: Callable[..., None], *, defer: bool) -> Described:
    """The tiles of a matrix by what takes less: bits, or walks where tiles have many entries."""
    coo, dns, te, th, least = rules or Rules(0, 0, 0.0, 0.0, 0)
    limits = np.int32(coo), np.int32(dns), *(np.float64(t * abs(t)) for t in (te, th))
    limits = Struct((*limits, np.int32(hyb_rows(a.dtype.itemsize)), np.int32(least)))
    scattered = a.nnz >= LARGE and _tiles_are_sparse(a, launch)
    apart = zeros(a.xp, a.nnz // 32 + 1, np.uint32) if defer else nothing(a.xp, np.uint32)
    return (_by_bits if scattered else _by_walks)(a, rules is None, limits, apart, run, launch)


def _pack(
    a: Csr,
    found: Described,
    level1: dict[str, Array],
    stored_row: Array,
    stored_before: Array,
    run: Run,
    launch: Callable[..., None],
    deferred: str,
    packed: Struct,
) -> None:
    """Fill the arrays of `packed` from the tiles, of which `level1` says where each begins."""
    types = f"{ctype(a.values)}, {ctype(a.row_ptr)}, {ctype(level1['off1'])}, {deferred}>"
    matrix, starts = (a.row_ptr, a.col_idx, a.values), (level1["off1"], level1["off2"])
    if found.shares:
        args = np.int32(a.rows), *matrix, *found.shares, found.fmt, stored_before, *starts, packed
        run(Launch(SOURCE, f"pack_found<{key_type(a, TILE, TILE)}, {types}", shares_of(a, TILE), FIND_BLOCK, args))
    else:
        stored, tiles = len(stored_row), (stored_row, level1["tile_col"], level1["fmt"])
        given = np.int32(a.rows), np.int32(stored), *matrix, *tiles, *starts, packed
        launch(f"pack_tiles<{types}", cdiv(stored, PACKED_TILES) * TILE, *given)


def _tiles_are_sparse(a: Csr, launch: Callable[..., None]) -> bool:
    """Whether to find tiles by bits takes less than walks from tile to tile, by the first ones of some segments."""
    tile_rows, sample = cdiv(a.rows, TILE), zeros(a.xp, 2, np.uint64)
    every = cdiv(tile_rows + a.nnz // SEGMENT, SAMPLED_SEGMENTS)
    walk = *map(np.int32, (a.rows, cdiv(a.cols, TILE), tile_rows)), np.int64(every), a.row_ptr, a.col_idx
    launch(f"sample_tiles<{ctype(a.row_ptr)}>", SAMPLED_SEGMENTS * TILE, *walk, sample)
    tiles, entries = numbers(sample)
    return tiles * DENSE > entries


def _by_walks(a: Csr, all_csr: bool, limits: Struct, apart: Array, run: Run, launch: Callable[..., None]) -> Described:
    """The tiles of each segment of a tile row are counted, then described."""
    xp, index, tile_rows = a.xp, ctype(a.row_ptr), cdiv(a.rows, TILE)
    segments = tile_rows + a.nnz // SEGMENT
    sizes, matrix = (*map(np.int32, (a.rows, cdiv(a.cols, TILE), tile_rows)),), (a.row_ptr, a.col_idx)
    args = (*sizes, np.int64(segments), *matrix)
    first_tile, (*_, tiles) = summed(
        xp, segments, SOURCE, f"count_tiles<{index}", args, run, each=1, block=OFFSETS_BLOCK // TILE
    )
    of_tiles = [xp.empty(tiles, dtype=dtype) for dtype in (np.int32, np.int32, np.uint16, np.uint8, np.uint8)]
    kernel = f"describe_tiles<{index}, {ctype(first_tile)}, {cbool(all_csr)}, {cbool(len(apart) > 0)}>"
    launch(kernel, segments * TILE, *sizes, *matrix, first_tile, limits, *of_tiles, apart)
    row, col, entries, fmt, tail = of_tiles
    return Described(tiles, first_tile, row, col, entries, fmt, tail, apart, None)


def _by_bits(a: Csr, all_csr: bool, limits: Struct, apart: Array, run: Run, launch: Callable[..., None]) -> Described:
    """The tiles of each thread block's share are counted, then described."""
    xp, cuts = a.xp, cut_shares(a, TILE, TILE, run)
    first_tile, of_share, tiles = count_tiles(a, TILE, TILE, cuts, run)
    of_tiles = [xp.empty(tiles, dtype=dtype) for dtype in (np.int32, np.uint16, np.uint8, np.uint8)]
    types = key_type(a, TILE, TILE), ctype(a.row_ptr), cbool(all_csr), cbool(len(apart) > 0)
    args = np.int32(a.rows), a.row_ptr, a.col_idx, limits, cuts, of_share, *of_tiles, apart
    run(Launch(SOURCE, f"describe_found<{', '.join(types)}>", shares_of(a, TILE), FIND_BLOCK, args))
    col, entries, fmt, tail = of_tiles
    return Described(tiles, first_tile, nothing(xp, np.int32), col, entries, fmt, tail, apart, (cuts, of_share))


def _packed_tiles(a: Csr, room: Room, pack: Callable[[Struct], None], launch: Callable[..., None]) -> dict[str, Array]:
    """The arrays of all tiles' entries by name. pack: writes them."""

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
    pack(Struct((*csr_coo, val["ell"], halves[ELL], val["hyb"], halves[HYB], *dense)))
    columns = {f: empty(cdiv(len(array), 2)) for f, array in halves.items()}
    pairs = (Struct((np.int64(len(array)), array, columns[f])) for f, array in halves.items())
    launch("pack_halves", sum(cdiv(len(array), HALVES_EACH) for array in halves.values()), *pairs)
    found = {f"{name}_val": array for name, array in val.items()}
    found |= {"csr_col": columns[CSR], "ell_col": columns[ELL], "hyb_idx": columns[HYB]}
    return found | {"csr_row_ptr": csr_row_ptr, "coo_idx": coo_idx, "row_id": row_id, "col_id": col_id}


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
