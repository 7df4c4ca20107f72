"""New values for a matrix in a format: which entry each stored element holds, found by converting numbered entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import (
    SECTOR_BYTES,
    Array,
    ArrayModule,
    Csr,
    array_module,
    cdiv,
    expand,
    index_dtype,
    put,
    stable_order,
)
from spmvbench.formats.conversion import TUNING
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, Step, ctype, per_thread

# The first of the numbers that stand for entries, as bits of a value: the least that is no subnormal.
FIRST = {4: 0x00800000, 8: 0x0010000000000000}
MOST = 2**31 - 2**24  # so many of four bytes are finite

# Entries in a chunk of `Moves`: on an H200 10 % faster than four times as many, but where entries are alone in sectors.
CHUNK = 1024
ITEMS = constant("solve/refill.cu", "REFILL_ITEMS")  # values that a thread has in flight


@dataclass(frozen=True, eq=False)
class Moves:
    """Which elements of a stored array take the values of which entries, by sectors of the array and chunks of entries.

    A sector that is written in part is read first: whole ones are written, with the zeros between entries. The values
    of a chunk are in L1 while a block writes the sectors whose first entry is one of them. sector: (n,) the sectors
    that hold entries, ascending in each chunk. entry: (n, elements in a sector), the entry of each element less the
    first of the chunk; all bits set if the element is padding. start: (chunks + 1,) where the chunks begin in `sector`.
    If entry i goes to element i, all three are empty.
    """

    sector: Array
    entry: Array
    start: Array

    @classmethod
    def of(cls, place: Array, entry: Array, size: int, stored: Array) -> Moves:
        """The moves of entries to places of an array, both (n,), the latter ascending. size: entries of the matrix."""
        xp, index, width = array_module(place), index_dtype(stored.size), SECTOR_BYTES // stored.itemsize
        if len(place) == size and bool((place == entry).all()):
            return cls(xp.zeros(0, index), xp.zeros((0, width), np.uint16), xp.zeros(0, index))
        begins = xp.concatenate([xp.ones(1, bool), place[1:] // width != place[:-1] // width])
        sector = place[begins] // width
        slots = xp.full((len(sector), width), -1, np.int64)
        put(slots, (xp.cumsum(begins) - 1, place % width), entry)
        of_chunk = xp.where(slots < 0, size, slots).min(axis=1) // CHUNK
        chunks = cdiv(size, CHUNK)
        order = stable_order(of_chunk, chunks)
        start = xp.zeros(chunks + 1, index)
        start[1:] = xp.cumsum(xp.bincount(of_chunk, minlength=chunks))
        slots = xp.where(slots < 0, -1, slots - of_chunk[:, None] * CHUNK)[order]
        held = np.uint16 if int(slots.max()) < 2**16 - 1 else index_dtype(size)
        return cls(sector[order].astype(index), slots.astype(held), start)

    def pairs(self, size: int) -> tuple[Array, Array]:
        """(places, entries), each (n,), places ascending. size: entries of the matrix."""
        xp = array_module(self.sector)
        if not len(self.sector):
            return xp.arange(size), xp.arange(size)
        width = self.entry.shape[1]
        first = expand(self.start, len(self.sector)).astype(np.int64) * CHUNK
        place = self.sector.astype(np.int64)[:, None] * width + xp.arange(width)
        held = self.entry != np.array(-1).astype(self.entry.dtype)
        place, entry = place[held], (first[:, None] + self.entry)[held]
        order = xp.argsort(place)
        return place[order], entry[order]

    def launch(self, values: Array, stored: Array) -> Launch:
        """The launch that puts values, (size,), into the elements of a stored array."""
        if not len(self.sector):
            kernel, given = f"refill_all<{ctype(stored)}>", (np.int64(len(values)), values, stored)
            return Launch("solve/refill.cu", kernel, *per_thread(len(values)), given)
        kernel = f"refill<{ctype(stored)}, {ctype(self.sector)}, {ctype(self.entry)}, {self.entry.shape[1]}>"
        chunk, elements = np.int32(CHUNK), self.sector.dtype.type(stored.size)
        args = chunk, elements, self.start, self.sector, self.entry, values, stored
        return Launch("solve/refill.cu", kernel, len(self.start) - 1, CHUNK // ITEMS, args)

    def arrays(self) -> list[Array]:
        """What is kept on the device."""
        return [self.sector, self.entry, self.start]


@dataclass(frozen=True, eq=False)
class Places:
    """Where a format stores the entries of a matrix.

    size: number of entries, in the order of canonical CSR. moves: by the name of a stored array of values, what each of
    its elements takes; elements that take nothing are padding, and stay 0.
    """

    size: int
    moves: Mapping[str, Moves]

    def arrays(self) -> list[Array]:
        """What is kept on the device for updates."""
        return [array for moves in self.moves.values() for array in moves.arrays()]

    @property
    def nbytes(self) -> int:
        """Bytes of `arrays`."""
        return sum(array.nbytes for array in self.arrays())

    def launches(self, fmt: Format, values: Array) -> list[Step]:
        """The launches that put values, (size,), in the order of canonical CSR, in the format's arrays."""
        arrays = fmt.arrays()
        return [moves.launch(values, arrays[name].reshape(-1)) for name, moves in self.moves.items()]

    def renumbered(self, fmt: Format, numbers: Array) -> Places:
        """The same places if entry i of the matrix has the number numbers[i], (size,)."""
        arrays, found = fmt.arrays(), {}
        for name, moves in self.moves.items():
            place, entry = moves.pairs(self.size)
            found[name] = Moves.of(place, numbers[entry], self.size, arrays[name])
        return replace(self, moves=found)

    def values(self, fmt: Format) -> Array:
        """The values that the format holds, (size,), in the order of canonical CSR."""
        arrays, found = fmt.arrays(), fmt.xp.zeros(self.size, fmt.value_dtype)
        for name, moves in self.moves.items():
            place, entry = moves.pairs(self.size)
            found[entry] = arrays[name].reshape(-1)[place]
        return found

    def refilled(self, fmt: Format, values: Array) -> Format:
        """The format with other values, (size,), in the order of canonical CSR, in arrays of its own."""

        def change(name: str, array: Array) -> Array:
            if name not in self.moves:
                return array
            place, entry = self.moves[name].pairs(self.size)
            found = array.copy()
            put(found.reshape(-1), place, values[entry])
            return found

        return fmt.with_arrays(change)


