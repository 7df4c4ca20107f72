"""CB-SpMV: 16 x 16 blocks, the data of each in one stretch of bytes, as coordinates, rows or a dense tile."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    Array,
    Csr,
    array_module,
    cdiv,
    expand,
    nonzero_mask,
    offsets,
    put,
    round_up,
    run_starts,
    stable_order,
)
from spmvbench.formats.dense_blocks.cells import Cells, Shares
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Struct, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "dense_blocks/cb.cu"
SIDE = constant(SOURCE, "SIDE")
COO, CSR, DENSE = (constant(SOURCE, f"IS_{name}") for name in ("COO", "CSR", "DENSE"))
GROUP = constant(SOURCE, "GROUP")  # blocks of a thread block with kernel=paper, a warp each
ALIGN = 16  # bytes, at a multiple of which every block begins
FEW = 8  # entries of a block that is almost empty
BALANCED = 10_000  # entries of a matrix, from which blocks are balanced
MANY = 10  # entries of a matrix, from which columns are aggregated
SHARE = 0.15  # of the blocks that are almost empty, likewise
RUN = 16  # blocks of a warp with kernel=fast


class Plan(NamedTuple):
    """Blocks, and where their bytes are."""

    cells: Cells  # of the matrix, or of that with other columns
    columns: Array  # (distinct columns of all block rows,), int32; (0,) if columns are the matrix's own
    columns_ptr: Array  # (block rows + 1,): first of each block row; (0,) likewise
    col: Array  # (nnz,): the column of each entry of the matrix that blocks are made by
    kind: Array  # (blocks,), uint8
    head: Array  # (blocks,), int64: bytes before the values
    address: Array  # (blocks + 1,), int64: first byte
    dealt: Array  # (places,), int64: the block at each place, or -1; empty if blocks keep their order
    items: Array  # (items, 2), int32: first block, ~ it if others add to its block row, and blocks

    @classmethod
    def of(cls, a: Csr, kernel: str, gather: str, balance: str, coo_max: int, dense_min: int, **params: Any) -> Plan:
        xp, none = a.xp, a.xp.zeros(0, dtype=np.int32)
        cells, columns, columns_ptr, col = Cells.of(a, SIDE, SIDE), none, none, a.col_idx
        sparse = gather == "yes"
        if gather == "auto" and a.nnz >= MANY:
            sparse = int(xp.count_nonzero(cells.lengths <= FEW)) > SHARE * len(cells.row)
        if sparse:
            columns, columns_ptr, col = aggregated(a)
            wide = int(xp.diff(columns_ptr).max()) if len(columns_ptr) > 1 else 0
            cells = Cells.of(Csr((a.rows, wide), a.row_ptr, col, a.values), SIDE, SIDE)
        lengths, item = cells.lengths, a.dtype.itemsize
        kind = xp.where(lengths <= coo_max, COO, xp.where(lengths >= dense_min, DENSE, CSR)).astype(np.uint8)
        head = xp.where(kind == DENSE, 0, round_up(lengths + (kind == CSR) * (SIDE + 1), item))
        held = xp.where(kind == DENSE, SIDE * SIDE, lengths)
        address = offsets(round_up(head + held * item, ALIGN)).astype(np.int64)
        dealt, items = xp.zeros(0, dtype=np.int64), xp.zeros((0, 2), dtype=np.int32)
        if kernel == "paper":
            balanced = balance == "yes" or (balance == "auto" and a.nnz >= BALANCED)
            dealt = dealt_out(lengths, balanced=balanced)
        else:
            shares = Shares.of(cells.row_ptr, RUN)
            shares = Shares(*(of_share[shares.end > shares.first] for of_share in shares))
            first = xp.where(shares.cut, ~shares.first, shares.first)
            items = xp.stack((first, shares.end - shares.first), axis=1).astype(np.int32)
        return cls(cells, columns, columns_ptr, col, kind, head, address, dealt, items)

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        places = len(self.dealt) or len(self.kind)
        tables = self.columns.nbytes + self.columns_ptr.nbytes + self.items.nbytes
        return int(self.address[-1]) + 21 * places + tables


def aggregated(a: Csr) -> tuple[Array, Array, Array]:
    """The distinct columns of each block row, where they begin, and the place of each entry's column among them.

    (columns,) int32, (block rows + 1,), (nnz,) int32.
    """
    xp, across = a.xp, max(a.cols, 1)
    block_rows = cdiv(a.rows, SIDE)
    keys = (a.row_idx // np.int32(SIDE)).astype(np.int64) * across + a.col_idx
    order = stable_order(keys, block_rows * across)
    ascending = keys[order]
    starts = run_starts(ascending)
    distinct = ascending[starts]
    ptr = offsets(xp.diff(xp.searchsorted(distinct // across, xp.arange(block_rows + 1))))
    first = xp.zeros(a.nnz, dtype=np.int64)
    first[starts] = 1
    number = xp.empty(a.nnz, dtype=np.int64)
    number[order] = xp.cumsum(first) - 1
    rank = number - ptr[a.row_idx // np.int32(SIDE)]
    return (distinct % across).astype(np.int32), ptr, rank.astype(np.int32)


def dealt_out(lengths: Array, *, balanced: bool) -> Array:
    """The block at each place, or -1; places come in groups of 8 for a thread block.

    balanced: the longest blocks go to the groups in turn, back and forth.
    """
    xp, blocks = array_module(lengths), len(lengths)
    groups = cdiv(blocks, GROUP)
    found = xp.full(groups * GROUP, -1, dtype=np.int64)
    if not balanced:
        found[:blocks] = xp.arange(blocks)
        return found
    order = stable_order(SIDE * SIDE - lengths, SIDE * SIDE + 1)
    turn, place = xp.divmod(xp.arange(blocks), max(groups, 1))
    group = xp.where(turn % 2 == 0, place, groups - 1 - place)
    found[group * GROUP + turn] = order
    return found


@register
class Cb(Format):
    """Blocks of 16 x 16 places, whose indices and values are one stretch of bytes at one address.

    A block of at most `coo_max` entries is stored as coordinates of a byte each, one of at least `dense_min` as a dense
    tile, others by rows: 17 pointers and a column per entry, of a byte each. If more than 15 % of the blocks have at
    most 8 entries, the columns of a block row that have entries move together first ("column aggregation"), and a list
    per block row says which they were.

    kernel=paper is the authors': a warp per block, in groups of eight whose entries add up to about the same, and an
    atomic add for each entry of a block of coordinates, else for each row. Their groups come from a priority queue;
    here blocks, sorted by entries, go to the groups back and forth: our reading. Dense tiles are multiplied in the
    matrix's type; the authors' program rounds them to half precision.

    kernel=fast is this project's: a warp takes up to 16 blocks of a block row, adds the entries of a row within the
    warp, and stores y at the end. A stored zero in a dense tile cannot be told from padding, so decoding leaves zeros
    out.
    """

    key = "cb"
    values_decide = True
    family = "BCSR"
    reference = "Cong, Sun, Chen et al., CB-SpMV, ICS 2025, arXiv 2605.18515"
    keeps_zeros = False

    kernel = Parameter(
        "fast", "fast: a warp per row of blocks; paper: a warp per block, atomics", choices=("fast", "paper")
    )
    gather = Parameter(
        "auto", "aggregate columns; auto: if many blocks are almost empty", choices=("auto", "yes", "no")
    )
    balance = Parameter(
        "auto", "kernel=paper: balance groups of blocks; auto: from 10,000 entries", choices=("auto", "yes", "no")
    )
    coo_max = Parameter(32, "most entries of a block of coordinates", low=0, high=256)
    dense_min = Parameter(240, "least entries of a dense block", low=1, high=256)

    rows_of: Array  # (places,), int32: block row
    cols_of: Array  # (places,), int32: block column; -1 in padding
    lengths: Array  # (places,), int32: entries
    kinds: Array  # (places,), uint8: 0 coordinates, 1 rows, 3 dense
    addresses: Array  # (places,), int64: first byte
    pool: Array  # (bytes,), uint8
    columns: Array  # (columns of all block rows,), int32: distinct in each; (0,) if not aggregated
    columns_ptr: Array  # (block rows + 1,): first of each block row; (0,) if not aggregated
    items: Array  # (items, 2), int32: first block, ~ it if others add to its block row, and blocks; (0, 2) with paper
    element: np.dtype[Any]  # of the values

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return Plan.of(a, **params).nbytes

    @property
    def value_dtype(self) -> np.dtype[Any]:
        return self.element

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, plan = a.xp, Plan.of(a, **params)
        cells, item = plan.cells, a.dtype.itemsize
        pool = xp.zeros(int(plan.address[-1]), dtype=np.uint8)
        cell, order = cells.cell, cells.order
        r, c = (a.row_idx[order] % SIDE).astype(np.int64), (plan.col[order] % SIDE).astype(np.int64)
        rank = xp.arange(a.nnz) - cells.ptr[cell]
        kind, begin = plan.kind[cell], plan.address[cell]
        indexed = xp.flatnonzero(kind != DENSE)
        byte = xp.where(kind == COO, r * SIDE + c, c).astype(np.uint8)
        put(pool, (begin + rank + (kind == CSR) * (SIDE + 1))[indexed], byte[indexed])
        by_rows = xp.flatnonzero(plan.kind == CSR)
        if len(by_rows):
            # A row's pointer is the number of entries before it, found by one search of all rows' keys.
            keys = cell.astype(np.int64) * (SIDE + 1) + r
            wanted = by_rows[:, None] * (SIDE + 1) + xp.arange(SIDE + 1)
            ptr = xp.searchsorted(keys, wanted.reshape(-1)).reshape(wanted.shape) - cells.ptr[by_rows][:, None]
            put(pool, plan.address[by_rows][:, None] + xp.arange(SIDE + 1), ptr.astype(np.uint8))
        place = (begin + plan.head[cell]) // item + xp.where(kind == DENSE, r * SIDE + c, rank)
        put(pool.view(a.dtype), place, a.values[order])
        tables = {
            "rows_of": cells.row.astype(np.int32),
            "cols_of": cells.col.astype(np.int32),
            "lengths": cells.lengths.astype(np.int32),
            "kinds": plan.kind,
            "addresses": plan.address[:-1],
        }
        if len(plan.dealt):
            padding = xp.flatnonzero(plan.dealt < 0)
            for name, table in tables.items():
                tables[name] = table[plan.dealt]
                tables[name][padding] = 0
            tables["cols_of"][padding] = -1
        lists = {"columns": plan.columns, "columns_ptr": plan.columns_ptr, "items": plan.items}
        return tables | lists | {"pool": pool, "element": a.dtype}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp, item = self.xp, self.element.itemsize
        dense = self.kinds == DENSE
        held = xp.where(dense, SIDE * SIDE, self.lengths).astype(np.int64)
        ptr = offsets(held)
        block = expand(ptr, int(ptr[-1]))
        rank = xp.arange(len(block)) - ptr[block]
        kind, begin = self.kinds[block], self.addresses[block]
        head = xp.where(dense, 0, round_up(held + (self.kinds == CSR) * (SIDE + 1), item))
        index = self.pool[xp.where(kind == DENSE, 0, begin + rank + (kind == CSR) * (SIDE + 1))].astype(np.int64)
        r = xp.where(kind == DENSE, rank // SIDE, index // SIDE)
        c = xp.where(kind == DENSE, rank % SIDE, index % SIDE)
        by_rows = xp.flatnonzero(kind == CSR)
        row = xp.zeros(len(by_rows), dtype=np.int64)
        for end in range(1, SIDE):
            row += self.pool[begin[by_rows] + end] <= rank[by_rows]
        r[by_rows], c[by_rows] = row, index[by_rows]
        values = self.pool.view(self.element)[
            (begin + head[block]) // item + xp.where(kind == DENSE, r * SIDE + c, rank)
        ]
        used = xp.flatnonzero(nonzero_mask(values))
        block, r, c, values = block[used], r[used], c[used], values[used]
        column = self.cols_of[block].astype(np.int64) * SIDE + c
        if len(self.columns_ptr):
            column = self.columns[self.columns_ptr[self.rows_of[block]] + column]
        return self.rows_of[block].astype(np.int64) * SIDE + r, column.astype(np.int32), values

    def launches(self, x: Array, y: Array) -> list[Launch]:
        places, gathers = len(self.rows_of), len(self.columns_ptr) > 0
        ptr = self.columns_ptr if gathers else self.xp.zeros(0, dtype=np.int32)
        blocks = Struct((self.rows_of, self.cols_of, self.lengths, self.kinds, self.addresses, self.pool))
        value = f"{ctype(x)}, {ctype(ptr)}, {cbool(gathers)}"
        sizes = np.int32(self.shape[0]), np.int32(self.shape[1])
        if self.params["kernel"] == "paper":
            args = (np.int32(places), *sizes, blocks, self.columns, ptr, x, y)
            return [zero_fill(y), Launch(SOURCE, f"cb_blocks<{value}>", cdiv(places, GROUP), GROUP * 32, args)]
        size = np.int32(len(self.items))
        rows = Launch(
            SOURCE,
            f"cb_rows<{value}>",
            cdiv(len(self.items), GROUP),
            GROUP * 32,
            (size, *sizes, blocks, self.items, self.columns, ptr, x, y),
        )
        return [zero_fill(y), rows]

    @property
    def detail(self) -> dict[str, Any]:
        entries = max(int(self.lengths.sum()), 1)
        shares = {
            f"{name}_share": float(self.lengths[self.kinds == kind].sum()) / entries
            for name, kind in (("coo", COO), ("csr", CSR), ("dense", DENSE))
        }
        blocks = int((self.cols_of >= 0).sum())
        return {
            "blocks": blocks,
            "entries_per_block": entries / max(blocks, 1),
            "gather": len(self.columns_ptr) > 0,
        } | shares
