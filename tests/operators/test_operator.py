"""Operators on the emulated device: products, what solvers ask of them, and bad input."""

import gc
import multiprocessing
import pickle
import re
import sys
import warnings
import weakref
from copy import copy, deepcopy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, gmres, lobpcg, lsqr

import spmvbench
from spmvbench.advice import choosing, quick
from spmvbench.devices import open_device
from spmvbench.devices.emulated import Emulated
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Csr, Skip, determinism
from spmvbench.operators import operator
from spmvbench.operators.binding import PAIRS

# One thread a row, kernels that add, several launches, an order of x and y, and one that only this project has.
FORMATS = ("csr-scalar", "csr5", "coo-load-balance", "ehyb[order=native]", "irregular", "sell-c-sigma", "hyb")


@pytest.fixture(scope="module")
def device():
    return open_device("emulated")


def matrix(rows=70, cols=50, dtype=np.float64, seed=1):
    rng = np.random.default_rng(seed)
    return sparse.random_array((rows, cols), density=0.1, format="csr", rng=rng, dtype=dtype)


def vector(n, dtype=np.float64, seed=2):
    return np.random.default_rng(seed).standard_normal(n).astype(dtype)


@pytest.fixture(scope="module")
def a():
    return matrix()


@pytest.fixture(scope="module")
def op(a, device):
    return operator(a, format="csr-scalar", device=device)


@pytest.mark.parametrize("label", FORMATS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_with_factors(label, dtype, device):
    a = spmvbench.load("poisson2d:12").astype(dtype)
    op = operator(a, format=label, device=device)
    assert (op.shape, op.dtype, op.choice.label) == (a.shape, dtype, label)
    x, y0 = vector(144, dtype), vector(144, dtype, 3)
    tolerance = {"rtol": 0, "atol": 60 * np.finfo(dtype).eps}
    np.testing.assert_allclose(op @ x, a @ x, **tolerance)
    for alpha, beta in [(1, 0), (2, 0), (1, 1), (1, -0.5), (-3, 2), (0, 1), (0, 0)]:
        out = y0.copy() if beta else np.full(144, np.nan, dtype)
        expected = alpha * (a @ x) + (beta * y0 if beta else 0)
        assert op.matvec(x, out=out, alpha=alpha, beta=beta) is out
        np.testing.assert_allclose(out, expected, **tolerance)


@settings(max_examples=30)
@given(
    st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**20), st.floats(-4, 4), st.floats(-4, 4), st.integers(1, 3)
)
def test_any_shape_and_factors(rows, cols, seed, alpha, beta, repeats):
    a = matrix(rows, cols, seed=seed)
    op = operator(a, format="csr-scalar", device="emulated")
    x, y = vector(cols), vector(rows)
    expected = y.copy()
    for _ in range(repeats):
        expected = alpha * (a @ x) + beta * expected
        op.matvec(x, out=y, alpha=alpha, beta=beta)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(op.T @ y, a.T @ y, rtol=1e-12, atol=1e-9)


def test_the_advice_chooses_and_says_why(device):
    op = operator("pde:10", spmvs=1e7, device=device)
    a = spmvbench.load("pde:10")
    x = vector(a.shape[1])
    np.testing.assert_allclose(op @ x, a @ x, rtol=1e-12, atol=1e-12)
    choice = op.choice
    assert choice.label == spmvbench.formats.label(type(op.format), dict(op.format.params))
    assert choice.spmvs == 1e7 and choice.predicted_spmv > 0 and choice.predicted_conversion > 0
    assert choice.advice_seconds > 0 and choice.conversion_seconds > 0 and choice.nbytes == op.nbytes > 0
    assert choice.reason in str(choice) and choice.label in str(choice)
    assert choice.label in repr(op) and "emulated" in repr(op)
    for label in choice.rejected:
        assert not label.startswith("cusparse"), "no format of another device is tried"


@pytest.mark.parametrize(
    ("gpu", "name"), [("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H200", "h200"), ("NVIDIA L4", "h200")]
)
def test_the_model_is_that_of_the_gpu(device, monkeypatch, gpu, name):
    monkeypatch.setattr(device, "limits", device.limits._replace(name=gpu))
    op = operator("pde:6", 10_000_000, device=device)
    assert op.choice.reason.endswith(f"a GPU like {name}")


