"""SIC: rows sorted by length, in groups that are slices of sliced ELLPACK."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv
from spmvbench.formats.conversion import taken
from spmvbench.formats.csr.rules import lanes_that_fill
from spmvbench.formats.ellpack.sell import Layout, SlicedEll
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.launches import Launch, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

HEIGHTS = (2, 4, 8, 16, 32)
THREADS = ((32, 256), (128, 4096))  # of a group with up to so many slots; 256 beyond


def threads_for(slots: float) -> int:
    """Threads of a group of so many slots."""
    return next((threads for threads, most in THREADS if slots <= most), 256)


class SicRows(SlicedEll):
    """Rows with entries, longest first, in groups of `height`, a block of `block` threads per group: a part of SIC."""

    reference = "after Feng et al. 2011"
    drop_empty = True
    sigma = 0

    height = Parameter(2, "rows of a group", choices=HEIGHTS)
    block = Parameter(32, "threads of a group", choices=(32, 128, 256))

    @classmethod
    def layout(cls, a: Csr, *, height: int, block: int) -> Layout:
        return Layout(height, cls.sigma, block // height, 1)

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows, height, threads = self.places, self.slice_height, self.row_threads
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}, {height}, {threads}, {height}"
        size = np.uint32(rows), np.int64(height), np.int32(self.width)
        args = (*size, self.slice_ptr, self.lengths, self.perm, self.columns, self.values, x, y)
        kernel = f"sell_spmv<{types}, false, true, {cbool(add)}>"
        zero = [zero_fill(y)] if rows < len(y) and not add else []
        return [*zero, Launch("ellpack/sell.cu", kernel, cdiv(rows, height), (height, threads), args, row_lanes=1)]


@register
class Sic(Split):
    """Rows sorted by length, in groups of c rows stored interleaved, entry by entry; one thread block per group.

    A thread always works for the same row of the group, and loads are contiguous. Groups of similar length make up to
    three segments, of 32, 128 and 256 threads per group. Our reading: the survey gives no sizes, and that c is tuned;
    here c is 2 to 32, as many as give a group 64 entries by the mean row. The arrays are those of
    sell-c-sigma[height=c,sigma=0], for each segment.
    """

    key = "sic"
    family = "CSR"
    survey_name = "SIC"
    reference = "Feng et al. 2011"
    formats = (SicRows,)

    c = Parameter(0, "rows of a group; 0: by the mean row", choices=(0, *HEIGHTS))
    segments = Parameter(True, "threads by the length of each group; false: by the mean length for all")

    @classmethod
    def split(cls, a: Csr, *, c: int, segments: bool) -> Iterator[Piece]:
        height = c or max(lanes_that_fill(64 / a.row_len_mean if a.nnz else 1), 2)
        bounds = [(threads, most // height) for threads, most in THREADS] + [(256, max(a.row_len_max, 0))]
        if not segments:
            bounds = [(threads_for(height * a.row_len_mean), a.row_len_max)]
        low = -1
        for threads, high in bounds:
            rows = taken(a, above=low, upto=high)
            yield Piece(f"threads_{threads}", SicRows, rows, {"height": height, "block": threads})
            low = max(low, high)
