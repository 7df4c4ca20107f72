"""CSR with rows visited in order of length: rows of similar length together, with threads per row by their length."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, array_module, cdiv, on_host, stable_order
from spmvbench.formats.conversion import device_limits, rows_by_length, runner, search_once
from spmvbench.formats.csr.csr import LANES, LANES_BY_MEAN, CsrLoadedTogether, threads_by_lanes
from spmvbench.formats.csr.rows import ALL, LISTED, Pieces, rows_launch
from spmvbench.formats.launches import Launch, ctype, per_thread, zero_fill, zero_rows
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import seconds


def ordered(keys: Array, bound: int, firsts: Any) -> tuple[Array, tuple[int, ...]]:
    """The rows by ascending key, equal ones in order, (rows,), int32; and the first place of each key of `firsts`.

    keys: (rows,), each in 0..bound - 1. firsts: ascending; where no key is as large, the place after the last row.
    """
    xp = array_module(keys)
    order = stable_order(keys.astype(np.int64), bound)
    return order.astype(np.int32), tuple(on_host(xp.searchsorted(keys[order], xp.asarray(list(firsts)))).tolist())


CLASSES = (2, 4, 8, 16, 32, 64, 128)  # the longest rows of classes that csr-gg gives threads of their own


class CsrVisited(CsrLoadedTogether):
    """Plain CSR and the list of its rows in the order in which they are visited."""

    rows: Array  # (rows,), int32: the rows in the order of visits


@register
class CsrGg(CsrVisited):
    """CSR with rows sorted by length; each range of lengths has 1 to 32 threads per row and its own launch.

    The paper finds its ranges by measuring. Here rows are first in classes of up to 2, 4, 8, 16, 32, 64, 128 and more
    entries; the threads of each class are those of 1 to 32 with the least time of its rows on the matrix, as part of
    the conversion, and neighbouring classes with equally many threads are one range: our reading. If NumPy holds the
    matrix nothing can be timed, and with tune=false nothing is: the classes have 1, 2, 4, 8, 16 and then 32 threads,
    and `shift` gives all twice as many or half. One very long row holds a warp.
    """

    key = "csr-gg"
    survey_name = "CSR optimization [44]"
    reference = "Guo & Gropp, Adaptive thread distributions for SpMV on a GPU, 2012"
    shared_implementation = "CSR by a list of rows: all rows, sorted by length"

    shift = Parameter(0, "the rule's threads per row are multiplied by two to this power", choices=(-1, 0, 1))
    tune = Parameter(True, "time 1 to 32 threads for each class of lengths, and take the best; else go by the rule")

    ranges: tuple[int, ...]  # the first place of each range, and the end
    lanes: tuple[int, ...]  # threads per row of each range

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nbytes + 4 * a.rows

    @classmethod
    def convert(cls, a: Csr, *, shift: int, tune: bool) -> dict[str, Any]:
        rows, begins = ordered(a.row_lengths, a.row_len_max + 1, [longest + 1 for longest in CLASSES])
        found = super().convert(a) | {"rows": rows}
        x, y = a.xp.zeros(a.cols, a.dtype), a.xp.empty(a.rows, a.dtype)
        classes = [
            (min(max(int(2.0 ** (number + shift)), 1), 32), begin, end)
            for number, (begin, end) in enumerate(pairwise((0, *begins, a.rows)))
            if begin < end
        ]

        def by_rule() -> list[int]:
            return [lanes for lanes, _, _ in classes]

        def fastest() -> list[int]:
            fmt = cls.holding(a.shape, found | {"ranges": (), "lanes": ()})

            def taken(part: Array, lanes: int) -> float:
                return seconds([rows_launch(fmt, LISTED, part, x, y, lanes, 1, False)])

            return [min(LANES, key=partial(taken, rows[begin:end])) for _, begin, end in classes]

        timed = tune and not shift and a.xp is not np
        of_classes = search_once(cls, a, fastest, by_rule) if timed else by_rule()
        ranges, of_ranges = [0], list[int]()
        for lanes, (_, _, end) in zip(of_classes, classes, strict=True):
            if of_ranges and of_ranges[-1] == lanes:
                ranges[-1] = end
            else:
                ranges.append(end)
                of_ranges.append(lanes)
        return found | {"ranges": tuple(ranges), "lanes": tuple(of_ranges)}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [
            rows_launch(self, LISTED, self.rows[begin:end], x, y, lanes, 1, False)
            for lanes, (begin, end) in zip(self.lanes, pairwise(self.ranges), strict=True)
        ]

    @property
    def in_use(self) -> dict[str, Any]:
        rows = zip(self.lanes, np.diff(self.ranges).tolist(), strict=True)
        return {"ranges": ", ".join(f"{held} rows x {lanes}" for lanes, held in rows)}

    @property
    def detail(self) -> dict[str, Any]:
        return self.in_use


BINS = 33  # by powers of two: as many as lengths of rows need
LONG = BINS  # the bin of the long rows
GRID_BLOCK, GRID_SHARE = 256, 5  # threads of a block of a long row's grid, and entries of a thread


@register
class Acsr(CsrVisited):
    """CSR with rows binned by length: one thread to one block per row, and a grid of its own for the longest rows.

    Bin b holds the rows of more than 2^(b-1) and up to 2^b entries, in their order, and gives each 2^(b-1) threads, a
    launch a bin. Rows of bins above `bin_max`, the longest `row_max` of them, have a grid each, with a thread for every
    5 entries, whose sums are added to y by atomics. kernel=paper: threads on the device launch these grids (dynamic
    parallelism), and a last kernel waits until all their blocks are done. fast: one launch from the host of a grid in
    two dimensions, one of them the rows, the other the blocks of a row's grid; blocks after a row's last do nothing.
    With kernel=paper a run on an H200 saw twice the time on rmat:18:16 while x changed, and called that skipped work;
    why is not known: outside of a run, graphs of 1 to 32 products take 157 us each, whether x changes or not.
    The bounds of bins and 5 entries are our reading. No matrix is moved: the arrays of CSR stay as they are.
    """

    key = "acsr"
    survey_name = "ACSR"
    reference = "Ashari, Sedaghati, Eisenlohr, Parthasarathy & Sadayappan, SC 2014"
    shared_implementation = "CSR by a list of rows: in bins by length, the longest rows a grid each"

    kernel = Parameter(
        "fast", "paper: threads launch a grid for each of the longest rows; fast: one launch", choices=("fast", "paper")
    )
    bin_max = Parameter(10, "rows above 2^bin_max entries are long", low=6, high=31)
    row_max = Parameter(1024, "most rows that are long, the longest first", low=0, high=2048)

    bin_ptr: Array  # (BINS + 2,), int32: the place of the first row of each bin; the last bin's rows are long
    longest: int  # entries of the longest row
    row_blocks: int  # blocks of the grids of all long rows

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nbytes + 4 * (a.rows + BINS + 2)

    @classmethod
    def convert(cls, a: Csr, *, bin_max: int, row_max: int, **params: Any) -> dict[str, Any]:
        xp = a.xp
        long = xp.flatnonzero(a.row_lengths > 2**bin_max)
        if len(long) > row_max:
            long = long[xp.argsort(-a.row_lengths[long], kind="stable")[:row_max]]
        powers = xp.asarray([0, *(1 << b for b in range(1, BINS))], dtype=np.int64)
        bins = xp.searchsorted(powers, a.row_lengths)
        bins[long] = LONG
        rows, bin_ptr = ordered(bins, BINS + 1, range(BINS + 2))
        fields = {"rows": rows, "bin_ptr": xp.asarray(bin_ptr, dtype=np.int32), "longest": a.row_len_max}
        blocks = int(cdiv(a.row_lengths[long], GRID_BLOCK * GRID_SHARE).sum())
        return super().convert(a) | fields | {"row_blocks": blocks}

    def launches(self, x: Array, y: Array) -> list[Launch]:
        steps, ptr = [zero_fill(y)], on_host(self.bin_ptr).tolist()
        for b in range(1, BINS):
            if ptr[b] < ptr[b + 1]:
                lanes = min(1 << (b - 1), 1024)
                steps.append(rows_launch(self, LISTED, self.rows[ptr[b] : ptr[b + 1]], x, y, lanes, 1, False))
        long = self.rows[ptr[LONG] :]
        if not len(long):
            return steps
        types = f"<{ctype(self.values)}, {ctype(self.row_ptr)}, {GRID_BLOCK}, {GRID_SHARE}>"
        args = (long, self.row_ptr, self.col_idx, self.values, x, y)
        if self.kernel == "paper":
            arrived = self.xp.zeros(1, dtype=np.uint32)
            source, rows = "csr/acsr.cu", np.int32(len(long))
            return [
                *steps,
                Launch(source, f"launch_row_grids{types}", *per_thread(len(long), 128), (rows, *args, arrived)),
                Launch(source, "wait_for_row_grids", 1, 1, (np.uint32(self.row_blocks), arrived)),
            ]
        grid = cdiv(self.longest, GRID_BLOCK * GRID_SHARE), len(long)
        return [*steps, Launch("csr/rows.cu", f"csr_row_grids{types}", grid, GRID_BLOCK, args)]

    @property
    def detail(self) -> dict[str, Any]:
        ptr = on_host(self.bin_ptr)
        return {"bins": int(np.count_nonzero(np.diff(ptr))), "long_rows": int(ptr[-1] - ptr[-2])}


@register
class CsrBins(CsrVisited):
    """CSR with threads per row chosen by each row's own length, and long rows cut into pieces; one launch.

    After ACSR, with the threads and the pairs of entries of `csr-lanes`. A bin with too few rows to fill a device joins
    the next longer one. If one bin is left and no row is long, no list is stored. Long rows are cut into pieces, a
    block each. If a row has several, their sums are added to y by atomics, and a first launch sets long rows to zero.
    """

    key = "csr-bins"
    reference = "this project, after Ashari et al., SC 2014"
    shared_implementation = (
        "CSR by a list of rows: threads per row by its length, two entries per thread, long rows in pieces"
    )
    project_kernel = True

    long = Parameter(1024, "rows with more entries are cut into pieces", low=1)
    piece = Parameter(4096, "entries of a piece", low=1)
    block = Parameter(
        0, "threads per block; 0: as csr-lanes if all rows are in one bin, else 256", choices=(0, 128, 256, 512)
    )

    rows: Array  # (listed,), int32: rows that are not in pieces, most threads first; (0,) if all are alike
    ends: tuple[int, ...]  # the places after the rows of 32, 16, 8, 4 and 2 threads
    piece_row: Array  # (pieces,), int32, ascending
    piece_begin: Array  # (pieces,), of row_ptr's type: the first entry
    piece_end: Array  # (pieces,), likewise: the first entry after

    @classmethod
    def kinds(cls, a: Csr, long: int) -> dict[int, tuple[int, int, int]]:
        """By threads, fewest first: rows with more than so many entries and up to so many, and their number."""
        found = rows_by_length(a, runner(a))
        above = int(a.xp.count_nonzero(a.row_lengths > long)) if a.row_len_max > long else 0
        enough = device_limits(a).multiprocessors * 1024  # threads
        kinds, low, before = {}, -1, 0  # rows of at most `low` entries have their kind: `before`
        for kind, longest in enumerate([*(longest for _, longest in LANES_BY_MEAN), long]):
            high, lanes = min(longest, long), 2 << kind
            up_to = a.rows - above if high == long else int(found[: high + 1].sum())
            if (up_to - before) * lanes >= enough or lanes == 32 or up_to == a.rows:
                kinds[lanes] = (low, high, up_to - before)
                low, before = high, up_to
        return kinds

    @classmethod
    def estimate(cls, a: Csr, *, long: int, piece: int, **params: Any) -> int:
        found = [rows for _, _, rows in cls.kinds(a, long).values()]
        listed = 0 if max(found) == a.rows else sum(found)
        pieces = int(cdiv(a.row_lengths[a.row_lengths > long], piece).sum())
        return a.nbytes + 4 * listed + pieces * (4 + 2 * a.row_ptr.itemsize)

    @classmethod
    def convert(cls, a: Csr, *, long: int, piece: int, **params: Any) -> dict[str, Any]:
        xp, lengths, kinds = a.xp, a.row_lengths, cls.kinds(a, long)
        found = [kinds.get(lanes, (0, 0, 0)) for lanes in (32, 16, 8, 4, 2)]
        parts = [xp.empty(0, dtype=np.int64)]
        if all(rows < a.rows for _, _, rows in found):
            parts += [xp.flatnonzero((lengths > low) & (lengths <= high)) for low, high, rows in found if rows]
        rows = xp.concatenate(parts).astype(np.int32)
        long_rows = xp.flatnonzero(lengths > long) if a.row_len_max > long else parts[0]
        pieces = Pieces.of(a, long_rows, piece)
        return {
            **super().convert(a),
            "rows": rows,
            "ends": tuple(np.cumsum([rows for _, _, rows in found]).tolist()),
            **{f"piece_{name}": array for name, array in pieces._asdict().items()},
        }

    def launches(self, x: Array, y: Array) -> list[Launch]:
        found, pieces = np.diff(self.ends, prepend=0).tolist(), len(self.piece_row)
        if max(found) == self.shape[0]:
            lanes = 32 >> found.index(max(found))
            block = self.block or threads_by_lanes(lanes)
            return [rows_launch(self, ALL, self.piece_row, x, y, lanes, 2, False, block=block)]
        block = self.block or 256
        value, index = ctype(self.values), ctype(self.row_ptr)
        blocks = pieces + sum(cdiv(rows, block // (32 >> kind)) for kind, rows in enumerate(found))
        sizes = (*map(np.int32, (pieces, *self.ends)), self.row_ptr.dtype.type(len(self.values)))
        of_rows = self.rows, self.row_ptr, self.col_idx, self.values
        args = (*sizes, self.piece_row, self.piece_begin, self.piece_end, *of_rows, x, y)
        cut = pieces > self.shape[0] - self.ends[-1]  # more than long rows
        kernel = f"csr_binned<{value}, {index}, {block}{'' if cut else ', false'}>"
        step = Launch("csr/rows.cu", kernel, blocks, block, args)
        return [zero_rows(self.piece_row, y), step] if cut else [step]

    @property
    def detail(self) -> dict[str, Any]:
        found = np.diff(self.ends, prepend=0).tolist()
        return {"pieces": len(self.piece_row), **{f"rows_{32 >> kind}": rows for kind, rows in enumerate(found)}}
