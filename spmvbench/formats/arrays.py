"""Canonical CSR and the vectorised steps that converters share, on NumPy and CuPy alike.

Every function takes the array module from its arguments, so the same converter runs on the host and on the device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol, cast, overload

import numpy as np

from spmvbench.errors import SpmvbenchError

# numpy.ndarray or cupy.ndarray. CuPy has no types: a type checker takes its arrays for NumPy's, which they behave like.
Array = np.ndarray[Any, np.dtype[Any]]
INT32_MAX = 2**31 - 1
STEP = 2**16  # what a kernel may add to an offset before it compares: more than a block's threads take at a time
SECTOR_BYTES, LINE_BYTES = 32, 128  # what L2 hands out at least, and what a request to it may ask for


class ArrayFunction(Protocol):
    """A universal function of NumPy or CuPy, for type checkers."""

    at: Callable[..., None]
    accumulate: Callable[..., Array]

    def __call__(self, *args: Any, **params: Any) -> Array:
        """The function of each element."""
        ...


class ArrayModule(ModuleType):
    """NumPy or CuPy, for type checkers: what most functions return. Arguments are not checked."""

    ndarray: type[Array]

    arange: Callable[..., Array]
    append: Callable[..., Array]
    argsort: Callable[..., Array]
    array: Callable[..., Array]
    asarray: Callable[..., Array]
    ascontiguousarray: Callable[..., Array]
    bincount: Callable[..., Array]
    broadcast_to: Callable[..., Array]
    clip: Callable[..., Array]
    concatenate: Callable[..., Array]
    count_nonzero: Callable[..., Any]  # a number, with an axis an array
    cumsum: Callable[..., Array]
    diff: Callable[..., Array]
    divmod: Callable[..., tuple[Array, Array]]
    empty: Callable[..., Array]
    empty_like: Callable[..., Array]
    flatnonzero: Callable[..., Array]
    full: Callable[..., Array]
    isin: Callable[..., Array]
    median: Callable[..., Any]  # likewise
    nonzero: Callable[..., tuple[Array, ...]]
    ones: Callable[..., Array]
    repeat: Callable[..., Array]
    searchsorted: Callable[..., Array]
    sort: Callable[..., Array]
    stack: Callable[..., Array]
    unique: Callable[..., Any]  # an array, or where more is asked for a tuple of them
    isfinite: Callable[..., Array]
    where: Callable[..., Array]
    zeros: Callable[..., Array]
    zeros_like: Callable[..., Array]

    abs: ArrayFunction
    add: ArrayFunction
    bitwise_or: ArrayFunction
    left_shift: ArrayFunction
    log2: ArrayFunction
    maximum: ArrayFunction
    minimum: ArrayFunction
    right_shift: ArrayFunction
    sqrt: ArrayFunction


def array_module(*arrays: Any) -> ArrayModule:
    """NumPy, or CuPy where any of the arrays lives on a CUDA device; CuPy is never imported for NumPy input."""
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None:
        for array in arrays:  # no generator: conversions ask a dozen times
            if isinstance(array, cupy.ndarray):
                found: ArrayModule = cupy
                return found
    return _NUMPY


_NUMPY = cast(ArrayModule, np)
_NOTHING: dict[tuple[int, Any], Array] = {}


def nothing(xp: ArrayModule, dtype: Any) -> Array:
    """The array without elements, (0,), of a type, always the same: a conversion passes up to ten, each of which would
    cost the host as much as an allocation.
    """
    module: Any = xp
    key = -1 if xp is np else module.cuda.runtime.getDevice(), dtype
    if (found := _NOTHING.get(key)) is None:
        found = _NOTHING[key] = xp.empty(0, dtype=dtype)
    return found


def on_host(array: Array) -> np.ndarray:
    """The array in the host's memory, copied only where it has to move."""
    return array if array_module(array) is np else cast(Any, array).get()


