"""PageRank on the device, compared with a power iteration in NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.operators import operator
from spmvbench.solve import pagerank
from spmvbench.solvers import iteration

DEVICES = ["emulated", pytest.param("cuda:0", marks=pytest.mark.gpu)]


def graph(name="rmat:8:3"):
    """Arcs with weights, (i, j) from i to j; some vertices have none that leave."""
    a = abs(spmvbench.load(name)).tocsr()
    a.data += 0.1
    return a


def reference(a, damping, steps):
    """Ranks after so many steps of the power method, and the sums of changes."""
    n = a.shape[0]
    leaving = np.asarray(a.sum(axis=1)).ravel()
    shares = np.divide(1, leaving, out=np.zeros(n), where=leaving > 0)
    x, changes = np.full(n, 1 / n), []
    for _ in range(steps):
        new = damping * (a.T @ (shares * x) + x[leaving == 0].sum() / n) + (1 - damping) / n
        changes.append(abs(new - x).sum())
        x = new
    return x, np.array(changes)


def on_host(x):
    return x if isinstance(x, np.ndarray) else x.get()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("label", ["csr-scalar", "csr5", "ehyb[order=native]"])
@pytest.mark.parametrize("damping", [0.85, 0.5, 1, 0])
def test_ranks(device, label, damping):
    a = graph()
    assert (np.diff(a.indptr) == 0).any(), "some vertices give their rank to all"
    op = operator(a.T, format=label, device=device)
    found = pagerank(op, damping, tol=1e-8, maxiter=60)
    steps = len(found.residuals)
    x, changes = reference(a, damping, steps)
    np.testing.assert_allclose(on_host(found.x), x, rtol=1e-9)
    np.testing.assert_allclose(found.residuals, changes, rtol=1e-6, atol=1e-13)
    assert found.info == (0 if changes[-1] <= 1e-8 else 60)
    assert abs(float(found.x.sum()) - 1) < 1e-12
    again = pagerank(op, damping, tol=1e-8, maxiter=60)
    assert np.array_equal(on_host(again.x), on_host(found.x)) and len(op._kept) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_the_transposed_operator_ranks_the_graph(device):
    a = graph()
    found = pagerank(operator(a, format="csr-scalar", device=device).T, maxiter=20, tol=0)
    assert (found.info, len(found.residuals)) == (20, 20)
    np.testing.assert_allclose(on_host(found.x), reference(a, 0.85, 20)[0], rtol=1e-10)


def test_single_precision():
    a = graph()
    found = pagerank(operator(a.T, format="csr-scalar", device="emulated", dtype=np.float32), tol=1e-5)
    assert found.x.dtype == np.float32 and found.info == 0
    np.testing.assert_allclose(found.x, reference(a, 0.85, len(found.residuals))[0], rtol=1e-4)


def test_the_host_looks_between_chunks(monkeypatch):
    a = graph()
    whole = pagerank(operator(a.T, format="csr-scalar", device="emulated"), tol=1e-10, maxiter=50)
    monkeypatch.setattr(iteration, "CHUNK", iteration.UNROLL)
    parts = pagerank(operator(a.T, format="csr-scalar", device="emulated"), tol=1e-10, maxiter=50)
    assert len(whole.residuals) > 2 * iteration.UNROLL
    assert np.array_equal(parts.residuals, whole.residuals) and np.array_equal(parts.x, whole.x)


@settings(max_examples=20)
@given(st.integers(0, 40), st.integers(0, 2**20), st.integers(0, 9))
def test_any_graph(n, seed, most):
    rng = np.random.default_rng(seed)
    a = sparse.random_array((n, n), density=0.1, format="csr", rng=rng)
    found = pagerank(operator(a.T, format="csr-scalar", device="emulated"), tol=0, maxiter=most)
    x, changes = reference(a, 0.85, most) if n else (np.zeros(0), np.zeros(0))
    np.testing.assert_allclose(found.x, x, rtol=1e-10)
    np.testing.assert_allclose(found.residuals, changes[: len(found.residuals)], atol=1e-14)


def test_kernels_have_no_races():
    a = graph("rmat:10:2")
    found = pagerank(operator(a.T, format="csr-scalar", device="emulated-check"), maxiter=3, tol=0)
    np.testing.assert_allclose(found.x, reference(a, 0.85, 3)[0], rtol=1e-10)


@pytest.mark.parametrize(
    ("a", "options", "error", "words"),
    [
        (sparse.csr_array((3, 4)), {}, ValueError, "square matrix, this one is 3 x 4"),
        (-sparse.eye_array(3), {}, ValueError, "weights of arcs must be finite and not negative"),
        (sparse.csr_array(np.full((3, 3), 1e308)), {}, ValueError, "add up to what has no inverse in float64"),
        (sparse.eye_array(3), {"damping": 1.5}, UsageError, "damping is a finite number from 0 to 1, not 1.5"),
        (sparse.eye_array(3), {"tol": -1}, UsageError, "tol is a finite number of at least 0"),
        (sparse.eye_array(3), {"maxiter": 0.5}, UsageError, "maxiter is an integer, not 0.5"),
    ],
)
def test_bad_questions(a, options, error, words):
    with pytest.raises(error, match=words):
        pagerank(operator(a, format="csr-scalar", device="emulated"), **options)


def test_a_matrix_is_no_operator():
    with pytest.raises(TypeError, match="pagerank takes an operator, not csr_array"):
        pagerank(sparse.csr_array((3, 3)))
