"""TileBFS: breadth-first search as a product over bits, tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, array_module, cdiv, expand, offsets, put, run_starts
from spmvbench.formats.bfs import quads
from spmvbench.formats.bfs.quads import LARGE_BLOCK, QUAD, SMALL_BLOCK, from_quads, incoming, quads_of
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Loop, Struct, cbool, in_part
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "bfs/tile_bfs.cu"
CHUNK, FRONTIERS, NUMBERS = (constant(KERNEL, name) for name in ("CHUNK", "FRONTIERS", "NUMBERS"))
PIECE = 16  # chunks of a row of tiles that a warp looks through
LARGE_ORDER = 10_000  # beyond it the authors take tiles of 64 x 64, else of 32 x 32
KERNELS = {"1": 1, "12": 2, "123": 3}


def side_in_use(rows: int, nt: int) -> int:
    """The parameter, or by the authors' rule."""
    return nt or (64 if rows > LARGE_ORDER else 32)


def tiles_of(a: Csr, nt: int) -> tuple[Array, Array, Array]:
    """(tile of each entry, the tiles that hold any, their entries); a tile is row of tiles * rows of tiles + column."""
    xp = a.xp
    of_entry = (a.row_idx // nt).astype(np.int64) * cdiv(a.rows, nt) + a.col_idx // nt
    ordered = xp.sort(of_entry)
    starts = run_starts(ordered)
    return of_entry, ordered[starts], xp.diff(starts, append=xp.asarray([a.nnz]))


def chunks_of(tiles: Array, tile_rows: int) -> tuple[Array, Array]:
    """(first tile, first chunk) of each row of tiles, both (tile rows + 1,), int64 and int32 where that is enough."""
    xp = array_module(tiles)
    tile_ptr = xp.searchsorted(tiles // max(tile_rows, 1), xp.arange(tile_rows + 1))
    return tile_ptr, offsets(cdiv(xp.diff(tile_ptr), CHUNK))


def pieces_of(chunk_ptr: Array) -> tuple[Array, Array]:
    """(row of tiles, first chunk) of each piece: rows of tiles are cut into pieces of at most PIECE chunks."""
    xp = array_module(chunk_ptr)
    first = offsets(cdiv(xp.diff(chunk_ptr), PIECE))
    pieces = int(first[-1])
    row = expand(first, pieces)
    begin = chunk_ptr[row] + PIECE * (xp.arange(pieces, dtype=np.int32) - first[row])
    return row, xp.concatenate((begin.astype(np.int32), chunk_ptr[-1:].astype(np.int32)))


def rows_of(chunk_ptr: Array, quad_ptr: Array, nt: int) -> Array:
    """What kernels ask of a row of tiles, in one load: (4 tile rows,)."""
    xp, tile_rows = array_module(chunk_ptr), len(chunk_ptr) - 1
    rows = xp.zeros((tile_rows, 4), np.int32)
    rows[:, 0], rows[:, 1] = chunk_ptr[:-1], xp.diff(chunk_ptr)
    has = xp.zeros((tile_rows, nt), bool)
    has.reshape(-1)[: len(quad_ptr) - 1] = xp.diff(quad_ptr) > 0
    for first in range(0, nt, 32):
        bits = has[:, first : first + 32] * (xp.uint32(1) << xp.arange(min(nt, 32), dtype=np.uint32))
        rows[:, 2 + first // 32] = bits.sum(axis=1, dtype=np.uint32).view(np.int32)
    return rows.reshape(-1)


def masks_of(a: Csr, of_entry: Array, tiles: Array, tile_ptr: Array, chunk_ptr: Array, nt: int) -> Array:
    """The words of all chunks, from the entries of the tiles that are kept and each one's tile."""
    xp = a.xp
    kind = np.dtype(f"uint{nt}")
    masks = xp.zeros(CHUNK * nt * int(chunk_ptr[-1]), kind)
    if not a.nnz:
        return masks
    tile = xp.searchsorted(tiles, of_entry)
    row = a.row_idx
    block = row // nt
    slot = CHUNK * chunk_ptr[block].astype(np.int64) + tile - tile_ptr[block]
    word = (slot // CHUNK * nt + row % nt) * CHUNK + slot % CHUNK
    bits = xp.left_shift(np.uint64(1), (a.col_idx % nt).astype(np.uint64))
    # Entries of a word are neighbours, and their bits differ: their union is a difference of running sums, modulo 2^64.
    starts = run_starts(word)
    sums = xp.concatenate((xp.zeros(1, np.uint64), xp.cumsum(bits, dtype=np.uint64)))
    ends = xp.concatenate((starts[1:], xp.asarray([a.nnz])))
    put(masks, word[starts], (sums[ends] - sums[starts]).astype(kind))
    return masks


class BitTiles(Format):
    """A pattern as tiles of bits and quads of neighbours, for one direction of the search."""

    rows: Array  # (4 tile rows,), int32: of each its first chunk, its chunks, and bits of the vertices with quads
    tile_cols: Array  # (4 chunks,), int32: tile columns, the last of a row again as padding
    masks: Array  # (4 nt chunks,), unsigned words of nt bits: [chunk][row][tile]; 0 is padding
    piece_row: Array  # (pieces,), int32: row of tiles
    piece_ptr: Array  # (pieces + 1,), int32: the first chunk of each piece
    quad_ptr: Array  # (vertices + 1,), int32: the first quad of each vertex's extracted entries
    neighbours: Array  # (4 quads,), int32

    @classmethod
    def estimate(cls, a: Csr, *, nt: int, extract: int, **params: Any) -> int:
        xp, tile_rows = a.xp, cdiv(a.rows, nt)
        of_entry, tiles, counts = tiles_of(a, nt)
        _, chunk_ptr = chunks_of(tiles[counts > extract], tile_rows)
        apart = counts[xp.searchsorted(tiles, of_entry)] <= extract
        ends = xp.concatenate((xp.zeros(1, np.int64), xp.cumsum(apart)))[a.row_ptr]
        quads = int(cdiv(xp.diff(ends), QUAD).sum())
        chunks, pieces = int(chunk_ptr[-1]), int(cdiv(xp.diff(chunk_ptr), PIECE).sum())
        numbers = 4 * tile_rows + CHUNK * chunks + 2 * pieces + 1 + a.rows + 1 + QUAD * quads
        return 4 * numbers + CHUNK * chunks * nt * nt // 8

    @classmethod
    def convert(cls, a: Csr, *, nt: int, extract: int, **params: Any) -> dict[str, Any]:
        xp, tile_rows = a.xp, cdiv(a.rows, nt)
        of_entry, tiles, counts = tiles_of(a, nt)
        kept = counts > extract
        inside = kept[xp.searchsorted(tiles, of_entry)]
        tiles = tiles[kept]
        tile_ptr, chunk_ptr = chunks_of(tiles, tile_rows)
        chunks = int(chunk_ptr[-1])
        if chunks * nt > INT32_MAX:
            raise Skip(f"{CHUNK * chunks:,} tiles of {nt} x {nt} are more than the kernels can number")
        owner = expand(chunk_ptr, chunks)
        rank = CHUNK * (xp.arange(chunks, dtype=np.int32) - chunk_ptr[owner])[:, None] + xp.arange(
            CHUNK, dtype=np.int32
        )
        tile = tile_ptr[owner][:, None] + xp.minimum(rank, (xp.diff(tile_ptr)[owner] - 1)[:, None])
        piece_row, piece_ptr = pieces_of(chunk_ptr)
        apart = a.where(~inside)
        quad_ptr, neighbours = quads_of(apart.row_lengths, apart.col_idx)
        return {
            "rows": rows_of(chunk_ptr, quad_ptr, nt),
            "tile_cols": (tiles[tile] % max(tile_rows, 1)).astype(np.int32).reshape(-1),
            "masks": masks_of(a.where(inside), of_entry[inside], tiles, tile_ptr, chunk_ptr, nt),
            "piece_row": piece_row,
            "piece_ptr": piece_ptr,
            "quad_ptr": quad_ptr,
            "neighbours": neighbours,
        }

    @classmethod
    def of(cls, a: Csr, nt: int, extract: int) -> BitTiles:
        """The pattern in tiles of nt x nt; what tiles of at most `extract` entries hold, as quads."""
        return cls.holding(a.shape, cls.convert(a, nt=nt, extract=extract))

    @property
    def nt(self) -> int:
        """Rows and columns of a tile."""
        return 8 * self.masks.dtype.itemsize

    @property
    def chunks(self) -> int:
        """Chunks of four tiles."""
        return len(self.tile_cols) // CHUNK

    @property
    def quads(self) -> int:
        """Quads of neighbours."""
        return len(self.neighbours) // QUAD

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, nt, kind = self.xp, self.nt, self.masks.dtype.type
        found = [from_quads(self.quad_ptr, self.neighbours)]
        word = xp.flatnonzero(self.masks)
        chunk, row = word // (CHUNK * nt), word // CHUNK % nt
        chunk_ptr = xp.concatenate((self.rows[::4], xp.asarray([self.chunks], np.int32)))
        rows = expand(chunk_ptr, self.chunks)[chunk] * nt + row
        first = self.tile_cols[CHUNK * chunk + word % CHUNK] * nt
        for bit in range(nt):
            has = (self.masks[word] >> kind(bit)) & kind(1) != 0
            found.append((rows[has], first[has] + bit))
        rows, cols = (xp.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, cols, xp.ones(len(rows))


@register
class TileBfs(Format):
    """Tiles of bits, four of a tile row side by side, and the entries of the sparsest tiles as quads of neighbours.

    The authors' three kernels and their rule: Push-CSC while less than 1 % of the vertices are in the frontier, else
    Push-CSR, and Pull-CSC to the end once no more than half as many vertices are without a level as in the frontier
    (constants of their program). In an undirected graph the words of rows are those of columns, stored once.
    kernel=paper: a warp takes a vertex of the frontier (Push-CSC), tiles of a row of them (Push-CSR) or an unvisited
    vertex (Pull-CSC), its threads a tile each, and every level has a launch of these, as in the authors' program.
    fast: a thread takes four words; vertices without neighbours do not count as unvisited; Push-CSR skips rows that
    have a level; one block runs several levels while Push-CSC has little to do; entries of sparse tiles are pulled
    where that reads less. Our reading: words of a row of tiles are stored row by row, so that those of a vertex are
    contiguous; entries of tiles with no more than `extract` of them are neighbours of their vertices, where the paper
    leaves them to GSwitch.
    """

    key = "tile-bfs"
    family = "BFS"
    reference = "Ji, Song, Lu, Jin, Tan & Liu, ICPP'22 (TileBFS)"
    op = "bfs"
    keeps_values = False
    square_only = True

    kernel = Parameter("fast", "paper: a warp per vertex; fast: a thread per four words", choices=("fast", "paper"))
    kernels = Parameter("123", "which of the authors' kernels may be chosen", choices=tuple(KERNELS))
    nt = Parameter(0, "rows and columns of a tile; 0: 64 beyond 10,000 vertices, else 32", choices=(0, 16, 32, 64))
    extract = Parameter(16, "entries of tiles with at most this many are stored separately", low=0, high=256)
    unroll = Parameter(6, "levels between two checks for the end of the search", choices=(6, 12, 24))
    blocks = Parameter(8, "thread blocks per multiprocessor", low=1, high=16)

    out: BitTiles  # the arcs that go out
    into: BitTiles | None  # those that come in; None where they are the same
    linked: int  # vertices that arcs lead to
    multiprocessors: int  # of the device
    shared_bytes: int  # of a block on it

    @classmethod
    def estimate(cls, a: Csr, *, nt: int, extract: int, **params: Any) -> int:
        side = side_in_use(a.rows, nt)
        return sum(BitTiles.estimate(each, nt=side, extract=extract) for each in (a, incoming(a)) if each is not None)

    @classmethod
    def convert(cls, a: Csr, *, nt: int, extract: int, **params: Any) -> dict[str, Any]:
        side, into, limits = side_in_use(a.rows, nt), incoming(a), device_limits(a)
        return {
            "out": BitTiles.of(a, side, extract),
            "into": into and BitTiles.of(into, side, extract),
            "linked": int(((into or a).row_lengths > 0).sum()),
            "multiprocessors": limits.multiprocessors,
            "shared_bytes": limits.shared_bytes,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.out.to_coo()

    @property
    def detail(self) -> dict[str, Any]:
        """Side and number of the tiles, with padding tiles, and the quads of extracted entries."""
        return {"nt": self.out.nt, "tiles": CHUNK * self.out.chunks, "quads": self.out.quads}

    def launches(self, x: Array, y: Array) -> list[Launch | Loop]:
        n, xp = self.shape[0], self.xp
        if n == 0:
            return []
        out, into = self.out, self.into or self.out
        nt, words, room = out.nt, 2 * cdiv(n, 64), max(out.chunks * out.nt + out.quads, 1)
        bits, queue = xp.empty(3 * words // 2, np.uint64).view(np.uint32), xp.empty(2 * room, np.int32)
        numbers = xp.empty(FRONTIERS * NUMBERS, np.int32)
        all_blocks = self.multiprocessors * self.params["blocks"]
        vertices = (np.int32(n), np.int32(words))
        rule = np.int32(KERNELS[self.params["kernels"]])
        tiles = (out.tile_cols, out.masks)
        inward = into.piece_row, into.piece_ptr, into.tile_cols, into.masks, into.quad_ptr, into.neighbours, into.rows
        if self.kernel == "paper":
            return self._as_paper(x, y, numbers, vertices, rule, inward)
        queued = (queue, np.int64(room))

        args: tuple[Any, ...] = (x, *vertices, np.int32(self.linked), out.rows, out.quad_ptr, y, bits, queue, numbers)
        start = Launch(KERNEL, f"tile_bfs_start<{nt}>", min(all_blocks, cdiv(n, LARGE_BLOCK)), LARGE_BLOCK, args)

        shared, kept = quads.shared_of_small(words, self.shared_bytes)
        limits = (np.int32(quads.ENTER), np.int32(quads.LEAVE))
        apart = (out.quad_ptr, out.neighbours)
        args = (*vertices, rule, *limits, out.rows, *tiles, *apart, bits, y, queue, numbers)
        steps = [Launch(KERNEL, f"tile_bfs_small<{nt}, {cbool(kept)}>", 1, SMALL_BLOCK, args, shared)]

        warps = LARGE_BLOCK // 32
        pieces = len(into.piece_row)
        work = max(cdiv(room, LARGE_BLOCK), cdiv(words, warps), cdiv(pieces * max(nt // 32, 1), warps))
        counts = (np.int32(pieces), np.int32(out.quads))
        for iteration in range(self.params["unroll"]):
            now = np.int32(iteration)
            args = (now, *vertices, rule, *counts, Struct(inward), *tiles, out.neighbours, bits, *queued, numbers)
            steps.append(Launch(KERNEL, f"tile_bfs_expand<{nt}>", min(all_blocks, work), LARGE_BLOCK, args))
            args = (now, *vertices, rule, out.rows, out.quad_ptr, bits, y, *queued, numbers)
            grid = min(all_blocks, cdiv(words, warps))
            steps.append(Launch(KERNEL, f"tile_bfs_settle<{nt}>", grid, LARGE_BLOCK, args))
        # A level that finds nothing ends the search; a frontier that is known by levels alone takes an iteration of its
        # own.
        return [*in_part("start", [start]), Loop(tuple(steps), numbers[:1], limit=2 * n, part="search")]

    def _as_paper(
        self, x: Array, y: Array, numbers: Array, vertices: tuple[Any, ...], rule: Any, inward: tuple[Array, ...]
    ) -> list[Launch | Loop]:
        """The launches of kernel=paper. vertices: how many, and 32-bit words of their bits."""
        out, xp, (n, words) = self.out, self.xp, map(int, vertices)
        bits, queue = xp.empty(2 * words, np.uint64).view(np.uint32), xp.empty(2 * n, np.int32)
        most = self.multiprocessors * self.params["blocks"]
        args: tuple[Any, ...] = (x, *vertices, y, bits, queue, numbers)
        start = Launch(KERNEL, f"tile_bfs_paper_start<{out.nt}>", min(most, cdiv(n, LARGE_BLOCK)), LARGE_BLOCK, args)
        steps = []
        pieces = np.int32(len(inward[0]))
        for iteration in range(self.params["unroll"]):
            now = np.int32(iteration)
            of_out = out.rows, out.tile_cols, out.masks, out.quad_ptr, out.neighbours
            args = (now, *vertices, rule, pieces, Struct(inward), *of_out, bits, y, queue, numbers)
            grid = min(most, cdiv(n, LARGE_BLOCK // 32))
            steps.append(Launch(KERNEL, f"tile_bfs_paper_expand<{out.nt}>", grid, LARGE_BLOCK, args))
            args = (now, *vertices, rule, bits, numbers)
            grid = min(most, cdiv(words, LARGE_BLOCK))
            steps.append(Launch(KERNEL, f"tile_bfs_paper_settle<{out.nt}>", grid, LARGE_BLOCK, args))
        return [*in_part("start", [start]), Loop(tuple(steps), numbers[:1], limit=2 * n, part="search")]

    def traced(self, x: Array, y: Array) -> tuple[list[Launch | Loop], Array] | None:
        launches = self.launches(x, y)
        numbers = launches[0].args[-1:] if launches else ()
        args = (np.int32(self.shape[0]), np.int32(KERNELS[self.params["kernels"]]), *numbers)
        return quads.traced(
            launches,
            ("tile_bfs_small", "tile_bfs_settle", "tile_bfs_paper_settle"),
            Launch(KERNEL, "tile_bfs_note", 1, 1, args),
        )
