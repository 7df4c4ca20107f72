"""Right answers: several x with y = A x, and how far off an entry of y may be. Three kinds of check, each for a fault.

**Dense.** Every entry of x counts, and y is held row by row to what rounding can do. With k entries in row i and
u = eps / 2 the unit roundoff of the values' type, any order of summation, fused or not, gives an error of at most about
k u (|A||x|)_i (Higham 2002, section 3.1). The reference, in float64, is wrong by as much at most, so k eps (|A||x|)_i
covers both; the bound is (k + 2) eps (|A||x|)_i, the 2 for second-order terms and for y being rounded once more where
it is stored. Below the smallest normal number every product, and every sum, may be off by that number: floating-point
atomics in a GPU's global memory flush single precision subnormals to zero, whatever the compiler's options (PTX ISA,
atom.add.f32). The reference keeps them. A row without entries has the bound 0: its y is 0 exactly. A row that loses the
product p is off by |p| less its rounding errors, hence beyond the bound for certain where |p| is over twice the bound.
All |x| lie in [1/2, 1), so entries of one size are told up to k of about sqrt(1 / (2 eps)): 2,000 entries a row in
float32, 47 million in float64. Longer rows, and entries far smaller than the others of their row, can hide. Where a row
has over 64 entries, one more x is zero but for about 8 of them, so that values that are all a little wrong (stored in
fewer digits) show however long the rows are.

**Whole numbers.** So the format also converts the matrix's twin, which has the same entries with the values 1 to 4, and
multiplies it by whole numbers x >= 1 so small that a row's sum stays within the type's 2^24 or 2^53. All partial sums
are then whole numbers that the type holds, and y is exact in any order, fused or not: the bound is 0. A sum of positive
numbers that lacks some of them is smaller and one that has some of them twice is larger, so whatever entries are lost,
or doubled, in rows of up to 2^24 entries, is found with certainty, however long the row and however small the entries.
Where entries are lost and others added (a wrong column, a wrong row), the two would have to be equal: one x of M values
hides it with a chance of about 1 / M, two x with 1 / M^2; M is 1000 in rows of up to 4,000 entries. As no error at all
has to be allowed for, it is the twin that runs many times over, for faults that come in one run of many.

**Sparse.** The twin's arrays are not those that are timed, and a conversion may lose what depends on values. Entries
that the dense checks cannot tell are therefore met again in the format's own arrays, by x that are zero but for a group
of columns: products with zero are zero and round nothing, so k counts the group's alone, and an entry is told where it
is over twice that smaller bound. Rounds deal the columns of the entries not yet told to groups at random, as many as
give half of them room, until all are told or the checks are spent. Only rows with such entries are judged.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from spmvbench.devices.base import Device, Program
from spmvbench.formats.arrays import Array, Csr, array_module, nonzero_mask
from spmvbench.formats.base import Format, Skip
from spmvbench.formats.vectors import SparseVector, in_order, orders, parts, restored

TWIN_VALUES = 4
LARGEST_X = 1000  # of the checks with whole numbers
SPARSE_CHECKS = 64
SPARSE_WORK = 200_000_000  # entries multiplied in all sparse checks of a format, at most
SPARSE_ENTRIES = 1 << 25  # of the rows that sparse checks judge
BLOCK = 1 << 24  # entries looked at together
THIN = 8  # entries of the longest row that meet an x of few entries
GARBAGE = {"f": -1e30, "i": -7}  # by the kind of numbers: none is ever an answer
STARTS = ("nan", "stale", "garbage")


@dataclass(frozen=True)
class Reference:
    """One x with its right answer, on the host or on a device.

    x: (cols,) in the matrix's type, or what the operation has for x; where `columns` are given, its elements there, all
    others being zero. y, bound: float64, of every row, or of `rows` alone. A bound of one element, (1,), holds for all.
    """

    x: Array | SparseVector
    y: Array
    bound: Array
    columns: Array | None = None
    rows: Array | None = None

    def moved(self, device: Device) -> Reference:
        """The same on a device."""
        known = (self.x, self.y, self.bound, self.columns, self.rows)
        return Reference(*(None if array is None else device.to_device(array) for array in known))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Everything that it consists of."""
        known = (*parts(self.x), self.y, self.bound, self.columns, self.rows)
        return tuple(array for array in known if array is not None)

    def whole_x(self, cols: int) -> Array | SparseVector:
        """All of x, (cols,)."""
        if self.columns is None:
            return self.x
        x = array_module(self.x).zeros(cols, self.x.dtype)
        x[self.columns] = self.x
        return x


