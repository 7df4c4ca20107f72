"""One name for matrices whose x does not stream: it looks at the columns and takes the storage that suits them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import SECTOR_BYTES, Array, Csr, distinct_groups, round_up, run_ptr
from spmvbench.formats.base import Format, Launch, register
from spmvbench.formats.caching.column_sweep import ColumnSweep
from spmvbench.formats.caching.hub_cache import HubCache
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csr.csr5 import Csr5
from spmvbench.formats.ellpack.sell_local import SellLocal

SAMPLES = 8  # stretches of entries that are looked at, each a multiprocessor's share
SLICE = 32  # rows that are padded to one length


class Look(NamedTuple):
    """What the choice rests on, from a sample of the entries and from the row pointers."""

    sectors: float  # distinct sectors of x an entry, within a stretch
    hub_share: float  # share of the sample in as many columns as shared memory holds, the fullest first
    longest: float  # longest row over a multiprocessor's share of the entries
    padding: float  # slots over entries, in slices of neighbouring rows

    @classmethod
    def at(cls, a: Csr) -> Look:
        """Costs some launches over a few hundredths of the entries, and a pass over the rows."""
        if not a.nnz:
            return cls(0.0, 0.0, 0.0, 1.0)
        xp, limits, samples = a.xp, device_limits(a), SAMPLES
        share = max(a.nnz // limits.multiprocessors, 1)
        begin = xp.arange(samples, dtype=np.int64)[:, None] * (a.nnz - share) // (samples - 1)
        columns = a.col_idx[begin + xp.arange(share, dtype=np.int64)]
        ordered = xp.sort(columns.ravel())
        counts = xp.diff(run_ptr(ordered))
        hubs = xp.sort(counts)[::-1][: limits.shared_bytes // a.dtype.itemsize]
        lengths = xp.zeros(round_up(a.rows, SLICE), dtype=a.row_ptr.dtype)
        lengths[: a.rows] = a.row_lengths
        return cls(
            distinct_groups(columns, a.cols, SECTOR_BYTES // a.dtype.itemsize) / ordered.size,
            int(hubs.sum()) / ordered.size,
            a.row_len_max / share,
            SLICE * int(lengths.reshape(-1, SLICE).max(axis=1).sum()) / a.nnz,
        )


def choice(look: Look) -> type[Format]:
    """The format for a matrix that looks like that; thresholds as measured on an H200 (docs/irregular.md)."""
    if look.sectors < 0.25:  # x streams, or what is read of it stays in L1
        return SellLocal if look.padding < 1.25 else Csr5
    if look.hub_share >= 0.5:
        return HubCache
    return ColumnSweep if look.longest < 0.01 else Csr5


@register
class Irregular(Format):
    """`column-sweep`, `hub-cache`, `csr5` or `sell-local`, by what a sample of the columns looks like.

    Four numbers decide, none of them a measurement of time. How many sectors of x an entry stands for: where few, x
    streams anyway, and sliced ELLPACK takes the matrix, or CSR5 where it would pad by more than a quarter. How much of
    it the fullest columns hold: where half, their x is cached. How long the longest row is: where rows are short beside
    a multiprocessor's share, a block's y lies in shared memory and its columns in order; else CSR5.
    """

    key = "irregular"
    family = "CSR"
    reference = "this project"
    own = True
    sources = (*ColumnSweep.sources, *HubCache.sources, *SellLocal.sources)

    chosen: Format

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        chosen = choice(Look.at(a))
        return chosen.estimate(a, **chosen.resolve({}))

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        return {"chosen": choice(Look.at(a)).from_csr(a)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.chosen.to_coo()

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return self.chosen.launches(x, y)

    @property
    def detail(self) -> dict[str, Any]:
        return {"chosen": self.chosen.key} | self.chosen.detail
