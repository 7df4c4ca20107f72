"""One key for matrices with irregular access to x: it samples the columns and chooses the storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import (
    SECTOR_BYTES,
    Array,
    Csr,
    array_module,
    cdiv,
    distinct_groups,
    round_up,
    tabled,
)
from spmvbench.formats.cache_blocking.column_sweep import ColumnSweep
from spmvbench.formats.cache_blocking.hub_cache import SHARE, HubCache
from spmvbench.formats.carries import SUM
from spmvbench.formats.conversion import Run, device_limits, numbers, runner, zeros
from spmvbench.formats.csr.csr5 import Csr5
from spmvbench.formats.ellpack.sell_local import Bases, SellLocal
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Step, ctype, per_thread
from spmvbench.formats.registry import register

SOURCE = "cache_blocking/irregular.cu"
BINS = constant(SOURCE, "BINS")  # numbers of entries that columns are told apart by
LOOK_EACH = constant(SOURCE, "LOOK_EACH")  # entries of a thread that looks at columns
SAMPLES = 8  # stretches of entries that are looked at, each a multiprocessor's share
BLOCKS = 1024  # at most, that look at rows: each of their warps adds its slots up to one number
SLICE = 32  # rows that are padded to one length


class Look(NamedTuple):
    """The numbers that decide the choice, from a sample of the entries and from the row pointers.

    Bytes are of a product, as multiples of those of the entries' columns and values.
    """

    fetched: float  # bytes of the sectors of x that multiprocessors fetch
    filling: float  # bytes that fill the shared memory of all multiprocessors
    ordering: float  # bytes that bring x into another order
    hub_share: float  # share of the sample in the columns that `hub-cache` caches, the fullest
    longest: float  # longest row over a multiprocessor's share of the entries
    padding: float  # slots over entries, in slices of neighbouring rows

    @classmethod
    def at(cls, a: Csr, *, every: bool = False) -> Look:
        """Costs some launches over a few hundredths of the entries, and a pass over the rows.

        A small matrix costs the pass alone: no numbers of its columns, 0 then, can make a choice of which shared memory
        takes longer to fill than a sector of x for each entry takes to fetch. every: to have them in any case.
        """
        if not a.nnz:
            return cls(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
        limits, each, run = device_limits(a), a.dtype.itemsize + a.col_idx.itemsize, runner(a)
        share = max(a.nnz // limits.multiprocessors, 1)
        sample, entries = SAMPLES * share, a.nnz * each
        filling = limits.multiprocessors * limits.shared_bytes / entries
        if filling > SECTOR_BYTES / each and not every:
            slots, longest = by_rows(a, run)
            return cls(0.0, filling, 0.0, 0.0, longest / share, slots / a.nnz)
        vector = a.vector_dtype.itemsize
        hubs = int(SHARE * (limits.shared_bytes // vector))
        looked = by_arrays(a, share, hubs) if run is None else by_kernels(a, share, hubs, run)
        sectors, slots, longest, cached = looked
        return cls(
            sectors * SECTOR_BYTES / (sample * each),
            filling,
            a.cols * (a.col_idx.itemsize + 2 * vector) / entries,
            cached / sample,
            longest / share,
            slots / a.nnz,
        )


def by_rows(a: Csr, run: Run | None) -> tuple[int, int]:
    """Slots of slices of neighbouring rows, and the longest row; the matrix keeps both where a kernel finds them."""
    if run is None:
        lengths = np.zeros(round_up(a.rows, SLICE), dtype=np.int64)
        lengths[: a.rows] = a.row_lengths
        return SLICE * int(lengths.reshape(-1, SLICE).max(axis=1).sum()), a.row_len_max
    slices, _ = a.__dict__["natural_bases"] = Bases.of(a, 1, 0)  # `sell-local`, mostly chosen then, takes them
    a.__dict__["slice_slots"] = slices.slots
    return slices.slots, a.row_len_max


def by_arrays(a: Csr, share: int, hubs: int) -> tuple[int, int, int, int]:
    """Sectors of x, slots, longest row; entries of the sample in its `hubs` fullest columns."""
    begin = np.arange(SAMPLES)[:, None] * (a.nnz - share) // (SAMPLES - 1)
    columns = a.col_idx[begin + np.arange(share)]
    sectors = distinct_groups(columns, a.cols, SECTOR_BYTES // a.vector_dtype.itemsize)
    slots, longest = by_rows(a, None)
    counts = np.bincount(columns.ravel()) if tabled(columns.size, a.cols) else np.unique(columns, return_counts=True)[1]
    return sectors, slots, longest, fullest(counts, hubs)


def fullest(counts: Array, hubs: int) -> int:
    """The sum of the `hubs` largest."""
    return int(array_module(counts).sort(counts)[-hubs:].sum())


def by_kernels(a: Csr, share: int, hubs: int, run: Run) -> tuple[int, int, int, int]:
    """As `by_arrays`. run: runs a launch on the arrays of `a`."""
    xp, width = a.xp, SECTOR_BYTES // a.vector_dtype.itemsize
    words = cdiv(cdiv(a.cols, width), 32)
    found = zeros(xp, 3 + BINS + 1 + cdiv(SAMPLES * words + a.cols, 2), np.uint64)
    found, room = found[: 3 + BINS + 1], found[3 + BINS + 1 :].view(np.uint32)
    seen, counts = room[: SAMPLES * words], room[SAMPLES * words :][: a.cols]
    stretches = np.int64(a.nnz), np.int64(share), np.int32(width), np.int64(words)
    columns = (*stretches, a.col_idx, seen, counts)
    run(Launch(SOURCE, "look_at_columns", (cdiv(share, 256 * LOOK_EACH), SAMPLES), 256, columns))
    grid, block = per_thread(a.rows)
    kernel = f"look_at_rows<{ctype(a.row_ptr)}>"
    run(Launch(SOURCE, kernel, min(grid, BLOCKS), block, (np.int32(a.rows), a.row_ptr, found)))
    args = np.int32(a.cols), np.int64(len(seen)), seen, counts, found
    run(Launch(SOURCE, "look_at_counts", min(cdiv(a.cols, 256), BLOCKS), 256, args))
    sectors, slots, longest, *counted = numbers(found)
    a.__dict__.update(slice_slots=slots, row_len_max=longest)
    of_bin = np.array(counted[:-1])  # columns by their entries, in the last those of as many and of more
    taken = np.minimum(of_bin, np.maximum(hubs - (of_bin[::-1].cumsum()[::-1] - of_bin), 0))  # the fullest first
    if taken[-1] < of_bin[-1]:
        return sectors, slots, longest, fullest(counts, hubs)  # among those that bins do not distinguish
    return sectors, slots, longest, int((taken[:-1] * np.arange(BINS - 1)).sum()) + counted[-1]


def choice(look: Look, *, fixed: bool = False) -> type[Format]:
    """The format for a matrix that looks like that, for the reasons that `Irregular` gives. fixed: of those that sum
    in a fixed order.

    The thresholds are round numbers in gaps of what published matrices have: rows are clearly short or long, hub shares
    clearly small or large, and columns in order pay clearly or not at all.
    """
    if look.longest < 0.01 and not fixed:
        if look.fetched >= max(look.filling, 1.0):
            return ColumnSweep
    elif look.hub_share >= 1 / 3 and look.fetched * look.hub_share >= look.filling + look.ordering:
        return HubCache
    return SellLocal if look.padding < 1.25 else Csr5


@register
class Irregular(Format):
    """Chooses `column-sweep`, `hub-cache`, `csr5` or `sell-local` by a sample of the columns.

    Six numbers decide, none of them a measurement of time. If rows are short compared with a multiprocessor's share, so
    that additions to one y rarely collide, it chooses `column-sweep`, provided that the fetched sectors of x take more
    bytes than the entries and than shared memory. If rows are longer and a third of the entries are in the columns that
    fit shared memory, it chooses `hub-cache`, provided that their share of the fetched bytes exceeds the cost of
    filling shared memory and of reordering x. Everything else streams or is small: sliced ELLPACK, or CSR5 if slices
    would pad by more than a quarter. sum=fixed leaves out `column-sweep`, whose blocks add by atomics.
    """

    key = "irregular"
    vectors_together = 2
    family = "CSR"
    reference = "this project"
    project_kernel = True

    sum = SUM

    chosen: Format

    @classmethod
    def _choice(cls, a: Csr, **params: Any) -> tuple[type[Format], dict[str, Any]]:
        """The format for a matrix, and its parameters."""
        chosen = choice(Look.at(a), fixed=params["sum"] == "fixed")
        return chosen, {name: value for name, value in params.items() if name in chosen.parameters()}

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        chosen, given = cls._choice(a, **params)
        return chosen.estimate(a, **chosen.resolve(given))

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        chosen, given = cls._choice(a, **params)
        return {"chosen": chosen.converted(a, **given)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.chosen.to_coo()

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        return self.chosen.launches(x, y)

    @property
    def detail(self) -> dict[str, Any]:
        return {"chosen": self.chosen.key} | self.chosen.detail
