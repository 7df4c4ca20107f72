"""Few diagonals whose values repeat: one value each and a mask per row, or a dictionary of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, cdiv, diagonal_places, expand, offsets, round_up
from spmvbench.formats.dia.row_patterns import distinct_rows
from spmvbench.formats.format import Adding
from spmvbench.formats.launches import Launch, cbool, ctype, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

SOURCE = "dia/constant_diagonals.cu"
MOST = 32  # diagonals, the bits of the widest mask
PAIR = 2  # values of one load


def count_diagonals(a: Csr) -> int:
    """The number of diagonals that hold an entry. Raises Skip for more than MOST."""
    if len(a.diagonals) > MOST:
        raise Skip(f"{len(a.diagonals):,} diagonals hold entries, a row's mask has {MOST} bits")
    return len(a.diagonals)


def masks(a: Csr, place: Array, dtype: Any) -> Array:
    """Bit d of a row's mask is set if it has an entry on diagonal d. place: (nnz,), diagonal of each entry."""
    # Powers of two, each at most once in a row: their sum is exact.
    return a.xp.bincount(a.row_idx, a.xp.ldexp(1.0, place.astype(np.int32)), a.rows).astype(dtype)


class FewDiagonals(Adding):
    """What the formats of few diagonals share: rows of a thread, and decoding by masks."""

    family = "DIA"
    reference = "this project"
    project_kernel = True

    rows = Parameter(4, "rows of a thread", choices=(1, 2, 4, 8))
    threads = Parameter(128, "threads of a block", choices=(128, 256, 512))

    mask: Array  # bit d is set if there is an entry on diagonal d
    offset: Array  # (diagonals,), int32: col - row, ascending
    values: Array  # of the diagonals

    def _entries(self, mask: Array) -> tuple[Array, Array]:
        """Row and diagonal of each entry, from the mask of each row."""
        xp = self.xp
        row, place = xp.nonzero(mask[:, None] >> xp.arange(len(self.offset), dtype=mask.dtype) & 1)
        return row, place

    def _launch(self, kernel: str, args: tuple[Any, ...]) -> list[Launch]:
        """The launch of a kernel whose last template arguments are rows of a thread, threads and whether it adds."""
        return [Launch(SOURCE, kernel, cdiv(self.shape[0], self.threads * self.params["rows"]), self.threads, args)]


@register
class ConstantDiagonals(FewDiagonals):
    """A stencil with constant coefficients: the value of each diagonal, and one bit per row and diagonal.

    Exact in every bit: if two entries of a diagonal differ in one, or more than 32 diagonals hold entries, the matrix
    is refused. A row stores 1, 2 or 4 bytes, and the kernel reads little else but x and y. Its time says nothing about
    storages that hold every value. `row-patterns` holds more stencils, by a dictionary.
    """

    key = "constant-diagonals"
    values_decide = True

    mask: Array  # (rows,), uint8, uint16 or uint32: bit d is set if the row has an entry on diagonal d
    offset: Array  # (diagonals,), int32: col - row, ascending
    values: Array  # (diagonals,)

    @classmethod
    def _mask_type(cls, a: Csr) -> np.dtype:
        """The type of a row's mask. Raises Skip as `count_diagonals`."""
        count = count_diagonals(a)
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
        return {"mask": masks(a, place, kind), "offset": offset, "values": value.view(a.dtype)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        row, place = self._entries(self.mask)
        return row, row + self.offset[place], self.values[place]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        width, (rows, cols) = len(self.offset), self.shape
        if not width:
            return [] if add else [zero_fill(y)]
        options = f"{width}, {self.params['rows']}, {self.threads}, {cbool(add)}"
        kernel = f"constant_diagonals_spmv<{ctype(self.values)}, {ctype(self.mask)}, {options}>"
        args = np.int32(rows), np.int32(cols), self.mask, self.offset, self.values, x, y
        return self._launch(kernel, args)

    @property
    def detail(self) -> dict[str, Any]:
        return {"constant_diagonals": len(self.offset)}


@register
class DiagonalPatterns(FewDiagonals):
    """`row-patterns` for at most 32 diagonals: the dictionary holds a value for each of them, and a mask.

    All distinct rows have one length in the dictionary, and x is read at the diagonals' offsets: it does not wait for
    the row's pattern. Missing entries take a value each.
    """

    key = "diagonal-patterns"
    values_decide = True

    rows = FewDiagonals.rows.defaulting(2)

    pattern: Array  # (rows,), uint8, or uint16 for more than 256 distinct rows
    # mask: (distinct rows,), uint32. values: (distinct rows, diagonals, to a multiple of 2)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        count = count_diagonals(a)
        pattern, example = distinct_rows(a)
        return pattern.nbytes + 4 * count + len(example) * (4 + int(round_up(count, PAIR)) * a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        xp, count = a.xp, count_diagonals(a)
        pattern, example = distinct_rows(a)
        ptr = offsets(a.row_lengths[example])
        owner = expand(ptr, int(ptr[-1]))
        entry = a.row_ptr[example][owner] + xp.arange(len(owner)) - ptr[owner]
        place = diagonal_places(a.diagonal[entry], a.diagonals, a.shape)
        values = xp.zeros((len(example), int(round_up(count, PAIR))), dtype=a.dtype)
        values[owner, place] = a.values[entry]
        dictionary = Csr((len(example), max(count, 1)), ptr, place.astype(np.int32), a.values[entry])
        return {
            "pattern": pattern,
            "mask": masks(dictionary, place, np.uint32),
            "offset": a.diagonals,
            "values": values,
        }

    def to_coo(self) -> tuple[Array, Array, Array]:
        row, place = self._entries(self.mask[self.pattern])
        return row, row + self.offset[place], self.values[self.pattern[row], place]

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        width, (rows, cols) = len(self.offset), self.shape
        if not width:
            return [] if add else [zero_fill(y)]
        options = f"{width}, {self.values.shape[1]}, {self.params['rows']}, {self.threads}, {cbool(add)}"
        kernel = f"diagonal_patterns_spmv<{ctype(self.values)}, {ctype(self.pattern)}, {options}>"
        args = np.int32(rows), np.int32(cols), self.pattern, self.mask, self.offset, self.values, x, y
        return self._launch(kernel, args)

    @property
    def detail(self) -> dict[str, Any]:
        return {"patterns": len(self.mask), "diagonals": len(self.offset)}