@pytest.mark.parametrize(("spmvs", "asked"), [(100, False), (100_000, False), (10_000_000, True)])
def test_a_choice_takes_no_longer_than_it_saves(device, monkeypatch, spmvs, asked):
    given, advise = [], choosing.advise
    monkeypatch.setattr(choosing, "advise", lambda *args: given.append(args) or advise(*args))
    a = Csr.of(spmvbench.load("pde:6"))
    op = operator(a, spmvs, device=device)
    assert len(given) == asked and (op.choice.predicted_spmv is not None) == asked
    assert asked or op.choice.label == next(quick.ranked(a, spmvs))


def test_the_transposed_operator_is_made_once(a, op):
    y, x = vector(70), vector(50)
    np.testing.assert_allclose(op.rmatvec(y), a.T @ y, rtol=1e-12)
    out = x.copy()
    np.testing.assert_allclose(op.rmatvec(y, out=out, alpha=2, beta=3), 2 * (a.T @ y) + 3 * x, rtol=1e-12)
    assert op.T is op.T and op.T.T is op and op.H is op.T
    assert op.T.shape == (50, 70)
    np.testing.assert_allclose(op.T @ y, a.T @ y, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5, 70])
@pytest.mark.parametrize("format", ["csr-lanes", "coo-flat", "mbsr"])
def test_several_columns_are_one_product_or_one_each(a, device, format, k):
    square = sparse.csr_array((a.T @ a).tocsr())
    op = operator(square, format=format, device=device)
    X = vector(50 * k).reshape(50, k)
    expected = square @ X
    for same in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        np.testing.assert_allclose(op.matmat(same), expected, rtol=1e-11)
        for order in "CF":
            out = np.full((50, k), np.nan, order=order)
            assert op.matmat(same, out=out) is out
            np.testing.assert_allclose(out, expected, rtol=1e-11)
    with pytest.raises(ValueError, match=r"out has the shape"):
        op.matmat(X, out=np.empty((50, k + 1)))
    with pytest.raises(TypeError, match="out is an array of float32"):
        op.matmat(X, out=np.empty((50, k), np.float32))
    assert ((2, "row") in op._alone) == (format == "mbsr" and k == 2)


def test_it_is_scipys_operator(a, op):
    assert isinstance(op, LinearOperator) and aslinearoperator(op) is op
    x, X = vector(50), vector(150).reshape(50, 3)
    np.testing.assert_allclose(op @ X, a @ X, rtol=1e-12)
    np.testing.assert_allclose(op.matmat(np.asfortranarray(X)), a @ X, rtol=1e-12)
    np.testing.assert_allclose(op.rmatmat(vector(140).reshape(70, 2)), a.T @ vector(140).reshape(70, 2), rtol=1e-12)
    np.testing.assert_allclose(op(x), a @ x, rtol=1e-12)
    np.testing.assert_allclose(op.dot(x.tolist()), a @ x, rtol=1e-12)
    np.testing.assert_allclose((2 * op + op) @ x, 3 * (a @ x), rtol=1e-12)
    np.testing.assert_allclose((op.T @ op) @ x, a.T @ (a @ x), rtol=1e-11)
    assert (op @ x[:, None]).shape == (70, 1)
    assert (op @ np.empty((50, 0))).shape == (70, 0)