def address(array: Array) -> int:
    """Where the array's first element lies, in the memory of the host or of the device that holds it."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else cast(Any, array.data).ptr)


def ordinal(array: Array) -> int:
    """The number of the CUDA device that holds an array of CuPy."""
    return int(cast(Any, array).device.id)


@overload
def cdiv(a: int, b: int) -> int: ...
@overload
def cdiv(a: Array, b: int | Array) -> Array: ...
def cdiv(a: Any, b: Any) -> Any:
    """Ceiling of a / b for non-negative integers."""
    return -(-a // b)


@overload
def round_up(a: int, multiple: int) -> int: ...
@overload
def round_up(a: Array, multiple: int | Array) -> Array: ...
def round_up(a: Any, multiple: Any) -> Any:
    """The smallest multiple of `multiple` that is at least `a`."""
    return cdiv(a, multiple) * multiple


def aligned(array: Array) -> Array:
    """The array, copied where its first element is not on a multiple of 16 bytes (a view, a mapped file).

    Kernels that load several elements at once need it. Allocations of NumPy and CuPy are on such multiples.
    """
    return array if address(array) % 16 == 0 else array.copy()


def index_dtype(largest: int) -> np.dtype:
    """int32 where `largest` fits, and what kernels add to it in a step; else int64."""
    return np.dtype(np.int32 if largest <= INT32_MAX - STEP else np.int64)


def offsets(counts: Array) -> Array:
    """Exclusive prefix sum with the total appended (length n + 1), summed in int64 and narrowed where it fits."""
    xp = array_module(counts)
    sums = xp.zeros(len(counts) + 1, dtype=np.int64)
    xp.cumsum(counts, out=sums[1:])
    return sums.astype(index_dtype(int(sums[-1])))


def expand(ptr: Array, total: int) -> Array:
    """Owner of each of `total` entries: i repeated ptr[i+1] - ptr[i] times, int32."""
    xp = array_module(ptr)
    if xp is np:
        return np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))
    if total > INT32_MAX:
        return expand_in_pieces(ptr, total, 2**30)
    # CuPy has no repeat by an array of counts: mark where owners start and sum the marks up. Owners of nothing have no
    # mark: where they are many, as in the rest of a split, theirs would all meet at one address.
    owners = xp.flatnonzero(ptr[1:] != ptr[:-1]).astype(np.int32)
    steps = xp.zeros(total, dtype=np.int32)
    steps[ptr[owners]] = xp.diff(owners, prepend=np.int32(0))
    return xp.cumsum(steps, dtype=np.int32)


def expand_in_pieces(ptr: Array, total: int, piece: int) -> Array:
    """As `expand`, `piece` entries at a time: CuPy's running sums lose what is far beyond 2^31 (cupy/cupy#9841)."""
    xp = array_module(ptr)
    found = xp.empty(total, dtype=np.int32)
    for first in range(0, total, piece):
        last = min(first + piece, total)
        low, high = (int(n) for n in xp.searchsorted(ptr, xp.asarray([first, last - 1], dtype=ptr.dtype), side="right"))
        inside = xp.clip(ptr[low - 1 : high + 1], first, last) - first
        found[first:last] = expand(inside, last - first)
        found[first:last] += np.int32(low - 1)
    return found


def stable_order(keys: Array, bound: int) -> Array:
    """The order that sorts keys, (n,) int64 in 0..bound - 1, equal ones staying in place."""
    xp, n = array_module(keys), len(keys)
    digits = n.bit_length()
    if bound << digits > 2**63:
        return xp.argsort(keys, kind="stable")
    # With the position in the low digits it is one sort of plain integers, several times faster than an argsort.
    return xp.sort(keys << digits | xp.arange(n)) & ((1 << digits) - 1)


def longest_first(lengths: Array, longest: int, group: Array | int = 0, groups: int = 1) -> Array:
    """The order by group (0..groups - 1), in a group by falling length (0..longest), equal ones staying in place."""
    step = np.int64(longest + 1)
    return stable_order(group * step + (longest - lengths), groups * int(step))


def inverse(order: Array, n: int | None = None, dtype: Any = np.int32) -> Array:
    """The place of each of n elements in an order of them, (n,); left out of the order, an element's is anything."""
    xp = array_module(order)
    places = xp.empty(len(order) if n is None else n, dtype=dtype)
    places[order] = xp.arange(len(order), dtype=dtype)
    return places


INDEXED = INT32_MAX  # elements of an array that CuPy assigns to by an index: it counts them in an int


def put(array: Array, place: Array | tuple[Array, ...], values: Array) -> None:
    """array[place] = values, of arrays with padding: they may have more elements than CuPy assigns to by an index.

    place: integers not below 0, a tuple of as many as the array has dimensions.
    """
    if array.size <= INDEXED:
        array[place] = values
        return
    flat: Any = place
    if isinstance(place, tuple):
        flat = np.int64(0)
        for index, n in zip(place, array.shape, strict=True):
            flat = flat * n + index
    array_module(array).put(array, flat, values)


