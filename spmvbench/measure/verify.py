"""Verification of y: several x with references for y = A x, and bounds on the error of each entry. Three kinds of
check.

**Dense.** Every entry of x counts, and each row of y is compared with a bound on rounding errors. Let row i have k
entries, and let u = eps / 2 be the unit roundoff of the values' type. Then any order of summation, fused or not, has an
error of at most about k u (|A||x|)_i (Higham 2002, section 3.1). The reference, in float64, has at most the same error,
so k eps (|A||x|)_i covers both. The bound is (k + 2) eps (|A||x|)_i; the 2 covers second-order terms, and rounding when
y is stored.

Below the smallest normal number every product, and every sum, may be off by that number: floating-point atomics in a
GPU's global memory flush single precision subnormals to zero, with any compiler option (PTX ISA, atom.add.f32). The
reference keeps them. A row without entries has the bound 0: its y is exactly 0.

If a row loses the product p, its error is |p| less rounding errors. It certainly exceeds the bound if |p| is over twice
the bound. All |x| lie in [1/2, 1), so a lost entry is detected among entries of equal size up to k of about sqrt(1 / (2
eps)): 2,000 entries per row in float32, 47 million in float64. Lost entries of longer rows, and entries far smaller
than others of their row, can remain undetected. If a row has over 64 entries, one more x is zero except for about 8 of
them. Then values that are all slightly wrong (stored with fewer digits) are detected in rows of any length.

**Exact integer test.** The format also converts a matrix of the same pattern with the values 1 to 4, and multiplies it
by integers x >= 1. They are so small that a row's sum stays within the type's 2^24 or 2^53. All partial sums are then
integers that the type holds, so y is exact in any order, fused or not: the bound is 0. If a sum of positive numbers
lacks some of them it is smaller, and if some count twice it is larger. Any lost or doubled entries, in rows of up to
2^24 entries, are therefore detected with certainty. Stored zeros stay zeros, which are in no sum: only decoding finds
one that is lost.

If entries are lost and others added (a wrong column, a wrong row), the two sums could be equal: with M possible values
of x the probability is about 1 / M, with two x 1 / M^2; M is 1000 in rows of up to 4,000 entries. As no rounding has to
be allowed for, the integer matrix is also the one that runs many times, to detect faults that occur in one run of many.

**Sparse.** The arrays of the exact integer test are not those that are timed, and a conversion may lose entries
depending on their values. Entries that the dense checks cannot detect are therefore checked in the timed arrays, with x
that are zero except for a group of columns. Products with zero are zero and need no rounding, so k counts the group's
entries alone. An entry is detected if it exceeds twice that smaller bound. Each round assigns the columns of undetected
entries to random groups, as many as make half of these entries detectable, until all are detected or SPARSE_CHECKS are
used up. Only rows with such entries are compared.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter  # bound before a format can replace it
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from spmvbench.devices.base import Device, Program
from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import Array, Csr, array_module, nonzero_mask
from spmvbench.formats.conversion import rows_of
from spmvbench.formats.format import Format
from spmvbench.formats.two_copies import TwoCopies, transposed
from spmvbench.formats.vectors import SparseVector, in_order, moved, orders, parts, restored

INTEGER_VALUES = 4
LARGEST_X = 1000  # of the exact integer test
SPARSE_CHECKS = 64
SPARSE_WORK = 200_000_000  # entries multiplied in all sparse checks of a format, at most
SPARSE_ENTRIES = 1 << 25  # in the rows that sparse checks compare
BLOCK = 1 << 24  # entries processed at a time
SPARSE_X_ENTRIES = 8  # products in the longest row with a sparse x
GARBAGE = {"f": -1e30, "i": -7}  # by dtype.kind: never a correct result
STARTS = ("nan", "stale", "garbage", "zero")
KNOWN: WeakKeyDictionary[Csr, dict[tuple[int, int | None], list[Reference]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Reference:
    """One x with the correct result, on the host or on a device.

    x: (cols,) in the matrix's type, or the operation's own kind of x; if `columns` are given, its elements there, all
    others being zero. y, bound: float64, of all rows, or of `rows` only. A bound of one element, (1,), holds for all.
    judge: judges a whole y, (rows,), on the device, in place of the comparison of its elements.
    """

    x: Array | SparseVector
    y: Array
    bound: Array
    columns: Array | None = None
    rows: Array | None = None
    judge: Callable[[Array], Verdict] | None = None

    def moved(self, device: Device) -> Reference:
        """A copy on a device."""
        y, bound = device.to_device(self.y), device.to_device(self.bound)
        columns, rows = (None if array is None else device.to_device(array) for array in (self.columns, self.rows))
        return Reference(moved(self.x, device.to_device), y, bound, columns, rows, self.judge)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All of its arrays."""
        known = (*parts(self.x), self.y, self.bound, self.columns, self.rows)
        return tuple(array for array in known if array is not None)

    def whole_x(self, size: int) -> Array | SparseVector:
        """The complete x, (size,)."""
        if self.columns is None:
            return self.x
        assert not isinstance(self.x, SparseVector)
        x = array_module(self.x).zeros(size, self.x.dtype)
        x[self.columns] = self.x
        return x