def test_scipys_solvers_take_it(device):
    a = spmvbench.load("poisson2d:12")
    b = vector(144)
    expected = sparse.linalg.spsolve(a.tocsc(), b)
    op = operator(a, format="csr5", device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # solvers may hand over columns of matrices
        for solve in (cg, gmres):
            x, info = solve(op, b, rtol=1e-10)
            assert info == 0
            np.testing.assert_allclose(x, expected, rtol=1e-6)
        np.testing.assert_allclose(lsqr(op, b, atol=1e-12, btol=1e-12)[0], expected, rtol=1e-5)
        largest, _ = lobpcg(op, np.random.default_rng(0).standard_normal((144, 2)), tol=1e-8, maxiter=200)
    np.testing.assert_allclose(np.sort(largest), np.linalg.eigvalsh(a.toarray())[-2:], rtol=1e-6)


@pytest.mark.parametrize("make", [Csr.of, sparse.coo_array, sparse.csc_matrix, lambda a: a.astype(np.float32)])
def test_what_a_matrix_may_be(make, a, device):
    op = operator(make(a), format="csr-scalar", device=device)
    np.testing.assert_allclose(op @ vector(50, op.dtype), a @ vector(50), rtol=1e-4, atol=1e-5)


def test_a_matrix_in_a_format(a, device):
    fmt = spmvbench.formats.get("ell").from_csr(a, threads=2)
    op = operator(fmt, device=device)
    assert op.format is fmt and op.choice.label == "ell[threads=2]" and op.nbytes == fmt.nbytes
    np.testing.assert_allclose(op @ vector(50), a @ vector(50), rtol=1e-12)
    with pytest.raises(UsageError, match="in a format already"):
        operator(fmt, format="csr5")
    with pytest.raises(SpmvbenchError, match="stored values are not finite in float64"):
        operator(spmvbench.formats.get("ell").from_csr(a * np.nan), device=device)
    with pytest.raises(UsageError, match="computes spmspv"):
        operator(spmvbench.formats.get("spmspv-csc-atomic").from_csr(a), device=device)


def test_types_of_values(a, device):
    assert operator(a, format="csr-scalar", device=device, dtype=np.float32).dtype == np.float32
    whole = sparse.csr_array(np.array([[1, 2], [0, 3]]))
    op = operator(whole, device=device)
    assert op.dtype == np.float64
    with pytest.warns(RuntimeWarning, match="x is of int64"):
        assert (op @ np.array([1, 1])).tolist() == [3, 3]
    with pytest.raises(UsageError, match="float64 or float32, not float16"):
        operator(a, dtype=np.float16)
    assert operator(a, format="csr-scalar", device=device, dtype="f32", max_bytes="2GB").dtype == np.float32


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (6, 7)])
def test_matrices_without_entries(shape, device):
    op = operator(sparse.csr_array(shape), device=device)
    assert (op @ np.ones(shape[1])).tolist() == [0] * shape[0]
    assert op.T.shape == shape[::-1] and (op.T @ np.ones(shape[0])).tolist() == [0] * shape[1]


def test_another_x_is_copied_and_told_once(a, device):
    op = operator(a, format="csr-scalar", device=device)
    x = vector(100)
    expected = a @ x[::2]
    with pytest.warns(RuntimeWarning, match="not contiguous"):
        np.testing.assert_allclose(op @ x[::2], expected, rtol=1e-12)
    odd = vector(51)[1:]  # its first element lies on a multiple of 8 bytes alone
    np.testing.assert_allclose(op @ x[::2], expected, rtol=1e-12)
    np.testing.assert_allclose(op @ odd, a @ odd, rtol=1e-12)
    single = vector(50, np.float32)
    np.testing.assert_allclose(op @ single, a @ single.astype(np.float64), rtol=1e-12)
    y = vector(71)[1:]
    expected = a @ x[:50] + 2 * y
    assert op.matvec(x[:50], out=y, beta=2) is y
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_columns(op, a):
    x, y = vector(50)[:, None], np.full((70, 1), np.nan)
    assert op.matvec(x, out=y) is y
    np.testing.assert_allclose(y, a @ x, rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "out", "factors", "error", "words"),
    [
        (np.ones(49), None, {}, ValueError, r"x has the shape \(49,\), this product needs \(50,\) or \(50, 1\)"),
        (np.ones((1, 50)), None, {}, ValueError, r"shape \(1, 50\)"),
        (np.float64(3), None, {}, ValueError, r"shape \(\)"),
        (np.ones(50, complex), None, {}, TypeError, "x is complex128 and the operator is real"),
        (np.array(["a"] * 50), None, {}, TypeError, "not of real numbers"),
        ([object()] * 50, None, {}, TypeError, "must be an array of numbers, not list"),
        (None, None, {}, TypeError, "must be an array of numbers, not NoneType"),
        (np.ones(50), np.ones(71), {}, ValueError, r"out has the shape \(71,\)"),
        (np.ones(50), np.ones(70, np.float32), {}, TypeError, "out is an array of float32, the operator gives float64"),
        (np.ones(50), np.ones(140)[::2], {}, ValueError, "out is not contiguous"),
        (np.ones(50), np.broadcast_to(1.0, 70), {}, ValueError, "out is not contiguous"),
        (np.ones(50), [0.0] * 70, {}, TypeError, "out must be an array that can be written to, not list"),
        (np.ones(50), None, {"beta": 1}, UsageError, "give y as out"),
        (np.ones(50), np.ones(70), {"alpha": 1j}, UsageError, "alpha is a finite number, not 1j"),
        (np.ones(50), np.ones(70), {"beta": "much"}, UsageError, "beta is a finite number, not 'much'"),
        (np.ones(50), np.ones(70), {"alpha": np.nan}, UsageError, "alpha is a finite number, not nan"),
        (np.ones(50), np.ones(70), {"beta": -np.inf}, UsageError, "beta is a finite number, not -inf"),
    ],
)
def test_bad_vectors(op, x, out, factors, error, words):
    with pytest.raises(error, match=words):
        op.matvec(x, out=out, **factors)


