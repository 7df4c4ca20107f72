"""Conjugate gradients on the device, compared with SciPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from scipy.sparse.linalg import cg as scipys

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.operators import operator
from spmvbench.solve import cg
from spmvbench.solvers import iteration

DEVICES = ["emulated", pytest.param("cuda:0", marks=pytest.mark.gpu)]
FORMATS = ("csr-scalar", "csr5", "ehyb[order=native]", "dia")


def system(name="poisson2d:20", seed=1):
    """A symmetric positive definite matrix whose diagonal is not constant, and a right side."""
    a = spmvbench.load(name)
    rng = np.random.default_rng(seed)
    scale = sparse.diags_array(rng.uniform(0.5, 2, a.shape[0]))
    return (scale @ a @ scale).tocsr(), rng.standard_normal(a.shape[0])


def norms(a, b, jacobi, **options):
    """Norms of b - A x after each iteration of SciPy's CG, from the start on, with its x and info."""
    found = [np.linalg.norm(b - a @ options.get("x0", np.zeros(len(b))))]
    inverse = 1 / a.diagonal()
    M = LinearOperator(a.shape, lambda r: r * inverse) if jacobi else None
    x, info = scipys(a, b, M=M, callback=lambda x: found.append(np.linalg.norm(b - a @ x)), **options)
    return x, info, np.array(found)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("label", FORMATS)
@pytest.mark.parametrize("preconditioner", ["jacobi", None])
def test_the_iterations_are_scipys(device, label, preconditioner):
    a, b = system()
    x, info, residuals = cg(operator(a, format=label, device=device), b, rtol=1e-9, preconditioner=preconditioner)
    expected, _, history = norms(a, b, preconditioner is not None, rtol=1e-9)
    assert info == 0
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    first = min(len(history), 30)  # rounding errors grow later on
    np.testing.assert_allclose(residuals[:first], history[:first], rtol=1e-6)
    assert abs(len(residuals) - len(history)) <= 1
    assert residuals[-1] <= 1e-9 * np.linalg.norm(b) < residuals[-2]


@pytest.mark.parametrize("device", DEVICES)
def test_single_precision_adds_up_in_double(device):
    n = 3000
    b = np.full(n, 1.1, np.float32)
    op = operator(sparse.eye_array(n, format="csr", dtype=np.float32) * np.float32(3), format="dia", device=device)
    x, info, residuals = cg(op, b)
    assert info == 0 and x.dtype == np.float32
    np.testing.assert_allclose(x, b / 3, rtol=1e-6)
    np.testing.assert_allclose(residuals[0], np.linalg.norm(b.astype(np.float64)), rtol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_the_next_solve_is_bound_already(device):
    """Other right sides, guesses, tolerances and limits; and the same again gives the same bits."""
    a, b = system()
    op = operator(a, format="csr5", device=device)
    first = cg(op, b, rtol=1e-8)
    other = cg(op, 3 * b[::-1].copy(), rtol=1e-4)
    np.testing.assert_allclose(a @ other.x, 3 * b[::-1], atol=1e-4 * 3 * np.linalg.norm(b))
    assert 1 < len(other.residuals) < len(first.residuals)
    guessed = cg(op, b, first.x, rtol=1e-8)
    assert len(guessed.residuals) <= 2 and guessed.info == 0
    _, _, history = norms(a, b, True, x0=np.ones(len(b)), rtol=1e-8)
    np.testing.assert_allclose(cg(op, b, np.ones(len(b)), rtol=1e-8).residuals[:20], history[:20], rtol=1e-6)
    again = cg(op, b, rtol=1e-8)
    assert np.array_equal(again.x, first.x) and np.array_equal(again.residuals, first.residuals)
    assert len(op._kept) == 1
    op.free()
    with pytest.raises(UsageError, match="freed"):
        cg(op, b)


@pytest.mark.parametrize("device", DEVICES)
def test_iterations_are_limited(device):
    a, b = system()
    op = operator(a, format="csr-scalar", device=device)
    for most in (0, 1, 2, 3, 4, 5, 9):
        x, info, residuals = cg(op, b, rtol=1e-12, maxiter=most)
        assert (info, len(residuals)) == (max(most, 1), most + 1)  # 0 says that it has converged
        expected = norms(a, b, True, rtol=1e-12, maxiter=most)[0] if most else np.zeros(len(b))
        np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-12)
    assert cg(op, b, atol=2 * np.linalg.norm(b), rtol=0, maxiter=0).info == 0
    assert len(cg(op, b, rtol=0, atol=0.5 * np.linalg.norm(b)).residuals) > 1