@dataclass(frozen=True)
class Run:
    """A program that a format runs on a device, bound to this x and y."""

    fmt: Format
    program: Program
    device: Device
    x: Any
    y: Any


@dataclass(frozen=True)
class Verdict:
    """The largest error as a fraction of its bound, and, of one that is not passed, its place. Infinite for a NaN, and
    for any error if the bound is 0. row: -1 if `array` names a number that was made of a whole array.
    """

    ratio: float
    row: int = 0
    found: float = math.nan
    expected: float = math.nan
    bound: float = 0.0
    array: str = "y"

    @property
    def passed(self) -> bool:
        """Whether every entry is within its bound."""
        return self.ratio <= 1

    def __str__(self) -> str:
        name = self.array if self.row < 0 else f"{self.array}[{self.row}]"
        place = f"{name} is {self.found:.9g}, expected {self.expected:.9g}"
        return f"{place} within {self.bound:.3g}" if self.bound else f"{place} exactly"


@dataclass(frozen=True)
class Checks:
    """References of the three kinds of check, on the device.

    work: flops or arcs that the rate of a run with `timed` counts. facts: details of that run for its rows. scaling:
    the inverse diagonal that a solver's launches read, (n,), in the matrix's order.
    """

    dense: list[Reference]
    integer: list[Reference]
    sparse: list[Reference]
    work: int
    facts: dict[str, Any] = field(default_factory=dict)
    scaling: Array | None = None

    @property
    def timed(self) -> Reference:
        """The reference whose x is timed."""
        return self.dense[1]

    @property
    def arrays(self) -> list[Array]:
        """Every array once; those of sparse references are views of these."""
        found = {}
        references = itertools.chain.from_iterable(r.arrays for r in (*self.dense, *self.integer, *self.sparse))
        for array in itertools.chain(references, () if self.scaling is None else (self.scaling,)):
            base = array if array.base is None else array.base
            found[id(base)] = base
        return list(found.values())


