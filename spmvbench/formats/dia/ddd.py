"""DDD: dense diagonals of their exact length, and CSR; whole, or cut where one of them begins or ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import (
    Array,
    Csr,
    cdiv,
    diagonal_places,
    expand,
    nonzero_mask,
    on_diagonals,
    on_host,
    round_up,
)
from spmvbench.formats.conversion import runner
from spmvbench.formats.csr.csr import lanes_by_mean
from spmvbench.formats.csr.rows import CsrRows
from spmvbench.formats.dia.dia import diagonal_sizes, saves_bytes
from spmvbench.formats.format import Adding, Format
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

BLOCK = constant("dia/pieces.cu", "BLOCK")  # threads
ROWS = constant("dia/pieces.cu", "ROWS")  # neighbouring rows of a thread between two cuts
MOST = 4096  # diagonals that are cut: of more, the table of what is there between cuts outgrows the matrix


def spans(offset: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """The first row of each diagonal, and the row after its last, both int64."""
    rows, cols = shape
    offset = offset.astype(np.int64)
    return (-offset).clip(0, None), (cols - offset).clip(None, rows)


class NaiveDiagonals(Adding):
    """Every non-empty diagonal at its exact length, one after the other: a part of a hybrid."""

    family = "DIA"
    reference = "Yuan, Zhang, Sun & Wang, HPCC 2010"
    keeps_zeros = False

    offset: Array  # (diagonals,), int32: col - row, ascending
    first: Array  # (diagonals,), int64: place of the value of row 0; before the diagonal's values if it has none
    values: Array  # (places of all diagonals,)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        begin, end = spans(a.diagonals, a.shape)
        return 12 * len(begin) + int((end - begin).sum()) * a.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, offset = a.xp, a.diagonals
        begin, end = spans(offset, a.shape)
        ptr = xp.zeros(len(offset) + 1, dtype=np.int64)
        xp.cumsum(end - begin, out=ptr[1:])
        first = ptr[:-1] - begin
        values = xp.zeros(int(ptr[-1]), dtype=a.dtype)
        if a.nnz:
            values[first[diagonal_places(a.diagonal, offset, a.shape)] + a.row_idx] = a.values
        return {"offset": offset, "first": first, "values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(nonzero_mask(self.values))
        begin, _ = spans(self.offset, self.shape)
        diagonal = self.xp.searchsorted(self.first + begin, slot, side="right") - 1
        row = slot - self.first[diagonal]
        return row, row + self.offset[diagonal], self.values[slot]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows, cols = self.shape
        kernel = f"ddd_naive<{ctype(self.values)}, {cbool(add)}>"
        sizes = np.int32(rows), np.int32(cols), np.int32(len(self.offset))
        args = (*sizes, self.offset, self.first, self.values, x, y)
        return [Launch("dia/pieces.cu", kernel, *per_thread(rows, BLOCK), args, row_lanes=1)]


class Segments(NamedTuple):
    """The rows between cuts, and the diagonals that are there; on the host."""

    cut: (
        np.ndarray
    )  # (segments + 1,), int32: every row at which a diagonal begins or ends, the first and after the last
    active: np.ndarray  # (segments, diagonals), bool
    pitch: np.ndarray  # (segments,), int64: places of a diagonal, its rows and what makes them even
    value_ptr: np.ndarray  # (segments + 1,), int64
    offset_ptr: np.ndarray  # (segments + 1,), int32

    @classmethod
    def of(cls, offset: np.ndarray, shape: tuple[int, int]) -> Segments:
        begin, end = spans(offset, shape)
        cut = np.unique(np.concatenate([begin, end, [0, shape[0]]]).clip(0, shape[0]))
        active = (begin <= cut[:-1, None]) & (cut[1:, None] <= end)
        counts = active.sum(axis=1)
        pitch = round_up(np.diff(cut), ROWS)
        value_ptr = np.concatenate([[0], np.cumsum(counts * pitch)])
        offset_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return cls(cut.astype(np.int32), active, pitch, value_ptr, offset_ptr)

    @property
    def tiles(self) -> tuple[np.ndarray, np.ndarray]:
        """What each block of threads finds: the fields `tiles` and `start` of `CutDiagonals`."""
        height, size = np.diff(self.cut), ROWS * BLOCK
        counts = cdiv(height, size)
        segment = np.repeat(np.arange(len(counts)), counts)
        before = size * (np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts))
        rows = np.minimum(height[segment] - before, size)
        tiles = self.cut[segment] + before, rows, np.diff(self.offset_ptr)[segment], self.offset_ptr[segment]
        start = self.value_ptr[segment] + before, self.pitch[segment]
        return np.stack(tiles, axis=1).astype(np.int32), np.stack(start, axis=1)


class CutDiagonals(Adding):
    """Diagonals cut at every row at which one of them begins or ends, segment by segment: a part of a hybrid."""

    family = "DIA"
    reference = "Yuan, Zhang, Sun & Wang, HPCC 2010"
    keeps_zeros = False

    cut: Array  # (segments + 1,), int32: first row of each, then the rows
    value_ptr: Array  # (segments + 1,), int64
    offset_ptr: Array  # (segments + 1,), int32
    offset: Array  # (diagonals of all segments,), int32: col - row, ascending in a segment
    tiles: Array  # (blocks of threads, 4), int32: first row, rows, diagonals, and where their offsets begin
    start: Array  # (blocks of threads, 2), int64: where its values begin, and the places of a diagonal
    values: Array  # (places,): diagonal by diagonal in a segment, after those of an odd number of rows a 0

    @classmethod
    def _segments(cls, a: Csr) -> Segments:
        offset = on_host(a.diagonals)
        if len(offset) > MOST:
            raise Skip(f"{len(offset):,} dense diagonals, more than the {MOST:,} that are cut")
        return Segments.of(offset, a.shape)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        found = cls._segments(a)
        tables = found.cut.nbytes + found.value_ptr.nbytes + found.offset_ptr.nbytes
        tables += sum(array.nbytes for array in found.tiles)
        return tables + 4 * int(found.offset_ptr[-1]) + int(found.value_ptr[-1]) * a.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, found = a.xp, cls._segments(a)
        offset = on_host(a.diagonals)[np.nonzero(found.active)[1]]
        tables = {"cut": found.cut, "value_ptr": found.value_ptr, "offset_ptr": found.offset_ptr, "offset": offset}
        tables |= dict(zip(("tiles", "start"), found.tiles, strict=True))
        fields = {name: xp.asarray(array) for name, array in tables.items()}
        values = xp.zeros(int(found.value_ptr[-1]), dtype=a.dtype)
        if a.nnz:
            rank = xp.asarray((found.active.cumsum(axis=1) - 1).astype(np.int32))
            segment = expand(fields["cut"], a.rows)[a.row_idx]
            diagonal = diagonal_places(a.diagonal, a.diagonals, a.shape)
            pitch = xp.asarray(found.pitch)[segment]
            slot = fields["value_ptr"][segment] + rank[segment, diagonal] * pitch + a.row_idx - fields["cut"][segment]
            values[slot] = a.values
        return fields | {"values": values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, slot = self.xp, self.xp.flatnonzero(nonzero_mask(self.values))
        segment = xp.searchsorted(self.value_ptr, slot, side="right") - 1
        pitch = round_up(xp.diff(self.cut), ROWS)[segment]
        diagonal, row = xp.divmod(slot - self.value_ptr[segment], pitch)
        row = row + self.cut[segment]
        return row, row + self.offset[self.offset_ptr[segment] + diagonal], self.values[slot]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        kernel = f"ddd_split<{ctype(self.values)}, {cbool(add)}>"
        args = (np.int32(self.shape[1]), self.tiles, self.start, self.offset, self.values, x, y)
        return [Launch("dia/pieces.cu", kernel, len(self.tiles), BLOCK, args)]


def rest_lanes(rest: Csr, entries: int) -> int:
    """Threads for a row of the rest of a matrix of so many entries; 0: by the mean row, as anywhere.

    Where most entries are on dense diagonals and rows of the rest are short, half as many: the rest is on diagonals,
    too, and rows side by side then read x side by side. On an H200 the rest of fem:40:3 takes 15.4 us so in place of
    18.6 (17 entries per row, double precision), and 4.2 in place of 5.4 (9 per row, single precision).
    """
    rows = int(rest.xp.count_nonzero(rest.row_lengths))
    lanes = lanes_by_mean(rest.nnz / max(rows, 1))
    return lanes // 2 if 2 * rest.nnz < entries and lanes in (4, 8) else 0


class Ddd(Split):
    """Dense diagonals in a storage of their own, the other entries in CSR of the rows that have any."""

    dense: ClassVar[type[Format]]
    multiplies_padding = True

    fill = Parameter(0.0, "fill from which a diagonal is stored dense; 0: if that saves bytes", low=0, high=1)

    def __init_subclass__(cls) -> None:
        cls.formats = (cls.dense, CsrRows)
        super().__init_subclass__()

    @classmethod
    def split(cls, a: Csr, *, fill: float) -> Iterator[Piece]:
        offset, held, length = diagonal_sizes(a, runner(a))
        dense = held >= fill * length if fill else saves_bytes(held, length, a.dtype)
        on = on_diagonals(a.diagonal, offset[dense], a.shape)
        whole = bool(on.all())
        yield Piece("dia", cls.dense, a if whole else a.where(on))
        rest = a.where(~on)
        yield Piece("csr", CsrRows, rest, {"lanes": rest_lanes(rest, a.nnz)})

    @property
    def detail(self) -> dict[str, Any]:
        part = self.parts.get("dia")
        return {**super().detail, "diagonals": 0 if part is None else len(part.arrays()["offset"])}


@register
class DddNaive(Ddd):
    """Dense diagonals at their exact length; other entries in CSR of the rows that have any.

    Every row tests every dense diagonal. Which diagonals are dense, the survey does
    not say; here those that take fewer bytes than their entries: our reading. A stored zero on one cannot be
    distinguished from padding, so decoding leaves it out.
    """

    key = "ddd-naive"
    family = "DIA"
    survey_name = "DDD-NAIVE"
    reference = "Yuan, Zhang, Sun & Wang, HPCC 2010"
    dense = NaiveDiagonals


@register
class DddSplit(Ddd):
    """Dense diagonals, cut where one of them begins or ends; other entries in CSR of the rows that have any.

    Between two cuts all rows have the same diagonals, so no row tests them. A thread has two rows, so where
    rows between two cuts are odd in number, each diagonal there has a place of padding. Which diagonals are dense and
    how blocks are between the cuts, the survey does not say: our reading. A stored zero on a dense diagonal cannot be
    distinguished from padding, so decoding leaves it out.
    """

    key = "ddd-split"
    family = "DIA"
    survey_name = "DDD-SPLIT"
    reference = "Yuan, Zhang, Sun & Wang, HPCC 2010"
    dense = CutDiagonals
