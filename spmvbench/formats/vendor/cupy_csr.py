"""CuPy's own product, as its users call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.launches import Call, Step, zero_fill
from spmvbench.formats.multivector import of_two_dimensions
from spmvbench.formats.registry import register
from spmvbench.formats.streams import Stream


@register
class CupyCsr(CsrArrays):
    """CuPy's ``csr_matrix @ x``, called from the host: what a user of CuPy gets without a choice.

    Each product makes y, descriptors and a work buffer, and calls cuSPARSE's default algorithm without preprocessing.
    No CUDA graph captures that. The time is that of one call in a loop of calls by the host's clock, the wait for the
    last one included, while other formats are timed in a graph: it is stored, and never ranked. CuPy's check that rows
    are sorted and have no duplicates counts as setup. CuPy returns a y of its own; its copy for the checks of the
    result is not timed.
    """

    key = "cupy-csr"
    reference = "CuPy, cupyx.scipy.sparse.csr_matrix"
    devices = ("cuda",)
    experiment = True

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        return self._launches(x, y, lambda matrix: matrix)

    def transposed(self, x: Array, y: Array) -> Sequence[Step]:
        return self._launches(x, y, lambda matrix: matrix.T)

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        return self._launches(*of_two_dimensions(x, y, k, layout), lambda matrix: matrix)

    def _launches(self, x: Array, y: Array, operand: Callable[[Any], Any]) -> Sequence[Step]:
        if not len(x) or not len(y) or not len(self.values):
            return [zero_fill(y.ravel("K"))]
        if self.values.dtype != x.dtype:
            raise Skip("CuPy would convert the values in every product: values and vectors have to be of one type")
        import cupy
        from cupyx.scipy.sparse import csr_matrix

        matrix = operand(csr_matrix((self.values, self.col_idx, self.row_ptr), shape=self.shape))
        matrix.sum_duplicates()  # there are none; the first product would look for them
        current = cupy.cuda.get_current_stream

        def product(stream: int) -> Any:
            if current().ptr == stream:
                return matrix @ x
            with cupy.cuda.Stream.from_external(Stream(stream)):
                return matrix @ x

        return [Call(self.key, product, (self.row_ptr, self.col_idx, self.values, x, y), y=y)]
