"""The x and y that launches are given: a sparse x, and the orders in which a format takes x and gives y.

Orders are data that this module applies, outside of the timed runs: a format has no code there. Not in `arrays`, which
every format reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from spmvbench.formats.arrays import Array, array_module
from spmvbench.formats.format import Format


@dataclass(frozen=True, eq=False)
class SparseVector:
    """The x of an SpMSpV: its entries alone, on the host or on a device.

    index: (k,), int32, rising, no place twice. value: (k,), in the matrix's type; it may be 0. size: the length, the
    columns of the matrix. Launches are bound to these arrays. What they hold changes from run to run, k does not: what
    a format makes of them (tiles, bits) is made again in every run and belongs to its time.
    """

    index: Array
    value: Array
    size: int

    def __len__(self) -> int:
        """The entries, k."""
        return len(self.index)

    def with_arrays(self, change: Callable[[str, Array], Array]) -> SparseVector:
        """The same with both arrays as `change` gives them, from their names and themselves."""
        return SparseVector(change("index", self.index), change("value", self.value), self.size)

    def dense(self) -> Array:
        """All of it, (size,)."""
        whole = array_module(self.value).zeros(self.size, self.value.dtype)
        whole[self.index] = self.value
        return whole


def moved(x: Array | SparseVector, move: Callable[[Array], Array]) -> Array | SparseVector:
    """An x, of whichever kind, with `move` applied to its arrays."""
    return x.with_arrays(lambda name, array: move(array)) if isinstance(x, SparseVector) else move(x)


def parts(x: Array | SparseVector) -> tuple[Array, ...]:
    """The arrays of an x, of whichever kind."""
    return (x.index, x.value) if isinstance(x, SparseVector) else (x,)


def check_order(order: Array, n: int) -> None:
    """Raise ValueError unless `order` is an array of integers that holds each of 0..n - 1 once."""
    xp = array_module(order)
    if not isinstance(order, xp.ndarray) or order.dtype.kind not in "iu":
        raise ValueError(f"an order must be an array of integers, not {getattr(order, 'dtype', type(order).__name__)}")
    if order.shape != (n,):
        raise ValueError(f"an order of {n} elements must have the shape ({n},), not {order.shape}")
    if not bool((xp.sort(order) == xp.arange(n)).all()):
        raise ValueError(f"an order must hold each of 0 to {n - 1} once")


# The first time is before any run: a property that is asked again after a run could compute what the launches should.
_ORDERS: WeakKeyDictionary[Format, tuple[Array | None, Array | None]] = WeakKeyDictionary()


def orders(fmt: Format) -> tuple[Array | None, Array | None]:
    """`fmt.x_order` and `fmt.y_order`, asked for and checked once a format object. Raises ValueError for another order
    than a permutation.
    """
    if fmt not in _ORDERS:
        found = fmt.x_order, fmt.y_order
        for order, n in zip(found, reversed(fmt.shape), strict=True):
            if order is not None:
                check_order(order, n)
        _ORDERS[fmt] = found
    return _ORDERS[fmt]


def in_order(x: Array, order: Array | None) -> Array:
    """An x in the matrix's order as launches take it: its place i holds element order[i]. None: the matrix's own."""
    return x if order is None else x[order]


def restored(y: Array, order: Array | None) -> Array:
    """A y whose place i holds row order[i], as launches give it, in the matrix's order. None: the matrix's own."""
    if order is None:
        return y
    found = array_module(y).empty_like(y)
    found[order] = y
    return found
