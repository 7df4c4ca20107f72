"""A matrix cut into 16 x 16 tiles: which tiles there are, and the format that each one gets.

Source: Niu et al., TileSpMV, IPDPS 2021, section III. Tiles at the lower and right edge are whole: what is beyond the
matrix is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, expand, inverse, offsets, run_ptr, stable_order
from spmvbench.formats.kernels import constant

TILE = constant("include/tile.cuh", "TILE")
NAMES = ("csr", "coo", "ell", "hyb", "dns", "dns_row", "dns_col")
CSR, COO, ELL, HYB, DNS, DNS_ROW, DNS_COL = (constant("include/tile.cuh", name.upper()) for name in NAMES)


class Rules(NamedTuple):
    """What the format of a tile is chosen by (Fig. 5 of the paper), z being its entries.

    coo: COO below so many entries. dns: Dns from so many. te, th: ELL up to and HYB from this variation, the standard
    deviation of the 16 row lengths over their mean; -inf and inf rule them out. hyb_min_width: the least width of the
    ELL part of a HYB tile.
    """

    coo: int
    dns: int
    te: float
    th: float
    hyb_min_width: int


class Entries(NamedTuple):
    """Entries in the order of their tiles, of their rows in a tile, of their columns: all arrays (n,).

    tile; row and col in it, 0 to 15; rank in the row's part of the tile; value.
    """

    tile: Array
    row: Array
    col: Array
    rank: Array
    value: Array


@dataclass(frozen=True, eq=False)
class Tiles:
    """The tiles of a matrix that hold entries, in order of tile row, then tile column.

    Entries of one row in one tile are neighbours in CSR, a run. All work is on runs, of which there are far fewer than
    entries where a matrix has structure.

    row, col: (tiles,) int32, in tiles. ptr: (tiles + 1,), entries before each. tile, run_row, begin, length: (runs,),
    of each run its tile, its row in the tile, its first entry in `a` and its number of entries.
    """

    a: Csr
    row: Array
    col: Array
    ptr: Array
    tile: Array
    run_row: Array
    begin: Array
    length: Array

    @classmethod
    def of(cls, a: Csr) -> Tiles:
        """Cut a matrix into tiles: one sort, of its runs."""
        xp = a.xp
        begin, row, tile_col = a.runs(TILE)
        length = xp.diff(begin, append=xp.full(1, a.nnz, dtype=begin.dtype))
        tile_cols = max(cdiv(a.cols, TILE), 1)
        key = (row // TILE).astype(np.int64) * tile_cols + tile_col
        order = stable_order(key, cdiv(a.rows, TILE) * tile_cols)
        key = key[order]
        bounds = run_ptr(key)
        key = key[bounds[:-1]]
        runs = (row[order] % TILE, begin[order], length[order])
        return cls._of_runs(a, key // tile_cols, key % tile_cols, bounds, *runs)

    @classmethod
    def _of_runs(
        cls, a: Csr, row: Array, col: Array, bounds: Array, run_row: Array, begin: Array, length: Array
    ) -> Tiles:
        """Tiles of runs in their order. bounds: (tiles + 1,), the first run of each."""
        tile = expand(bounds, len(length))
        return cls(a, row.astype(np.int32), col.astype(np.int32), offsets(length)[bounds], tile, run_row, begin, length)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def xp(self) -> Any:
        """The array module that holds the matrix."""
        return self.a.xp

    @property
    def nnz(self) -> Array:
        """Entries of each tile, (tiles,)."""
        return self.ptr[1:] - self.ptr[:-1]

    @property
    def row_ptr(self) -> Array:
        """First tile of each tile row, (tile rows + 1,), int32."""
        tile_rows = self.xp.arange(cdiv(self.a.rows, TILE) + 1, dtype=np.int32)
        return self.xp.searchsorted(self.row, tile_rows).astype(np.int32)

    def runs_of(self, chosen: Array) -> Array:
        """The runs of some tiles. chosen: mask, (tiles,)."""
        return self.xp.flatnonzero(chosen[self.tile])

    def row_lengths(self, tiles: Array, runs: Array) -> Array:
        """Row lengths of some tiles: (len(tiles), 16), uint8. tiles: their numbers. runs: those of all of them."""
        xp = self.xp
        place = inverse(tiles, len(self), np.int64)
        lengths = xp.zeros(len(tiles) * TILE, dtype=np.uint8)
        lengths[place[self.tile[runs]] * TILE + self.run_row[runs]] = self.length[runs].astype(np.uint8)
        return lengths.reshape(-1, TILE)

    def entries(self, runs: Array) -> Entries:
        """The entries of some runs."""
        ptr = offsets(self.length[runs])
        total = int(ptr[-1])
        owner = expand(ptr, total)
        rank = self.xp.arange(total, dtype=ptr.dtype) - ptr[owner]
        run = runs[owner]
        source = self.begin[run] + rank
        return Entries(self.tile[run], self.run_row[run], self.a.col_idx[source] % TILE, rank, self.a.values[source])

    def shortened(self, length: Array) -> tuple[Tiles, Array, Csr]:
        """Only the first entries of each run, `length` of them, (runs,); at least one entry is taken away.

        Returns the tiles that are left, their numbers here, and the matrix of the entries taken away.
        """
        xp, a = self.xp, self.a
        runs = xp.flatnonzero(length > 0)
        bounds = run_ptr(self.tile[runs])
        kept = self.tile[runs][bounds[:-1]]
        left = self._of_runs(
            a, self.row[kept], self.col[kept], bounds, self.run_row[runs], self.begin[runs], length[runs]
        )
        if not len(left):
            return left, kept, a
        # What is taken is an interval of each run: mark where intervals begin and end, and sum the marks up.
        cut = xp.flatnonzero(length < self.length)
        marks = xp.zeros(a.nnz + 1, dtype=np.int8)
        marks[(self.begin + length)[cut]] += np.int8(1)
        marks[(self.begin + self.length)[cut]] -= np.int8(1)
        return left, kept, a.where(xp.cumsum(marks[:-1], dtype=np.int8).astype(bool))


def choose(tiles: Tiles, rules: Rules) -> tuple[Array, Array]:
    """The format and the width of each tile, both (tiles,) uint8.

    Widths are those of ELL and HYB, and the number of dense rows or columns of DnsRow and DnsCol; 0 for the others.
    """
    xp, nnz = tiles.xp, tiles.nnz
    # The paper's second condition on COO, an uneven spread, holds for every tile of fewer than 12 entries.
    fmt = xp.where(nnz < rules.coo, COO, DNS).astype(np.uint8)
    width = xp.zeros(len(tiles), dtype=np.uint8)
    undecided = (nnz >= rules.coo) & (nnz < rules.dns)
    numbers = xp.flatnonzero(undecided)
    if not len(numbers):
        return fmt, width
    runs = tiles.runs_of(undecided)
    lengths = tiles.row_lengths(numbers, runs)
    z = nnz[numbers].astype(np.int64)
    shortest, longest = lengths.min(axis=1), lengths.max(axis=1)

    # Variations compared free of roots: 16 sum of squares - z^2 is z^2 variation^2.
    spread = TILE * (lengths.astype(np.int32) ** 2).sum(axis=1) - z * z
    squared = (z * z).astype(np.float64)
    ell = spread <= rules.te * abs(rules.te) * squared
    hyb = ~ell & (spread >= rules.th * abs(rules.th) * squared)
    dns_row = (lengths == TILE).sum(axis=1) * TILE == z
    dns_col = _same_columns(tiles, numbers, (shortest == longest) & ~dns_row)

    chosen = xp.where(ell, ELL, xp.where(hyb, HYB, CSR))
    chosen = xp.where(dns_row, DNS_ROW, xp.where(dns_col, DNS_COL, chosen))
    fmt[numbers] = chosen.astype(np.uint8)
    wide = xp.where(chosen == ELL, longest, xp.where(chosen >= DNS_ROW, z // TILE, 0)).astype(np.uint8)
    hyb = xp.flatnonzero(chosen == HYB)
    wide[hyb] = _hyb_width(lengths[hyb], tiles.a.dtype.itemsize, rules.hyb_min_width)
    width[numbers] = wide
    return fmt, width


def _same_columns(tiles: Tiles, numbers: Array, even: Array) -> Array:
    """Whether all 16 rows of a tile have the same columns, (len(numbers),) bool.

    numbers: of some tiles. even: mask over them, the tiles whose rows are equally long; others have not.
    """
    xp = tiles.xp
    same = even.copy()
    which = numbers[even]
    if not len(which):
        return same
    chosen = xp.zeros(len(tiles), dtype=bool)
    chosen[which] = True
    e = tiles.entries(tiles.runs_of(chosen))
    ptr = offsets(tiles.nnz[which])
    tile = expand(ptr, len(e.col))
    differs = e.col != e.col[ptr[tile] + e.rank]  # from the column of the same rank in the first row
    same[xp.flatnonzero(even)[tile[differs]]] = False
    return same


def hyb_rows(value_bytes: int) -> int:
    """Rows that have to reach a column of the ELL part of a HYB tile: all 16 in double precision, 15 in single.

    A column takes 16 values and 8 index bytes, an entry in its place in the tail one value and one byte. So a column
    stays where at least 16 (v + 1/2) / (v + 1) rows reach it.
    """
    return cdiv(TILE * value_bytes + TILE // 2, value_bytes + 1)


def _hyb_width(lengths: Array, value_bytes: int, least: int) -> Array:
    """Width that gives a HYB tile the fewest bytes, the larger of equals. lengths: (tiles, 16)."""
    xp = array_module(lengths)
    enough = hyb_rows(value_bytes)
    columns = xp.arange(1, TILE + 1, dtype=np.uint8)[:, None]
    reach = (lengths[:, None, :] >= columns).sum(axis=2)  # rows that reach each column
    return xp.maximum((reach >= enough).sum(axis=1), least).astype(np.uint8)