def test_vectors_that_cannot_be_written_or_overlap(op, device):
    y = np.ones(70)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        op.matvec(np.ones(50), out=y)
    square = operator(sparse.eye_array(8, format="csr"), format="csr-scalar", device=device)
    x = np.ones(12)
    with pytest.raises(ValueError, match="overlaps"):
        square.matvec(x[:8], out=x[:8])
    with pytest.raises(ValueError, match="overlaps"):
        square.matvec(x[:8], out=x[4:])
    with pytest.raises(ValueError, match=r"X has 3 dimensions, a product takes \(50,\) or \(50, k\)"):
        op @ np.ones((50, 2, 2))
    with pytest.raises(ValueError, match=r"X has the shape \(3, 4\)"):
        square.matmat(np.ones((3, 4)))
    with pytest.raises(TypeError, match="complex"):
        square @ np.ones((8, 2), complex)


@pytest.mark.parametrize(
    ("given", "options", "error", "words"),
    [
        (sparse.eye_array(3, dtype=complex), {}, TypeError, "the matrix is complex128: make an operator of A.real"),
        (np.eye(3), {}, TypeError, "expected a sparse matrix, got ndarray"),
        ("pde:10x", {}, UsageError, "pde"),
        (sparse.eye_array(3), {"format": "nothing"}, UsageError, "there is no format 'nothing'"),
        (sparse.eye_array(3), {"format": "csr5,ell"}, UsageError, "names 2 formats"),
        (sparse.eye_array(3), {"format": "bfs-push"}, UsageError, "computes bfs"),
        (sparse.eye_array(3), {"format": "cusparse-csr-alg1"}, UsageError, "runs on cuda only, and emulated is none"),
        (sparse.eye_array(3), {"device": "gpu"}, UsageError, "there is no device 'gpu'"),
        (sparse.eye_array(3), {"spmvs": 0}, UsageError, "at least 1, not 0"),
        (sparse.eye_array(3), {"spmvs": float("nan")}, UsageError, "at least 1, not nan"),
        (sparse.eye_array(3), {"spmvs": float("inf")}, UsageError, "at least 1, not inf"),
        (sparse.diags_array([1, np.nan, np.inf]), {}, SpmvbenchError, "2 of 3 entries are not finite in float64"),
        (sparse.diags_array([1, 1e300]), {"dtype": "f32"}, SpmvbenchError, "the first in row 1 and column 1"),
        (sparse.eye_array(3), {"spmvs": "many"}, UsageError, "at least 1, not 'many'"),
        (sparse.eye_array(3), {"format": 5}, UsageError, r"a name such as csr5\[sigma=16\], not 5"),
        (sparse.eye_array(3), {"dtype": "double double"}, UsageError, "float64 or float32, not double double"),
        (sparse.eye_array(3), {"max_bytes": -1}, UsageError, "-1 is no size"),
    ],
)
def test_bad_operators(given, options, error, words):
    with pytest.raises(error, match=words):
        operator(given, **{"device": "emulated"} | options)