@dataclass(frozen=True)
class Verdict:
    """The largest error over its bound (infinite for a NaN and for any error where the bound is 0), and its place."""

    ratio: float
    row: int
    found: float
    expected: float
    bound: float
    array: str = "y"

    @property
    def right(self) -> bool:
        """Whether every entry is within its bound."""
        return self.ratio <= 1

    def __str__(self) -> str:
        place = f"{self.array}[{self.row}] is {self.found:.9g}, expected {self.expected:.9g}"
        return f"{place} within {self.bound:.3g}" if self.bound else f"{place} exactly"


@dataclass(frozen=True)
class Checks:
    """What a format is checked with: the dense, the whole-number and the sparse references, on the device.

    work: what the rate of a run with `timed` counts, flops or arcs. facts: what rows keep of that run beside it.
    """

    dense: list[Reference]
    whole: list[Reference]
    sparse: list[Reference]
    work: int
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def timed(self) -> Reference:
        """What samples run with."""
        return self.dense[1]

    @property
    def arrays(self) -> list[Array]:
        """Every array once; those of sparse references are views of these."""
        found = {}
        for array in itertools.chain.from_iterable(r.arrays for r in (*self.dense, *self.whole, *self.sparse)):
            base = array if array.base is None else array.base
            found[id(base)] = base
        return list(found.values())