def nonzero_mask(values: Array) -> Array:
    """Which values are not zero, bool, by their bits: CuPy's comparisons take single precision subnormals for zero."""
    mask: Array = values.view(f"u{values.itemsize}") << 1 != 0
    return mask


def run_starts(keys: Array) -> Array:
    """Positions where keys, (n,), differ from the one before, the first included."""
    xp = array_module(keys)
    starts = xp.ones(len(keys), dtype=bool)
    starts[1:] = keys[1:] != keys[:-1]
    return xp.flatnonzero(starts)


def run_ptr(keys: Array) -> Array:
    """Where runs of equal keys, (n,), begin, and after the last the end n: (runs + 1,), as row pointers are."""
    xp = array_module(keys)
    return xp.append(run_starts(keys), xp.full(1, len(keys), dtype=np.int64))


def alike_lists(ptr: Array, *contents: Array) -> tuple[Array, Array]:
    """Which of some lists are alike, in every one of the contents.

    ptr: (lists + 1,), where each list begins. contents: integers, (ptr[-1],). Returns the number of the kind of each
    list, (lists,) int32, and a list of each kind, (kinds,). Lists are found by a hash and compared: if two that differ
    have one hash, every list is a kind of its own.
    """
    xp, lists, entries = array_module(ptr), len(ptr) - 1, int(ptr[-1])
    mixed = xp.zeros(entries, dtype=np.uint64)
    for content in contents:
        mixed = (mixed + content.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(
            0xBF58476D1CE4E5B9
        )
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(32)
    sums = xp.zeros(entries + 1, dtype=np.uint64)
    xp.cumsum(mixed, out=sums[1:])
    _, example, kind = xp.unique(
        sums[ptr[1:]] - sums[ptr[:-1]] + xp.diff(ptr).astype(np.uint64), return_index=True, return_inverse=True
    )
    kind = kind.reshape(-1)
    same = example[kind]
    alike = bool((xp.diff(ptr)[same] == xp.diff(ptr)).all())
    if alike:
        owner = expand(ptr, entries)
        at = ptr[same][owner] + xp.arange(entries) - ptr[owner]
        alike = all(bool((content[at] == content).all()) for content in contents)
    if not alike:
        kind = example = xp.arange(lists)
    return kind.astype(np.int32), example


FEW = 64  # times longer than the keys: a table over all possible keys is then slower than sorting the keys


def tabled(keys: int, possible: int) -> bool:
    """Whether a table over all possible keys is faster than sorting `keys` of them, and int32 can index it.

    Matrices with far more columns than entries would otherwise take tables of many gigabytes.
    """
    return 0 < possible <= min(FEW * keys, INT32_MAX)


def distinct_diagonals(diagonal: Array, shape: tuple[int, int]) -> Array:
    """The offsets that occur in `diagonal`, (n,) int32, each col - row: ascending, int32."""
    xp, (rows, cols) = array_module(diagonal), shape
    if not tabled(len(diagonal), rows + cols):
        found: Array = xp.unique(diagonal)
        return found
    seen = xp.zeros(rows + cols - 1, dtype=bool)
    seen[diagonal + np.int32(rows - 1)] = True
    return (xp.flatnonzero(seen) - (rows - 1)).astype(np.int32)


def diagonal_places(diagonal: Array, known: Array, shape: tuple[int, int]) -> Array:
    """The place in `known`, offsets in ascending order, of each of some offsets that are all among them, (n,) int32."""
    xp, (rows, cols) = array_module(diagonal), shape
    if not tabled(len(diagonal), rows + cols):
        return xp.searchsorted(known, diagonal)
    return inverse(known + np.int32(rows - 1), rows + cols - 1)[diagonal + np.int32(rows - 1)]


def on_diagonals(diagonal: Array, chosen: Array, shape: tuple[int, int]) -> Array:
    """Which of some offsets, (n,) int32, are among `chosen`, ascending: (n,), bool."""
    xp, (rows, cols) = array_module(diagonal), shape
    if not tabled(len(diagonal), rows + cols):
        return xp.isin(diagonal, chosen)
    which = xp.zeros(rows + cols - 1, dtype=bool)
    which[chosen + np.int32(rows - 1)] = True
    return which[diagonal + np.int32(rows - 1)]


def column_places(col_idx: Array, order: Array, cols: int) -> Array:
    """The place in `order`, distinct columns, of each of some columns that are all among them, (n,), int32."""
    if tabled(len(col_idx), cols):
        return inverse(order, cols)[col_idx]
    xp = array_module(col_idx)
    ascending = xp.argsort(order)
    return ascending[xp.searchsorted(order[ascending], col_idx)].astype(np.int32)


def distinct_groups(columns: Array, cols: int, width: int) -> int:
    """Distinct groups of `width` neighbouring columns that each stretch of entries names, added up over the stretches.

    columns: (stretches, entries of each), below `cols`.
    """
    xp, wide = array_module(columns), cdiv(cols, width)
    if not tabled(columns.size, len(columns) * wide):
        return len(xp.unique(columns // np.int32(width) + xp.arange(len(columns), dtype=np.int64)[:, None] * wide))
    seen = xp.zeros(len(columns) * wide, dtype=bool)
    seen[columns // np.int32(width) + xp.arange(len(columns), dtype=np.int64)[:, None] * wide] = True
    return int(xp.count_nonzero(seen))


def chain(following: Array) -> Array:
    """What 0 reaches by following[i] > i, the last index included, which follows itself; (steps + 1,).

    By jumps of doubling length: as many array operations as the number of steps has digits.
    """
    xp, end = array_module(following), len(following) - 1
    reached, jump = xp.zeros(1, dtype=following.dtype), following
    while int(reached[-1]) < end:
        reached = xp.concatenate((reached, jump[reached]))
        jump = jump[jump]
    return reached[: int((reached < end).sum()) + 1]


def check_places(index: Array, size: int, what: str) -> None:
    """Raise ValueError, with the first bad entry, unless `index`, (n,), is of integers from 0 to size - 1.

    One pass, on CuPy one reduction: as unsigned numbers negative ones are the largest.
    """
    xp = array_module(index)
    if not isinstance(index, xp.ndarray) or index.ndim != 1 or index.dtype.kind not in "iu":
        raise ValueError(f"the {what} indices must be an array of integers in one dimension")
    if not len(index) or int(index.view(f"u{index.itemsize}").max()) < size:
        return
    entry = int(((index < 0) | (index >= size)).argmax())
    raise ValueError(f"entry {entry} is in {what} {int(index[entry])}, the matrix has {size} (0 to {size - 1})")


def check_pointers(ptr: Array, lists: int, entries: int, what: str) -> None:
    """Raise ValueError unless `ptr` is of lists + 1 integers that rise from 0 to `entries`. what: a list's name."""
    xp = array_module(ptr)
    if not isinstance(ptr, xp.ndarray) or ptr.shape != (lists + 1,) or ptr.dtype.kind not in "iu":
        raise ValueError(f"the {what} pointers must be an array of {lists + 1} integers")
    if int(ptr[0]) != 0 or int(ptr[-1]) != entries:
        raise ValueError(f"the {what} pointers run from {int(ptr[0])} to {int(ptr[-1])}, not from 0 to {entries}")
    falls = ptr[1:] < ptr[:-1]
    if bool(falls.any()):
        first = int(falls.argmax())
        raise ValueError(f"the pointers of {what} {first} fall from {int(ptr[first])} to {int(ptr[first + 1])}")


# The arrays of SciPy's and CuPy's sparse matrices that a caller may have made. The other formats make their own.
PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def is_sparse(a: Any) -> bool:
    """Whether it is a sparse matrix of SciPy or CuPy, or one of pydata/sparse, which knows SciPy's."""
    libraries = (sys.modules.get(name) for name in ("scipy.sparse", "cupyx.scipy.sparse"))
    return hasattr(a, "to_scipy_sparse") or any(library is not None and library.issparse(a) for library in libraries)


def regular(a: Any) -> Any:
    """The sparse matrix of SciPy or CuPy with arrays as compiled code takes them.

    They are contiguous, aligned, of the machine's byte order, and without the spare capacity after the last entry; the
    matrix is returned as it is where they are already. One of pydata/sparse becomes SciPy's. Raises TypeError for what
    is no sparse matrix, ValueError unless it has two dimensions.
    """
    if not is_sparse(a):
        hint = ": scipy.sparse.csr_array(A) makes one" if isinstance(a, array_module(a).ndarray) else ""
        raise TypeError(f"expected a sparse matrix, got {type(a).__name__}{hint}")
    if len(a.shape) != 2:
        raise ValueError(f"expected a matrix of two dimensions, got the shape {tuple(a.shape)}")
    if hasattr(a, "to_scipy_sparse"):
        a = a.to_scipy_sparse()
    changed = {}
    for name in PARTS.get(a.format, ()):
        array = getattr(a, name)
        if name in ("data", "indices") and hasattr(a, "indptr") and len(a.indptr):
            last = int(a.indptr[-1])
            array = array[:last] if 0 <= last < len(array) else array
        if array_module(array) is np:
            unsigned = name != "data" and array.dtype.kind == "u"  # SciPy has no code for these
            array = np.require(array, np.int64 if unsigned else array.dtype.type, ["C", "A", "E"])
        else:
            array = array_module(array).ascontiguousarray(array)
        if array is not getattr(a, name):
            changed[name] = array
    if changed:
        a = copy(a)
        for name, array in changed.items():
            setattr(a, name, array)
    return a


def check_indices(a: Any) -> None:
    """Raises ValueError if indices of a SciPy or CuPy sparse matrix are outside of it: compiled code believes them.

    CSR, CSC, BSR and COO are checked, because callers may fill them in. The other formats make their own indices.
    """
    if max(a.shape) > INT32_MAX:
        raise ValueError(f"a matrix of {a.shape[0]} x {a.shape[1]} has more rows or columns than 32 bits count")
    names, sizes = ["row", "column"], list(map(int, a.shape))
    if a.format == "coo":
        if not len(a.row) == len(a.col) == len(a.data):
            raise ValueError(f"{len(a.row)} rows, {len(a.col)} columns and {len(a.data)} values are no entries")
        check_places(a.row, sizes[0], names[0])
        check_places(a.col, sizes[1], names[1])
    if a.format in ("csr", "csc", "bsr"):
        if a.format == "csc":
            names.reverse()
            sizes.reverse()
        if a.format == "bsr":
            names = [f"block {name}" for name in names]
            sizes = [size // side for size, side in zip(sizes, a.blocksize, strict=True)]
        if len(a.indices) != len(a.data):
            raise ValueError(f"{len(a.indices)} indices and {len(a.data)} values are no entries")
        check_pointers(a.indptr, sizes[0], len(a.indices), names[0])
        check_places(a.indices, sizes[1], names[1])


@dataclass(frozen=True, eq=False, init=False)
class Csr:
    """Canonical compressed sparse rows: rows in order, columns ascending in a row, no duplicates.

    shape: (rows, cols). row_ptr: (rows + 1,), int32, or int64 where nnz needs it. col_idx: (nnz,), int32.
    values: (nnz,), float64 or float32, float16 for values of 16 bits (`precision`). Stored zeros are entries like any
    other. vectors: the type of x and y if it is not that of the values.
    """

    shape: tuple[int, int]
    row_ptr: Array
    col_idx: Array
    values: Array
    vectors: np.dtype | None = None
    rows: int = field(init=False, repr=False)
    cols: int = field(init=False, repr=False)
    nnz: int = field(init=False, repr=False)  # stored entries, stored zeros included
    dtype: np.dtype = field(init=False, repr=False)  # float64, float32 or float16: the type of the values
    xp: ArrayModule = field(init=False, repr=False)  # the array module that holds this matrix

    def __init__(
        self, shape: tuple[int, int], row_ptr: Array, col_idx: Array, values: Array, vectors: np.dtype | None = None
    ) -> None:
        # All at once, and no properties: a conversion asks some of them twenty times, in a few dozen microseconds.
        self.__dict__.update(
            shape=shape, row_ptr=row_ptr, col_idx=col_idx, values=values, vectors=vectors,
            rows=shape[0], cols=shape[1], nnz=len(values), dtype=values.dtype, xp=array_module(values),
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        return Csr, (self.shape, self.row_ptr, self.col_idx, self.values, self.vectors)

    @classmethod
    def of(cls, a: Any) -> Csr:
        """Canonical CSR of a sparse matrix of SciPy, CuPy or pydata/sparse (or of a Csr, returned as it is).

        Duplicates are summed, columns sorted; stored zeros stay. Raises TypeError for anything else and for values
        that are not real, ValueError for indices outside of the matrix and for integers that float64 would round. A Csr
        has passed this and is not looked at.
        """
        if isinstance(a, Csr):
            return a
        a = regular(a)
        check_indices(a)
        a = a.tocsr()
        if not a.has_canonical_format:
            a = a.copy()
            a.sum_duplicates()
        values = a.data
        if values.dtype.kind not in "fiub":
            raise TypeError(f"expected real values, got {values.dtype}")
        if values.dtype.kind in "iu" and len(values) and max(int(values.max()), -int(values.min())) > 2**53:
            raise ValueError("the matrix holds integers beyond 2^53, which double precision would change")
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float64)
        nnz = len(values)
        return cls(
            shape=(int(a.shape[0]), int(a.shape[1])),
            row_ptr=a.indptr.astype(index_dtype(nnz), copy=False),
            col_idx=a.indices.astype(np.int32, copy=False),
            values=values,
        )

    @property
    def vector_dtype(self) -> np.dtype:
        """float64 or float32: the type of x and y."""
        return self.vectors or self.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return self.row_ptr.nbytes + self.col_idx.nbytes + self.values.nbytes

    @property
    def free_bytes(self) -> int:
        """Bytes that are free now in the memory that holds the matrix, what CuPy's pool keeps for later included."""
        if self.xp is np:
            import psutil

            return int(psutil.virtual_memory().available)
        with cast(Any, self.values).device as device:
            return int(device.mem_info[0]) + int(self.xp.get_default_memory_pool().free_bytes())

    @cached_property
    def row_lengths(self) -> Array:
        """Entries of each row, shape (rows,)."""
        return self.row_ptr[1:] - self.row_ptr[:-1]

    @cached_property
    def row_len_max(self) -> int:
        """Longest row; 0 for an empty matrix."""
        return int(self.row_lengths.max()) if self.rows else 0

    @property
    def row_len_mean(self) -> float:
        """Mean entries per row; 0 for an empty matrix."""
        return self.nnz / self.rows if self.rows else 0.0

    @cached_property
    def row_idx(self) -> Array:
        """Row of each entry, shape (nnz,), int32."""
        return expand(self.row_ptr, self.nnz)

    @cached_property
    def col_lengths(self) -> Array:
        """Entries of each column, shape (cols,)."""
        if self.xp is np:
            return np.bincount(self.col_idx, minlength=self.cols)[: self.cols]
        # CuPy counts by atomics, which wait for each other where few columns hold much: a sort is 8 times faster.
        places = self.xp.arange(self.cols + 1, dtype=np.int32)
        return self.xp.diff(self.xp.searchsorted(self.xp.sort(self.col_idx), places))

    @property
    def rank_in_row(self) -> Array:
        """Position of each entry inside its row, shape (nnz,), of row_ptr's type."""
        return self.xp.arange(self.nnz, dtype=self.row_ptr.dtype) - self.row_ptr[self.row_idx]

    @cached_property
    def used_columns(self) -> tuple[Array, Array]:
        """The columns that have entries, ascending, int32, and the number of entries of each."""
        xp = self.xp
        if not tabled(self.nnz, self.cols):
            return tuple(xp.unique(self.col_idx, return_counts=True))
        used = xp.flatnonzero(self.col_lengths)
        return used.astype(np.int32), self.col_lengths[used]

    @property
    def diagonal(self) -> Array:
        """Offset col - row of the diagonal of each entry, shape (nnz,), int32."""
        return self.col_idx - self.row_idx

    @cached_property
    def diagonals(self) -> Array:
        """Offsets col - row of the non-empty diagonals, ascending, int32."""
        return distinct_diagonals(self.diagonal, self.shape)

    def runs(self, width: int) -> tuple[Array, Array, Array]:
        """Where a row enters a group of `width` neighbouring columns: (entry, row, group), in order, all (runs,)."""
        xp = self.xp
        group = self.col_idx // np.int32(width)
        starts = xp.ones(self.nnz, dtype=bool)
        starts[1:] = group[1:] != group[:-1]
        starts[self.row_ptr[:-1][self.row_lengths > 0]] = True
        begin = xp.flatnonzero(starts)
        return begin, expand(xp.searchsorted(begin, self.row_ptr), len(begin)), group[begin]

    def row_blocks(self, height: int, entries: int) -> Iterator[tuple[int, Csr]]:
        """The matrix in blocks of about so many entries, each a multiple of `height` rows: (first row, block)."""
        ends = on_host(self.row_ptr[::height])
        first = 0
        while first < self.rows:
            last = height * (int(np.searchsorted(ends, int(ends[first // height]) + entries, side="right")) - 1)
            last = min(max(last, first + height), self.rows)
            yield first, self.rows_between(first, last)
            first = last

    def rows_between(self, first: int, last: int) -> Csr:
        """The rows from `first` up to `last`, without it."""
        row_ptr = self.row_ptr[first : last + 1]
        start, end = int(row_ptr[0]), int(row_ptr[-1])
        return Csr(
            (last - first, self.cols), row_ptr - start, self.col_idx[start:end], self.values[start:end], self.vectors
        )

    def where(self, keep: Array) -> Csr:
        """The entries that the mask `keep`, (nnz,), names, in a matrix of the same shape; all are the matrix itself."""
        xp = self.xp
        entry = xp.flatnonzero(keep)
        if len(entry) == self.nnz:
            return self
        row_ptr = xp.searchsorted(entry, self.row_ptr).astype(index_dtype(len(entry)))
        return Csr(self.shape, row_ptr, self.col_idx[entry], self.values[entry], self.vectors)

    def between(self, first: Array | int, last: Array | int) -> Csr:
        """Of every row the entries from its `first`-th on and before its `last`-th, in a matrix of the same shape.

        first, last: one for all rows or (rows,), counted from 0; a row may end before either. All of the matrix is the
        matrix itself.
        """
        xp, lengths = self.xp, self.row_lengths
        if isinstance(first, int) and isinstance(last, int) and (first == 0 or last <= first):
            if last >= self.row_len_max and first == 0:
                return self
            if last <= first:
                none = xp.zeros(self.rows + 1, dtype=np.int32)
                return Csr(self.shape, none, self.col_idx[:0], self.values[:0], self.vectors)
        first, last = (xp.minimum(bound, lengths) for bound in (first, last))
        row_ptr = offsets(xp.maximum(last - first, 0))
        entries = int(row_ptr[-1])
        if entries == self.nnz:
            return self
        shift = (self.row_ptr[:-1] + first).astype(self.row_ptr.dtype) - row_ptr[:-1]
        entry = xp.arange(entries, dtype=self.row_ptr.dtype) + shift[expand(row_ptr, entries)]
        return Csr(self.shape, row_ptr, self.col_idx[entry], self.values[entry], self.vectors)

    def in_rows(self, keep: Array) -> Csr:
        """The entries of the rows that the mask `keep`, (rows,), names, in a matrix of the same shape."""
        return self.between(0, self.xp.where(keep, self.row_lengths, 0))

    def astype(self, dtype: Any) -> Csr:
        """The same matrix with values of another type (shares the index arrays)."""
        if self.dtype == np.dtype(dtype):
            return self
        return Csr(self.shape, self.row_ptr, self.col_idx, self.values.astype(dtype))

    def fresh(self) -> Csr:
        """The same arrays with no statistics kept from earlier use: where a conversion that is timed starts from."""
        return Csr(self.shape, self.row_ptr, self.col_idx, self.values, self.vectors)

    def read_only(self) -> Csr:
        """The same arrays, not to be written to if NumPy has them; CuPy has no such thing."""
        views = [array.view() for array in (self.row_ptr, self.col_idx, self.values)]
        for view in views:
            if self.xp is np:
                view.flags.writeable = False
        row_ptr, col_idx, values = views
        return Csr(self.shape, row_ptr, col_idx, values, self.vectors)

    def on(self, xp: ModuleType) -> Csr:
        """The same matrix on another array module (copied only where it has to move)."""
        if xp is self.xp:
            return self
        move = xp.asarray if xp is not np else sys.modules["cupy"].asnumpy
        return Csr(self.shape, move(self.row_ptr), move(self.col_idx), move(self.values), self.vectors)


def require_finite(a: Csr) -> None:
    """Raise SpmvbenchError if an entry is Inf or NaN."""
    finite = a.xp.isfinite(a.values)
    if not finite.all():
        entry = int((~finite).argmax())
        row, col = int(a.xp.searchsorted(a.row_ptr, entry, side="right")) - 1, int(a.col_idx[entry])
        raise SpmvbenchError(
            f"{int((~finite).sum()):,} of {a.nnz:,} entries are not finite in {a.dtype}, the first in row {row} and "
            f"column {col}, counted from 0"
        )
