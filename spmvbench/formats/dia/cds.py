"""CDS: compact diagonal storage of matrices with several unknowns per node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmvbench.formats import transposed
from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, diagonal_places, distinct_diagonals, nonzero_mask, round_up, tabled
from spmvbench.formats.conversion import refuse_more_than_memory, runner, stays_in_part
from spmvbench.formats.dia.dia import HACK, MOST, Dia, block_diagonals, dense
from spmvbench.formats.format import Adding
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Step, cbool, ctype, per_thread
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

BLOCK = constant("dia/pieces.cu", "BLOCK")  # threads


def block_offsets(a: Csr, unknowns: int) -> Array:
    """Block diagonals that hold an entry: block column - block row, ascending, int32."""
    if unknowns == 1:
        return a.diagonals
    return distinct_diagonals(block_diagonal(a, unknowns), (a.rows // unknowns, a.cols // unknowns))


def block_diagonal(a: Csr, unknowns: int) -> Array:
    """Block column - block row of each entry, (nnz,), int32."""
    return a.col_idx // np.int32(unknowns) - a.row_idx // np.int32(unknowns)


@register
class Cds(Adding):
    """Block diagonals of a grid with several unknowns per node, stored as vectors over all rows.

    A finite element matrix with 3 unknowns per node takes 1.12 values per entry, `dia` 1.58. unknowns=0 takes the
    divisor of rows and columns, up to 16, that stores the fewest bytes: our reading, because the authors' program takes
    it as input. With one unknown it is `dia`. The authors' kernel tests no bounds, the texture cache gives zeros beyond
    x; here a block is tested as a whole. A stored zero cannot be distinguished from padding, so decoding leaves it out.
    """

    key = "cds"
    family = "DIA"
    survey_name = "CDS"
    reference = "Godwin, Holewinski & Sadayappan, GPGPU-5 2012 (PETSc SGGPU)"
    keeps_zeros = False
    multiplies_padding = True

    unknowns = Parameter(0, "unknowns per node; 0: the number with the fewest bytes", low=0, high=MOST)

    offset: Array  # (block diagonals,), int32: block column - block row, ascending
    values: Array  # (block diagonals * unknowns, rows, rounded up to a multiple of 32): by column inside the block
    width: int  # unknowns per node

    @classmethod
    def _chosen(cls, a: Csr, unknowns: int) -> tuple[int, Array]:
        """Unknowns per node, and the block diagonals. Raises Skip if they divide no rows or columns."""
        if unknowns and (a.rows % unknowns or a.cols % unknowns):
            raise Skip(f"{unknowns} unknowns a node do not divide {a.rows} rows and {a.cols} columns")
        divisors = [unknowns] if unknowns else [d for d in range(1, MOST + 1) if not (a.rows % d or a.cols % d)]
        if (run := runner(a)) and tabled(a.nnz, a.rows + a.cols):
            return block_diagonals(a, divisors, run)
        found = [(d, block_offsets(a, d)) for d in (divisors if a.nnz else divisors[:1])]
        return min(found, key=lambda choice: choice[0] * len(choice[1]))

    @classmethod
    def estimate(cls, a: Csr, *, unknowns: int) -> int:
        width, offset = cls._chosen(a, unknowns)
        return len(offset) * (width * round_up(a.rows, HACK) * a.dtype.itemsize + 4)

    @classmethod
    def convert(cls, a: Csr, *, unknowns: int) -> dict[str, Any]:
        xp, (width, offset) = a.xp, cls._chosen(a, unknowns)
        if a.nnz and (run := runner(a)):
            return dense(a, offset, run, width)[0] | {"width": width}
        refuse_more_than_memory(len(offset) * width * round_up(a.rows, HACK) * a.dtype.itemsize, a)
        values = xp.zeros((len(offset) * width, round_up(a.rows, HACK)), dtype=a.dtype)
        block = diagonal_places(block_diagonal(a, width), offset, (a.rows // width, a.cols // width))
        values[block * width + a.col_idx % np.int32(width), a.row_idx] = a.values
        return {"offset": offset, "values": values, "width": width}

    def to_coo(self) -> tuple[Array, Array, Array]:
        vector, row = self.xp.nonzero(nonzero_mask(self.values))
        block, inside = self.xp.divmod(vector, self.width)
        return row, (row // self.width + self.offset[block]) * self.width + inside, self.values[vector, row]

    @property
    def _dia(self) -> Dia:
        """The same of one unknown a node."""
        return Dia.holding(self.shape, {"offset": self.offset, "values": self.values})

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        if self.width == 1:
            return self._dia.multiplied(x, y, k, layout)
        return super().multiplied(x, y, k, layout)

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        if self.width == 1:
            return self._dia.product(x, y, add=add)
        rows, cols = self.shape
        batch = max(4 // self.width, 1)
        kernel = f"cds_spmv<{ctype(self.values)}, {self.width}, {batch}, {cbool(add)}>"
        sizes = np.int32(rows), np.int32(cols // self.width), np.int32(len(self.offset))
        args = (*sizes, np.int64(self.values.shape[1]), self.offset, self.values, x, y)
        source = "partly_kept/pieces.cu" if stays_in_part(self.values) else "dia/pieces.cu"
        return [Launch(source, kernel, *per_thread(rows, BLOCK), args, row_lanes=1)]

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        if self.width > 1:
            raise Skip(f"no kernel multiplies with A^T from block diagonals of {self.width} unknowns")
        return [transposed.by_diagonals(self.shape, self.offset, self.values, x, y)]

    @property
    def detail(self) -> dict[str, Any]:
        return {"unknowns": self.width, "block_diagonals": len(self.offset)}
