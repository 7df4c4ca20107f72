"""Compressed sparse columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, expand, inverse, offsets
from spmvbench.formats.conversion import Run, runner
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, Step, cbool, ctype, in_part, per_thread, zero_fill
from spmvbench.formats.registry import register
from spmvbench.formats.transposed import by_rows, lanes_by_mean

BLOCK = 256


def by_columns(a: Csr) -> tuple[Array, Array]:
    """Where each column begins, (cols + 1,) of row_ptr's type, and the entries of CSR column by column, (nnz,), int64,
    rows ascending.
    """
    order = a.xp.argsort(a.col_idx, kind="stable")
    if run := runner(a):
        return col_pointers(a, order, run), order
    return offsets(a.col_lengths).astype(a.row_ptr.dtype, copy=False), order


def col_pointers(a: Csr, order: Array, run: Run) -> Array:
    """Where each column begins in the order of `by_columns`, by a kernel. run: runs a launch on the arrays of `a`.

    CuPy's bincount takes three times as long as the sort.
    """
    col_ptr = a.xp.empty(a.cols + 1, dtype=a.row_ptr.dtype)
    args = (np.int32(a.cols), col_ptr.dtype.type(a.nnz), a.col_idx, order, col_ptr)
    run(Launch("csc/csc_convert.cu", f"csc_pointers<{ctype(col_ptr)}>", *per_thread(a.nnz + 1), args))
    return col_ptr


class CscArrays(Format):
    """Plain CSC: 12 nnz + 4 (cols + 1) bytes in double precision, by a stable sort of the columns."""

    family = "CSC"

    col_ptr: Array  # (cols + 1,), int32, or int64 where nnz needs it
    row_idx: Array  # (nnz,), int32
    values: Array  # (nnz,), in column order

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nnz * (4 + a.dtype.itemsize) + (a.cols + 1) * a.row_ptr.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        col_ptr, order = by_columns(a)
        return {"col_ptr": col_ptr, "row_idx": a.row_idx[order], "values": a.values[order]}

    def to_coo(self) -> tuple[Array, Array, Array]:
        return self.row_idx, expand(self.col_ptr, len(self.values)), self.values

    def transposed(self, x: Array, y: Array) -> Sequence[Step]:
        """As CSR of A^T, by groups of threads per column: nothing is atomic."""
        cols, nnz = self.shape[1], self.col_ptr.dtype.type(len(self.values))
        lanes = lanes_by_mean(len(self.values), cols)
        kernel = f"csr_vector<{ctype(self.values)}, {ctype(self.col_ptr)}, {lanes}, 1, 1>"
        args = np.int32(cols), nnz, self.col_ptr, self.row_idx, self.values, x, y
        return [Launch("csr/csr.cu", kernel, cdiv(cols, BLOCK // lanes), BLOCK, args)]


class CscByLanes(CscArrays):
    """CSC multiplied by groups of threads that share a column and add its products to y by atomics.

    Subclasses give the number of threads: `lanes_per_column`. Sums are not reproducible.
    """

    @property
    def lanes_per_column(self) -> int:
        """Threads that share a column."""
        raise NotImplementedError

    def columns_kernel(self, lanes: int, x: Array, out: Array, *, keep: bool) -> Launch:
        """The launch that multiplies every entry; keep: the products go to `out`, (nnz,), else they are added to y."""
        kernel = f"csc_columns<{ctype(self.values)}, {ctype(self.col_ptr)}, {lanes}, {cbool(keep)}>"
        args = (np.int32(self.shape[1]), self.col_ptr, self.row_idx, self.values, x, out)
        return Launch("csc/csc.cu", kernel, cdiv(self.shape[1] * lanes, BLOCK), BLOCK, args)

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), self.columns_kernel(self.lanes_per_column, x, y, keep=False)]


@register
class CscAtomic(CscByLanes):
    """CSC; x is read once and in order, and products are added to y by atomics.

    The modern way to multiply CSC; the survey's own kernels (csc-scalar, csc-vector) collect products instead. Threads
    per column: the largest power of two up to the mean column length. Sums are not reproducible.
    """

    key = "csc-atomic"
    reference = "after Hugues & Petiton, HPCC 2010"

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), by_rows(self.col_ptr, self.row_idx, self.values, x, y)]


@register
class CscWarp(CscByLanes):
    """CSC, one warp per column: the basic CSC that the FastLoad paper describes and compares with.

    Arrays and kernel are those of csc-atomic; only the threads of a column differ. Most threads of a warp are idle
    where columns are shorter than 32.
    """

    key = "csc-warp"
    reference = "Hu et al., FastLoad, TPDS 2024, Algorithm 1"

    lanes_per_column = 32


@register
class CscThread(CscByLanes):
    """CSC, one thread per column: the basic CSC of the program released with the FastLoad paper.

    Arrays and kernel are those of csc-atomic; only the threads of a column differ. Neighbouring threads read from
    distant addresses. The program starts 32 blocks of 64 threads per multiprocessor, which walk over the columns; here
    every column has a thread of its own. It sets y to zero outside of the time that it reports; here that counts.
    """

    key = "csc-thread"
    reference = "Hu et al., FastLoad, TPDS 2024, released program"

    lanes_per_column = 1


class CscCollected(CscByLanes):
    """CSC whose products go to a temporary array of nnz values, from which rows collect them: no atomics.

    It also stores where the entries of every row are in CSC. The survey says no more of the second step than that
    its reads are irregular; that the places are stored is our choice. Sums are reproducible.
    """

    survey_name = "CSC optimization"
    reference = "Hugues & Petiton, HPCC 2010"

    row_ptr: Array  # (rows + 1,), int32, or int64 where nnz needs it
    place: Array  # (nnz,), of row_ptr's type: where the entries of CSR are in column order

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return super().estimate(a, **params) + (a.rows + 1 + a.nnz) * a.row_ptr.dtype.itemsize

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        col_ptr, order = by_columns(a)
        place = inverse(order, dtype=a.row_ptr.dtype)
        csc = {"col_ptr": col_ptr, "row_idx": a.row_idx[order], "values": a.values[order]}
        return csc | {"row_ptr": a.row_ptr, "place": place}

    @property
    def lanes_per_row(self) -> int:
        """Threads that collect the products of a row."""
        raise NotImplementedError

    def launches(self, x: Array, y: Array) -> list[Launch]:
        rows, lanes = self.shape[0], self.lanes_per_row
        products = self.xp.empty(len(self.values), dtype=y.dtype)
        kernel = f"csc_collect<{ctype(self.values)}, {ctype(self.row_ptr)}, {lanes}>"
        args = (np.int32(rows), self.row_ptr, self.place, products, y)
        collect = Launch("csc/csc.cu", kernel, cdiv(rows * lanes, BLOCK), BLOCK, args)
        multiply = self.columns_kernel(self.lanes_per_column, x, products, keep=True)
        return [*in_part("multiply", [multiply]), *in_part("collect", [collect])]


@register
class CscScalar(CscCollected):
    """CSC, one thread per column; products go to a temporary array, from which one thread per row sums them.

    Arrays and kernels are those of csc-vector; only the threads differ.
    """

    key = "csc-scalar"

    lanes_per_column = lanes_per_row = 1


@register
class CscVector(CscCollected):
    """CSC, 2 to 32 threads per column; products go to a temporary array, summed by as many threads per row.

    Threads are the largest power of two up to the mean length of columns, and of rows (the original: a warp). Arrays
    and kernels are those of csc-scalar; only the threads differ.
    """

    key = "csc-vector"

    @property
    def lanes_per_column(self) -> int:
        return lanes_by_mean(len(self.values), self.shape[1], least=2)

    @property
    def lanes_per_row(self) -> int:
        return lanes_by_mean(len(self.values), self.shape[0], least=2)
