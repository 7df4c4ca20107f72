"""Diagonals that each hold one value, stored once; each row stores which of them it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, diagonal_places
from spmvbench.formats.base import Adding, Launch, Parameter, Skip, cbool, ctype, register, zero_fill

MOST = 32  # diagonals, the bits of the widest mask


@register
class ConstantDiagonals(Adding):
    """A stencil with constant coefficients: the value of each diagonal, and one bit per row and diagonal.

    Exact in every bit: if two entries of a diagonal differ in one, or more than 32 diagonals hold entries, the matrix
    is refused. A row stores 1, 2 or 4 bytes, and the kernel reads little else but x and y. Its time says nothing about
    storages that hold every value. `row-patterns` holds more stencils, by a dictionary.
    """

    key = "constant-diagonals"
    family = "DIA"
    reference = "this project"
    project_kernel = True

    # Tuned on an NVIDIA H200.
    rows = Parameter(4, "rows of a thread", choices=(1, 2, 4, 8))
    threads = Parameter(256, "threads of a block", choices=(128, 256, 512))

    mask: Array  # (rows,), uint8, uint16 or uint32: bit d is set if the row has an entry on diagonal d
    offset: Array  # (diagonals,), int32: col - row, ascending
    values: Array  # (diagonals,)

    @classmethod
    def _mask_type(cls, a: Csr) -> np.dtype:
        """The type of a row's mask. Raises Skip for more than MOST diagonals."""
        count = len(a.diagonals)
        if count > MOST:
            raise Skip(f"{count:,} diagonals hold entries, a row's mask has {MOST} bits")
        return np.dtype(np.uint8 if count <= 8 else np.uint16 if count <= 16 else np.uint32)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.rows * cls._mask_type(a).itemsize + len(a.diagonals) * (4 + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, offset, kind = a.xp, a.diagonals, cls._mask_type(a)
        place = diagonal_places(a.diagonal, offset, a.shape)
        bits = a.values.view(f"i{a.dtype.itemsize}")
        value = xp.zeros(len(offset), dtype=bits.dtype)
        value[place] = bits  # of several entries any one: all others are compared with it
        if differing := len(xp.unique(place[value[place] != bits])):
            raise Skip(f"{differing} of {len(offset)} diagonals hold different values")
        # Powers of two, each at most once in a row: their sum is exact.
        mask = xp.bincount(a.row_idx, xp.ldexp(1.0, place.astype(np.int32)), a.rows).astype(kind)
        return {"mask": mask, "offset": offset, "values": value.view(a.dtype)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        xp = self.xp
        row, place = xp.nonzero(self.mask[:, None] >> xp.arange(len(self.offset), dtype=self.mask.dtype) & 1)
        return row, row + self.offset[place], self.values[place]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        width, (rows, cols) = len(self.offset), self.shape
        if not width:
            return [] if add else [zero_fill(y)]
        options = f"{width}, {self.params['rows']}, {self.threads}, {cbool(add)}"
        kernel = f"constant_diagonals_spmv<{ctype(self.values)}, {ctype(self.mask)}, {options}>"
        args = np.int32(rows), np.int32(cols), self.mask, self.offset, self.values, x, y
        grid = cdiv(rows, self.threads * self.params["rows"])
        return [Launch("dia/constant_diagonals.cu", kernel, grid, self.threads, args)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"constant_diagonals": len(self.offset)}