def checks(a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> Checks:
    """All checks of a matrix. seed: of the first x. fresh: seed of all others, which no format can know.

    Raises Skip as `references` does.
    """
    dense = [reference.moved(device) for reference in references(a, seed, fresh)]
    rng = np.random.default_rng((fresh, 2))
    return Checks(dense, whole_references(device_a, rng), sparse_references(device_a, dense, rng), 2 * a.nnz)


def references(a: Csr, seed: int, fresh: int | None = None) -> list[Reference]:
    """Two x of both signs, 1/2 <= |x| < 1, with their answers by SciPy from the values as `a` stores them.

    Where a row is long, a third x is zero but for a few entries of that row. seed: of the first x, and of the others
    where no other is given as `fresh`. Raises Skip where the matrix has no right answer in its type: entries that are
    not finite, sums that overflow.
    """
    share = THIN / max(a.row_len_max, THIN)
    found, answer = [], answers(a)
    for index, source in enumerate((seed, fresh, fresh) if share < 1 / 8 else (seed, fresh)):
        rng = np.random.default_rng((seed if source is None else source, index))
        x = both_signs(a.cols, rng, a.dtype)
        if index == 2:
            x[rng.random(a.cols) >= share] = 0
        found.append(answer(x))
    return found


def answers(a: Csr) -> Callable[[np.ndarray], Reference]:
    """What gives the right answer of an x, (cols,), by SciPy; raises Skip as `references` says."""
    from scipy.sparse import csr_array

    exact = csr_array((a.values.astype(np.float64, copy=False), a.col_idx, a.row_ptr), shape=a.shape)
    if not np.isfinite(exact.data).all():
        raise Skip(f"entries are not finite in {a.dtype}")
    magnitude = csr_array((np.abs(exact.data), exact.indices, exact.indptr), shape=a.shape)

    def answer(x: np.ndarray) -> Reference:
        with np.errstate(over="ignore"):
            size = magnitude @ np.abs(x).astype(np.float64)
        if not (size <= np.finfo(a.dtype).max).all():
            raise Skip(f"sums of the rows overflow {a.dtype}")
        return Reference(x, exact @ x.astype(np.float64), _bound(products(a, x), size, a.dtype))

    return answer


def products(a: Csr, x: np.ndarray) -> np.ndarray:
    """Entries of each row that meet an element of x that is not zero, on the host."""
    from scipy.sparse import csr_array

    if x.all():
        return a.row_lengths
    return csr_array((np.ones(a.nnz, np.int8), a.col_idx, a.row_ptr), shape=a.shape) @ (x != 0).astype(np.int64)


def both_signs(n: int, rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
    """Random numbers of both signs, 1/2 <= |x| < 1."""
    x = rng.uniform(-1, 1, n)
    return np.copysign(0.5 + np.abs(x) / 2, x).astype(dtype)


def _bound(products: Array, size: Array, dtype: np.dtype) -> Array:
    """How far off a sum of so many products may be; size: the sum of their magnitudes."""
    limits = np.finfo(dtype)
    return (products + 2) * float(limits.eps) * size + 2 * products * float(limits.smallest_normal)


def _whole_limits(a: Csr) -> tuple[int, int]:
    """The largest value of the twin, a power of two, and the largest of x; zeros where a row is too long."""
    largest = 2 ** (np.finfo(a.dtype).nmant + 1) // max(a.row_len_max, 1)
    value = next((v for v in (TWIN_VALUES, 2, 1) if v <= largest), 0)
    return value, min(largest // value, LARGEST_X) if value else 0


def twin(a: Csr) -> Csr | None:
    """The matrix with 1 to 4 for values, (i, j) and (j, i) alike; None where a row's sums would not be exact."""
    value, _ = _whole_limits(a)
    if not value:
        return None
    number = (a.fresh().row_idx ^ a.col_idx) & (value - 1)
    return Csr(a.shape, a.row_ptr, a.col_idx, (number + 1).astype(a.dtype))


def whole_references(a: Csr, rng: np.random.Generator) -> list[Reference]:
    """Two x of whole numbers with the exact answers of the twin of `a`, on its array module; none without a twin."""
    largest = largest_whole(a)
    if not largest:
        return []
    x = (a.xp.asarray(rng.integers(1, largest, a.cols, endpoint=True).astype(a.dtype)) for _ in range(2))
    return [whole_answer(a, each) for each in x]


def largest_whole(a: Csr) -> int:
    """The largest whole number that an x may hold whose products with the twin of `a` are exact; 0 without a twin."""
    return _whole_limits(a)[1]


def whole_answer(a: Csr, x: Array) -> Reference:
    """The exact answer of the twin of `a` to an x of whole numbers, (cols,), on the array module of both."""
    xp, (value, _) = a.xp, _whole_limits(a)
    y = xp.zeros(a.rows)
    for first, block in a.row_blocks(1, BLOCK):
        if block.nnz:
            row = block.row_idx
            number = (((row + np.int32(first)) ^ block.col_idx) & (value - 1)) + 1
            product = number * x[block.col_idx].astype(np.float64)
            y[first : first + block.rows] = xp.bincount(row, product, block.rows)
    return Reference(x, y, xp.zeros(1))


def sparse_references(a: Csr, dense: Sequence[Reference], rng: np.random.Generator) -> list[Reference]:
    """References that tell the entries that the dense ones cannot, as far as their number allows; see the module.

    dense: on the array module of `a`, as what is returned.
    """
    xp, eps = a.xp, float(np.finfo(a.dtype).eps)
    most = min(SPARSE_CHECKS, SPARSE_WORK // max(a.nnz + a.rows + a.cols, 1))
    rows, row, col, value, untold = _untold(a, dense)
    count, at_least = len(rows), 1
    found: list[Reference] = []
    while len(found) < most and bool(untold.any()):
        wanted = xp.zeros(a.cols, bool)
        wanted[col[untold]] = True
        near = wanted[col]  # all other columns are zero from here on
        row, col, value, untold = row[near], col[near], value[near], untold[near]
        size = xp.abs(value)

        # A share p of the columns leaves p k entries and p S of their sum: room for what is over 2 eps (p k) (p S).
        products, sums = xp.bincount(row, minlength=count), xp.bincount(row, size, count)
        share = xp.maximum(xp.sqrt(size / (2 * eps * products[row] * sums[row])), 1 / products[row])
        groups = max(math.ceil(1 / float(xp.median(share[untold]))), at_least)
        groups = max(min(groups, most - len(found), SPARSE_ENTRIES // count), 1)

        group = xp.asarray(rng.integers(0, groups, a.cols, dtype=np.int32))
        x = xp.asarray(both_signs(a.cols, rng, a.dtype))
        cell, product = group[col] * np.int64(count) + row, value * x[col]
        cells = groups * count
        bound = _bound(xp.bincount(cell, minlength=cells), xp.bincount(cell, xp.abs(product), cells), a.dtype)
        y = xp.bincount(cell, product, cells).reshape(groups, count)
        told = untold & (xp.abs(product) > 2 * bound[cell])
        at_least = 2 * groups if 4 * int(told.sum()) < int(untold.sum()) else 1  # no luck: thinner groups
        untold &= ~told

        columns = xp.flatnonzero(wanted)
        columns = columns[xp.argsort(group[columns])]
        ends = xp.cumsum(xp.bincount(group[columns], minlength=groups)).tolist()
        x, bound = x[columns], bound.reshape(groups, count)
        for g, (start, end) in enumerate(itertools.pairwise([0, *ends])):
            found.append(Reference(x[start:end], y[g], bound[g], columns[start:end], rows))
    return found


def _untold(a: Csr, dense: Sequence[Reference]) -> tuple[Array, Array, Array, Array, Array]:
    """The rows that have entries which no dense reference tells, and their entries.

    (rows, row of each entry as a place among them, column, value in float64, whether it is untold). A stored zero has
    nothing to lose, nor has what is hardly more than the type's smallest number.
    """
    xp = a.xp
    nothing = 16 * float(np.finfo(a.dtype).smallest_normal)
    rows, parts, entries = 0, [], 0
    for first, block in a.row_blocks(1, BLOCK):
        row, col, value = block.row_idx, block.col_idx, exact(block.values)
        size = xp.abs(value)
        untold = size > nothing
        for reference in dense:
            untold &= size * xp.abs(reference.x[col]) <= 2 * reference.bound[first + row]
        wanted = xp.zeros(block.rows, bool)
        wanted[row[untold]] = True
        keep = xp.flatnonzero(wanted[row] & (size > 0))
        place = xp.cumsum(wanted) - 1 + rows
        parts.append((xp.flatnonzero(wanted) + first, place[row[keep]], col[keep], value[keep], untold[keep]))
        rows, entries = rows + len(parts[-1][0]), entries + len(keep)
        if entries > SPARSE_ENTRIES:
            break
    if not rows:
        return (xp.zeros(0, np.int64),) * 3 + (xp.zeros(0),) + (xp.zeros(0, bool),)  # type: ignore[return-value]
    return tuple(xp.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]


def decoding_difference(fmt: Format, a: Csr) -> str:
    """Where the format's arrays, decoded, differ from the matrix: the first such entry in words, or nothing.

    a: the matrix on the array module that holds the format. Values are compared bit for bit. Stored zeros do not count
    where the format cannot tell them from padding, nor values where it keeps the pattern alone.
    """
    xp = a.xp
    rows, cols, values = fmt.to_coo()
    key = rows.astype(np.int64) * a.cols + cols
    order = xp.argsort(key)
    whole, stored = a.fresh(), slice(None)
    expected = whole.row_idx.astype(np.int64) * a.cols + a.col_idx
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
    found, right = (xp.ascontiguousarray(array).view(bits) for array in (values[order], a.values[stored]))
    off = xp.flatnonzero(found != right)
    if not len(off):
        return ""
    row, col = divmod(int(expected[off[0]]), a.cols)
    given, wanted = (float(array[off[0]]) for array in (values[order], a.values[stored]))
    return f"the value {given:.17g} at ({row}, {col}) in place of {wanted:.17g}"


def _ratios(found: Array, expected: Array, bound: Array) -> Array:
    """Errors over their bounds, infinite for a NaN and for any error where the bound is 0."""
    if array_module(found) is not np:
        return _on_cuda("ratios")(found, expected, bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(found - expected)
        ratio = np.where(error == 0, 0.0, error / bound)
    ratio[np.isnan(ratio)] = math.inf
    return ratio


def garbage(y: Array) -> float:
    """What y is filled with where a run must not find an answer: in its type, and no right one."""
    return GARBAGE[y.dtype.kind]


def _keep_wrong(y: Array, expected: Array, bound: Array, wrong: Array, kept: Array) -> None:
    """Mark in `wrong` where y is off, keep what it was there, and fill it with garbage."""
    if array_module(y) is not np:
        _on_cuda("keep_wrong")(expected, bound, y.dtype.type(garbage(y)), y, wrong, kept)
        return
    off = ~(np.abs(y - expected) <= bound)
    np.copyto(kept, y, where=off)
    np.logical_or(wrong, off, out=wrong)
    y[...] = garbage(y)


# CuPy compiles every kernel with -ftz=true, whatever options it is given: single precision subnormals become 0 in all
# arithmetic and comparisons, and where they are converted to double as well. Formats' kernels keep them, as nvcc does,
# so what they are judged by has to. Loads, moves and integers flush nothing: a subnormal is its integer times 2^-149.
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
    return _on_cuda("exact")(values)


@cache
def _on_cuda(name: str) -> Any:
    """Steps of the checks as one kernel each: as array operations some would be eight, and flush subnormals."""
    import cupy

    error = "const double error = fabs(exact(y) - expected);"
    infinity = "__longlong_as_double(0x7ff0000000000000ll)"  # NVRTC knows no INFINITY
    kernels = {
        "ratios": (
            "T y, float64 expected, float64 bound",
            "float64 ratio",
            f"{error} ratio = error == 0 ? 0.0 : error <= bound || (error == error && bound > 0) ? error / bound :"
            f" {infinity};",
        ),
        "exact": ("T value", "float64 found", "found = exact(value);"),
        "keep_wrong": (
            "float64 expected, float64 bound, T garbage",
            "T y, bool wrong, T kept",
            f"{error} if (!(error <= bound)) {{ wrong = true; kept = y; }} y = garbage;",
        ),
    }
    return cupy.ElementwiseKernel(*kernels[name], f"spmvbench_{name}", preamble=EXACT)


def judge(y: Array, reference: Reference, array: str = "y") -> Verdict:
    """Compare y, (rows,), with its reference, on the array module that holds both."""
    found = y if reference.rows is None else y[reference.rows]
    if not len(found):
        return Verdict(0.0, 0, math.nan, math.nan, 0.0, array)
    ratio = _ratios(found, reference.y, reference.bound)
    place = int(ratio.argmax())
    row = place if reference.rows is None else int(reference.rows[place])
    bound = float(reference.bound[place if len(reference.bound) > 1 else 0])
    return Verdict(float(ratio[place]), row, float(found[place]), float(reference.y[place]), bound, array)


def put(fmt: Format, reference: Reference, x: Array | SparseVector) -> Array | SparseVector:
    """Put the reference's x into x, in the order that the format takes; returns what x holds then, apart."""
    placed = in_order(reference.whole_x(fmt.shape[1]), orders(fmt)[0])
    for held, given in zip(parts(x), parts(placed), strict=True):
        held[...] = given
    return placed


def judge_left(
    fmt: Format, x: Array | SparseVector, y: Array, placed: Array | SparseVector, reference: Reference
) -> Verdict:
    """Judge what a program of `fmt` has left: y, and x, which has to be as `put` left it."""
    for held, given in zip(parts(x), parts(placed), strict=True):
        if not bool((held == given).all()):
            return judge(held, Reference(given, given.astype(np.float64), array_module(held).zeros(1)), "x")
    return judge(restored(y, orders(fmt)[1]), reference)


def run_and_judge(
    fmt: Format,
    program: Program,
    device: Device,
    x: Any,
    y: Any,
    references: Iterable[Reference],
    starts: Sequence[str] = STARTS,
) -> Verdict:
    """Run the program once for each reference and give the first wrong verdict, or the worst of right ones.

    program: the launches of `fmt`, bound to x and y. references: in the matrix's order: where the format takes
    another, x is permuted before the run and y back after it. starts: what y holds before a run, by turns: NaN, the
    answer for the x before, or numbers that are none's answer.
    """
    worst = Verdict(0.0, 0, math.nan, math.nan, 0.0)
    for reference, start in zip(references, itertools.cycle(starts)):
        placed = put(fmt, reference, x)
        if start != "stale":
            y[...] = math.nan if start == "nan" and y.dtype.kind == "f" else garbage(y)
        device.synchronize()
        program.run()
        device.synchronize()
        verdict = judge_left(fmt, x, y, placed, reference)
        if not verdict.right:
            return verdict
        worst = max(worst, verdict, key=lambda verdict: verdict.ratio)
    return worst


def repeat_and_judge(
    fmt: Format, program: Program, device: Device, x: Any, y: Any, reference: Reference, most: int, seconds: float
) -> Verdict:
    """Run the program again and again, each time from garbage, and judge every y: for faults of one run among many.

    As many as `seconds` hold, three at least, `most` at most. A fault that comes in one run of n at random is missed by
    r runs with a chance of (1 - 1/n)^r, one that comes in every n-th run is found by n. reference: of every row and x
    whole. Gives the verdict on a wrong y, or on the last.
    """
    xp = array_module(y)
    placed = put(fmt, reference, x)
    _, y_order = orders(fmt)
    expected, bound = in_order(reference.y, y_order), reference.bound
    bound = in_order(bound, y_order) if len(bound) > 1 else bound
    wrong, kept = xp.zeros(len(y), bool), xp.zeros_like(y)

    def once() -> None:
        program.run()
        _keep_wrong(y, expected, bound, wrong, kept)

    y[...] = garbage(y)
    for _ in range(2):  # the first may compile
        device.synchronize()
        began = time.perf_counter()
        once()
        device.synchronize()
    runs = seconds / max(time.perf_counter() - began, 1e-9) - 3
    for _ in range(int(min(runs, most - 3))):
        once()
    program.run()
    device.synchronize()
    if bool(wrong.any()):
        xp.copyto(y, kept, where=wrong)
    return judge_left(fmt, x, y, placed, reference)