def test_alpha_0_reads_neither_the_matrix_nor_x(a, op):
    x = np.full(50, np.nan)
    assert not op.matvec(x, out=np.full(70, np.inf), alpha=0).any()
    for beta in (1, -2.5):
        assert op.matvec(x, out=np.ones(70), alpha=0, beta=beta).tolist() == [beta] * 70


def test_copies_and_pickles_multiply_on_their_own(a, op):
    x, y = vector(50), vector(70)
    for copied in (copy(op), deepcopy(op), pickle.loads(pickle.dumps(op)), deepcopy(op.T).T):
        assert copied is not op and (copied.format is op.format) == (copied.choice is op.choice)
        np.testing.assert_allclose(copied @ x, a @ x, rtol=1e-12)
        np.testing.assert_allclose(copied.T @ y, a.T @ y, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_multiplies():
    """Of more threads than one host thread takes: the device's helpers are at work."""
    op = operator("poisson2d:60", format="csr-scalar", device=Emulated(workers=2))
    x = vector(3600)
    y = op @ x
    child = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(not np.array_equal(op @ x, y)))
    child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("label", [None, *FORMATS, "tile", "dia", "coo-load-balance"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_other_values_in_place(label, dtype, device):
    a = sparse.csr_array(spmvbench.load("poisson2d:12").astype(dtype))
    op = operator(a, 1e6, label, device, updatable=True)
    x, y, before, arrays = vector(144, dtype), np.empty(144, dtype), a.copy(), op.format.arrays()
    op.matvec(x, out=y)
    moves = not any(np.array_equal(array, a.data) for array in arrays.values())  # else entries are stored as given
    assert (op.choice.update_bytes > 0, "for updates" in str(op.choice)) == (moves, moves)
    for k in range(3):
        other = a.copy()
        other.data = vector(a.nnz, dtype, seed=k)
        if k == 2:
            other.data[::3] = 0
        op.update(other.data if k else other.data.astype(np.float64))
        tolerance = {"rtol": 0, "atol": 60 * np.finfo(dtype).eps}
        np.testing.assert_allclose(op.matvec(x, out=y), other @ x, **tolerance)
        np.testing.assert_allclose(op.T @ x, other.T @ x, **tolerance)
        assert np.array_equal(op.diagonal(), other.diagonal())
    assert (a != before).nnz == 0, "the caller's matrix is left as it was"
    assert all(array is arrays[name] for name, array in op.format.arrays().items())
    copied = pickle.loads(pickle.dumps(op))
    copied.update(a.data)
    np.testing.assert_allclose(copied @ x, a @ x, **tolerance)
    np.testing.assert_allclose(op @ x, other @ x, **tolerance)


def test_a_deterministic_operator_has_formats_alone_that_are_known_to_repeat(device, monkeypatch):
    """The advice's hola is known not to, and is with sums in a fixed order; A^T from the arrays adds by atomics."""
    found = {
        "hola": False,
        "hola[sum=fixed]": True,
        "csr-lanes": True,
        "csr5": None,
        "csr-scalar": True,
        "coo-flat": True,
    }
    monkeypatch.setattr(determinism, "known", lambda *_: found)
    monkeypatch.setattr(
        Emulated, "float_atomics", lambda _, launch: re.search("transposed|coo_runs", launch.kernel) is not None
    )
    monkeypatch.setattr(quick, "ranked", lambda a, spmvs: ["hola"])
    a = matrix()
    op = operator(a, 1, device=device, deterministic=True)
    assert op.choice.label == "hola[sum=fixed]" and "in a fixed order" in op.choice.reason
    assert op.T.choice.label == "hola[sum=fixed]" and "a second copy" in op.T.choice.reason
    assert op.choice.deterministic and op.T.choice.deterministic
    x = vector(70)
    np.testing.assert_allclose(op.T @ x, a.T @ x, rtol=1e-12)
    for label, said in (("csr5", "every product$"), ("hola", r"every product: take hola\[sum=fixed\]")):
        with pytest.raises(UsageError, match=said):
            operator(a, format=label, device=device, deterministic=True)
    assert operator(a, format="hola[sum=fixed,items=4]", device=device, deterministic=True).nbytes
    several = operator(a, format="coo-flat", device=device, deterministic=True)  # adds by atomics for several vectors
    np.testing.assert_allclose(several @ np.ones((50, 3)), a @ np.ones((50, 3)), rtol=1e-12)
    assert not any("row" in key for key in several._pairs._kept)
    best = spmvbench.advise(a, deterministic=True)
    assert set(best.table["format"]) <= {"hola[sum=fixed]", "csr-lanes", "csr-scalar"}
    assert best.operator(device).choice.deterministic
    monkeypatch.setattr(determinism, "known", lambda *_: {"sell": True})
    with pytest.raises(SpmvbenchError, match="known to repeat its bits"):
        spmvbench.advise(a, deterministic=True)


@pytest.mark.parametrize(
    ("label", "op", "expected"),
    [
        ("sell[height=32]", "spmv", True), ("csr5", "spmv", None), ("csr5", "cg@5", None), ("hola", "cg@5", False),
        ("sell", "spmv-t@1", False), ("sell", "spmv-t@2", True), ("sell", "pdhg@3", False),
        ("csr-vector", "pair", None), ("sell+csr-vector", "pair", True), ("sell+csr5", "pair", None),
        ("hola+csr5", "spmv", False), ("sell", "spmm@8", None),
    ],
)  # fmt: skip
def test_what_is_known_of_an_operation_follows_from_its_products(monkeypatch, label, op, expected):
    of_op = {"spmv": {"sell": True, "csr-vector": True, "hola": False}, "spmv-t@1": {"sell": False}}
    monkeypatch.setattr(determinism, "known", lambda op="spmv": of_op.get(op, {}))
    assert determinism.repeats(label, op) is expected


def test_solvers_after_an_update(device):
    a = spmvbench.load("spd_pde:6")
    op, b = operator(a, format="csr5", device=device, updatable=True), vector(216)
    spmvbench.solve.cg(op, b)
    op.update(3 * a.data)
    x, info, _ = spmvbench.solve.cg(op, b, rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(3 * (a @ x), b, atol=1e-8)


def test_values_that_cannot_be_taken(a, op, device):
    updatable = operator(a, format="csr-scalar", device=device, updatable=True)
    for values, error, words in [
        (np.ones(a.nnz + 1), ValueError, f"values has the shape .* {a.nnz:,} entries in canonical CSR"),
        (a, TypeError, "takes the values alone"),
        (a.toarray(), TypeError, "takes the values alone"),
        (np.ones(a.nnz, complex), TypeError, "complex128"),
    ]:
        with pytest.raises(error, match=words):
            updatable.update(values)
    for refused in (op, updatable.T):
        with pytest.raises(UsageError, match=r"make one by operator\(A, updatable=True\)"):
            refused.update(np.ones(a.nnz))
    with pytest.raises(Skip, match="values decide what csr-ans stores"):
        operator(a, format="csr-ans", device=device, updatable=True)
    with pytest.raises(UsageError, match="in a format already"):
        operator(op.format, updatable=True)
    updatable.free()
    with pytest.raises(UsageError, match="freed"):
        updatable.update(np.ones(a.nnz))


def test_a_named_format_that_cannot_hold_the_matrix_is_not_replaced(device):
    with pytest.raises(Skip, match="square"):
        operator(matrix(), format="ehyb[order=native]", device=device)


def test_pairs_are_few_and_hold_no_vector(a, device):
    op = operator(a, format="coo-load-balance", device=device)
    vectors = [(vector(50, seed=k), np.empty(70)) for k in range(3 * PAIRS)]
    for x, y in [*vectors, *vectors[::-1], *vectors]:
        op.matvec(x, out=y)
        np.testing.assert_allclose(y, a @ x, rtol=1e-11, atol=1e-13)
    assert len(op._pairs) == PAIRS
    gone = [weakref.ref(array) for array in vectors[-1]]
    del vectors, x, y
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_pairs_are_dropped_by_last_use(a, device):
    op = operator(a, format="csr-scalar", device=device)
    x, first = vector(50), np.empty(70)
    op.matvec(x, out=first)
    (key,) = op._pairs._kept
    others = [np.empty(70) for _ in range(2 * PAIRS)]
    for y in others:
        op.matvec(x, out=y)
        op.matvec(x, out=first)
    assert op._pairs.get(key) is not None


def test_freed(a, device):
    op = operator(a, format="csr-scalar", device=device)
    held = weakref.ref(op.format)
    transposed = op.T
    op.free()
    gc.collect()
    assert held() is None and op.nbytes == 0 and "freed" in repr(op)
    for freed, size in ((op, 50), (transposed, 70)):
        for x in (np.ones(size), np.ones((size, 2))):
            with pytest.raises(UsageError, match="freed"):
                freed @ x
    op.free()


class Foreign:
    """An array of a library that shares memory by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def from_dlpack(array):
    """What a library with DLPack has: makes one of its own arrays."""
    return Foreign(np.from_dlpack(array))


def test_other_libraries_come_and_go_by_dlpack(op, a, monkeypatch):
    x = vector(50)
    monkeypatch.setitem(sys.modules, Foreign.__module__.partition(".")[0], sys.modules[__name__])
    found = op @ Foreign(x)
    assert isinstance(found, Foreign)
    np.testing.assert_allclose(found.array, a @ x, rtol=1e-12)
    out = Foreign(np.zeros(70))
    assert op.matvec(Foreign(x), out=out) is out
    np.testing.assert_allclose(out.array, a @ x, rtol=1e-12)


class Unshared:
    """An array of a library that refuses to share its memory."""

    def __dlpack__(self, **options):
        raise BufferError("it requires a gradient")

    def __dlpack_device__(self):
        return 1, 0


def test_memory_that_is_not_shared(op):
    with pytest.raises(TypeError, match="the memory of this Unshared cannot be used by NumPy: it requires a gradient"):
        op @ Unshared()


def test_pytorch_on_the_host(op, a):
    torch = pytest.importorskip("torch", reason="needs PyTorch (pip install torch)")
    x = torch.from_numpy(vector(50))
    out = torch.zeros(70, dtype=torch.float64)
    assert isinstance(op @ x, torch.Tensor) and op.matvec(x, out=out) is out
    for y in (op @ x, out, op.T.rmatvec(x)):
        np.testing.assert_allclose(y.numpy(), a @ vector(50), rtol=1e-12)
    for refused in (x.clone().requires_grad_(), x.to(torch.bfloat16)):
        with pytest.raises(TypeError, match="the memory of this Tensor cannot be used by NumPy"):
            op @ refused


def test_it_works_as_a_petsc_shell(device):
    """The example of docs/operator.md."""
    petsc = pytest.importorskip("petsc4py.PETSc", reason="needs petsc4py (pip install petsc4py)")
    page = Path(spmvbench.__file__).parents[1] / "docs" / "operator.md"
    if not page.is_file():
        pytest.skip("needs a checkout (git clone)")
    (example,) = re.findall(r"```python\n([^`]*createPython[^`]*)```", page.read_text(encoding="utf-8"))
    a = spmvbench.load("poisson2d:12") + sparse.diags_array(np.linspace(0, 1, 143), offsets=1)  # not symmetric
    names = {"op": operator(a, format="csr-scalar", device=device), "b": a @ vector(144)}
    exec(example, names)
    assert names["solver"].getConvergedReason() > 0
    np.testing.assert_allclose(names["x"].getArray(), vector(144), rtol=1e-4)
    x, y = names["shell"].createVecs()
    x.setArray(vector(144))
    names["shell"].multTranspose(x, y)
    np.testing.assert_allclose(y.getArray(), a.T @ vector(144), rtol=1e-12)
    assert isinstance(names["shell"], petsc.Mat)
