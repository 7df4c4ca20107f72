"""AMB: sliced ELLPACK whose columns are divided into segments, with short columns that several entries share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import (
    INT32_MAX,
    Array,
    Csr,
    array_module,
    cdiv,
    inverse,
    nonzero_mask,
    offsets,
    put,
    run_ptr,
    run_starts,
)
from spmvbench.formats.ellpack.sell_convert import WARP
from spmvbench.formats.ellpack.sell_local import BY_PADDING, slices_of
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "ellpack/amb.cu"
SEGMENT = 1 << 16  # columns
BLOCKS = (1, 2, 3, 4)  # columns that share an index, chosen among by bytes
THREADS = constant(SOURCE, "THREADS")
PAPER_SIGMA = 1 << 15  # rows of a window in the authors' program


class Layout(NamedTuple):
    """Where the entries of a matrix are, for blocks of some width."""

    width: int  # columns of a block
    pieces: Array  # (pieces, 4), int32
    piece_ptr: Array  # (pieces + 1,): positions before each piece
    starts: Array  # (blocks,): first entry of each
    piece: Array  # (blocks,): of each
    lane: Array  # (blocks,)
    rank: Array  # (blocks,): in its row of the piece
    rows: Array  # (pieces * 32,), uint16: row less the piece's; (0,) where rows keep their order
    shared: bool  # several pieces have the same rows

    def nbytes(self, itemsize: int) -> int:
        """Of the arrays of the format."""
        slots = int(self.piece_ptr[-1]) * WARP
        return slots * (2 + self.width * itemsize) + self.pieces.nbytes + self.rows.nbytes


def block_starts(group: Array, column: Array, width: int) -> Array:
    """The first entry of each block of `width` columns. Blocks of a group begin at its first entry not in one before.

    group: (entries,), equal ones are neighbours. column: (entries,), ascending in a group.
    """
    xp, n = array_module(group), len(group)
    if width == 1 or not n:
        return xp.arange(n)
    following = xp.arange(1, n + 2)
    for j in range(1, min(width, n)):
        following[: n - j] += (group[j:] == group[:-j]) & (column[j:] - column[:-j] < width)
    following[n] = n
    marks = xp.zeros(n + 1, dtype=bool)
    bounds = run_ptr(group)
    marks[bounds[:-1]] = True
    # What is 1, 2, 4, ... blocks after a first entry that is known already.
    steps = int(xp.diff(bounds).max())
    while steps:
        marks[following[xp.flatnonzero(marks)]] = True
        following = following[following]
        steps //= 2
    return xp.flatnonzero(marks[:n])


def first_columns(a: Csr, ordered: Array) -> Array:
    """The first column of each slice, (slices,), int64; 0 without entries. ordered: the rows, by their place."""
    xp, slices = a.xp, cdiv(a.rows, WARP)
    first = xp.full(slices * WARP, INT32_MAX, dtype=np.int64)
    used = xp.flatnonzero(a.row_lengths[ordered])
    first[used] = a.col_idx[a.row_ptr[ordered[used]]]
    lowest = first.reshape(-1, WARP).min(axis=1) if slices else first
    return xp.where(lowest == INT32_MAX, 0, lowest)


def layout_of(a: Csr, kernel: str, block: int, sigma: int) -> Layout:
    """The layout of fewest bytes, of blocks of `block` columns or, for 0, of any of BLOCKS."""
    xp, slices = a.xp, cdiv(a.rows, WARP)
    s = slices_of(a, sigma)
    ordered = s.perm if len(s.perm) else xp.arange(a.rows, dtype=np.int32)
    place = inverse(ordered).astype(np.int64)
    base = first_columns(a, ordered) if kernel == "fast" else xp.zeros(slices, dtype=np.int64)
    segment = (a.col_idx - base[place[a.row_idx] // WARP]) // SEGMENT
    segments = int(segment.max()) + 1 if a.nnz else 1
    group = a.row_idx.astype(np.int64) * segments + segment
    leads = run_starts(group)
    row, of = a.row_idx[leads], segment[leads]
    slice_ = place[row] // WARP
    if kernel == "fast":  # the pieces of a slice together, and at least one
        key, every = slice_ * segments + of, xp.arange(slices, dtype=np.int64) * segments
        found = xp.unique(xp.concatenate((key, every)))
        of_piece, segment_of = found // segments, found % segments
    else:  # a segment of x after the other
        key = of * slices + slice_
        found = xp.unique(key)
        of_piece, segment_of = found % max(slices, 1), found // max(slices, 1)
    piece_of_lead = xp.searchsorted(found, key)
    owner = xp.zeros(a.nnz, dtype=np.int64)
    owner[leads] = 1
    owner = xp.cumsum(owner) - 1  # of each entry, its group among the leads

    def blocks(width: int) -> tuple[int, int, Array, Array, Array]:
        """Bytes, the width, and by it the first entry of each block, the first block of each lead, and positions."""
        starts = block_starts(group, a.col_idx, width)
        first = xp.searchsorted(starts, leads)
        counts = xp.diff(first, append=xp.full(1, len(starts), dtype=first.dtype))
        widest = xp.zeros((len(found), WARP), dtype=np.int64)
        widest[piece_of_lead, place[row] % WARP] = counts
        widths = widest.max(axis=1) if len(found) else xp.zeros(0, dtype=np.int64)
        return int(widths.sum()) * (2 + width * a.dtype.itemsize), width, starts, first, widths

    _, width, starts, first, widths = min(map(blocks, (block,) if block else BLOCKS), key=lambda of: of[0])
    ptr = offsets(widths)
    if int(ptr[-1]) > INT32_MAX:
        raise Skip("the matrix has more positions than 32 bits count")
    several = xp.full(len(found), kernel == "paper")
    if kernel == "fast":
        several[1:] = of_piece[1:] == of_piece[:-1]
        several[:-1] |= of_piece[1:] == of_piece[:-1]
    from_column = base[of_piece] + segment_of * SEGMENT
    columns = [ptr[:-1], from_column, of_piece, xp.where(several, ~widths, widths)]
    rows = xp.zeros(0, dtype=np.uint16)
    if len(s.perm):
        whole = xp.append(s.perm, xp.full(slices * WARP - a.rows, s.perm[-1], dtype=s.perm.dtype))
        in_slice = whole.reshape(-1, WARP)[of_piece]
        columns += [lowest := in_slice.min(axis=1)]
        rows = (in_slice - lowest[:, None]).astype(np.uint16).reshape(-1)
    pieces = xp.stack(columns, axis=1).astype(np.int32)
    entry_group = owner[starts]
    return Layout(
        width,
        pieces,
        ptr,
        starts,
        piece_of_lead[entry_group],
        place[row[entry_group]] % WARP,
        xp.arange(len(starts)) - first[entry_group],
        rows,
        bool(several.any()),
    )


@register
class Amb(Format):
    """Sliced ELLPACK divided into segments of 65,536 columns, with 16-bit columns that blocks of a row share.

    A slice of 32 rows has a piece for each segment in which it has entries. In a piece every row is cut into blocks of
    1, 2, 3 or 4 neighbouring columns with one index, which is 16 bits as it counts from the piece's first column;
    places without an entry are zeros. The width of blocks is that of fewest bytes. Slices are pieces for the cache, for
    a warp and for a thread: the levels of the name.

    kernel=paper counts segments from column 0, has all pieces of one segment before the next, and adds every piece to
    y. kernel=fast is this project's: the segments of a slice count from its first column, so that a slice whose columns
    span fewer than 65,536 is one piece, stored without atomics, and several positions of a thread are in flight.

    The authors' program sorts the rows of each segment by themselves, in windows of 32,768, tries widths up to 20 and,
    for fewer than 131,072 columns, segments of 1,024 to 4,096, and times each choice or counts its bytes. That rows are
    sorted once for all segments, that widths end at 4, and that segments have 65,536 columns, is our reading. A stored
    zero cannot be told from padding, so decoding leaves zeros out.
    """

    key = "amb"
    family = "ELLPACK"
    reference = "Nagasaka, Nukada & Matsuoka, Adaptive Multi-level Blocking, ICCS 2016"
    keeps_zeros = False

    kernel = Parameter(
        "fast", "fast: segments from a slice's first column; paper: segments of the matrix", choices=("fast", "paper")
    )
    block = Parameter(0, "columns of a block; 0: 1 to 4, by bytes", choices=(0, *BLOCKS))
    sigma = Parameter(
        BY_PADDING,
        "rows of a window that is sorted by length; 1: none, -1: 32,768 with kernel=paper, else 256 where more than a "
        "fifth of the slots were padding",
        low=BY_PADDING,
        high=1 << 16,
    )

    # Of a piece: first position, first column, slice, positions (~ them if others have its rows, too), and where rows
    # are sorted the lowest row.
    pieces: Array  # (pieces, 4 or 5), int32
    columns: Array  # (positions, 32), uint16: column of a block less the piece's first
    values: Array  # (positions, block columns, 32); 0 where no entry is
    rows: Array  # (pieces * 32,), uint16: row less the piece's lowest; (0,) where rows keep their order
    width: int  # columns of a block
    shared: bool  # several pieces have the same rows

    @classmethod
    def layout(cls, a: Csr, *, kernel: str, block: int, sigma: int) -> Layout:
        """For these parameters; sigma 0, all rows, is as many as 16 bits count."""
        if sigma == BY_PADDING and kernel == "paper":
            sigma = PAPER_SIGMA
        return layout_of(a, kernel, block, sigma or 1 << 16)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return cls.layout(a, **params).nbytes(a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, at = a.xp, cls.layout(a, **params)
        positions = int(at.piece_ptr[-1])
        columns = xp.zeros((positions, WARP), dtype=np.uint16)
        values = xp.zeros((positions, at.width, WARP), dtype=a.dtype)
        position = at.piece_ptr[at.piece].astype(np.int64) + at.rank
        column = a.col_idx[at.starts]
        put(columns, (position, at.lane), (column - at.pieces[at.piece, 1]).astype(np.uint16))
        block = xp.zeros(a.nnz, dtype=np.int64)
        block[at.starts] = 1
        block = xp.cumsum(block) - 1
        put(values, (position[block], a.col_idx - column[block], at.lane[block]), a.values)
        found = {"pieces": at.pieces, "columns": columns, "values": values, "rows": at.rows}
        return found | {"width": at.width, "shared": at.shared}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        position, inside, lane = xp.nonzero(nonzero_mask(self.values))
        piece = xp.searchsorted(self.pieces[:, 0], position, side="right") - 1
        column = self.columns[position, lane].astype(np.int64) + self.pieces[piece, 1] + inside
        if len(self.rows):
            row = self.pieces[piece, 4].astype(np.int64) + self.rows[piece * WARP + lane]
        else:
            row = self.pieces[piece, 2].astype(np.int64) * WARP + lane
        return row, column.astype(np.int32), self.values[position, inside, lane]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        flags = f"{cbool(len(self.rows) > 0)}, {cbool(self.params['kernel'] == 'fast')}"
        sizes = np.int32(len(self.pieces)), np.int32(self.shape[0])
        args = (*sizes, self.pieces, self.columns, self.values, self.rows, x, y)
        name = f"amb_spmv<{ctype(x)}, {self.width}, {flags}>"
        spmv = Launch(SOURCE, name, cdiv(len(self.pieces) * WARP, THREADS), THREADS, args)
        return [zero_fill(y), spmv] if self.shared or self.params["kernel"] == "paper" else [spmv]

    @property
    def detail(self) -> dict[str, Any]:
        return {"block": self.width, "pieces": len(self.pieces), "shared": self.shared, "sorted": len(self.rows) > 0}
