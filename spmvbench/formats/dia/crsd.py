"""CRSD: segments of rows that share patterns of diagonals, and rows with other entries stored separately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, alike_lists, cdiv, expand, nonzero_mask, run_ptr, run_starts
from spmvbench.formats.base import Adding, Launch, Parameter, cbool, ctype, per_thread, register
from spmvbench.formats.csr.rows import CsrRows
from spmvbench.formats.dia.dia import diagonal_keys, filled
from spmvbench.formats.ellpack.ellpack import EllRows
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.kernels import constant

SEGMENT = constant("dia/pieces.cu", "BLOCK")  # rows, and threads of a block


class PatternDiagonals(Adding):
    """Segments of 128 rows with the diagonals of their own, lists of which are stored once: a part of a hybrid."""

    family = "DIA"
    reference = "Sun, Zhang, Wang, Zhang, Yuan & Rao, ICPP 2011"
    keeps_zeros = False

    segment_ptr: Array  # (segments + 1,), of the row pointers' type: the first diagonal of each segment
    pattern: Array  # (segments,), int32
    pattern_ptr: Array  # (patterns + 1,), int32
    offset: Array  # (diagonals of all patterns,), int32: col - row, ascending in a pattern
    values: Array  # (diagonals of all segments, 128), 0 if there is no entry

    @classmethod
    def _lists(cls, a: Csr) -> tuple[Array, dict[str, Array]]:
        """The keys of the diagonals, segment by segment, and the fields without values."""
        xp, span = a.xp, sum(a.shape)
        keys = xp.sort(diagonal_keys(a, SEGMENT))
        keys = keys[run_starts(keys)]
        ptr = xp.searchsorted(keys, xp.arange(cdiv(a.rows, SEGMENT) + 1) * span)
        offset = (keys % max(span, 1) - (a.rows - 1)).astype(np.int32)
        pattern, example = alike_lists(ptr, offset)
        lengths = xp.diff(ptr)[example]
        pattern_ptr = xp.zeros(len(example) + 1, dtype=np.int32)
        xp.cumsum(lengths, out=pattern_ptr[1:])
        owner = expand(pattern_ptr, int(pattern_ptr[-1]))
        stored = offset[ptr[example][owner] + xp.arange(len(owner)) - pattern_ptr[owner]]
        tables = {"pattern": pattern, "pattern_ptr": pattern_ptr, "offset": stored}
        return keys, tables | {"segment_ptr": ptr.astype(a.row_ptr.dtype)}

    @classmethod
    def estimate(cls, a: Csr, *_: Any, **params: Any) -> int:
        keys, tables = cls._lists(a)
        return sum(table.nbytes for table in tables.values()) + len(keys) * SEGMENT * a.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        keys, tables = cls._lists(a)
        return tables | {"values": filled(a, SEGMENT, keys)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        diagonal, place = self.xp.nonzero(nonzero_mask(self.values))
        segment = expand(self.segment_ptr, len(self.values))[diagonal]
        row = segment * SEGMENT + place
        rank = diagonal - self.segment_ptr[segment]
        offset = self.offset[self.pattern_ptr[self.pattern[segment]] + rank]
        return row, row + offset, self.values[diagonal, place]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows, cols = self.shape
        kernel = f"crsd_spmv<{ctype(self.values)}, {ctype(self.segment_ptr)}, {cbool(add)}>"
        lists = (self.segment_ptr, self.pattern, self.pattern_ptr, self.offset)
        args = (np.int32(rows), np.int32(cols), *lists, self.values, x, y)
        return [Launch("dia/pieces.cu", kernel, *per_thread(rows, SEGMENT), args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"patterns": len(self.pattern_ptr) - 1}


@register
class Crsd(Split):
    """Segments of 128 rows with dense diagonals, in patterns that segments share; other rows stored separately.

    A diagonal is live in a segment that has at least `live` entries on it. A row with an entry on none is stored
    whole in addition, in ELLPACK, or in CSR where the longest such row would make that larger than the matrix. The
    authors generate a kernel for each pattern; here one kernel reads it from a table. Segments, the threshold and
    what becomes of scattered rows are our reading of the survey's few sentences. A stored zero on a diagonal cannot
    be distinguished from padding, so decoding leaves it out.
    """

    key = "crsd"
    family = "DIA"
    survey_name = "CRSD"
    reference = "Sun, Zhang, Wang, Zhang, Yuan & Rao, ICPP 2011"
    formats = (PatternDiagonals, EllRows, CsrRows)

    live = Parameter(3, "least entries of a diagonal in a segment to be stored as one", low=1, high=SEGMENT)

    @classmethod
    def split(cls, a: Csr, *, live: int) -> Iterator[Piece]:
        xp = a.xp
        keys = diagonal_keys(a, SEGMENT)
        ordered = xp.sort(keys)
        runs = run_ptr(ordered)
        dead = xp.diff(runs)[xp.searchsorted(ordered[runs[:-1]], keys)] < live if a.nnz else xp.zeros(0, dtype=bool)
        scattered = xp.zeros(a.rows, dtype=bool)
        scattered[a.row_idx[dead]] = True
        apart = scattered[a.row_idx]
        rest = a.where(apart)
        rows = int(xp.count_nonzero(scattered))
        yield Piece("diagonals", PatternDiagonals, a if not rows else a.where(~apart))
        yield Piece("rows", EllRows if rest.row_len_max * rows <= a.nnz else CsrRows, rest)
