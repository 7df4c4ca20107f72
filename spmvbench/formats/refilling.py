"""New values for a matrix in a format: which entry each stored element holds, found by converting numbered entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, ArrayModule, Csr, index_dtype
from spmvbench.formats.conversion import TUNING
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, Step, ctype, per_thread

# The first of the numbers that stand for entries, as bits of a value: the least that is no subnormal.
FIRST = {4: 0x00800000, 8: 0x0010000000000000}
MOST = 2**31 - 2**24  # so many of four bytes are finite


@dataclass(frozen=True, eq=False)
class Places:
    """Where a format stores the entries of a matrix.

    size: number of entries. entries: by the name of a stored array of values, (its size,): the number of the entry, in
    the order of canonical CSR, that each element holds; negative for padding.
    """

    size: int
    entries: Mapping[str, Array]

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return sum(array.nbytes for array in self.entries.values())

    def launches(self, fmt: Format, values: Array) -> list[Step]:
        """The launches that put values, (size,), in the order of canonical CSR, in the format's arrays."""
        arrays, found = fmt.arrays(), list[Step]()
        for name, entry in self.entries.items():
            stored = arrays[name].reshape(-1)
            kernel = f"refill<{ctype(stored)}, {ctype(entry)}>"
            args = (entry.dtype.type(len(entry)), entry, values, stored)
            found.append(Launch("solve/refill.cu", kernel, *per_thread(len(entry)), args))
        return found

    def renumbered(self, numbers: Array) -> Places:
        """The same places if entry i of the matrix has the number numbers[i], (size,)."""
        return replace(self, entries={name: _renumbered(entry, numbers) for name, entry in self.entries.items()})

    def values(self, fmt: Format) -> Array:
        """The values that the format holds, (size,), in the order of canonical CSR."""
        found = fmt.xp.zeros(self.size, fmt.value_dtype)
        for name, entry in self.entries.items():
            held = entry >= 0
            found[entry[held]] = fmt.arrays()[name].reshape(-1)[held]
        return found

    def refilled(self, fmt: Format, values: Array) -> Format:
        """The format with other values, (size,), in the order of canonical CSR, in arrays of its own."""

        def change(name: str, array: Array) -> Array:
            if name not in self.entries:
                return array
            entry, found = self.entries[name], array.copy()
            held = entry >= 0
            found.reshape(-1)[held] = values[entry[held]]
            return found

        return fmt.with_arrays(change)


def _renumbered(entry: Array, numbers: Array) -> Array:
    found, held = entry.copy(), entry >= 0
    found[held] = numbers[entry[held]]
    return found


def numbers(n: int, dtype: np.dtype[Any], xp: ArrayModule) -> Array:
    """Values that stand for the entries 0 to n - 1, by their bits: different, finite and not 0."""
    bits = np.dtype(f"i{dtype.itemsize}")
    found: Array = (xp.arange(n, dtype=bits) + bits.type(FIRST[dtype.itemsize])).view(dtype)
    return found


def numbered(values: Array) -> Array:
    """The entries that values stand for; negative for 0."""
    bits = values.view(f"i{values.itemsize}")
    found: Array = (bits - FIRST[values.itemsize]).astype(np.int64)
    found[bits == 0] = -1
    return found


def places(fmt: Format, a: Csr) -> Places | None:
    """Where a format stores the entries of `a`, the matrix that it was converted from; None if values decide on that.

    The matrix is converted once more, with numbers of entries as values. If all else that is stored is the same, and
    each value is that of its number, conversion only moves values. A program says itself what it can.
    """
    own: Places | None = fmt.own_places(a.nnz)
    if own is not None:
        return own
    longest = max((array.size for array in fmt.arrays().values()), default=0)  # more than the entries where zeros fill
    if fmt.values_decide or a.dtype.itemsize not in FIRST or max(a.nnz, longest) > MOST:
        return None
    if (tuning := TUNING.get()) is not None:
        tuning.begin()  # what the conversion of `fmt` found by timing holds here
    tuned = {name: value for name, value in fmt.in_use.items() if name in fmt.parameters()}
    try:
        moved = type(fmt).converted(replace(a.fresh(), values=numbers(a.nnz, a.dtype, a.xp)), **{**fmt.params, **tuned})
    except Skip:
        return None
    if not _alike(fmt, moved, a.dtype):
        return None
    found, stored = {}, fmt.arrays()
    for name, array in moved.arrays().items():
        if array.dtype == a.dtype:
            entry = numbered(array.reshape(-1))
            held = entry >= 0
            if bool(((array.reshape(-1) != 0) & ~held | (entry >= a.nnz)).any()):
                return None
            bits = stored[name].reshape(-1).view(f"i{a.dtype.itemsize}")
            if bool(bits[~held].any()) or bool((bits[held] != a.values[entry[held]].view(bits.dtype)).any()):
                return None
            found[name] = entry.astype(index_dtype(a.nnz))
    return Places(a.nnz, found)


def _alike(one: Any, other: Any, values: np.dtype[Any]) -> bool:
    """Whether two formats, or fields of them, differ in nothing but arrays of values of the same shape."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Format):
        return all(
            field.name == "params" or _alike(getattr(one, field.name), getattr(other, field.name), values)
            for field in fields(one)
        )
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_alike(value, other[key], values) for key, value in one.items())
    if hasattr(one, "nbytes") and hasattr(one, "shape") and hasattr(one, "dtype"):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return one.dtype == values or bool((one == other).all())
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(_alike(a, b, values) for a, b in zip(one, other, strict=True))
    return bool(one == other)
