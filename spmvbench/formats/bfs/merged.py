"""Adjacency whose vertices with the same neighbours are one, searched as quads of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, alike_lists, cdiv, expand, offsets
from spmvbench.formats.bfs.quads import BfsDo, BfsPush, QuadSearch, incoming, with_loops, without_loops
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, Loop, in_part, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "bfs/merged.cu"
SEARCHES: dict[str, type[QuadSearch]] = {"push": BfsPush, "do": BfsDo}


def closed(a: Csr) -> tuple[Array, Array]:
    """(row_ptr, col_idx) of the pattern with every diagonal entry, columns ascending."""
    xp, n = a.xp, max(a.rows, 1)
    arcs = a.row_idx.astype(np.int64) * n + a.col_idx
    own = xp.arange(a.rows, dtype=np.int64) * (n + 1)
    arcs = xp.sort(xp.concatenate((arcs[a.row_idx != a.col_idx], own)))
    row_ptr = xp.searchsorted(arcs // n, xp.arange(a.rows + 1))
    return row_ptr.astype(np.int64), (arcs % n).astype(np.int32)


def representatives(a: Csr) -> Array:
    """The first vertex that has the same neighbours as each vertex, both counted among them, (vertices,), int32.

    In a directed graph all vertices stay apart.
    """
    xp = a.xp
    own = xp.arange(a.rows, dtype=np.int32)
    if not a.rows or incoming(a) is not None:
        return own
    kind, example = alike_lists(*closed(a))
    return example[kind].astype(np.int32)


def merged(a: Csr) -> tuple[Array, Csr]:
    """The merged vertex of each vertex, (vertices,), int32, and the arcs among different ones."""
    xp, first = a.xp, representatives(a)
    is_first = first == xp.arange(a.rows, dtype=np.int32)
    number = (xp.cumsum(is_first) - 1).astype(np.int32)
    kept = a.where(is_first[a.row_idx] & is_first[a.col_idx] & (a.row_idx != a.col_idx))
    rows = xp.flatnonzero(is_first)
    row_ptr = xp.append(kept.row_ptr[rows], kept.row_ptr[-1:])
    return number[first], Csr((len(rows), len(rows)), row_ptr, number[kept.col_idx], kept.values)


@register
class BfsMerged(Format):
    """Vertices with the same neighbours as one, themselves counted among these; quads of neighbours of what is left.

    Such vertices have the same level, unless one is the source: then the others have level 1. In finite elements the
    unknowns of a node are such: three of each node leave a third of the vertices and a ninth of the arcs, so that
    fewer threads find the same vertex, and one block runs more of the levels. A directed graph stays as it is. The
    levels of all vertices are written at the end.
    """

    key = "bfs-merged"
    family = "BFS"
    reference = "this project; merged vertices: Ashcraft, SIAM J. Sci. Comput. 16(6), 1995"
    op = "bfs"
    keeps_values = False
    square_only = True
    project_kernel = True

    search = Parameter("push", "push: the search of bfs-push; do: that of bfs-do", choices=tuple(SEARCHES))
    unroll = QuadSearch.unroll.defaulting(12)

    owner: Array  # (vertices,), int32: the merged vertex of each
    diagonal: Array  # (ceil(vertices / 32),), uint32: bits of the vertices that have an arc to themselves
    quads: QuadSearch  # of the merged vertices

    @classmethod
    def _settings(cls, search: str, unroll: int) -> tuple[type[QuadSearch], dict[str, Any]]:
        chosen = SEARCHES[search]
        return chosen, chosen.resolve({"order": "natural", "unroll": unroll})

    @classmethod
    def estimate(cls, a: Csr, *, search: str, unroll: int, **params: Any) -> int:
        chosen, settings = cls._settings(search, unroll)
        return 4 * a.rows + 4 * cdiv(a.rows, 32) + chosen.estimate(merged(a)[1], **settings)

    @classmethod
    def convert(cls, a: Csr, *, search: str, unroll: int, **params: Any) -> dict[str, Any]:
        owner, rest = merged(a)
        chosen, settings = cls._settings(search, unroll)
        return {
            "owner": owner,
            "diagonal": without_loops(a)[0],
            "quads": chosen.converted(rest, **settings),
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, n = self.xp, self.shape[0]
        row, col, _ = self.quads.to_coo()
        most = self.quads.shape[0]
        own = xp.arange(most, dtype=row.dtype)
        row, col = xp.concatenate((row, own)), xp.concatenate((col, own))
        # Every arc between two merged vertices is one between any of theirs.
        members = xp.argsort(self.owner, kind="stable")
        sizes = xp.bincount(self.owner, minlength=most) if n else xp.zeros(0, dtype=np.int64)
        first = offsets(sizes)
        pairs = offsets(sizes[row] * sizes[col])
        arc = expand(pairs, int(pairs[-1]))
        inside = xp.arange(len(arc), dtype=np.int64) - pairs[arc]
        width = sizes[col[arc]]
        rows, cols = members[first[row[arc]] + inside // width], members[first[col[arc]] + inside % width]
        others = rows != cols
        rows, cols = with_loops(self.diagonal, rows[others].astype(np.int32), cols[others].astype(np.int32))
        return rows, cols, xp.ones(len(rows))

    def launches(self, x: Array, y: Array) -> list[Launch | Loop]:
        n, xp = self.shape[0], self.xp
        if n == 0:
            return []
        source, found = xp.empty(1, np.int32), xp.empty(self.quads.shape[0], np.int32)
        begin = Launch(KERNEL, "merged_source", 1, 32, (x, np.int32(n), self.owner, source))
        end = Launch(KERNEL, "merged_levels", *per_thread(n), (x, np.int32(n), self.owner, found, y))
        return [*in_part("start", [begin]), *self.quads.launches(source, found), *in_part("levels", [end])]

    @property
    def detail(self) -> dict[str, Any]:
        return {"merged_vertices": self.quads.shape[0]}
