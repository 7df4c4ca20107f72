"""One name for matrices whose x does not stream: it looks at the columns and takes the storage that suits them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr
from spmvbench.formats.base import Format, Launch, register
from spmvbench.formats.caching.column_sweep import ColumnSweep
from spmvbench.formats.caching.hub_cache import HubCache
from spmvbench.formats.conversion import device_limits
from spmvbench.formats.csr.csr5 import Csr5

SAMPLES = 8  # stretches of entries that are looked at
SECTOR = 32  # bytes that L2 hands out at least


class Look(NamedTuple):
    """What the choice rests on."""

    sectors: float  # distinct sectors of x an entry, in stretches of a multiprocessor's share of the entries
    hub_share: float  # share of the entries in the columns that shared memory holds, the fullest first
    longest: float  # longest row over the entries of a multiprocessor's share

    @classmethod
    def at(cls, a: Csr) -> Look:
        """Costs a count of the columns and a sort of the counts; the sectors are those of a sample."""
        xp, limits = a.xp, device_limits(a)
        share = max(a.nnz // limits.multiprocessors, 1)
        each = np.int32(SECTOR // a.dtype.itemsize)
        seen, looked, distinct = xp.zeros(a.cols // int(each) + 1, dtype=bool), 0, 0
        for sample in range(SAMPLES):
            begin = (a.nnz - share) * sample // max(SAMPLES - 1, 1)
            sectors = a.col_idx[max(begin, 0) : begin + share] // each
            seen[sectors] = True
            distinct += int(xp.count_nonzero(seen))
            seen[sectors] = False
            looked += len(sectors)
        hubs = min(limits.shared_bytes // a.dtype.itemsize, a.cols)
        fullest = xp.sort(a.col_lengths)[a.cols - hubs :]
        return cls(distinct / max(looked, 1), int(fullest.sum()) / max(a.nnz, 1), a.row_len_max / share)


def choice(look: Look) -> type[Format]:
    """The format for a matrix that looks like that; thresholds as measured on an H200 (docs/irregular.md)."""
    if look.sectors < 0.2:
        return Csr5  # x streams, or what is read of it stays in L1
    if look.longest < 0.01 and look.hub_share < 0.4:
        return ColumnSweep
    return HubCache if look.hub_share >= 0.4 else Csr5


@register
class Irregular(Format):
    """`column-sweep`, `hub-cache` or `csr5`, by what the columns look like: one name for matrices that scatter x.

    Three numbers decide, none of them a measurement of time. How many sectors of x an entry stands for: where few, x
    streams anyway and CSR5 takes the matrix. How much of it the fullest columns hold: where much, their x is cached.
    How long the longest row is: where rows are short beside a block's share, a block's y in shared memory and its
    columns in order; else CSR5.
    """

    key = "irregular"
    family = "CSR"
    reference = "this project"
    own = True
    sources = (*ColumnSweep.sources, *HubCache.sources)

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
