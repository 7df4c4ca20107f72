"""BRCSD: blocks of rows with diagonals of their own, and kernels that are generated for lists of diagonals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, on_host
from spmvbench.formats.dia.crsd import SEGMENT, PatternDiagonals
from spmvbench.formats.dia.dia import Dia
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "dia/brcsd.cu"
THREADS = constant(SOURCE, "THREADS")
EACH = constant(SOURCE, "EACH")  # rows of a thread
MOST_DIAGONALS = 32  # of a list with a kernel of its own
MOST_KERNELS = 4
FEWER = 0.9  # of DIA's bytes, up to which row blocks are taken


class Generated(NamedTuple):
    """A list of diagonals with a kernel of its own: the offsets, and the row blocks that have it."""

    offsets: tuple[int, ...]
    first: int  # of its row blocks in `members`
    blocks: int


class RowBlocks(PatternDiagonals):
    """Blocks of 128 rows, their diagonals stored whole; lists of diagonals of each block, or those that differ."""

    reference = "Gao, Xia, Yin & He, JPDC 157, 2021"

    lists = Parameter("shared", "own: a list for each row block; shared: lists that differ", choices=("own", "shared"))
    least = Parameter(16384, "row blocks of a list, from which it has a kernel of its own; 0: none has", low=0)

    members: Array  # (row blocks,), int32: those of lists with kernels of their own first, list by list
    generated: tuple[Generated, ...]

    @classmethod
    def fields(cls, a: Csr, lists: str) -> tuple[Array, dict[str, Array]]:
        """The keys of the diagonals, and the fields of `PatternDiagonals` without values."""
        keys, tables = cls._lists(a)
        if lists == "own":
            ptr = tables["segment_ptr"]
            offset = (keys % max(sum(a.shape), 1) - (a.rows - 1)).astype(np.int32)
            own = {"pattern": a.xp.arange(len(ptr) - 1, dtype=np.int32), "offset": offset}
            tables = tables | own | {"pattern_ptr": ptr.astype(np.int32)}
        return keys, tables

    @classmethod
    def estimate(cls, a: Csr, *, lists: str, **params: Any) -> int:
        keys, tables = cls.fields(a, lists)
        blocks = len(tables["segment_ptr"]) - 1
        return sum(table.nbytes for table in tables.values()) + len(keys) * SEGMENT * a.dtype.itemsize + 4 * blocks

    @classmethod
    def convert(cls, a: Csr, *, lists: str, least: int, **params: Any) -> dict[str, Any]:
        xp, found = a.xp, super().convert(a)
        _, tables = cls.fields(a, lists)
        pattern, count = tables["pattern"], len(tables["pattern_ptr"]) - 1
        order = xp.argsort(pattern, kind="stable").astype(np.int32)
        generated: list[Generated] = []
        if lists == "shared" and least and count:
            sizes, ptr = on_host(xp.bincount(pattern, minlength=count)), on_host(tables["pattern_ptr"])
            offset, lengths = on_host(tables["offset"]), np.diff(ptr)
            fitting = np.flatnonzero((sizes >= least) & (lengths <= MOST_DIAGONALS))
            chosen = fitting[np.argsort(-sizes[fitting], kind="stable")][:MOST_KERNELS]
            rank = np.full(count, len(chosen))
            rank[chosen] = np.arange(len(chosen))
            order = xp.argsort(xp.asarray(rank)[pattern], kind="stable").astype(np.int32)
            first = 0
            for p in chosen:
                listed = tuple(offset[ptr[p] : ptr[p + 1]].tolist())
                generated.append(Generated(listed, first, int(sizes[p])))
                first += int(sizes[p])
        return found | tables | {"members": order, "generated": tuple(generated)}

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows, cols = self.shape
        types = f"{ctype(self.values)}, {ctype(self.segment_ptr)}, {cbool(add)}"
        sizes = np.int32(rows), np.int32(cols)
        launches, done = [], 0
        for each in self.generated:
            offsets = "".join(f", {offset}" for offset in each.offsets)
            args = (np.int32(each.first), np.int32(each.blocks), *sizes, self.members, self.segment_ptr, self.values)
            grid = cdiv(each.blocks * SEGMENT, THREADS * EACH)
            launches.append(Launch(SOURCE, f"brcsd_list<{types}{offsets}>", grid, THREADS, (*args, x, y)))
            done += each.blocks
        left = len(self.members) - done
        tables = self.members, self.segment_ptr, self.pattern, self.pattern_ptr, self.offset, self.values
        others = Launch(SOURCE, f"brcsd_table<{types}>", left, SEGMENT, (np.int32(done), *sizes, *tables, x, y))
        return [*launches, others] if left or not launches else launches

    @property
    def detail(self) -> dict[str, Any]:
        blocks = sum(each.blocks for each in self.generated)
        return {**super().detail, "kernels": len(self.generated), "row_blocks_with_kernels": blocks}


@register
class Brcsd(Split):
    """DIA, or blocks of 128 rows with diagonals of their own (BRCSD), with kernels generated for lists of diagonals.

    A row block stores whole diagonals that have an entry in it, scattered ones too. BRCSD-I has a list of diagonals for
    each row block, BRCSD-II one for all row blocks with the same; here that of fewest bytes of the two is taken, or DIA
    if that is less than a ninth more: its kernel is faster for each byte, 1,619 GFLOPS and 1,540 on fem:60:3 (f32,
    H200). With BRCSD-II the up to four commonest lists have kernels of their own, in which the offsets are constants,
    and one kernel with tables does the others. A launch for each list pays from about two million rows: pde:200 had 762
    GFLOPS with and 734 without, pde:100 620 and 835 (f64).

    Of the paper only the abstract was to be had. The number of rows, the choice by bytes and which lists have kernels
    are our reading; the authors search by the matrix's properties. A stored zero cannot be told from padding, so
    decoding leaves zeros out.
    """

    key = "brcsd"
    family = "DIA"
    reference = "Gao, Xia, Yin & He, Adaptive diagonal SpMV on GPU, JPDC 157, 2021"
    multiplies_padding = True
    formats = (Dia, RowBlocks)

    storage = Parameter("auto", "auto: by their bytes", choices=("auto", "dia", "brcsd-1", "brcsd-2"))
    least = RowBlocks.least

    @classmethod
    def split(cls, a: Csr, *, storage: str, least: int) -> Iterator[Piece]:
        choices = {
            "brcsd-2": Piece("brcsd-2", RowBlocks, a, {"least": least}),
            "brcsd-1": Piece("brcsd-1", RowBlocks, a, {"lists": "own"}),
            "dia": Piece("dia", Dia, a),
        }
        if storage == "auto":
            storage = min(("brcsd-2", "brcsd-1"), key=lambda name: choices[name].nbytes)
            storage = storage if choices[storage].nbytes <= FEWER * choices["dia"].nbytes else "dia"
        yield choices[storage]