def checks(a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
    """All references of a matrix. seed: of the first x. fresh: seed of all others, which no format can know.

    Raises Skip as `references` does.
    """
    dense = [reference.moved(device) for reference in references(a, seed, fresh)]
    rng = np.random.default_rng((fresh, 2))
    return Checks(dense, integer_references(device_a, rng), sparse_references(device_a, dense, rng), 2 * a.nnz)


def references(a: Csr, seed: int, fresh: int | None = None) -> list[Reference]:
    """Two x of both signs, 1/2 <= |x| < 1, with results by SciPy from the values as `a` stores them.

    If a row is long, a third x is zero except for a few columns. seed: of the first x, and of the others if `fresh` is
    not given. Raises Skip if there is no correct result in the type of `a`: entries that are not finite, sums that
    overflow.
    """
    return references_of_each(a, [(seed, fresh)])[0]


def references_of_each(a: Csr, sources: Sequence[tuple[int, int | None]]) -> list[list[Reference]]:
    """`references` of each seed and fresh, once: products of several vectors draw the same ones first for every k."""
    known = KNOWN.setdefault(a, {})
    missing = [source for source in sources if source not in known]
    if missing:
        reference_for = reference_of(a)
        with ThreadPoolExecutor() as threads:  # SciPy lets others run while it multiplies
            found = [[threads.submit(reference_for, x) for x in _drawn(a, *source)] for source in missing]
            known.update(zip(missing, ([one.result() for one in each] for each in found), strict=True))
    return [known[source] for source in sources]


def _drawn(a: Csr, seed: int, fresh: int | None) -> Iterator[np.ndarray]:
    """The x of `references`."""
    share = SPARSE_X_ENTRIES / max(a.row_len_max, SPARSE_X_ENTRIES)
    for index, source in enumerate((seed, fresh, fresh) if share < 1 / 8 else (seed, fresh)):
        rng = np.random.default_rng((seed if source is None else source, index))
        x = both_signs(a.cols, rng, a.dtype)
        if index == 2:
            x[rng.random(a.cols) >= share] = 0
        yield x


def reference_of(a: Csr) -> Callable[[np.ndarray], Reference]:
    """A function from an x, (cols,), to its Reference, by SciPy. Raises Skip as `references` does."""
    from scipy.sparse import csr_array

    exact = csr_array((a.values.astype(np.float64, copy=False), a.col_idx, a.row_ptr), shape=a.shape)
    if not np.isfinite(exact.data).all():
        raise Skip(f"entries are not finite in {a.dtype}")
    magnitude = csr_array((np.abs(exact.data), exact.indices, exact.indptr), shape=a.shape)

    def reference_for(x: np.ndarray) -> Reference:
        with np.errstate(over="ignore"):
            size = magnitude @ np.abs(x).astype(np.float64)
        if not (size <= np.finfo(a.dtype).max).all():
            raise Skip(f"sums of the rows overflow {a.dtype}")
        return Reference(x, exact @ x.astype(np.float64), _bound(products(a, x), size, a.dtype))

    return reference_for


def products(a: Csr, x: np.ndarray) -> Array:
    """Number of entries of each row that meet a nonzero element of x, on the host."""
    from scipy.sparse import csr_array

    if x.all():
        return a.row_lengths
    counts: Array = csr_array((np.ones(a.nnz, np.int8), a.col_idx, a.row_ptr), shape=a.shape) @ (x != 0).astype(
        np.int64
    )
    return counts


def both_signs(n: int, rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
    """Random numbers of both signs, 1/2 <= |x| < 1."""
    x = rng.uniform(-1, 1, n)
    return np.asarray(np.copysign(0.5 + np.abs(x) / 2, x), dtype)


def _bound(products: Array, size: Array, dtype: np.dtype) -> Array:
    """Bound on the rounding error of sums; products: their number in each, size: the sum of their magnitudes."""
    limits = np.finfo(dtype)
    return (products + 2) * float(limits.eps) * size + 2 * products * float(limits.smallest_normal)


def _integer_limits(a: Csr) -> tuple[int, int]:
    """The largest value of the integer matrix, a power of two, and the largest of x; zeros if a row is too long."""
    largest = 2 ** (np.finfo(a.dtype).nmant + 1) // max(a.row_len_max, 1)
    value = next((v for v in (INTEGER_VALUES, 2, 1) if v <= largest), 0)
    return value, min(largest // value, LARGEST_X) if value else 0


def integer_values(a: Csr) -> int:
    """The largest value of the integer matrix of `a`; 0 if there is none."""
    return _integer_limits(a)[0]


def integer_matrix(a: Csr) -> Csr | None:
    """The same pattern with values 1 to 4, equal at (i, j) and (j, i); None if a row's sum would not be exact.

    Stored zeros stay zeros: formats may store a matrix with zeros in another way, and the test is of that way.
    """
    value, _ = _integer_limits(a)
    if not value:
        return None
    number = _integers(a.fresh().row_idx, a.col_idx, a.values, value)
    return Csr(a.shape, a.row_ptr, a.col_idx, number.astype(a.dtype))


def _integers(row: Array, col: Array, values: Array, most: int) -> Array:
    """The integer matrix's values of entries, (n,): 1 to `most`, a power of two; 0 where the value is 0."""
    return (((row ^ col) & (most - 1)) + 1) * nonzero_mask(values)


def integer_references(a: Csr, rng: np.random.Generator) -> list[Reference]:
    """Three integer x with the exact results of the integer matrix of `a`, on its array module; none if there is no
    such matrix.
    """
    largest = largest_integer(a)
    if not largest:
        return []
    x = (a.xp.asarray(rng.integers(1, largest, a.cols, endpoint=True).astype(a.dtype)) for _ in range(3))
    return [integer_answer(a, each) for each in x]


def largest_integer(a: Csr) -> int:
    """The largest integer in an x whose products with the integer matrix of `a` are exact; 0 without such a matrix."""
    return _integer_limits(a)[1]


def integer_answer(a: Csr, x: Array) -> Reference:
    """The exact result of the integer matrix of `a` for an integer x, (cols,), on the array module of both."""
    xp, (value, _) = a.xp, _integer_limits(a)
    y = xp.zeros(a.rows)
    for first, block in a.row_blocks(1, BLOCK):
        if block.nnz:
            row = block.row_idx
            number = _integers(row + np.int32(first), block.col_idx, block.values, value)
            product = number * x[block.col_idx].astype(np.float64)
            y[first : first + block.rows] = xp.bincount(row, product, block.rows)
    return Reference(x, y, xp.zeros(1))


def sparse_references(a: Csr, dense: Sequence[Reference], rng: np.random.Generator) -> list[Reference]:
    """References that detect entries which the dense ones cannot, within SPARSE_CHECKS; see the module.

    dense: on the array module of `a`, as the result.
    """
    xp, eps = a.xp, float(np.finfo(a.dtype).eps)
    most = min(SPARSE_CHECKS, SPARSE_WORK // max(a.nnz + a.rows + a.cols, 1))
    rows, row, col, value, undetected = _undetected(a, dense)
    count, at_least = len(rows), 1
    found: list[Reference] = []
    while len(found) < most and bool(undetected.any()):
        wanted = xp.zeros(a.cols, bool)
        wanted[col[undetected]] = True
        near = wanted[col]  # x is zero in all other columns
        row, col, value, undetected = row[near], col[near], value[near], undetected[near]
        size = xp.abs(value)

        # A share p of the columns leaves p k entries and p S of their sum: entries over 2 eps (p k) (p S) are detected.
        products, sums = xp.bincount(row, minlength=count), xp.bincount(row, size, count)
        share = xp.maximum(xp.sqrt(size / (2 * eps * products[row] * sums[row])), 1 / products[row])
        groups = max(math.ceil(1 / float(xp.median(share[undetected]))), at_least)
        groups = max(min(groups, most - len(found), SPARSE_ENTRIES // count), 1)

        group = xp.asarray(rng.integers(0, groups, a.cols, dtype=np.int32))
        x = xp.asarray(both_signs(a.cols, rng, a.dtype))
        cell, product = group[col] * np.int64(count) + row, value * x[col]
        cells = groups * count
        bound = _bound(xp.bincount(cell, minlength=cells), xp.bincount(cell, xp.abs(product), cells), a.dtype)
        y = xp.bincount(cell, product, cells).reshape(groups, count)
        detected = undetected & (xp.abs(product) > 2 * bound[cell])
        at_least = (
            2 * groups if 4 * int(detected.sum()) < int(undetected.sum()) else 1
        )  # few were detected: smaller groups
        undetected &= ~detected

        columns = xp.flatnonzero(wanted)
        columns = columns[xp.argsort(group[columns])]
        ends = xp.cumsum(xp.bincount(group[columns], minlength=groups)).tolist()
        x, bound = x[columns], bound.reshape(groups, count)
        for g, (start, end) in enumerate(itertools.pairwise([0, *ends])):
            found.append(Reference(x[start:end], y[g], bound[g], columns[start:end], rows))
    return found


def _undetected(a: Csr, dense: Sequence[Reference]) -> tuple[Array, Array, Array, Array, Array]:
    """The rows with entries that no dense reference detects, and their entries.

    (rows, place of each entry's row among them, column, value in float64, whether it is undetected). Stored zeros, and
    values near the type's smallest number, do not count.
    """
    xp = a.xp
    nothing = 16 * float(np.finfo(a.dtype).smallest_normal)
    rows, parts, entries = 0, [], 0
    for first, block in a.row_blocks(1, BLOCK):
        row, col, value = block.row_idx, block.col_idx, exact(block.values)
        size = xp.abs(value)
        undetected = size > nothing
        for reference in dense:
            assert not isinstance(reference.x, SparseVector)
            undetected &= size * xp.abs(reference.x[col]) <= 2 * reference.bound[first + row]
        wanted = xp.zeros(block.rows, bool)
        wanted[row[undetected]] = True
        keep = xp.flatnonzero(wanted[row] & (size > 0))
        place = xp.cumsum(wanted) - 1 + rows
        parts.append((xp.flatnonzero(wanted) + first, place[row[keep]], col[keep], value[keep], undetected[keep]))
        rows, entries = rows + len(parts[-1][0]), entries + len(keep)
        if entries > SPARSE_ENTRIES:
            break
    if not rows:
        return (xp.zeros(0, np.int64),) * 3 + (xp.zeros(0),) + (xp.zeros(0, bool),)
    row, place, col, value, undetected = (xp.concatenate(part) for part in zip(*parts, strict=True))
    return row, place, col, value, undetected


def decoding_difference(fmt: Format, a: Csr) -> str:
    """The first entry in which the format's decoded arrays differ from the matrix, as a sentence; empty if none does.

    a: the matrix on the array module that holds the format. Values are compared bit for bit. Stored zeros are ignored
    if the format cannot tell them from padding; values are ignored if it keeps only the pattern.
    """
    if isinstance(fmt, TwoCopies):
        return decoding_difference(fmt.a, a) or decoding_difference(fmt.t, transposed(a))
    xp = a.xp
    rows, cols, values = fmt.to_coo()
    key = rows.astype(np.int64) * a.cols + cols
    order = xp.argsort(key)
    stored = cast(Array | slice, slice(None))
    expected = rows_of(a.fresh()).astype(np.int64) * a.cols + a.col_idx
    if not fmt.keeps_zeros:
        stored = nonzero_mask(a.values)
        expected = expected[stored]
    if len(key) != len(expected):
        return f"{len(key):,} entries in place of {len(expected):,}"
    key = key[order]
    off = xp.flatnonzero(key != expected)
    if len(off):
        (found_row, found_col), (row, col) = (divmod(int(k[off[0]]), max(a.cols, 1)) for k in (key, expected))
        return f"an entry at ({found_row}, {found_col}) in place of ({row}, {col})"
    if not fmt.keeps_values:
        return ""
    if values.dtype != a.dtype:
        return f"values of {values.dtype} in place of {a.dtype}"
    bits = np.dtype(f"u{a.dtype.itemsize}")
    found, stored_bits = (xp.ascontiguousarray(array).view(bits) for array in (values[order], a.values[stored]))
    off = xp.flatnonzero(found != stored_bits)
    if not len(off):
        return ""
    row, col = divmod(int(expected[off[0]]), a.cols)
    given, wanted = (float(array[off[0]]) for array in (values[order], a.values[stored]))
    return f"the value {given:.17g} at ({row}, {col}) in place of {wanted:.17g}"


def _ratios(found: Array, expected: Array, bound: Array) -> Array:
    """Errors over their bounds; infinite for a NaN, and for any error if the bound is 0."""
    if array_module(found) is not np:
        return cast(Array, _on_cuda("ratios")(found, expected, bound))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(found - expected)
        ratio = np.where(error == 0, 0.0, error / bound)
    ratio[np.isnan(ratio)] = math.inf
    return ratio


def garbage(y: Array) -> float:
    """The value that y is filled with before a run, in its type: never a correct result."""
    return GARBAGE[y.dtype.kind]


def _keep_wrong(found: Array, expected: Array, bound: Array, mark: int, wrong: Array, kept: Array) -> None:
    """Set `wrong`, int8, to `mark` where an array is outside its bound, and keep that value in `kept`."""
    if array_module(found) is not np:
        _on_cuda("keep_wrong")(found, expected, bound, np.int8(mark), wrong, kept)
        return
    off = ~(np.abs(found - expected) <= bound)
    np.copyto(kept, found, where=off)
    wrong[off] = mark


# CuPy compiles every kernel with -ftz=true, whatever options it is given: single precision subnormals become 0 in all
# arithmetic and comparisons, and in conversions to double as well. Formats' kernels keep them, as nvcc does,
# so the checks have to as well. Loads, moves and integers flush nothing: a subnormal is its integer times 2^-149.
EXACT = f"""
__device__ double exact(double value) {{ return value; }}
__device__ double exact(int value) {{ return value; }}
__device__ double exact(float value) {{
  const int bits = __float_as_int(value);
  const int size = bits & 0x7fffffff;
  if (size >= 0x00800000) return value;
  const double small = size * {2.0**-149!r};
  return bits < 0 ? -small : small;
}}
"""


def exact(values: Array) -> Array:
    """The values, (n,), in float64, subnormals included."""
    if array_module(values) is np:
        return values.astype(np.float64, copy=False)
    return cast(Array, _on_cuda("exact")(values))


@cache
def _on_cuda(name: str) -> Any:
    """Steps of the checks as one kernel each. As CuPy's array operations some would be eight, and flush subnormals."""
    import cupy

    error = "const double error = fabs(exact(y) - expected);"
    infinity = "__longlong_as_double(0x7ff0000000000000ll)"  # NVRTC knows no INFINITY
    ratio = f"error == 0 ? 0.0 : error <= bound || (error == error && bound > 0) ? error / bound : {infinity};"
    kernels = {
        "ratios": (
            "T y, float64 expected, float64 bound",
            "float64 ratio",
            f"{error} ratio = {ratio}",
        ),
        "worst": (  # the bits of numbers that are not negative have their order
            "T y, float64 expected, float64 bound",
            "raw float64 worst",
            f"{error} const double ratio = {ratio} if (ratio > worst[0])"
            " atomicMax(reinterpret_cast<unsigned long long*>(&worst[0]), __double_as_longlong(ratio));",
        ),
        "differs": ("T held, T given", "raw float64 worst", f"if (held != given) worst[0] = {infinity};"),
        "exact": ("T value", "float64 found", "found = exact(value);"),
        "keep_wrong": (
            "T y, float64 expected, float64 bound, int8 mark",
            "int8 wrong, T kept",
            f"{error} if (!(error <= bound)) {{ wrong = mark; kept = y; }}",
        ),
    }
    return cupy.ElementwiseKernel(*kernels[name], f"spmvbench_{name}", preamble=EXACT)


def compare(y: Array, reference: Reference, array: str = "y") -> Verdict:
    """Compare y, (rows,), with its reference, on the array module that holds both."""
    if reference.judge is not None:
        return reference.judge(y)
    found = y if reference.rows is None else y[reference.rows]
    if not len(found):
        return Verdict(0.0)
    ratio = _ratios(found, reference.y, reference.bound)
    if (worst := float(ratio.max())) <= 1:
        return Verdict(worst)  # the host would wait for the device for each of the other numbers
    place = int(ratio.argmax())
    row = place if reference.rows is None else int(reference.rows[place])
    bound = float(reference.bound[place if len(reference.bound) > 1 else 0])
    return Verdict(worst, row, float(found[place]), float(reference.y[place]), bound, array)


def set_x(fmt: Format, reference: Reference, x: Array | SparseVector) -> Array | SparseVector:
    """Copy the reference's x into x, in the order that the format takes; returns what x then holds, as a separate
    array.
    """
    whole = reference.whole_x(len(parts(x)[-1]))
    placed = whole if isinstance(whole, SparseVector) else in_order(whole, orders(fmt)[0])
    for held, given in zip(parts(x), parts(placed), strict=True):
        held[...] = given
    return placed


def verify_result(
    fmt: Format, x: Array | SparseVector, y: Array, placed: Array | SparseVector, reference: Reference
) -> Verdict:
    """Verify y and x after a run of `fmt`: x must be as `set_x` left it."""
    found, pairs = restored(y, orders(fmt)[1]), list(zip(parts(x), parts(placed), strict=True))
    if array_module(y) is not np and reference.judge is None:
        worst = _worst_on_cuda(pairs, found, reference)
        if worst <= 1:
            return Verdict(worst)
    for held, given in pairs:
        if not bool((held == given).all()):
            return compare(held, Reference(given, given.astype(np.float64), array_module(held).zeros(1)), "x")
    return compare(found, reference)


def _worst_on_cuda(pairs: Iterable[tuple[Array, Array]], y: Array, reference: Reference) -> float:
    """The largest error of y over its bound, by one wait for the device; infinite if two arrays of a pair differ.

    y: in the matrix's order, with all rows.
    """
    worst = array_module(y).zeros(1)
    for held, given in pairs:
        _on_cuda("differs")(held, given, worst)
    found = y if reference.rows is None else y[reference.rows]
    _on_cuda("worst")(found, reference.y, reference.bound, worst)
    return float(worst.item())


def fill(y: Array, start: str) -> None:
    """Fill y with one of STARTS; with ``stale`` it stays as it is."""
    if start != "stale":
        y[...] = 0 if start == "zero" else math.nan if start == "nan" and y.dtype.kind == "f" else garbage(y)


def run_and_verify(run: Run, references: Iterable[Reference], starts: Sequence[str] = STARTS) -> Verdict:
    """Run the program once for each reference. Returns the first wrong verdict, or the one with the largest error.

    references: in the matrix's order; if the format takes another one, x is permuted before the run and y after it.
    starts: content of y before each run, in turn: NaN, the result for the previous x, garbage, or 0.
    """
    worst = Verdict(0.0)
    for reference, start in zip(references, itertools.cycle(starts)):
        placed = set_x(run.fmt, reference, run.x)
        fill(run.y, start)
        run.device.synchronize()
        run.program.run()
        run.device.synchronize()
        verdict = verify_result(run.fmt, run.x, run.y, placed, reference)
        if not verdict.passed:
            return verdict
        worst = max(worst, verdict, key=lambda verdict: verdict.ratio)
    return worst


class _Repeated:
    """Runs with one x, each checked on the device: the wrong elements of y, and of x, are kept until all runs are over.

    The arrays are checked in the order that the format takes. reference: with all rows and the whole x. kept: for each
    array the last wrong value of each element, and the mark of the runs that had it.
    """

    def __init__(self, run: Run, reference: Reference, mark: int, kept: Sequence[tuple[Array, Array]]):
        xp, x, y, y_order = array_module(run.y), run.x, run.y, orders(run.fmt)[1]
        self.x, self.y, self.y_order, self.reference = x, y, y_order, reference
        self.program, self.placed = run.program, set_x(run.fmt, reference, x)
        bound, exactly = reference.bound, xp.zeros(1)
        checked = [(y, in_order(reference.y, y_order), in_order(bound, y_order) if len(bound) > 1 else bound)]
        checked += [
            (held, given.astype(np.float64, copy=False), exactly)
            for held, given in zip(parts(x), parts(self.placed), strict=True)
        ]
        self.checked = [(*each, mark, *places) for each, places in zip(checked, kept, strict=True)]

    def once(self, start: float) -> None:
        """Set x, fill y, run once and check; nothing waits for the device."""
        for held, given in zip(parts(self.x), parts(self.placed), strict=True):
            held[...] = given
        self.y[...] = start
        self.program.run()
        for check in self.checked:
            _keep_wrong(*check)

    def wrong(self) -> Verdict | None:
        """The verdict on an array that was wrong in one of the runs; None if none was."""
        for held, expected, bound, mark, wrong, kept in self.checked:
            if bool((wrong == mark).any()):
                found = array_module(held).where(wrong == mark, kept, expected.astype(held.dtype))
                if held is self.y:
                    return compare(restored(found, self.y_order), self.reference)
                return compare(found, Reference(held, expected, bound), "x")
        return None


def distinct_results(run: Run, reference: Reference, most: int, seconds: float, first: int = 0) -> Counter[int]:
    """How often each result occurs in products with the x of one reference, by the checksum of the bits of y.

    y is NaN before a product, the result of the one before, garbage, or 0. The emulated device runs each in another
    order of blocks and lanes, by numbers from `first` on. As many products as take `seconds`, at least
    three, at most `most`. A result that occurs in one product of n is missed by all r products with the probability
    (1 - 1/n)^r.
    """
    note, noted = run.device.checksum_series(run.y, most)
    set_x(run.fmt, reference, run.x)
    starts, least = enumerate(itertools.cycle(STARTS), start=first), min(most, 3)

    def products(count: int) -> float:
        run.device.synchronize()
        began = perf_counter()
        for number, start in itertools.islice(starts, count):
            fill(run.y, start)
            run.program.run_in_order(number)
            note()
        run.device.synchronize()
        return perf_counter() - began

    taken = products(least)
    products(min(most - least, int(least * max(seconds - taken, 0) / taken)))
    return Counter(noted())


def repeat_and_verify(run: Run, references: Sequence[Reference], most: int, seconds: float) -> Verdict:
    """Run the program many times, and verify every y: for faults of one run among many.

    Of three references and more, each run has another x than the one before it, so that the result of the run before
    is wrong. x is drawn, so that the result of any earlier run is wrong in a third of the runs and more, and no format
    knows the order. y is garbage before a run, or 0, drawn as well. As many runs as take `seconds`, at least three, at
    most `most`. A fault that occurs at random in one run of n escapes r runs with probability (1 - 1/n)^r; one that
    occurs in every n-th run is found by n runs. references: with all rows and the whole x. Returns the verdict on a
    wrong array, or on the last y.
    """
    xp, device = array_module(run.y), run.device
    kept = [(xp.zeros(len(array), np.int8), xp.zeros_like(array)) for array in (run.y, *parts(run.x))]
    repeated = [_Repeated(run, reference, mark, kept) for mark, reference in enumerate(references, start=1)]
    starts, draw = (garbage(run.y), 0.0), random.SystemRandom()
    this = repeated[-1]

    def once() -> _Repeated:
        nonlocal this
        this = draw.choice([each for each in repeated if each is not this] if len(repeated) > 2 else repeated)
        this.once(draw.choice(starts))
        return this

    for _ in range(2):  # the first run may compile
        device.synchronize()
        began = perf_counter()
        once()
        device.synchronize()
    runs = seconds / max(perf_counter() - began, 1e-9) - 3
    for _ in range(int(min(runs, most - 3))):
        once()
    last = once()
    device.synchronize()
    marked = any(bool(marks.any()) for marks, _ in kept)
    wrong = next(filter(None, (each.wrong() for each in repeated)), None) if marked else None
    return wrong or verify_result(run.fmt, run.x, run.y, last.placed, last.reference)
