"""Checks that every format must pass, and hard matrices for them; tests of a new format can call both.

>>> from spmvbench import testing
>>> for name, a in testing.hard_matrices().items():
...     testing.check_conversion("ell", a)
...     testing.check_product("ell", a, device)

If a format refuses a matrix, the checks raise its `Skip`; `skipping` and `over` turn that into a skipped test.

As a program: ``python -m spmvbench.testing ell --device cuda:0``, also under compute-sanitizer.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any
from unittest import SkipTest

import click
import numpy as np

from spmvbench import formats
from spmvbench.devices import Device, open_device
from spmvbench.devices.guards import Guards
from spmvbench.errors import SpmvbenchError
from spmvbench.formats.conversion import converting_for, device_limits
from spmvbench.formats.format import Format
from spmvbench.formats.precision import PRECISIONS, Precision
from spmvbench.formats.vectors import SparseVector, moved

# Parameters of the operations in checks.
CHECKED = {
    "spmv": ("spmv",),
    "spmspv": ("spmspv@0.4", "spmspv@0.02"),
    "bfs": ("bfs@0", "bfs-directed@1"),
}


def _from_lengths(lengths: Any, cols: int, rng: np.random.Generator) -> Any:
    """A csr_array with these row lengths and distinct random columns."""
    from scipy import sparse

    lengths = np.minimum(np.asarray(lengths), cols)
    rows = [np.sort(rng.choice(cols, size=int(n), replace=False)) for n in lengths if n]
    indices = np.concatenate(rows) if rows else np.empty(0)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = rng.uniform(0.5, 1.5, len(indices)) * rng.choice([-1.0, 1.0], len(indices))
    return sparse.csr_array((values, indices.astype(np.int32), indptr.astype(np.int32)), shape=(len(lengths), cols))


def hard_matrices(seed: int = 0) -> dict[str, Any]:
    """Small csr_arrays on which careless formats fail, by name.

    Without rows or columns or entries, single rows and columns, empty rows and columns at either end and in blocks, one
    full row or column, duplicates, a power law, dense blocks, rows longer than any tile, stored zeros, values all the
    same, more than 65,535 columns or rows, sizes next to multiples of 16 and 32.
    """
    return {name: matrix.copy() for name, matrix in _hard_matrices(seed).items()}


@cache
def _hard_matrices(seed: int) -> dict[str, Any]:
    from scipy import sparse

    rng = np.random.default_rng(seed)
    found = {
        "0x0": sparse.csr_array((0, 0)),
        "0x5": sparse.csr_array((0, 5)),
        "5x0": sparse.csr_array((5, 0)),
        "no entries": sparse.csr_array((37, 53)),
        "1x1": sparse.csr_array([[2.5]]),
        "1xN": _from_lengths([150], 300, rng),
        "Nx1": _from_lengths(rng.integers(0, 2, 300), 1, rng),
        "diagonal": sparse.csr_array(sparse.diags_array(rng.uniform(1, 2, 65))),
        "only a middle row": _from_lengths([0] * 40 + [33] + [0] * 40, 64, rng),
        "empty rows at both ends": _from_lengths([0] * 33 + [5] * 50 + [0] * 65, 70, rng),
        "empty rows and columns": _from_lengths(np.where(rng.random(200) < 0.7, 0, 3), 900, rng),
        "one full row": _from_lengths([2] * 60 + [500] + [2] * 70, 500, rng),
        "one full column": sparse.csr_array(
            (rng.uniform(1, 2, 300), (np.arange(300), np.full(300, 7))), shape=(300, 40)
        ),
        "power law": _from_lengths(np.minimum(rng.pareto(0.9, 400) * 2, 400).astype(int), 400, rng),
        "long rows among empty": _from_lengths([0] * 10 + [7000] + [0] * 30 + [3100, 1, 3100, 1024, 1025], 9000, rng),
        "wide": _from_lengths(rng.integers(0, 12, 30), 70_000, rng),
        "tall": _from_lengths(np.where(np.arange(66_000) % 97 == 0, 2, 0), 50, rng),
        "uniform 8": _from_lengths([8] * 257, 200, rng),
        "full": sparse.csr_array(rng.uniform(1, 2, (33, 47))),
        "2 entries a row to a tile's end": _from_lengths([2] * 512, 100, rng),
    }
    blocks = sparse.block_diag([sparse.coo_array(rng.uniform(1, 2, (3, 3))) for _ in range(43)])
    found["3x3 blocks"] = sparse.csr_array(blocks)
    stencil = sparse.diags_array([1.0, -4.0, 1.0, 0.5, 0.5], offsets=[-1, 0, 1, -9, 9], shape=(81, 81))
    found["stencil"] = sparse.csr_array(stencil)
    zeros = _from_lengths([4] * 80, 90, rng)
    zeros.data[::3] = 0.0
    zeros.data[1] = -0.0
    found["stored zeros"] = zeros
    pairs = rng.integers(0, 50, (2, 800))
    found["duplicates"] = sparse.csr_array(sparse.coo_array((rng.uniform(-1, 1, 800), tuple(pairs)), shape=(50, 50)))
    pattern = _from_lengths([3] * 70 + [0] * 5 + [40, 33], 64, rng)
    pattern.data[:] = 1.0
    found["one value"] = pattern
    # Rows at both ends and around 2^15 and 2^16: with entries on over a thousand diagonals `dia` would store 0.7 GB.
    tall = found["tall"].tocoo()
    row, col = tall.coords
    kept = (row < 1000) | (abs(row - 2**15) < 500) | (row > 65_000)
    found["tall"] = sparse.csr_array((tall.data[kept], (row[kept], col[kept])), shape=tall.shape)
    for matrix in found.values():
        matrix.sum_duplicates()
    return found


def hard_graphs(seed: int = 0) -> dict[str, Any]:
    """Small square csr_arrays on which careless searches fail, by name: an arc from i to j for each entry (i, j).

    One vertex, no arcs, many levels, arcs in one direction only, unconnected parts, vertices with only an arc to
    themselves.
    """
    from scipy import sparse

    rng = np.random.default_rng(seed)

    def graph(n: int, tails: Any, heads: Any) -> Any:
        return sparse.csr_array((np.ones(len(tails)), (tails, heads)), shape=(n, n))

    chain, shuffled = np.arange(299), rng.permutation(2500)
    pairs = rng.integers(0, 90, (2, 200))
    found = {
        "one vertex": graph(1, [], []),
        "vertices without arcs": graph(70, [], []),
        "loops alone": graph(40, np.arange(40), np.arange(40)),
        "chain of 300": graph(300, chain, chain + 1),
        "shuffled ring": graph(2500, shuffled, np.roll(shuffled, 1)),
        "all into one": graph(600, np.arange(1, 600), np.zeros(599, int)),
        "two parts and rest": graph(400, np.concatenate([pairs[0], 200 + pairs[0]]), np.tile(pairs[1], 2)),
        "grid": sparse.csr_array(
            sparse.kronsum(*[sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(21, 21))] * 2)
        ),
        "one way and dense": sparse.csr_array(np.triu(np.ones((70, 70)), 1)),
    }
    for matrix in found.values():
        matrix.sum_duplicates()
    return found


def suited(cls: type[Format], a: Any) -> formats.Csr:
    """A matrix for a format: padded with empty rows or columns if the format takes only square matrices."""
    csr = formats.Csr.of(a)
    side = max(csr.shape)
    if not cls.square_only or csr.rows == csr.cols:
        return csr
    row_ptr = np.concatenate([csr.row_ptr, np.full(side - csr.rows, csr.nnz, csr.row_ptr.dtype)])
    return formats.Csr((side, side), row_ptr, csr.col_idx, csr.values)


def vectors(cls: type[Format], a: formats.Csr) -> tuple[Any, Any]:
    """An x and a y on the host that the launches of this format can be bound to."""
    from spmvbench.measure.operations import get

    return get(CHECKED[cls.op][0]).vectors(a)


def convert(spec: str, a: Any, xp: Any = np, max_bytes: int | None = None, **params: Any) -> Format:
    """A matrix in the format that `spec` names (``ell[threads=2]``), converted on an array module.

    max_bytes: refuse larger footprints with Skip; None: no limit.
    """
    ((cls, values),) = formats.parse(spec)
    csr = formats.Csr.of(a).on(xp)
    if max_bytes is not None:
        cls.refuse_beyond(max_bytes, csr, **values | params)
    return cls.converted(csr, **values | params)


def check_conversion(spec: str, a: Any, xp: Any = np) -> None:
    """Raise AssertionError unless decoding reproduces the matrix bit for bit and the estimate equals the footprint.

    If a format cannot tell stored zeros from padding, only nonzero entries are compared; if it keeps only the pattern,
    only positions. Raises Skip if the format refuses the matrix.
    """
    from spmvbench.measure.verify import decoding_difference

    ((cls, values),) = formats.parse(spec)
    csr = suited(cls, a)
    fmt = convert(spec, csr, xp)
    difference = decoding_difference(fmt, csr.on(xp))
    assert not difference, f"{spec}: {difference}"
    with converting_for(device_limits(csr.on(xp))):  # the same limits as in the conversion
        estimate = cls.estimate(csr, **values | fmt.in_use)
    assert estimate == fmt.nbytes, f"{spec}: the estimate is not the footprint"


def check_product(
    spec: str,
    a: Any,
    device: Device,
    seed: int = 0,
    *,
    guarded: bool = True,
    dtype: str = "",
    ops: Sequence[str] = (),
) -> float:
    """The largest error of y on a device as a fraction of its bound, over x of all kinds of the format's operation.

    An operation with a parameter is checked with those in CHECKED; 0 if it is not defined for the matrix. Runs start
    from a y of NaN, of garbage and of the previous result. Raises AssertionError if an error exceeds its bound, or if
    the matrix, or memory outside of x, y and the format's arrays, is written to. Without `guarded` the arrays are not
    put between guards, for tools that detect out-of-bounds accesses themselves. dtype: types of values and vectors as
    rows have them, ``f32/f64``; by default the matrix's own. Such a matrix is also decoded. ops: in place of those in
    CHECKED, ``spmm@8``. Raises Skip if the format refuses the matrix, the types or an operation.
    """
    ((cls, _),) = formats.parse(spec)
    a = suited(cls, a)
    precision = PRECISIONS[dtype or f"f{8 * a.dtype.itemsize}"]
    checked = ops or CHECKED[cls.op]
    return max(_checked(spec, op, precision.rounded(a), device, seed, precision, guarded=guarded) for op in checked)


@contextmanager
def skipping() -> Iterator[None]:
    """Turn a refused matrix into a skipped test with the format's reason, for pytest and unittest.

    Raises unittest.SkipTest for Skip, AssertionError if that has no reason.
    """
    try:
        yield
    except formats.Skip as skip:
        raise SkipTest(_reason(skip)) from skip


def over(matrices: Mapping[str, Any], check: Callable[[Any], object]) -> None:
    """Call a check on every matrix, also if the format refuses some of them.

    Raises AssertionError if a refusal has no reason, and if all matrices are refused, because then nothing was checked;
    at the end unittest.SkipTest, with the reasons, if some are refused.
    """
    refused = {}
    for name, matrix in matrices.items():
        try:
            check(matrix)
        except formats.Skip as skip:
            refused[name] = _reason(skip)
    if refused:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        assert len(refused) < len(matrices), f"every matrix is refused, so nothing was checked: {reasons}"
        raise SkipTest(f"{len(refused)} of {len(matrices)} matrices are refused, the others pass: {reasons}")


def _reason(skip: formats.Skip) -> str:
    assert str(skip.reason).strip(), "a matrix is refused without a reason: raise Skip('what is wrong with it')"
    return skip.reason


@dataclass(frozen=True)
class _Checked:
    """A matrix as an operation takes it, on the host and on the device; equal to another by what it holds."""

    digest: bytes
    csr: formats.Csr = field(compare=False)
    shared: formats.Csr = field(compare=False)

    @classmethod
    def of(cls, csr: formats.Csr, device: Device) -> _Checked:
        digest = hashlib.blake2b(repr((csr.shape, csr.dtype, csr.row_ptr.dtype)).encode())
        for array in (csr.row_ptr, csr.col_idx, csr.values):
            digest.update(array.tobytes())
        return cls(digest.digest(), csr, csr.on(device.xp))


@lru_cache(maxsize=128)  # many formats are checked on few matrices
def _answers(op: str, a: _Checked, device: Device, seed: int) -> Any:
    from spmvbench.measure.operations import get

    return get(op).checks(a.csr, a.shared, device, seed, seed)


def _checked(
    spec: str, op: str, a: formats.Csr, device: Device, seed: int, precision: Precision, *, guarded: bool
) -> float:
    from spmvbench.measure.operations import get
    from spmvbench.measure.verify import Reference, Run, decoding_difference, integer_matrix, run_and_verify

    operation = get(op)
    try:
        given = _Checked.of(operation.matrix(a).read_only(), device)
    except formats.Skip:
        return 0.0
    csr, shared = given.csr, given.shared
    found = _answers(op, given, device, seed)
    sums = device.checksums([shared.row_ptr, shared.col_idx, shared.values])
    before = sums()

    def worst(matrix: Any, references: list[Reference]) -> float:
        guards = Guards(device)
        x, y = (moved(vector, device.to_device) for vector in operation.vectors(csr))
        fmt = convert(spec, matrix, device.xp)
        if precision.is_mixed:
            assert not (difference := decoding_difference(fmt, matrix)), f"{spec}: {difference} ({precision.name})"
        if guarded:
            x, y, fmt = guards.hold_vector("x", x), guards.hold_vector("y", y), guards.hold_format(fmt)
        guards.watch()
        assert not isinstance(y, SparseVector)
        program = device.compile(precision.launches(operation.launches(fmt, x, y, found, device)))
        verdict = run_and_verify(Run(fmt, program, device, x, y), references)
        assert verdict.passed, f"{spec}: {verdict} ({op})"
        assert guards.overwritten() == [], f"{spec} writes outside of its arrays"
        return verdict.ratio

    ratio = worst(precision.stored(csr).on(device.xp), [*found.dense, found.dense[0], *found.sparse])
    if found.integer:
        with suppress(formats.Skip):  # a format may refuse the integer values
            integers = integer_matrix(shared)
            assert integers is not None
            worst(precision.integers(integers), found.integer)
    assert sums() == before, f"{spec} writes to the matrix"
    return ratio


@click.command()
@click.argument("specs", default="all")
@click.option(
    "--device", "device_name", default="emulated", help="emulated, emulated-check, cuda:0.", show_default=True
)
@click.option("--op", "ops", multiple=True, help="An operation in place of the formats' own: spmm@8. Repeatable.")
@click.option("--largest", default=20_000, help="Leave out matrices with more entries or rows.", show_default=True)
def main(specs: str, device_name: str, ops: tuple[str, ...], largest: int) -> None:
    """Check formats (a list as `run --formats` takes it) over the hard matrices, in double and single precision."""
    try:
        device, asked = open_device(device_name), formats.parse(specs, CHECKED)
    except SpmvbenchError as error:
        raise click.UsageError(str(error)) from None
    if device.kind == "cuda":
        device.xp.cuda.set_allocator(None)  # a pool would hide out-of-bounds accesses from compute-sanitizer
    matrices = {name: a for name, a in (hard_matrices() | hard_graphs()).items() if max(a.nnz, *a.shape) <= largest}
    failures = 0
    for cls, params in asked:
        spec = formats.label(cls, params)
        if device.kind not in cls.devices:
            click.echo(f"{spec} runs on {' and '.join(cls.devices)} only")
            continue
        errors = list[float]()  # of the products that were right
        for name, a in matrices.items():
            for dtype in (np.float64, np.float32):
                try:
                    check_conversion(spec, a.astype(dtype))
                    errors.append(check_product(spec, a.astype(dtype), device, guarded=device.kind != "cuda", ops=ops))
                except AssertionError as error:
                    failures += 1
                    click.echo(f"{spec}: {name}, {np.dtype(dtype)}: {error}")
                except formats.Skip as skip:
                    click.echo(f"{spec}: {name}, {np.dtype(dtype)} skipped: {skip.reason}")
        right = f"{len(errors)} of {2 * len(matrices)} products right"
        click.echo(f"{spec:20} {right}, largest error {max(errors, default=0):.2f} of its bound")
    sys.exit(1 if failures else 0)


__all__ = [
    "check_conversion",
    "check_product",
    "convert",
    "hard_graphs",
    "hard_matrices",
    "over",
    "skipping",
    "vectors",
]

if __name__ == "__main__":
    main()
