"""y = A x in the matrix's order, by the launches of a format that takes x or gives y in an order of its own."""

from __future__ import annotations

from spmvbench.formats.arrays import Array, inverse
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Call, Launch, Loop, ctype, per_thread
from spmvbench.formats.vectors import orders


class Ordered:
    """The launches of y = A x in the matrix's order, for a format that takes x or gives y in an order of its own.

    Vectors in the format's order are made once and shared by all pairs.
    """

    def __init__(self, fmt: Format):
        self.fmt = fmt
        (rows, cols), xp, dtype = fmt.shape, fmt.xp, fmt.value_dtype
        self._x_order, y_order = orders(fmt)
        self._y_place = None if y_order is None else inverse(y_order)
        self._x = None if self._x_order is None else xp.empty(cols, dtype)
        self._y = None if y_order is None else xp.empty(rows, dtype)

    @property
    def natural(self) -> bool:
        """Whether the format takes x and gives y in the matrix's order."""
        return self._x is None and self._y is None

    def arrays(self) -> list[Array]:
        """The arrays that the launches use beside the format's, x and y."""
        return [array for array in (self._x_order, self._y_place, self._x, self._y) if array is not None]

    def launches(self, x: Array, y: Array) -> list[Launch | Call | Loop]:
        """Everything that one y = A x needs. x: (cols,), y: (rows,), contiguous, of the format's type."""
        inner_x, inner_y = x if self._x is None else self._x, y if self._y is None else self._y
        before = [] if self._x_order is None else [gather(self._x_order, x, inner_x)]
        after = [] if self._y_place is None else [gather(self._y_place, inner_y, y)]
        return [*before, *self.fmt.launches(inner_x, inner_y), *after]


def gather(index: Array, source: Array, into: Array) -> Launch:
    """The launch of into[i] = source[index[i]]."""
    kernel = f"gather<{ctype(into)}, {ctype(index)}>"
    return Launch("vector.cu", kernel, *per_thread(len(index)), (index.dtype.type(len(index)), index, source, into))
