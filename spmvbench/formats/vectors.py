"""What formats of other operations than y = A x with a dense x are given. Not in `arrays`, which every format reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spmvbench.formats.arrays import Array, array_module


@dataclass(frozen=True, eq=False)
class SparseVector:
    """The x of an SpMSpV: its entries alone, on the host or on a device.

    index: (k,), int32, rising, no place twice. value: (k,), in the matrix's type; it may be 0. size: the length, the
    columns of the matrix. Launches are bound to these arrays. What they hold changes from run to run, k does not: what
    a format makes of them (tiles, bits) is made anew in every run and belongs to its time.
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