def numbers(n: int, dtype: np.dtype[Any], xp: ArrayModule) -> Array:
    """Values that stand for the entries 0 to n - 1, by their bits: different, finite and not 0."""
    bits = np.dtype(f"i{dtype.itemsize}")
    found: Array = (xp.arange(n, dtype=bits) + bits.type(FIRST[dtype.itemsize])).view(dtype)
    return found


def numbered(values: Array) -> Array:
    """The entries that values stand for; negative for 0."""
    found: Array = (values.view(f"i{values.itemsize}") - FIRST[values.itemsize]).astype(np.int64)
    return found


def places(fmt: Format, a: Csr) -> Places | None:
    """Where a format stores the entries of `a`, the matrix that it was converted from; None if values decide on that.

    The matrix is converted once more, with numbers of entries as values. If all else that is stored is the same, and
    each value is that of its number, conversion only moves values. A program says itself what it can.
    """
    own: Places | None = fmt.own_places(a.nnz)
    if own is not None:
        return own
    if fmt.values_decide or a.dtype.itemsize not in FIRST or a.nnz > MOST:
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
            if (held := _held(stored[name], array, a)) is None:
                return None
            if len(held[0]) or not a.nnz:
                found[name] = Moves.of(*held, a.nnz, array)
    return Places(a.nnz, found)


def _held(stored: Array, numbers: Array, a: Csr) -> tuple[Array, Array] | None:
    """Where an array has entries of `a`, and which; None if it has other values. numbers: the same array of numbers."""
    entry = numbered(numbers.reshape(-1))
    held = entry >= 0
    if bool(((numbers.reshape(-1) != 0) & ~held | (entry >= a.nnz)).any()):
        return None
    bits = stored.reshape(-1).view(f"i{a.dtype.itemsize}")
    place = a.xp.flatnonzero(held)
    entry = entry[place]
    # No mask of padding as an index: CuPy counts what it takes in an int, and padding may be 2^31 elements.
    if bool(((bits != 0) & ~held).any()) or bool((bits[place] != a.values[entry].view(bits.dtype)).any()):
        return None
    return place, entry


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
