"""PETSc's SELL on CUDA: sliced ELLPACK of 16 rows, nine kernels and two rules that choose one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, cdiv, round_up
from spmvbench.formats.ellpack.sell import Layout, SlicedEll
from spmvbench.formats.ellpack.sell_convert import WARP, Slices
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

KERNEL = "ellpack/sell_petsc.cu"
HALF_WARP = constant(KERNEL, "HALF_WARP")
BASIC, CHUNKS, WARP_PER_SLICE, BLOCK_PER_SLICE = 1, 8, 7, 9  # the library's numbers of kernels
THREADS = 512  # of a block of the kernels 1 to 6
CHUNK = 64, 1024  # places of a chunk, the fewest and the most
EVEN = 1.25  # places for each entry, up to which rows of a slice count as equally long
SHORT = 512  # places of a slice, up to which a thread takes a row


class Choice(NamedTuple):
    """A kernel by the library's number, and the warps of its blocks where it has whole ones."""

    kernel: int
    warps: int

    @classmethod
    def of(cls, rows: int, height: int, slices: int, slots: int, widest: int) -> Choice:
        """The library's rule, for `slots` places in all and a slice of `widest` positions."""
        places = slots // max(slices, 1)  # of a slice, on average
        ratio = widest * height * slices / slots if slots else 0.0
        if height <= HALF_WARP and ratio > 12 and ratio > 0.001 * rows:
            return cls(CHUNKS, chunk_places(places) // WARP)
        if places <= 432:
            thin = height * widest < 2048 and rows > 100_000
            return cls(WARP_PER_SLICE if thin else BLOCK_PER_SLICE, 2)
        return cls(BLOCK_PER_SLICE, 8 if places <= 2400 else 16)

    @classmethod
    def measured(cls, a: Csr, height: int, slices: int, slots: int, widest: int) -> Choice:
        """The fastest kernel on an H200 where rows of a slice are about equally long, else the library's."""
        if slots > EVEN * a.nnz:
            return cls.of(a.rows, height, slices, slots, widest)
        if slots <= SHORT * slices:
            return cls(BASIC, 1)
        return cls(BLOCK_PER_SLICE, 8 if a.dtype.itemsize > 4 else 2)


def chunk_places(places: int) -> int:
    """Places of a chunk, for slices of so many on average."""
    chunk, most = CHUNK
    while chunk < most and 2 * chunk <= places:
        chunk *= 2
    return chunk


@register
class SellPetsc(SlicedEll):
    """Slices of 16 rows in their order; warps and blocks walk a slice place by place, so several threads have a row.

    Kernel 1: a thread per row. 2 to 6: 2 to 32 threads per row. 7: a warp per slice. 9: a block per slice. 8: equal
    chunks of all places, which may cross slices, added by atomics. `blocky` is the number of warps of a block for 7 and
    9 by hand. kernel=0 chooses by `rule`: that of the library reads the mean and the largest width of the slices. Where
    it does not choose the fastest kernel on an H200, rule=measured does: band:1048576:24:2000 has 659 GFLOPS by kernel
    1 and 457 by the library's choice (f64), fem:60:3 1,046 by kernel 9 of two warps and 848 by eight (f32).

    The library repeats a column in padding; here it is -1, and its x is not loaded. Threads load 8 places before they
    use the first, and sum in the type of the values, whatever the kernel. Before kernel 8, y is set to zero by a launch
    of its own: the library's kernel lets a block set to zero what another may have added to. It takes slices of at most
    16 rows, so the rule never chooses it for 32. The library has kernel 8 by hand only for y += A x.
    """

    key = "sell-petsc"
    reference = "PETSc, MatSELL on CUDA (sellcuda.cu)"

    height = Parameter(16, "rows of a slice", choices=(4, 8, 16, 32))
    kernel = Parameter(0, "number of the kernel; 0: by `rule`", choices=tuple(range(10)))
    rule = Parameter(
        "measured", "kernel=0: rule for the kernel; library: that of PETSc", choices=("measured", "library")
    )
    blocky = Parameter(2, "warps of a block, for the kernels 7 and 9 by hand", choices=(2, 4, 8, 16, 32))

    chunk_slice: Array  # (chunks,), int32: the slice of the first place of each chunk; (0,) for other kernels
    choice: Choice  # in use

    @classmethod
    def described(cls, **said: str) -> str:
        return "sliced ELLPACK: C=16, sigma=1, lanes along a slice, kernel by rule"

    @classmethod
    def layout(cls, a: Csr, *_: Any, **params: Any) -> Layout:
        height = params["height"]
        return Layout(height, 1, 1, max(HALF_WARP // height, 1))

    @classmethod
    def chosen(cls, a: Csr, s: Slices, *, height: int, kernel: int, rule: str, blocky: int) -> Choice:
        """The kernel in use."""
        slices = len(s.ptr) - 1
        if not kernel:
            widest = round_up(a.row_len_max, cls.layout(a, height=height).align)
            if rule == "measured":
                return Choice.measured(a, height, slices, s.slots, widest)
            return Choice.of(a.rows, height, slices, s.slots, widest)
        if kernel != CHUNKS:
            return Choice(kernel, blocky)
        if height > HALF_WARP:
            raise Skip(f"kernel {CHUNKS} takes slices of {HALF_WARP} rows or fewer, not {height}")
        return Choice(kernel, chunk_places(s.slots // max(slices, 1)) // WARP)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        s = cls.slices(a, cls.layout(a, **params))
        choice = cls.chosen(a, s, **params)
        chunks = cdiv(s.slots, WARP * choice.warps) if choice.kernel == CHUNKS else 0
        return s.slots * (4 + a.dtype.itemsize) + s.nbytes + 4 * chunks

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        layout, xp = cls.layout(a, **params), a.xp
        s = cls.slices(a, layout)
        choice = cls.chosen(a, s, **params)
        chunk_slice = xp.empty(0, dtype=np.int32)
        if choice.kernel == CHUNKS:
            first = xp.arange(0, s.slots, WARP * choice.warps, dtype=np.int64)
            chunk_slice = (xp.searchsorted(s.ptr, first, side="right") - 1).astype(np.int32)
        return cls.filled(a, layout, s) | {"chunk_slice": chunk_slice, "choice": choice}

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        rows, slices, (kernel, warps) = self.shape[0], len(self.slice_ptr) - 1, self.choice
        types = f"{ctype(self.values)}, {ctype(self.slice_ptr)}, {self.height}"
        arrays = self.slice_ptr, self.columns, self.values, x, y
        if kernel < WARP_PER_SLICE:
            threads = 1 << (kernel - BASIC)
            block = THREADS // threads, threads
            size = np.uint32(rows), np.int64(self.height), np.int32(0)
            name = f"sell_spmv<{types}, {threads}, {block[0]}, false, false, {cbool(add)}>"
            args: tuple[Any, ...] = (*size, self.slice_ptr, self.lengths, self.perm, *arrays[1:])
            return [Launch("ellpack/sell.cu", name, cdiv(rows, block[0]), block, args)]
        if kernel == CHUNKS:
            chunks = len(self.chunk_slice)
            each = 1 + max(len(self.values) // max(slices, 1) - 1, 0) // (WARP * warps)
            sizes = map(np.int32, (rows, slices, chunks, each))
            args = (*sizes, self.chunk_slice, *arrays)
            launch = Launch(KERNEL, f"petsc_chunk<{types}, {warps}>", cdiv(chunks, each), (WARP, warps), args)
            return [launch] if add else [zero_fill(y), launch]
        of_warp = kernel == WARP_PER_SLICE
        name = f"petsc_{'warp' if of_warp else 'block'}<{types}, {warps}, {cbool(add)}>"
        grid = cdiv(slices, warps) if of_warp else slices
        args = (np.int32(rows), np.int32(slices), *arrays) if of_warp else (np.int32(rows), *arrays)
        return [Launch(KERNEL, name, grid, (WARP, warps), args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"kernel": self.choice.kernel, "warps": self.choice.warps}
