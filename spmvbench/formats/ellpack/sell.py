"""Sliced ELLPACK: rows in slices, each padded to its longest row and stored position by position.

ELLPACK is the same storage with all rows in one slice. spmvbench/formats/ellpack/ellpack.py gives each name its
parameters.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from spmvbench.formats import transposed
from spmvbench.formats.arrays import Array, Csr, cdiv, nothing, round_up
from spmvbench.formats.conversion import runner
from spmvbench.formats.ellpack.sell_convert import WARP, Slices, fill, sorted_rows
from spmvbench.formats.format import Adding
from spmvbench.formats.launches import Launch, cbool, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter

SHORT = 8  # slots of a row


class Layout(NamedTuple):
    """The parameters of a name, resolved for one matrix."""

    height: int  # C: rows of a slice; 0: all rows, rounded up to a multiple of 32, are one slice
    sigma: int  # rows of a window that is sorted by length; 1: natural order, 0: all rows are one window
    threads: int  # T: threads per row; 0: by rule
    align: int  # the width of a slice is a multiple of it


def threads_by_size(a: Csr) -> int:
    """T for slices of 32 rows: 4 for rows of 32 entries and more, else 1; more where the longest row takes longest.

    On an H200 a thread is done with about one slot while all others together are with 64,000 entries, so a matrix of
    few entries, or with one row far longer than the rest, wants as many threads per row as keep the longest row from
    finishing last. GFLOPS in f64: fem:60:3 (78 entries per row, all one slice) 707 with 4, 682 with 1; fem:15:3 (0.7
    million entries, 71 per row) 285 with 8, 205 with 4; pde:20 (0.05 million, 7 per row) 54 with 4, 49 with 1.
    """
    least, longest = (4 if a.row_len_mean >= 32 else 1), a.row_len_max
    return next((t for t in (1, 4, 8) if t >= least and longest <= max(t * a.nnz / 64_000, 2 * t - 1)), 32)


def block_of(threads: int) -> tuple[int, int]:
    """Rows of a block, and the threads that share one.

    With one thread per row, 256 rows share more of x in the L1 cache than 128: 675 against 579 GFLOPS of `ell` on
    band:1048576:24:2000 (f64, H200). With several, small blocks were as good or better.
    """
    return 256 if threads == 1 else max(WARP, 128 // threads), threads


class SlicedEll(Adding):
    """The storage and the kernel of the family. Subclasses set what follows, to a value or to a Parameter of the user.

    height, sigma, threads, align: as in Layout; threads 0 takes `threads_by_rule`. interleaved: the slots that the T
    threads of a row read at a time are side by side, and so do the threads; else a position of all rows of the slice
    does. stop: the length of every row is stored, and the kernel stops there instead of at the slice's width.
    whole_steps: widths are multiples of T too. drop_empty: rows without entries are not stored (sigma 0 or 1), and y is
    set to zero first.

    Padding has the column -1, which the kernel tests, and the value 0. Where rows are sorted, the kernel stores y at
    the row's own place: x and y keep their order.
    """

    family = "ELLPACK"

    height: ClassVar[int | Parameter[int]] = WARP
    sigma: ClassVar[int | Parameter[int]] = 1
    threads: ClassVar[int | Parameter[int]] = 1
    align: ClassVar[int | Parameter[int]] = 1
    interleaved: ClassVar[bool] = False
    stop: ClassVar[bool] = False
    whole_steps: ClassVar[bool] = False
    drop_empty: ClassVar[bool] = False

    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,); 0 in padding
    slice_ptr: Array  # (slices + 1,), int32 or int64: first slot of each slice; (0,) where all rows are one slice
    perm: Array  # (places,), int32: row of each place; (0,) where rows keep their order
    lengths: Array  # (places,), int32: entries of each row; (0,) where the kernel runs to the slice's width
    slice_height: int  # C in use
    row_threads: int  # T in use

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.key:
            cls.shared_implementation = cls.described()

    @classmethod
    def described(cls, **said: str) -> str:
        """The parameters that the name fixes, and the defaults of the others. said: words for values, by attribute."""

        def given(name: str) -> Any:
            value = getattr(cls, name)
            return said.get(name, value.default if isinstance(value, Parameter) else value)

        facts = [
            f"C={given('height') or 'all rows'}",
            f"sigma={given('sigma') or 'all rows'}",
            f"T={given('threads') or 'by rule'}",
            f"widths in multiples of {given('align')}" if given("align") != 1 else "",
            "widths in multiples of T" if cls.whole_steps else "",
            "threads of a row side by side" if cls.interleaved else "",
            "row lengths" if cls.stop else "",
            "no empty rows" if cls.drop_empty else "",
        ]
        return f"sliced ELLPACK: {', '.join(filter(None, facts))}"

    @classmethod
    def threads_by_rule(cls, a: Csr, height: int) -> int:
        """T where `threads` is 0."""
        return threads_by_size(a)

    @classmethod
    def layout(cls, a: Csr, *_: Any, **params: Any) -> Layout:
        """The parameters, and what the name fixes, for a matrix. T may be left open where slots do not depend on it."""
        height, sigma, threads, align = (
            params[name] if name in params else getattr(cls, name) for name in ("height", "sigma", "threads", "align")
        )
        if cls.whole_steps or cls.interleaved:
            threads = threads or cls.threads_by_rule(a, height)
            align = max(align, threads if cls.whole_steps else 1)
        return Layout(height, sigma, threads, align)

    @classmethod
    def slices(cls, a: Csr, layout: Layout) -> Slices:
        """Where every slot will be."""
        natural = layout.sigma == 1 and not cls.drop_empty
        perm = None if natural else sorted_rows(a, layout.sigma, cls.drop_empty)
        lanes = layout.threads if cls.interleaved else 1
        if not layout.height:
            return Slices.whole(a, perm=perm, align=layout.align, lanes=lanes, lengths=cls.stop)
        return Slices.of(a, layout.height, runner(a), perm=perm, align=layout.align, lanes=lanes, lengths=cls.stop)

    @classmethod
    def estimate(cls, a: Csr, *_: Any, **params: Any) -> int:
        s = cls.slices(a, cls.layout(a, **params))
        return s.slots * (4 + a.dtype.itemsize) + s.nbytes + 4 * s.rows * cls.stop

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        layout = cls.layout(a, **params)
        return cls.filled(a, layout, cls.slices(a, layout))

    @classmethod
    def filled(cls, a: Csr, layout: Layout, s: Slices) -> dict[str, Any]:
        """The fields, from where every slot is."""
        lengths = s.first_row if not len(s.first_row) else nothing(a.xp, np.int32)
        if cls.stop and s.lengths is not None:
            lengths = s.lengths
        elif cls.stop:
            lengths = (a.row_lengths[s.perm] if len(s.perm) else a.row_lengths).astype(np.int32, copy=False)
        return {
            **fill(a, s, runner(a)),
            "slice_ptr": s.ptr,
            "perm": s.perm,
            "lengths": lengths,
            "slice_height": s.height,
            "row_threads": layout.threads or cls.threads_by_rule(a, layout.height),
        }

    @property
    def places(self) -> int:
        """Rows that are stored."""
        return len(self.perm) if len(self.perm) or self.drop_empty else self.shape[0]

    @property
    def block_threads(self) -> int:
        """Threads of a block where those of a row are side by side."""
        return 128

    @property
    def width(self) -> int:
        """Positions of the only slice."""
        return len(self.values) // max(self.slice_height, 1)

    def to_coo(self) -> tuple[Array, Array, Array]:
        used = self.xp.flatnonzero(self.columns >= 0)
        return self._slices().row_of(used), self.columns[used], self.values[used]

    def _slices(self) -> Slices:
        kept = Slices.kept(self.places, len(self.values), self.slice_height, self.slice_ptr)
        return kept._replace(perm=self.perm, lanes=self.row_threads if self.interleaved else 1)

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        threads, rows = self.row_threads, self.places
        height = self.slice_height if len(self.slice_ptr) else 0
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}, {height}, {threads}"
        flags = f"{cbool(self.stop)}, {cbool(len(self.perm) > 0)}, {cbool(add)}"
        if self.interleaved:
            block: tuple[int, ...] = (self.block_threads,)
            kernel = f"sell_spmv_interleaved<{types}, {flags}>"
            grid = cdiv(rows * threads, block[0])
        else:
            block = block_of(threads)
            kernel = f"sell_spmv<{types}, {block[0]}, {flags}>"
            grid = cdiv(rows, block[0])
        size = np.uint32(rows), np.int64(self.slice_height), np.int32(self.width)
        args = (*size, self.slice_ptr, self.lengths, self.perm, self.columns, self.values, x, y)
        zero = [zero_fill(y)] if rows < len(y) and not add else []
        lanes = threads if self.interleaved else 1
        # On an H200 (f64, eight vectors) 16 bytes are a fifth faster than 32. Not where rows are short (pde:100: 5 %
        # slower, 18 % with 32 vectors), nor where all rows are one slice.
        row_bytes = 16 if height and threads == 1 and len(self.values) > SHORT * rows else 32
        return [*zero, Launch("ellpack/sell.cu", kernel, grid, block, args, row_lanes=lanes, row_bytes=row_bytes)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        threads, height = self.row_threads, self.slice_height if len(self.slice_ptr) else 0
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}, {height}, {threads}"
        flags = ", ".join(map(cbool, (self.interleaved, len(self.lengths) > 0, len(self.perm) > 0)))
        size = np.uint32(self.places), np.int64(self.slice_height), np.int32(self.width)
        args = (*size, self.slice_ptr, self.lengths, self.perm, self.columns, self.values, x, y)
        grid, block = per_thread(round_up(self.places, 32) * threads, transposed.BLOCK)
        return [Launch(transposed.SOURCE, f"sell_transposed<{types}, {flags}>", grid, block, args)]

    @property
    def bytes_read(self) -> int:
        """Where the kernel stops at a row's end it reads no padding but what shares a sector with entries."""
        padding = len(self.columns) - int(self.lengths.sum()) if self.stop else 0
        return self.nbytes - padding * (self.columns.dtype.itemsize + self.values.dtype.itemsize)

    @property
    def detail(self) -> dict[str, Any]:
        return {"slice_height": self.slice_height, "threads": self.row_threads}
