"""RgCSR and ArgCSR: groups of rows for a block each, whose threads are distributed to the rows by their lengths."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, chain, expand, longest_first, offsets, put, run_ptr, run_starts
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

STEP = 16  # rows that a group grows by


def rows_that_fill(a: Csr, block: int, chunk: int) -> Array:
    """The first row of each group, and the end: one grows by 16 rows until it has block * chunk entries, or `block`
    rows, or the matrix ends.
    """
    corner = a.xp.minimum(a.xp.arange(cdiv(a.rows, STEP) + 1) * STEP, a.rows)
    before = a.row_ptr[corner].astype(np.int64)
    enough = a.xp.searchsorted(before, before + block * chunk)
    limit = a.xp.minimum(a.xp.arange(len(before)) + block // STEP, len(before) - 1)
    return corner[chain(a.xp.minimum(enough, limit))]


def rows_of_workload(a: Csr, block: int, workload: int) -> Array:
    """The first row of each group, and the end: rows that begin within the same `workload` entries, up to `block`."""
    xp = a.xp
    share = a.row_ptr[:-1] // workload
    place = xp.arange(a.rows) - run_starts(share)[expand(run_ptr(share), a.rows)]
    first = xp.flatnonzero(place % block == 0)
    return xp.append(first, xp.full(1, a.rows, dtype=first.dtype))


class Groups(NamedTuple):
    """Which rows are a group, and the threads of each row. G: groups."""

    first_row: Array  # (G + 1,), int64
    group: Array  # (rows,), int32: of each row
    threads: Array  # (rows,), int64
    threads_end: Array  # (rows,), int64: threads of the group that the row and those before it have
    steps: Array  # (G,), int64: slots of a thread
    first_step: Array  # (G + 1,), int32 or int64

    @classmethod
    def of(cls, a: Csr, block: int, first_row: Array, *, all_threads: bool) -> Groups:
        """A row has a thread, and a share of the others by its entries; all_threads: those left over are given too."""
        xp, rows = a.xp, a.rows
        group = expand(first_row, rows)
        in_group, lengths = xp.diff(first_row)[group], a.row_lengths.astype(np.int64)
        entries = xp.maximum(xp.diff(a.row_ptr[first_row].astype(np.int64)), 1)[group]
        threads = 1 + (block - in_group) * lengths // entries

        def by_size(sizes: Array, largest: int) -> Array:
            return longest_first(sizes, largest, group.astype(np.int64), len(first_row) - 1)

        if all_threads:
            left = block - xp.diff(offsets(threads)[first_row])[group]
            place = xp.empty(rows, dtype=np.int64)
            place[by_size(lengths, a.row_len_max)] = xp.arange(rows)
            threads += left // in_group + (place - first_row[group] < left % in_group)
        before = offsets(threads).astype(np.int64)
        ends = before[1:] - before[first_row][group]
        steps = cdiv(lengths, threads)
        steps = steps[by_size(steps, a.row_len_max)[first_row[:-1]]]
        return cls(first_row, group, threads, ends, steps, offsets(steps))


class Grouped(Format):
    """Groups of rows, a block of threads each, which have as many slots as the group's row of most per thread needs."""

    family = "CSR"

    block: ClassVar[Parameter[int]]

    groups: Array  # (groups, 4), int32: rows, steps, first row, first step
    threads_end: Array  # (rows,), int32: threads of the group that the row and those before it have
    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,); 0 in padding

    @classmethod
    def grouped(cls, a: Csr, *_: Any, **params: Any) -> Groups:
        """The groups that the parameters give."""
        raise NotImplementedError

    @classmethod
    def estimate(cls, a: Csr, *_: Any, block: int, **params: Any) -> int:
        groups = cls.grouped(a, block=block, **params)
        slots = block * int(groups.first_step[-1])
        return slots * (4 + a.dtype.itemsize) + 16 * len(groups.steps) + 4 * a.rows

    @classmethod
    def convert(cls, a: Csr, *_: Any, block: int, **params: Any) -> dict[str, Any]:
        xp, found = a.xp, cls.grouped(a, block=block, **params)
        slots = block * int(found.first_step[-1])
        columns, values = xp.full(slots, -1, dtype=np.int32), xp.zeros(slots, dtype=a.dtype)
        row, position = a.row_idx, a.rank_in_row
        threads, group = found.threads[row], found.group[row]
        first = (found.threads_end - found.threads)[row]
        step = found.first_step[group].astype(np.int64) + position // threads
        slot = block * step + first + position % threads
        put(columns, slot, a.col_idx)
        put(values, slot, a.values)
        groups = xp.empty((len(found.steps), 4), dtype=np.int32)
        groups[:, 0], groups[:, 1] = xp.diff(found.first_row), found.steps
        groups[:, 2], groups[:, 3] = found.first_row[:-1], found.first_step[:-1]
        return {
            "groups": groups,
            "threads_end": found.threads_end.astype(np.int32),
            "columns": columns,
            "values": values,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        slot = self.xp.flatnonzero(self.columns >= 0)
        rows, steps = (offsets(self.groups[:, i].copy()) for i in (0, 1))
        group = expand(steps, len(self.columns) // self.block)[slot // self.block].astype(np.int64)
        of_row = expand(rows, self.shape[0]).astype(np.int64)
        ends = self.threads_end + self.block * of_row  # through all groups: each distributes all of its threads
        row = self.xp.searchsorted(ends, slot % self.block + self.block * group, side="right")
        return row, self.columns[slot], self.values[slot]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        args = (self.groups, self.threads_end, self.columns, self.values, x, y)
        kernel = f"argcsr<{ctype(self.values)}, {self.block}>"
        return [Launch("lane_packing/argcsr.cu", kernel, len(self.groups), self.block, args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"groups": len(self.groups), "slots": len(self.values)}


@register
class RgCsr(Grouped):
    """Rows in groups of about `workload` entries, a block each; a row has threads by its entries, at least one.

    The entries of a row are distributed to its threads in turn, all threads of a group have as many slots as its
    longest, and partial sums meet in shared memory, behind a barrier of the block. Threads that rounding leaves over do
    nothing, and a row much longer than a group makes that group long. After the survey's sentences, not the authors'
    program: that a group is the rows that begin within the same `workload` entries, at most as many as a block has
    threads, and how threads are distributed are our reading. (The authors' library has one thread per row, which is
    `hll[threads=1]`.)
    """

    key = "rgcsr"
    survey_name = "RgCSR"
    reference = "Oberhuber, Suzuki & Vacata, Acta Technica 56, 2011"

    block = Parameter(128, "threads of a group", choices=(32, 64, 128))
    workload = Parameter(512, "entries of a group", low=1)

    @classmethod
    def grouped(cls, a: Csr, *, block: int, workload: int) -> Groups:
        return Groups.of(a, block, rows_of_workload(a, block, workload), all_threads=False)


@register
class ArgCsr(Grouped):
    """Groups of rows per thread block; threads are distributed to the rows in proportion to their lengths.

    Every row has a thread at least. Its entries are distributed to its threads in turn, all threads of a group have as
    many slots as its longest, and partial sums meet in shared memory. A row has a block's threads at most: a very long
    one makes its group long. The number of threads per block and the assignment of threads that are left over (all rows
    alike, then the longest) are our reading, as is that a warp sums a row of more than 32 threads.
    """

    key = "argcsr"
    survey_name = "ArgCSR"
    reference = "Heller & Oberhuber, ALGORITMY 2012"

    block = Parameter(128, "threads of a group", choices=(32, 64, 128))
    chunk = Parameter(4, "entries per thread at which a group is full", low=1, high=64)

    @classmethod
    def grouped(cls, a: Csr, *, block: int, chunk: int) -> Groups:
        return Groups.of(a, block, rows_that_fill(a, block, chunk), all_threads=True)