@pytest.mark.parametrize("chunk", [iteration.UNROLL, 5 * iteration.UNROLL])
def test_the_host_looks_between_chunks(chunk, monkeypatch):
    a, b = system()
    whole = cg(operator(a, format="csr-scalar", device="emulated"), b, rtol=1e-8)
    monkeypatch.setattr(iteration, "CHUNK", chunk)
    parts = cg(operator(a, format="csr-scalar", device="emulated"), b, rtol=1e-8)
    assert len(whole.residuals) > 2 * chunk
    assert np.array_equal(parts.residuals, whole.residuals) and np.array_equal(parts.x, whole.x)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("preconditioner", ["jacobi", None])
@pytest.mark.parametrize("scale", [1e155, 1e300, 1e-160, 1e-165, 1e-300])
def test_no_size_of_the_right_side_leaves_the_range(device, preconditioner, scale):
    """Nor of the guess, and of the matrix: all is as for b of size 1, times a power of 2."""
    a, b = system()
    op, power = operator(a, format="csr-scalar", device=device), 2.0 ** np.floor(np.log2(scale))
    options = {"rtol": 1e-9, "preconditioner": preconditioner}
    for guess in (None, np.linspace(-1, 1, len(b))):
        expected = cg(op, b, guess, **options)
        x, info, residuals = cg(op, power * b, None if guess is None else power * guess, **options)
        assert info == 0 and np.array_equal(x, power * expected.x)
        assert np.array_equal(residuals, power * expected.residuals)
    away = cg(op, 0 * b, power * guess, rtol=0, atol=1e-9 * power, preconditioner=preconditioner)
    assert away.info == 0 and abs(away.x).max() < 1e-8 * power
    if 1e-290 < scale < 1e290:
        scaled = operator(a * power, format="csr-scalar", device=device)
        assert np.array_equal(cg(scaled, b, **options).x, cg(op, b, **options).x / power)


def test_what_stopped_it():
    a, b = system()
    op = operator(a, format="csr-scalar", device="emulated")
    for tolerances in ({"atol": 1e200}, {"rtol": 1e200}, {"rtol": 0, "atol": 1e200}):
        assert cg(op, b, **tolerances)[1:] == (0, pytest.approx([np.linalg.norm(b)]))
    x, info, residuals = cg(op, b, rtol=0)  # beyond what rounding leaves, to where squares are no doubles
    assert info == len(residuals) - 1 > 0 and residuals[-1] < 1e-100
    np.testing.assert_allclose(a @ x, b, atol=1e-12)
    single = operator(a, format="csr-scalar", device="emulated", dtype="f32")
    for scale in (1e60, 1e-60):
        assert cg(single, scale * b).info == -1, "no float32 is x"
    assert cg(single, 1e-37 * b).info == 0


@pytest.mark.parametrize("device", DEVICES)
def test_what_has_no_solution(device):
    n = 12
    op = operator(sparse.diags_array(np.r_[np.ones(n - 1), -1.0]).tocsr(), format="csr-scalar", device=device)
    x, info, residuals = cg(op, np.ones(n), preconditioner=None)
    assert info == -1 and np.isfinite(x).all() and len(residuals) >= 1
    with pytest.raises(ValueError, match="1 of 12 elements of the diagonal are not positive"):
        cg(op, np.ones(n))
    spd = operator(sparse.eye_array(n, format="csr"), format="csr-scalar", device=device)
    for bad in (np.nan, np.inf):
        assert cg(spd, np.r_[np.ones(n - 1), bad]).info == -1
    x, info, residuals = cg(spd, np.zeros(n))
    assert info == 0 and not x.any() and residuals.tolist() == [0]
    x, info, residuals = cg(spd, np.zeros(n), np.ones(n))
    assert info == 0 and not x.any() and len(residuals) == 2


@settings(max_examples=20)
@given(st.integers(0, 60), st.integers(0, 2**20), st.sampled_from([np.float64, np.float32]))
def test_any_positive_definite_matrix(n, seed, dtype):
    rng = np.random.default_rng(seed)
    factor = sparse.random_array((n, n), density=0.2, format="csr", rng=rng)
    a = (factor @ factor.T + sparse.eye_array(n)).tocsr()
    b = rng.standard_normal(n)
    x, info, residuals = cg(operator(a, format="csr-scalar", device="emulated", dtype=dtype), b, rtol=1e-4)
    assert info == 0 and len(residuals) <= 10 * n + 1
    assert np.linalg.norm(a @ x - b) <= 2e-4 * np.linalg.norm(b) + 1e-30


