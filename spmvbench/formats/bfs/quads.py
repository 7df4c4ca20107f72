"""Adjacency in quads of neighbours, searched by pushing from the frontier, or by pulling where that is less work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, array_module, cdiv, expand, inverse, offsets, stable_order
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Loop, cbool, in_part, only_kernels
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "bfs/bfs.cu"
QUAD = 4  # neighbours: an int4
FRONTIERS, NOTES = (constant(KERNEL, name) for name in ("FRONTIERS", "NOTES"))
SMALL_BLOCK, LARGE_BLOCK = (constant("include/bfs.cuh", name) for name in ("SMALL_BLOCK", "LARGE_BLOCK"))
# Quads of a frontier that one block takes on, and that it holds in shared memory: beyond, all blocks work.
ENTER, LEAVE = 1024, 4096
MOST_PITCH = 2  # quads of a vertex, at most, for all vertices to have as many
TRACED = 4096  # levels that a trace has room for
STATIC_SHARED_BYTES = 1024  # at most, of the kernel of one block


def by_degree(degrees: Array) -> Array:
    """The order by falling power of two of the degree, equal ones staying in place: hubs together, most else too.

    Faldu, Diamond & Grot, "A Closer Look at Lightweight Graph Reordering", IISWC 2019: degree-based grouping.
    """
    xp = array_module(degrees)
    lower = xp.asarray([2**bit for bit in range(31)])
    classes = xp.searchsorted(lower, degrees.astype(np.int64), side="right")  # 0: no neighbours
    return stable_order(len(lower) - classes.astype(np.int64), len(lower) + 1).astype(np.int32)


def incoming(a: Csr) -> Csr | None:
    """The transposed pattern, whose rows are the arcs that come in; None if it is the pattern itself."""
    xp, n = a.xp, max(a.rows, 1)
    arcs = xp.sort(a.col_idx.astype(np.int64) * n + a.row_idx)
    if bool((arcs == a.row_idx.astype(np.int64) * n + a.col_idx).all()):
        return None
    row_ptr = xp.searchsorted(arcs // n, xp.arange(a.rows + 1)).astype(a.row_ptr.dtype)
    return Csr(a.shape, row_ptr, (arcs % n).astype(np.int32), a.values)


def without_loops(a: Csr) -> tuple[Array, Csr]:
    """(bits, arcs): which vertices have an arc to themselves, (ceil(vertices / 32),), uint32, and all other arcs."""
    xp = a.xp
    loops = a.row_idx == a.col_idx
    has = xp.zeros(32 * cdiv(a.rows, 32), dtype=bool)
    has[a.row_idx[loops]] = True
    return xp.packbits(has, bitorder="little").view(np.uint32), a.where(~loops) if bool(loops.any()) else a


def with_loops(bits: Array, row: Array, col: Array) -> tuple[Array, Array]:
    """(row, col) of all arcs, those that `without_loops` has taken off included."""
    xp = array_module(bits)
    loops = xp.flatnonzero(xp.unpackbits(bits.view(np.uint8), bitorder="little")).astype(row.dtype)
    return xp.concatenate((row, loops)), xp.concatenate((col, loops))


def common_pitch(degrees: Array) -> int:
    """Quads that each vertex has if all have as many: 1 or 2, as far as some vertex needs; 0 if they differ.

    Two quads are a sector of memory. A vertex without neighbours has no quad.
    """
    if not len(degrees) or int(degrees.min()) == 0:
        return 0
    most = int(cdiv(degrees.max(), QUAD))
    return most if most <= MOST_PITCH else 0


def quads_of(degrees: Array, neighbours: Array, pitch: int = 0) -> tuple[Array, Array]:
    """(quad_ptr, neighbours) with every vertex's neighbours padded to whole quads by the last one again.

    degrees: (vertices,). neighbours: vertex by vertex, rising in each. pitch: quads of each vertex, 0 for as many as it
    needs. Raises Skip if kernels could not number them.
    """
    xp = array_module(degrees)
    quad_ptr = offsets(xp.full(len(degrees), pitch, degrees.dtype) if pitch else cdiv(degrees, QUAD))
    quads = int(quad_ptr[-1])
    if quads > INT32_MAX // 2:
        raise Skip(f"{quads:,} quads of neighbours are more than the kernels can number")
    owner = expand(quad_ptr, quads)
    rank = QUAD * (xp.arange(quads, dtype=np.int32) - quad_ptr[owner])[:, None] + xp.arange(QUAD, dtype=np.int32)
    entry = offsets(degrees)[owner][:, None] + xp.minimum(rank, (degrees[owner] - 1)[:, None])
    return quad_ptr, neighbours[entry].reshape(-1)


def from_quads(quad_ptr: Array, neighbours: Array) -> tuple[Array, Array]:
    """(rows, cols) of what `quads_of` was given."""
    xp = array_module(quad_ptr)
    padding = xp.zeros(len(neighbours), bool)
    padding[1:] = neighbours[1:] == neighbours[:-1]
    padding[QUAD * quad_ptr[:-1][xp.diff(quad_ptr) > 0].astype(np.int64)] = False
    slot = xp.flatnonzero(~padding)
    return expand(quad_ptr, len(neighbours) // QUAD)[slot // QUAD], neighbours[slot]


def shared_of_small(words: int, shared_bytes: int) -> tuple[int, bool]:
    """Dynamic shared memory of the kernel of one block, and whether it holds the `words` of visited bits too."""
    queues = 2 * 4 * LEAVE
    kept = queues + 4 * words + STATIC_SHARED_BYTES <= shared_bytes
    return queues + (4 * words if kept else 0), kept


def traced(
    launches: list[Launch | Loop], ends: Iterable[str], note: Launch
) -> tuple[list[Launch | Loop], Array] | None:
    """A search that also notes its levels, and where, as `Format.traced` says.

    launches: the start and the loop. ends: kernels that end levels; the first argument of all but those of one block is
    the number of their iteration. note: the kernel that notes, its arguments without iteration, trace and counter.
    """
    if not launches:
        return None
    first, loop = launches
    assert isinstance(first, Launch) and isinstance(loop, Loop)
    xp = array_module(loop.more)
    trace, noted = xp.zeros((TRACED, 2), np.int64), xp.zeros(1, np.int32)

    def noting(iteration: int) -> Launch:
        return replace(note, args=(np.int32(iteration), *note.args, trace, np.int32(TRACED), noted))

    steps = []
    for step in only_kernels(loop.steps):
        steps.append(step)
        name = step.kernel.partition("<")[0]
        if name in ends:
            steps.append(noting(-1 if name.endswith("_small") else int(step.args[0])))
    return [first, noting(-2), replace(loop, steps=tuple(steps))], trace


class QuadSearch(Format):
    """A pattern without values: quads of neighbours, the last of a vertex padded by its last neighbour.

    Arcs from a vertex to itself, which no search follows, are a bit each. If no vertex has more than eight neighbours
    and none has none, all have as many quads, so that a search on one block knows where they are without a load.
    """

    family = "BFS"
    op = "bfs"
    keeps_values = False
    square_only = True
    project_kernel = True
    pull: ClassVar[bool]

    order = Parameter(
        "natural",
        "order of vertices: the matrix's, or by degree, highest first, in powers of two",
        choices=("natural", "degree"),
    )
    unroll = Parameter(6, "levels between two checks for the end of the search", choices=(6, 12, 24))
    blocks = Parameter(8, "thread blocks per multiprocessor", low=1, high=16)
    seen = Parameter(0, "visited vertices that a block remembers, to skip further loads", choices=(0, 1024, 2048))

    place: Array  # (vertices,), int32: where each vertex is in the order; without any in the natural one
    quad_ptr: Array  # (vertices + 1,), int32: the first quad of each vertex, in the order
    neighbours: Array  # (4 quads,), int32: their places, rising in each vertex
    in_ptr: Array  # as quad_ptr, of the arcs that come in; empty if those are the same, or nothing is pulled
    in_neighbours: Array  # as neighbours, of those arcs
    loops: Array  # (ceil(vertices / 32),), uint32: bits of the vertices that have an arc to themselves
    pitch: int  # quads of each vertex; 0 if they differ
    linked: int  # vertices that arcs lead to
    multiprocessors: int  # of the device
    shared_bytes: int  # of a block on it

    @classmethod
    def estimate(cls, a: Csr, *, order: str, **params: Any) -> int:
        rest = without_loops(a)[1]
        into = incoming(rest) if cls.pull else None
        pitch = common_pitch(rest.row_lengths)
        quads = [pitch * a.rows or int(cdiv(rest.row_lengths, QUAD).sum(dtype=np.int64))]
        if into is not None:
            quads.append(int(cdiv(into.row_lengths, QUAD).sum(dtype=np.int64)))
        ordering = 4 * a.rows if order == "degree" else 0
        return sum(4 * (a.rows + 1) + 4 * QUAD * n for n in quads) + ordering + 4 * cdiv(a.rows, 32)

    @classmethod
    def convert(cls, a: Csr, *, order: str, **params: Any) -> dict[str, Any]:
        xp, none = a.xp, a.xp.empty(0, np.int32)
        loops, a = without_loops(a)
        into = incoming(a) if cls.pull else None
        pitch = common_pitch(a.row_lengths)
        by_place = by_degree(a.row_lengths) if order == "degree" else None
        place = none if by_place is None else inverse(by_place, a.rows)
        limits = device_limits(a)

        def ordered(a: Csr, pitch: int = 0) -> tuple[Array, Array]:
            if by_place is None:
                return quads_of(a.row_lengths, a.col_idx, pitch)
            n = max(a.rows, 1)
            arcs = xp.sort(place[a.row_idx].astype(np.int64) * n + place[a.col_idx])
            return quads_of(a.row_lengths[by_place], (arcs % n).astype(np.int32), pitch)

        quad_ptr, neighbours = ordered(a, pitch)
        in_ptr, in_neighbours = (none, none) if into is None else ordered(into)
        return {
            "place": place,
            "quad_ptr": quad_ptr,
            "neighbours": neighbours,
            "in_ptr": in_ptr,
            "in_neighbours": in_neighbours,
            "loops": loops,
            "pitch": pitch,
            "linked": int(((a if into is None else into).row_lengths > 0).sum()),
            "multiprocessors": limits.multiprocessors,
            "shared_bytes": limits.shared_bytes,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        row, col = from_quads(self.quad_ptr, self.neighbours)
        if (by_place := self.y_order) is not None:
            row, col = by_place[row], by_place[col]
        row, col = with_loops(self.loops, row, col)
        return row, col, self.xp.ones(len(row))

    @property
    def y_order(self) -> Array | None:
        return inverse(self.place, self.shape[0]) if len(self.place) else None

    def launches(self, x: Array, y: Array) -> list[Launch | Loop]:
        n, xp = self.shape[0], self.xp
        if n == 0:
            return []
        quads, words = len(self.neighbours) // QUAD, cdiv(n, 32)
        graph = (self.quad_ptr, self.neighbours)
        into = (self.in_ptr, self.in_neighbours) if len(self.in_ptr) else graph
        # Only linked vertices are ever looked for: in the order by degree all others come last.
        scanned = self.linked if len(self.place) and into is graph else n
        room = max(quads, 1)
        visited, queue = xp.empty(2 * words, np.uint32), xp.empty(2 * room, np.int32)
        sizes, notes = xp.empty(FRONTIERS, np.uint64), xp.empty(FRONTIERS * NOTES, np.int32)
        shared = (queue, np.int64(room), sizes, notes)
        most = self.multiprocessors * self.params["blocks"]

        start = f"bfs_start<{cbool(len(self.place) > 0)}>"
        grid = min(most, cdiv(n, LARGE_BLOCK))
        numbers = (np.int32(n), np.int32(self.linked))
        args: tuple[Any, ...] = (x, self.place, *numbers, self.quad_ptr, y, visited, queue, sizes, notes)
        first = in_part("start", [Launch(KERNEL, start, grid, LARGE_BLOCK, args)])

        shared_of_one, kept = shared_of_small(words, self.shared_bytes)
        sizes_of_small = (np.int32(words), np.int32(ENTER), np.int32(LEAVE))
        args = (*sizes_of_small, *graph, visited, y, queue, sizes, notes)
        small = Launch(KERNEL, f"bfs_small<{cbool(kept)}, {self.pitch}>", 1, SMALL_BLOCK, args, shared_of_one)

        grid = min(most, max(cdiv(quads, LARGE_BLOCK), cdiv(words, LARGE_BLOCK // 32)))
        sizes_of_all = (np.int32(n), np.int32(scanned), np.int32(words), np.int32(quads))
        level = f"bfs_level<{cbool(self.pull)}, {self.params['seen']}>"
        all_blocks = [
            Launch(
                KERNEL,
                level,
                grid,
                LARGE_BLOCK,
                (np.int32(iteration), *sizes_of_all, *graph, *into, visited, y, *shared),
            )
            for iteration in range(self.params["unroll"])
        ]
        return [*first, Loop((small, *all_blocks), sizes.view(np.int32)[:1], limit=n, part="search")]

    @property
    def detail(self) -> dict[str, Any]:
        return {"pitch": self.pitch}

    def traced(self, x: Array, y: Array) -> tuple[list[Launch | Loop], Array] | None:
        launches = self.launches(x, y)
        notes = launches[0].args[-2:] if launches else ()
        return traced(launches, ("bfs_small", "bfs_level"), Launch(KERNEL, "bfs_note", 1, 1, notes))


@register
class BfsPush(QuadSearch):
    """Quads of neighbours; on each level threads read the quads of the frontier and list those of new vertices."""

    key = "bfs-push"
    reference = "this project; frontier queues as in Merrill, Garland & Grimshaw, PPoPP 2012"
    pull = False


@register
class BfsDo(QuadSearch):
    """Quads of neighbours, hubs first; each level is pushed, or pulled by unvisited vertices if that reads less."""

    key = "bfs-do"
    reference = "this project; directions as in Beamer, Asanovic & Patterson, SC'12"
    pull = True
    order = QuadSearch.order.defaulting("degree")
