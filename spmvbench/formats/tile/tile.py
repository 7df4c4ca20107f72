"""TileSpMV: a matrix in 16 x 16 tiles, each in the cheapest of seven formats with 4-bit indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    Array,
    Csr,
    array_module,
    cdiv,
    expand,
    index_dtype,
    nonzero_mask,
    offsets,
    round_up,
)
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.coo.coo import CooFlat
from spmvbench.formats.csr.csr5 import Csr5
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Step, Struct, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tile.convert import COO, HYB, NAMES, TILE, Rules, Tiles, choose
from spmvbench.formats.tile.kernels import Balance, by_kernels
from spmvbench.formats.tile.layout import ALIGNED, Layout, pack_csr, unpack, unpack_csr

SPLIT = np.int32(-(2**31))  # in chunk_row: the tile row has several chunks
NEVER = 2**62
REST: dict[str, type[Format]] = {"csr5": Csr5, "coo-flat": CooFlat}


class Preset(NamedTuple):
    """What the paper and the three public states of the authors' code decide differently.

    coo, dns, te, th: as in Rules. tbalance: tiles of a warp. defer: entries of a matrix from which its very sparse
    tiles are computed separately. hyb_min_width: as in Rules; the paper lets the ELL part of a HYB tile go to nothing
    (III.B), the code keeps a column.
    """

    coo: int
    dns: int
    te: float
    th: float
    tbalance: int
    defer: int
    hyb_min_width: int


PRESETS = {
    "paper": Preset(12, 128, 0.2, 1.0, 8, 1_800_000, 0),
    "oct2021": Preset(13, 128, 0.2, 1.0, 8, 0, 1),
    "jul2022": Preset(13, 192, -math.inf, math.inf, 16, 0, 1),
    "aug2022": Preset(13, 192, 0.2, math.inf, 4, NEVER, 1),
}
FIRST_LEVEL = ("tile_ptr", "tile_col", "tile_nnz", "chunk_ptr", "chunk_row", "split_rows")
WARPS = 8192  # that fill the largest GPU
SOURCE = "tile/tile.cu"
FAST_WARPS = constant(SOURCE, "FAST_WARPS")  # of a block of the fast kernel
PAPER_WARPS = constant(SOURCE, "PAPER_WARPS")  # of a block of the paper's kernel
MIXED_WARPS = constant(SOURCE, "MIXED_WARPS")  # of a block of tiles and a larger rest
KERNEL_ARRAYS = (  # in the order of struct Matrix in tile.cu, after the columns of the matrix
    *("tile_col", "tile_nnz"),
    *("csr_val", "csr_col", "csr_row_ptr", "fmt", "tail", "off1", "off2", "coo_val", "coo_idx", "ell_val", "ell_col"),
    *("hyb_val", "hyb_idx", "dns_val", "dns_row_val", "row_id", "dns_col_val", "col_id"),
)


def rules_of(preset: str, coo: int, dns: int, te: float, th: float, hyb_min_width: int, **params: Any) -> Rules:
    """The rules that the parameters of a format give."""
    base = PRESETS[preset]
    return Rules(
        base.coo if coo < 0 else coo,
        base.dns if dns < 0 else dns,
        base.te if te < 0 else te,
        base.th if th < 0 else th,
        base.hyb_min_width if hyb_min_width < 0 else hyb_min_width,
    )


def chunks_of(tile_ptr: Array, tbalance: int, empty: bool) -> dict[str, Any]:
    """Tile rows in chunks of at most `tbalance` tiles, as even as can be: one chunk is one warp's work.

    tile_ptr: (tile rows + 1,). empty: whether a tile row without tiles has a chunk, to store its zeros.
    """
    xp = array_module(tile_ptr)
    tiles = xp.diff(tile_ptr)
    chunks = xp.maximum(-(-tiles // tbalance), int(empty))
    each = -(-tiles // xp.maximum(chunks, 1))
    ptr = offsets(chunks)
    total = int(ptr[-1])
    row = expand(ptr, total)
    begin = tile_ptr[row] + (xp.arange(total, dtype=np.int32) - ptr[row]) * each[row]
    split = chunks > 1
    return {
        "chunk_ptr": xp.append(begin, tile_ptr[-1:]).astype(np.int32),
        "chunk_row": xp.where(split[row], row | SPLIT, row).astype(np.int32),
        "split_rows": int(split.sum()),
    }


def chunk_bytes(chunks: Mapping[str, Any]) -> int:
    """Bytes of the chunks that `chunks_of` makes."""
    return int(chunks["chunk_ptr"].nbytes + chunks["chunk_row"].nbytes)


def census_of(tiles: list[int], entries: list[int]) -> dict[str, Any]:
    """What `detail` says of the tiles and the entries of each format, (7,) each."""
    return {
        "tiles": sum(tiles),
        "tile_share": {name: n / max(sum(tiles), 1) for name, n in zip(NAMES, tiles, strict=True)},
        "nnz_share": {name: n / max(sum(entries), 1) for name, n in zip(NAMES, entries, strict=True)},
    }


class Tiled(Format):
    """What all matrices in tiles have: the first level of the storage, and the chunks that warps take.

    Chunks are a schedule, no part of the paper's storage; `detail` gives their bytes. Those of one tile row are added
    by atomics, in any order: sums of such rows are not reproducible.
    """

    family = "Hybrid"
    reference = "Niu et al., TileSpMV, IPDPS 2021"
    vectors_together = 4

    kernel = Parameter("fast", "paper: the authors' kernel; fast: more loads in flight", choices=("fast", "paper"))
    tbalance = Parameter(
        0, "most tiles of a warp; 0 takes the preset's (paper), or 8 to 32 by size (fast)", low=0, high=32
    )

    tile_ptr: Array  # (tile rows + 1,), int32: first tile of each tile row
    tile_col: Array  # (tiles,), int32
    tile_nnz: Array  # (tiles + 1,), exclusive sum of the tiles' entries
    chunk_ptr: Array  # (chunks + 1,), int32: first tile of each chunk
    chunk_row: Array  # (chunks,), int32: tile row; bit 31 where it has several chunks
    split_rows: int  # tile rows of several chunks

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        run = runner(a)
        return cls.by_kernels(a, params, run) if run and a.nnz else cls.by_arrays(a, params)

    @classmethod
    def by_arrays(cls, a: Csr, params: Mapping[str, Any]) -> dict[str, Any]:
        """The fields by array operations."""
        raise NotImplementedError

    @classmethod
    def by_kernels(cls, a: Csr, params: Mapping[str, Any], run: Run) -> dict[str, Any]:
        """The same fields by kernels of this project, for nnz > 0. run: runs a launch on the arrays of `a`."""
        raise NotImplementedError

    @staticmethod
    def _balance(params: Mapping[str, Any]) -> Balance:
        """The most tiles of a chunk."""
        most = params["tbalance"]
        if not most and params["kernel"] == "paper":
            most = PRESETS[params.get("preset", "paper")].tbalance
        # Long chunks keep more loads in flight and leave less to add up; short ones keep a small matrix on all SMs.
        return Balance(most or 8, most or 32, WARPS)

    @classmethod
    def _chunks(cls, tile_ptr: Array, params: Mapping[str, Any], *, empty: bool = True) -> dict[str, Any]:
        return chunks_of(tile_ptr, cls._balance(params).of(int(tile_ptr[-1])), empty)

    def _products(self, kernel: str, matrix: tuple[Any, ...], x: Array, y: Array, *, add: bool = False) -> list[Launch]:
        """The launches of y = A x, or y += A x, over the chunks.

        kernel: its name; `{}` in it is replaced by the types. matrix: the arguments between the chunks and x.
        """
        fast, value = self.kernel == "fast", ctype(self.value_dtype)
        name = kernel.format(f"{value}, {ctype(self.tile_nnz)}, {cbool(fast)}")
        block = 32 * (FAST_WARPS if fast else PAPER_WARPS)
        chunks = len(self.chunk_row)
        spmv = Launch(SOURCE, name, cdiv(chunks * 32, block), block, (*self._chunk_args, *matrix, x, y))
        return [zero_fill(y), spmv] if self.split_rows and not add else [spmv]

    @property
    def _chunk_args(self) -> tuple[Any, ...]:
        """The first arguments of every kernel."""
        return np.int32(self.shape[0]), np.int32(len(self.chunk_row)), self.chunk_ptr, self.chunk_row

    @property
    def _schedule_bytes(self) -> int:
        return self.chunk_ptr.nbytes + self.chunk_row.nbytes


@register
class TileCsr(Tiled):
    """Tiles of 16 x 16 in CSR with 8-bit row pointers and 4-bit columns: 24 bytes per tile, 8.5 per entry in f64.

    Smaller than CSR from about ten entries per tile; a tile of one entry takes 32.5 bytes.
    """

    key = "tile-csr"

    csr_val: Array  # (nnz rounded up to even,)
    csr_col: Array  # (nnz rounded up to eight, / 2), uint8: two columns, the first in the high half
    csr_row_ptr: Array  # (16 tiles,), uint8

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        tiles = Tiles.of(a)
        chunks = chunk_bytes(cls._chunks(tiles.row_ptr, params))
        counts = (len(tiles) + 1) * cls._index(tiles).itemsize
        payload = round_up(a.nnz, 2) * a.dtype.itemsize + round_up(a.nnz, ALIGNED) // 2 + TILE * len(tiles)
        return 4 * (cdiv(a.rows, TILE) + 1) + 4 * len(tiles) + counts + payload + chunks

    @classmethod
    def by_kernels(cls, a: Csr, params: Mapping[str, Any], run: Run) -> dict[str, Any]:
        fields = by_kernels(a, None, cls._balance(params), run).fields
        return {name: fields[name] for name in (*FIRST_LEVEL, "csr_val", "csr_col", "csr_row_ptr")}

    @classmethod
    def by_arrays(cls, a: Csr, params: Mapping[str, Any]) -> dict[str, Any]:
        tiles = Tiles.of(a)
        runs = a.xp.arange(len(tiles.tile))
        lengths = tiles.row_lengths(a.xp.arange(len(tiles)), runs)
        return {
            "tile_ptr": tiles.row_ptr,
            "tile_col": tiles.col,
            "tile_nnz": tiles.ptr.astype(cls._index(tiles)),
            **pack_csr(tiles.entries(runs), lengths),
            **cls._chunks(tiles.row_ptr, params),
        }

    @staticmethod
    def _index(tiles: Tiles) -> np.dtype:
        """The type of tile_nnz: what counts entries and row pointers."""
        return index_dtype(max(tiles.a.nnz, TILE * len(tiles)))

    def to_coo(self) -> tuple[Array, Array, Array]:
        tiles = len(self.tile_col)
        own, row, col, value = unpack_csr(self.xp.diff(self.tile_nnz), self.csr_val, self.csr_col, self.csr_row_ptr)
        tile_row = expand(self.tile_ptr, tiles)
        return tile_row[own] * TILE + row, self.tile_col[own] * TILE + col, value

    def launches(self, x: Array, y: Array) -> list[Launch]:
        matrix = np.int32(self.shape[1]), self.tile_col, self.tile_nnz, self.csr_val, self.csr_col, self.csr_row_ptr
        return self._products("tile_csr_spmv<{}>", matrix, x, y)

    @property
    def detail(self) -> dict[str, Any]:
        return {"tiles": len(self.tile_col), "schedule_bytes": self._schedule_bytes}


@dataclass(frozen=True, eq=False)
class Plan:
    """What is decided about a matrix before it is packed.

    layout: the tiles to pack. rest: entries that are computed separately, None if there are none. census: what
    `detail` says.
    """

    layout: Layout
    rest: Csr | None
    census: dict[str, Any]


@register
class Tile(Tiled):
    """Tiles of 16 x 16, each in the format that the paper's rules choose: CSR, COO, ELL, HYB or dense kinds.

    A threshold of -1 is the preset's. A preset sets what its state of the authors' code decides, not how it stores
    (October 2021 kept columns in whole bytes). Zeros in Dns and ELL tiles cannot be distinguished from padding, so no
    stored zero is kept.
    """

    key = "tile"
    keeps_zeros = False
    multiplies_padding = True

    preset = Parameter(
        "paper", "source of the thresholds: the paper, or a version of the authors' code", choices=(*PRESETS,)
    )
    coo = Parameter(-1, "tiles of fewer entries are COO; -1: 12 (paper), 13 (code)", low=-1, high=257)
    dns = Parameter(
        -1, "tiles of at least this many entries are Dns; -1: 128 (paper, 2021), 192 (2022)", low=-1, high=257
    )
    te = Parameter(
        -1.0, "ELL up to this coefficient of variation of row lengths; -1: 0.2, none in jul2022", low=-1.0, high=4.0
    )
    th = Parameter(
        -1.0, "HYB from this coefficient of variation of row lengths; -1: 1.0, none in 2022", low=-1.0, high=4.0
    )
    hyb_min_width = Parameter(
        -1, "least width of the ELL part of a HYB tile; -1: 0 (paper), 1 (code)", choices=(-1, 0, 1)
    )

    fmt: Array  # (tiles,), uint8: format | width << 3, see tile_convert; width of ELL and HYB, dense rows or columns
    tail: Array  # (tiles,), uint8: entries of a HYB tile beyond its ELL part
    off1: Array  # (tiles,): start in the values of the tile's format
    off2: Array  # (tiles,): start in csr_row_ptr, hyb_idx, row_id or col_id
    csr_val: Array  # values of CSR tiles
    csr_col: Array  # uint8: two columns, the first in the high half; whole words of four bytes
    csr_row_ptr: Array  # (16 CSR tiles,), uint8
    coo_val: Array  # values of COO tiles
    coo_idx: Array  # uint8: row << 4 | column
    ell_val: Array  # entry j of row r at 16 j + r
    ell_col: Array  # uint8: two columns; padding is column 0
    hyb_val: Array  # 16 width slots as in ELL, then the tail
    hyb_idx: Array  # uint8: 8 width bytes as in ELL, then the tail as in COO
    dns_val: Array  # 16 x 16, column by column
    dns_row_val: Array  # 16 values per row
    row_id: Array  # uint8
    dns_col_val: Array  # 16 values per column
    col_id: Array  # uint8
    census: Mapping[str, Any]

    @classmethod
    def _plan(cls, a: Csr, **params: Any) -> Plan:
        tiles = Tiles.of(a)
        fmt, width = choose(tiles, rules_of(**params))
        members = [a.xp.flatnonzero(fmt == f) for f in range(7)]
        census = census_of([len(m) for m in members], [int(tiles.nnz[m].sum()) for m in members])
        return cls._split(tiles, fmt, width, census, **params)

    @classmethod
    def _split(cls, tiles: Tiles, fmt: Array, width: Array, census: dict[str, Any], **params: Any) -> Plan:
        """What is packed, and what is computed separately."""
        return Plan(Layout.of(tiles, fmt, width), None, census)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return cls._bytes(cls._plan(a, **params), params)

    @classmethod
    def by_kernels(cls, a: Csr, params: Mapping[str, Any], run: Run) -> dict[str, Any]:
        packed = by_kernels(a, rules_of(**params), cls._balance(params), run)
        return {**packed.fields, "census": census_of(packed.room.tiles, packed.room.entries)}

    @classmethod
    def by_arrays(cls, a: Csr, params: Mapping[str, Any]) -> dict[str, Any]:
        return cls._packed(cls._plan(a, **params), params)

    @classmethod
    def _bytes(cls, plan: Plan, params: Mapping[str, Any]) -> int:
        """Bytes of what `_packed` makes."""
        tile_ptr = plan.layout.tiles.row_ptr
        chunks = cls._chunks(tile_ptr, params, empty=plan.rest is None)
        return tile_ptr.nbytes + chunk_bytes(chunks) + plan.layout.nbytes

    @classmethod
    def _packed(cls, plan: Plan, params: Mapping[str, Any]) -> dict[str, Any]:
        tile_ptr = plan.layout.tiles.row_ptr
        chunks = cls._chunks(tile_ptr, params, empty=plan.rest is None)
        return {"tile_ptr": tile_ptr, **plan.layout.pack(), **chunks, "census": plan.census}

    def to_coo(self) -> tuple[Array, Array, Array]:
        tile, row, col, value = unpack(self)
        return expand(self.tile_ptr, len(self.fmt))[tile] * TILE + row, self.tile_col[tile] * TILE + col, value

    def _tile_products(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        return self._products(f"tile_spmv<{{}}, {cbool(add)}>", (self._matrix,), x, y, add=add)

    @property
    def _matrix(self) -> Struct:
        return Struct((np.int32(self.shape[1]), *(getattr(self, name) for name in KERNEL_ARRAYS)))

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        return self._tile_products(x, y, add=False)

    @property
    def detail(self) -> dict[str, Any]:
        return {**self.census, "schedule_bytes": self._schedule_bytes}


@register
class TileDeferredCoo(Tile):
    """`tile` with its sparsest part, COO tiles and tails of HYB tiles, stored as one matrix in CSR5.

    Only for matrices of 1.8 million entries and more; smaller ones are as in `tile`. The tiles add to y, so that tile
    rows without tiles cost nothing. The fast kernel computes both in one launch: tiles first where the rest is the
    smaller part, else mixed evenly, tiles without shared memory. With shared memory, which reduces the L1 cache for
    CSR5's gathers of x, mixing gave 240 instead of 268 GFLOPS on rmat:20:16 (f64, H200), one launch after the other
    248. The authors compute the tiles, then the rest.
    """

    key = "tile-deferred-coo"

    defer = Parameter(-1, "entries from which it splits; -1: 1.8 million (paper), 0, or never (aug2022)", low=-1)
    rest = Parameter("csr5", "the format of the sparse part", choices=(*REST,))

    sparse: Format | None  # None if the matrix is not split

    @staticmethod
    def _defers(a: Csr, *, preset: str, defer: int, **params: Any) -> bool:
        return a.nnz >= (PRESETS[preset].defer if defer < 0 else defer)

    @classmethod
    def _split(cls, tiles: Tiles, fmt: Array, width: Array, census: dict[str, Any], **params: Any) -> Plan:
        a, xp = tiles.a, tiles.xp
        if not cls._defers(a, **params):
            return Plan(Layout.of(tiles, fmt, width), None, census | {"deferred_share": 0.0})
        of_run = fmt[tiles.tile]
        kept = xp.where(of_run == COO, 0, tiles.length)
        kept = xp.where(of_run == HYB, xp.minimum(kept, width[tiles.tile]), kept)
        deferred = a.nnz - int(kept.sum())
        census = census | {"deferred_share": deferred / max(a.nnz, 1)}
        if not deferred:
            return Plan(Layout.of(tiles, fmt, width), None, census)
        left, numbers, rest = tiles.shortened(kept)
        return Plan(Layout.of(left, fmt[numbers], width[numbers]), rest, census)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        plan = cls._plan(a, **params)
        rest = REST[params["rest"]]
        apart = 0 if plan.rest is None else rest.estimate(plan.rest, **rest.resolve({}))
        return cls._bytes(plan, params) + apart

    @classmethod
    def by_kernels(cls, a: Csr, params: Mapping[str, Any], run: Run) -> dict[str, Any]:
        defer = cls._defers(a, **params)
        packed = by_kernels(a, rules_of(**params), cls._balance(params), run, defer=defer)
        rest, room = packed.rest, packed.room
        census = census_of(room.tiles, room.entries) | {"deferred_share": (a.nnz - room.stored_entries) / a.nnz}
        sparse = None if rest is None else REST[params["rest"]].converted(rest)
        return {**packed.fields, "census": census, "sparse": sparse}

    @classmethod
    def by_arrays(cls, a: Csr, params: Mapping[str, Any]) -> dict[str, Any]:
        plan = cls._plan(a, **params)
        sparse = None if plan.rest is None else REST[params["rest"]].converted(plan.rest)
        return {**cls._packed(plan, params), "sparse": sparse}

    def to_coo(self) -> tuple[Array, Array, Array]:
        tiles = super().to_coo()
        if self.sparse is None:
            return tiles
        rows, cols, values = self.sparse.to_coo()
        stored = nonzero_mask(values)
        parts = zip(tiles, (rows[stored], cols[stored], values[stored]), strict=True)
        rows, cols, values = (self.xp.concatenate(pair) for pair in parts)
        return rows, cols, values

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        if self.sparse is None:
            return super().launches(x, y)
        if self.kernel == "fast" and isinstance(self.sparse, Csr5) and len(self.chunk_row):
            return self._fused(self.sparse, x, y)
        return [*self.sparse.launches(x, y), *self._tile_products(x, y, add=True)]

    def _fused(self, sparse: Csr5, x: Array, y: Array) -> Sequence[Step]:
        """Zero y, then let the tiles and the rest add to it in one launch."""
        instance, warps, shares = sparse.shares
        mixed = 2 * self.census["deferred_share"] >= 1
        each = MIXED_WARPS if mixed else FAST_WARPS
        name = f"tile_csr5_spmv<{ctype(self.value_dtype)}, {ctype(self.tile_nnz)}, {instance}, {cbool(mixed)}>"
        grid = cdiv(len(self.chunk_row), each) + cdiv(warps, each)
        args = (*self._chunk_args, self._matrix, *shares, x, y)
        return [zero_fill(y), Launch(SOURCE, name, grid, 32 * each, args)]