@pytest.mark.parametrize("preconditioner", ["jacobi", None])
def test_kernels_have_no_races(preconditioner):
    a, b = system("poisson2d:30")
    op = operator(a, format="csr-scalar", device="emulated-check")
    x, info, _ = cg(op, b, maxiter=6, rtol=1e-12, preconditioner=preconditioner)
    assert info == 6
    np.testing.assert_allclose(x, norms(a, b, preconditioner is not None, maxiter=6, rtol=1e-12)[0], rtol=1e-9)
    assert cg(op, b, x, maxiter=3).info in (0, 3)


def test_columns_and_kinds():
    a, b = system()
    op = operator(a, format="csr-scalar", device="emulated")
    x = cg(op, b[:, None]).x
    assert x.shape == (400, 1)
    assert np.array_equal(x[:, 0], cg(op, b).x)
    assert np.array_equal(cg(op, b.tolist(), np.zeros((400, 1))).x, cg(op, b).x)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"b": np.ones(3)}, ValueError, r"b has the shape \(3,\)"),
        ({"b": np.ones(400, complex)}, TypeError, "b is complex128"),
        ({"x0": np.ones(7)}, ValueError, r"x0 has the shape \(7,\)"),
        ({"rtol": -1}, UsageError, "rtol is a finite number of at least 0, not -1"),
        ({"atol": float("nan")}, UsageError, "atol is a finite number of at least 0, not nan"),
        ({"rtol": float("inf")}, UsageError, "rtol is a finite number"),
        ({"rtol": "small"}, UsageError, "rtol is a finite number of at least 0, not 'small'"),
        ({"maxiter": -1}, UsageError, "maxiter is a finite number from 0 to 2147483647, not -1"),
        ({"maxiter": 2.5}, UsageError, "maxiter is an integer, not 2.5"),
        ({"maxiter": float("nan")}, UsageError, "maxiter is a finite number"),
        ({"maxiter": float("inf")}, UsageError, "maxiter is a finite number"),
        ({"preconditioner": "ilu"}, UsageError, "preconditioner is \"jacobi\" or None, not 'ilu'"),
        ({"op": sparse.eye_array(400)}, TypeError, r"cg takes an operator, not dia_array: make one by spmvbench\.oper"),
        ({"op": sparse.csr_array((4, 5))}, ValueError, "square matrix, this one is 4 x 5"),
    ],
)
def test_bad_systems(options, error, words):
    a, b = system()
    given = {"op": a, "b": b} | options
    if given["op"].format == "csr":
        given["op"] = operator(given["op"], format="csr-scalar", device="emulated")
    with pytest.raises(error, match=words):
        cg(given.pop("op"), **given)


@pytest.mark.gpu
def test_vectors_of_cupy_from_any_stream():
    cupy = pytest.importorskip("cupy")
    a, b = system()
    op = operator(a, device="cuda:0")
    expected = cg(op, b, rtol=1e-9).x
    large = cupy.ones((4096, 4096), np.float32)
    on_gpu = cupy.zeros_like(cupy.asarray(b))
    cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(5):
            large @ large
        on_gpu += cupy.asarray(b)
        x, info, _ = cg(op, on_gpu, rtol=1e-9)
        assert info == 0 and isinstance(x, cupy.ndarray)
        assert np.array_equal(x.get(), expected)


@pytest.mark.gpu
@pytest.mark.timing
def test_an_iteration_is_a_fraction_of_cupys():
    """Of the same run: the least of several solves of 100 iterations each."""
    import time

    cupy = pytest.importorskip("cupy")
    from cupyx.scipy.sparse import csr_matrix, linalg

    a = spmvbench.load("poisson2d:200")
    csr = csr_matrix((cupy.asarray(a.data), cupy.asarray(a.indices), cupy.asarray(a.indptr)), a.shape)
    op, b = operator(a), cupy.ones(a.shape[0])

    def seconds(solve):
        taken = []
        for _ in range(5):
            cupy.cuda.runtime.deviceSynchronize()
            began = time.perf_counter()
            solve(b, rtol=0.0, atol=0.0, maxiter=100)
            cupy.cuda.runtime.deviceSynchronize()
            taken.append(time.perf_counter() - began)
        return min(taken)

    assert seconds(lambda b, **options: cg(op, b, **options)) < seconds(lambda b, **o: linalg.cg(csr, b, **o)) / 4
