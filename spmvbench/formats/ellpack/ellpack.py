"""The names of the ELLPACK family: what each fixes of sliced ELLPACK (spmvbench/formats/ellpack/sell.py)."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, offsets
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.ellpack.sell import Layout, SlicedEll
from spmvbench.formats.ellpack.sell_convert import BLOCK, WARP, Slices
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, cbool, ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register
from spmvbench.formats.tuning import tuned

POWERS = (1, 2, 4, 8, 16, 32)
LOCAL = 4 * BLOCK  # rows of a window that Sliced ELLPACK reorders
SORTING_WINDOW = "rows of a window that is sorted by length, longest first; 1: no sorting, 0: all rows"


def threads_by_length(a: Csr) -> int:
    """The smallest T, a power of two up to 32, that leaves a thread 8 entries of a row of mean length at most.

    In place of the tuning runs of ELLR-T and Sliced ELLR-T.
    """
    return next((t for t in POWERS if a.row_len_mean <= 8 * t), 32)


@register
class Ell(SlicedEll):
    """Every row padded to the longest, stored column by column so that neighbouring threads read neighbouring slots.

    Best where the longest row is near the mean; one long row makes it impossible.
    """

    key = "ell"
    survey_name = "ELLPACK/ITPACK"
    reference = "Kincaid et al., ITPACKV 2D 1989; Bell & Garland, NVR-2008-004"

    height = 0
    threads = Parameter(1, "threads per row, each in a different warp", choices=POWERS)

    @classmethod
    def head(cls, a: Csr, width: int) -> Self:
        """The first `width` entries of every row, by the kernel that leaves out what is beyond; on a device only."""
        s = Slices.whole(a)
        return cls.holding(a.shape, cls.filled(a, cls.layout(a, **cls.resolve({})), s._replace(slots=width * s.height)))


class EllRows(SlicedEll):
    """ELLPACK of the rows that have entries, in their order, with the list of them: a part of a hybrid."""

    reference = "after Maringanti, Athavale & Patkar, HiPC 2009"

    height = 0
    drop_empty = True


@register
class EllR(SlicedEll):
    """ELLPACK with row lengths: threads stop at the end of their row, so padding is stored and hardly read."""

    key = "ell-r"
    survey_name = "ELLPACK-R"
    reference = "Vázquez, Fernández, Garzón, Concurrency and Computation 2011"

    height = 0
    stop = True


@register
class EllRP(SlicedEll):
    """ELLPACK-R with all rows sorted by length, so that the rows of a warp end together.

    It stores as much as ELLPACK-R. The paper does not say how y is reordered; here the kernel scatters it.
    """

    key = "ell-rp"
    survey_name = "ELLPACK-RP"
    reference = "Cao et al., ICCASM 2010"

    height, sigma = 0, 0
    stop = True


@register
class EllRT(SlicedEll):
    """ELLPACK-R with T threads per row: their slots are adjacent, and rows are padded to multiples of 16.

    The paper finds T and the threads of a block by a model and by trying, as part of the conversion: here 1 to 32
    threads per row in blocks of 256, and then blocks of 128 to 1024 for the best, are timed. If NumPy holds the
    matrix nothing can be timed: T is the smallest that leaves a thread at most 8 entries of a mean row there. What is
    tried, and shuffles for the sums over T threads, where the paper used shared memory, are our reading.
    """

    key = "ellr-t"
    survey_name = "ELLR-T"
    reference = "Vázquez, Fernández, Garzón, Parallel Computing 2012"

    height = 0
    align = 16
    interleaved = stop = whole_steps = True
    threads = Parameter(0, "neighbouring threads per row (T); 0: the fastest", choices=(0, *POWERS))
    block = Parameter(0, "threads per block; 0: the fastest", choices=(0, 128, 256, 512, 1024))

    block_in_use: int

    @classmethod
    def described(cls, **said: str) -> str:
        return super().described(threads="as timed")

    @classmethod
    def threads_by_rule(cls, a: Csr, height: int) -> int:
        return threads_by_length(a)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        def fields(block: int, **given: Any) -> dict[str, Any]:
            return super(EllRT, cls).convert(a, **given) | {"block_in_use": block or 256}

        return tuned(cls, a, params, {"threads": POWERS, "block": cls.block.choices[1:]}, fields)

    @property
    def block_threads(self) -> int:
        return self.block_in_use

    @property
    def in_use(self) -> dict[str, Any]:
        return {"threads": self.row_threads, "block": self.block_in_use}

    @property
    def detail(self) -> dict[str, Any]:
        return super().detail | {"block": self.block_in_use}


@register
class Sell(SlicedEll):
    """Slices of rows, each padded to its own longest row and stored column by column.

    One long row costs its slice only. The paper tunes S (height) and T by trying, as part of the conversion: here S of
    32 to 256 rows, with T = 256 / S threads per row, and then T of 1 to 8 for the best S, are timed. If NumPy holds
    the matrix nothing can be timed: S is 64 there. kernel=paper reorders rows locally first, as the authors do; fast
    leaves them in their order. What is tried is our reading, and so is the reordering: rows are sorted by length in
    windows of four of the highest slices, for sorting within a slice would not make it narrower.
    """

    key = "sell"
    survey_name = "Sliced ELLPACK"
    reference = "Monakov, Lokhmotov, Avetisyan, HiPEAC 2010"

    kernel = Parameter(
        "fast", "paper: rows are reordered locally; fast: they keep their order", choices=("fast", "paper")
    )
    height = Parameter(0, "rows of a slice (S); 0: the fastest", choices=(0, 32, 64, 128, 256))
    sigma = Parameter(-1, f"{SORTING_WINDOW}; -1: 1 (fast), {LOCAL} (paper)", low=-1)
    threads = Parameter(0, "threads per row (T), in different warps; 0: the fastest", choices=(0, 1, 2, 4, 8))

    @classmethod
    def described(cls, **said: str) -> str:
        return super().described(height="as timed", threads="as timed", sigma="1")

    @classmethod
    def threads_by_rule(cls, a: Csr, height: int) -> int:
        return 256 // height

    @classmethod
    def layout(cls, a: Csr, *, kernel: str, height: int, sigma: int, **params: Any) -> Layout:
        if sigma < 0:
            sigma = LOCAL if kernel == "paper" else 1
        return super().layout(a, height=height or 64, sigma=sigma, **params)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        choices = {"height": cls.height.choices[1:], "threads": cls.threads.choices[1:]}
        return tuned(cls, a, params, choices, partial(super().convert, a))

    @property
    def in_use(self) -> dict[str, Any]:
        return {"height": self.slice_height, "threads": self.row_threads}


@register
class SellVar(SlicedEll):
    """Slices of 32 to 256 rows, split if the saved padding outweighs the cost of a slice; 256 threads each.

    The paper names a heuristic and does not give it. Here slices of 32 rows are merged in pairs, level by level, where
    the pair's slots and the price of one slice (`price` slots) are no more than those of its halves. All threads of a
    block share the rows of its slice: T = 256 / height.
    """

    key = "sell-var"
    survey_name = "Sliced ELLPACK"
    reference = "Monakov, Lokhmotov, Avetisyan, HiPEAC 2010"

    height, threads = 32, 8  # of the lowest slices
    price = Parameter(64, "slots that a slice costs in addition to its own, when cuts are chosen", low=0, high=2**20)

    add_transposed = Format.add_transposed  # slices of one height alone are multiplied transposed

    first_row: Array  # (slices + 1,), int32: first row of each slice, and the end of the last, after the last row

    @classmethod
    def described(cls, **said: str) -> str:
        return super().described(height="32 to 256", threads="256/C")

    @classmethod
    def cuts(cls, a: Csr, price: int, run: Run | None) -> tuple[Array, Array]:
        """For each 32 rows: the height of the slice that begins there, int32, 0 if none does, and its slots."""
        blocks = cdiv(a.rows, BLOCK)
        xp, groups = a.xp, blocks * (BLOCK // WARP)
        if run is not None:
            height, slots = xp.empty(groups, dtype=np.int32), xp.empty(groups, dtype=np.int64)
            args = (np.int32(a.rows), np.int32(blocks), np.int64(price), a.row_ptr, height, slots)
            kernel = f"sell_var_cuts<{ctype(a.row_ptr)}>"
            run(Launch("ellpack/sell_convert.cu", kernel, cdiv(blocks * WARP, BLOCK), BLOCK, args))
            return height, slots
        lengths = np.zeros(blocks * BLOCK, dtype=np.int64)
        lengths[: a.rows] = a.row_lengths
        width = lengths.reshape(groups, WARP).max(axis=1, initial=0)
        cost = width * WARP + price * (np.arange(groups) * WARP < a.rows)  # what begins after the last row is no slice
        height, slots = np.full(groups, WARP, dtype=np.int32), width * WARP
        size = 1  # 32-row groups of a half
        while size * WARP < BLOCK:
            width = width.reshape(-1, 2).max(axis=1)
            merged = width * (2 * size * WARP) + price
            halves = cost.reshape(-1, 2).sum(axis=1)
            merge = merged <= halves
            cost = np.where(merge, merged, halves)
            for chosen, at_begin in ((height, 2 * size * WARP), (slots, merged - price)):
                parts = chosen.reshape(-1, 2 * size)
                parts[merge, 1:] = 0
                parts[:, 0] = np.where(merge, at_begin, parts[:, 0])
            size *= 2
        return height, slots

    @classmethod
    def of_cuts(cls, a: Csr, price: int, run: Run | None) -> Slices:
        """The slices that the cuts leave."""
        xp, used = a.xp, cdiv(a.rows, WARP)
        height, slots = (array[:used] for array in cls.cuts(a, price, run))
        begin = xp.flatnonzero(height)
        first_row = xp.zeros(len(begin) + 1, dtype=np.int32)
        xp.cumsum(height[begin], out=first_row[1:])  # fits, so that nothing waits for the total as in `offsets`
        ptr = offsets(slots[begin])
        return Slices(a.rows, int(ptr[-1]), 0, 1, ptr, xp.empty(0, dtype=np.int32), first_row)

    @classmethod
    def estimate(cls, a: Csr, *, price: int, **params: Any) -> int:
        s = cls.of_cuts(a, price, runner(a))
        return s.slots * (4 + a.dtype.itemsize) + s.nbytes

    @classmethod
    def convert(cls, a: Csr, *, price: int, **params: Any) -> dict[str, Any]:
        s = cls.of_cuts(a, price, runner(a))
        return {**cls.filled(a, cls.layout(a), s), "first_row": s.first_row}

    def _slices(self) -> Slices:
        return super()._slices()._replace(first_row=self.first_row)

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        kernel = f"sell_var_spmv<{ctype(self.values)}, {ctype(self.slice_ptr)}, {BLOCK}, {cbool(add)}>"
        args = (np.int32(len(y)), self.first_row, self.slice_ptr, self.columns, self.values, x, y)
        return [Launch("ellpack/sell.cu", kernel, len(self.slice_ptr) - 1, BLOCK, args)]

    @property
    def detail(self) -> dict[str, Any]:
        heights = self.xp.diff(self.first_row)
        return {f"slices_{height}": int((heights == height).sum()) for height in (32, 64, 128, 256)}


@register
class SlicedEllRT(SlicedEll):
    """ELLR-T in slices: one slice per block of 128 threads, its width a multiple of T, the threads per row.

    Rows keep their order. threads=0 takes the T of `ellr-t`. Slices as high as a block has rows, blocks of 128 threads
    and the choice of T are our reading of the abstract.
    """

    key = "sliced-ellr-t"
    survey_name = "Sliced ELLR-T"
    reference = "Dziekonski, Lamecki, Mrozowski, Progress in Electromagnetics Research 2011"

    interleaved = stop = whole_steps = True
    threads = Parameter(0, "neighbouring threads per row; 0 chooses them by the mean row length", choices=(0, 1, 4, 16))

    @classmethod
    def described(cls, **said: str) -> str:
        return super().described(height="128/T")

    @classmethod
    def threads_by_rule(cls, a: Csr, height: int) -> int:
        return threads_by_length(a)

    @classmethod
    def layout(cls, a: Csr, **params: Any) -> Layout:
        layout = super().layout(a, **params)
        return layout._replace(height=128 // layout.threads)


@register
class WarpedEll(SlicedEll):
    """Slices of 32 rows, with rows sorted by length in windows of 256, which keeps the locality of x.

    Sorting 32 rows within their slice, as the survey has it, cannot make it narrower: the window is what a block of the
    original holds. The same arrays as `sell-c-sigma`.
    """

    key = "warped-ell"
    alias_of = "sell-c-sigma[threads=1]"
    survey_name = "Warped ELL"
    reference = "Maggioni, Berger-Wolf, Liang, IPDPSW 2013"

    sigma = Parameter(256, SORTING_WINDOW, low=0)


@register
class SellCSigma(SlicedEll):
    """Slices of C rows, rows sorted by length within windows of sigma: one storage for CPUs and GPUs.

    A larger sigma saves padding and scatters x and y. kernel=paper: one thread per row. fast: T by rows and their mean
    length, as was fastest on an H200. The paper tunes C and sigma by trying; 32 rows, a warp, and a window of 256 as
    defaults are our reading.
    """

    key = "sell-c-sigma"
    survey_name = "SELL-C-sigma"
    reference = "Kreutzer et al., SIAM Journal on Scientific Computing 2014"

    kernel = Parameter("fast", "paper: one thread per row; fast: by size", choices=("fast", "paper"))
    height = Parameter(32, "rows of a slice (C)", choices=(8, 32, 128))
    sigma = Parameter(256, SORTING_WINDOW, low=0)
    threads = Parameter(0, "threads per row, each in a different warp; 0: the kernel's", choices=(0, 1, 4))

    @classmethod
    def layout(cls, a: Csr, *, kernel: str, threads: int, **params: Any) -> Layout:
        return super().layout(a, threads=threads or int(kernel == "paper"), **params)


@register
class SellP(SlicedEll):
    """Slices of 32 rows with widths padded to multiples of T, the threads per row, so that no thread needs a test.

    MAGMA's padding has column 0; here it has -1.
    """

    key = "sell-p"
    survey_name = "SELL-P"
    reference = "Anzt, Tomov, Dongarra, UT-EECS-14-727, 2014"

    threads = Parameter(4, "threads per row (T), each in a different warp", choices=(1, 4, 8))
    whole_steps = True


@register
class EllWarp(SlicedEll):
    """Slices of 32 rows after a sort of all rows by length; empty rows are not stored.

    The paper's first kernel (K1); `ell-warp-k2` is the second. It has almost no padding, but x and y are read and
    written out of order.
    """

    key = "ell-warp"
    survey_name = "ELL-WARP"
    reference = "Wong, Kuhl, Darve, 2015"

    sigma = 0
    drop_empty = True


@register
class SellCusparse(SlicedEll):
    """The arrays of `cusparse-sell`, multiplied by this project's kernel: shows the effect of the layout alone.

    Slices of 32 rows in their order, padding with column -1, as cuSPARSE takes them.
    """

    key = "sell-cusparse"
    reference = "this project, on the arrays of NVIDIA cuSPARSE's sliced ELLPACK"
    project_kernel = True

    threads = 0


class Psblas(SlicedEll):
    """What the two formats of PSBLAS share: row lengths, one or two threads per row by the mean length, footprint.

    The library also keeps the position of every row's diagonal entry, for other operations than this product, and two
    scalars; its footprints in the survey's Table 9 count them. footprint=psblas stores them.
    """

    reference = "Barbieri et al., DICII RR-15.6, 2015; Filippone et al. 2017"

    stop = True
    threads = Parameter(0, "threads per row; 0 takes 2 if the mean row has 32 entries", choices=(0, 1, 2))
    footprint = Parameter(
        "product", "product: what the product needs; psblas: all that the library stores", choices=("product", "psblas")
    )

    diagonal: Array  # (rows,), int32: place of the diagonal entry in its row, -1 without one; (0,) if not kept
    sizes: Array  # (2,), int32: rows of a slice and the width of the widest; (0,) if not kept

    @classmethod
    def threads_by_rule(cls, a: Csr, height: int) -> int:
        return 2 if a.row_len_mean >= 32 else 1

    @classmethod
    def estimate(cls, a: Csr, *, footprint: str, **params: Any) -> int:
        return super().estimate(a, **params) + (4 * a.rows + 8) * (footprint == "psblas")

    @classmethod
    def convert(cls, a: Csr, *, footprint: str, **params: Any) -> dict[str, Any]:
        xp, fields = a.xp, super().convert(a, **params)
        if footprint != "psblas":
            return {**fields, "diagonal": xp.empty(0, dtype=np.int32), "sizes": xp.empty(0, dtype=np.int32)}
        diagonal = xp.full(a.rows, -1, dtype=np.int32)
        entry = xp.flatnonzero(a.col_idx == a.row_idx)
        row = a.row_idx[entry]
        diagonal[row] = (entry - a.row_ptr[row]).astype(np.int32)
        sizes = np.array([fields["slice_height"], a.row_len_max], dtype=np.int32)
        return {**fields, "diagonal": diagonal, "sizes": xp.asarray(sizes)}

    @property
    def bytes_read(self) -> int:
        """Without what the library stores besides."""
        return super().bytes_read - self.diagonal.nbytes - self.sizes.nbytes


@register
class EllPsblas(Psblas):
    """PSBLAS's ELLPACK, with row lengths. The survey's ELL."""

    key = "ell-psblas"
    survey_name = "ELLPACK of PSBLAS"

    height = 0


@register
class Hll(Psblas):
    """PSBLAS's hacked ELLPACK: slices of 32 rows in natural order, with row lengths."""

    key = "hll"
    survey_name = "HLL"
