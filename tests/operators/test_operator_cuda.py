"""Operators on a GPU: the current stream, graphs, memory, CuPy's solvers, and the cost of a call beside CuPy's."""

import gc
import re
import time
from importlib.util import find_spec

import numpy as np
import pytest

import spmvbench
from spmvbench.operators import operator
from spmvbench.operators.binding import GRAPH_AFTER, PAIRS

pytestmark = pytest.mark.gpu

# One kernel, several with memory of their own, an order of x and y, and a library's call.
PARTITIONS = pytest.mark.skipif(
    find_spec("pymetis") is None, reason="needs pymetis (pip install 'spmvbench[partition]')"
)
FORMATS = (
    *("csr-scalar", "csr5", "hola", "merge-csr", "cusparse-csr-alg1"),
    pytest.param("ehyb[order=native]", marks=PARTITIONS),
)


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def a():
    return spmvbench.load("poisson2d:60")


@pytest.fixture
def pair(cupy, a):
    rng = np.random.default_rng(5)
    return cupy.asarray(rng.standard_normal(a.shape[1])), cupy.full(a.shape[0], np.nan)


def agree(y, expected):
    np.testing.assert_allclose(y.get(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("label", FORMATS)
def test_products_again_and_again(cupy, a, pair, label):
    op = operator(a, format=label)
    x, y = pair
    for _ in range(3 * GRAPH_AFTER):  # one kernel after the other, then a graph of them
        x *= -1
        y.fill(np.nan)
        assert op.matvec(x, out=y) is y
        agree(y, a @ x.get())
    for alpha, beta in [(2, 0), (1, 1), (-1, 0.5), (0, 3)]:
        expected = alpha * (a @ x.get()) + beta * y.get()
        op.matvec(x, out=y, alpha=alpha, beta=beta)
        agree(y, expected)
    agree(op @ x, a @ x.get())
    agree(op.T @ x, a.T @ x.get())
    agree(op @ cupy.stack((x, y), axis=1), a @ np.stack((x.get(), y.get()), axis=1))


@pytest.mark.parametrize("spmvs", [1, 1_000_000])
def test_one_copy_or_two_by_times(cupy, a, pair, spmvs):
    x, _ = pair
    op = operator(a, spmvs=spmvs, format="csr-lanes")
    choice = op.T.choice
    timed = "us a product from the arrays of A, .* us in|by the prediction"
    assert re.search("no choice saves its own time" if spmvs == 1 else timed, choice.reason)
    assert choice.reason.startswith("one copy" if choice.shared else "a second copy")
    agree(op.T @ x, a.T @ x.get())
    assert operator(a, format="csr-lanes", max_bytes=op.nbytes + 64, spmvs=10**9).T.choice.shared


@pytest.mark.timing  # what others allocate on the GPU would count
@pytest.mark.parametrize("spmvs", [1, 10**9])
def test_a_pair_is_one_copy_or_two_by_times(cupy, a, pair, spmvs):
    x, y = pair
    op = operator(a, spmvs, pair=True)
    assert op.T.choice.shared and ("+" not in op.choice.label or spmvs > 1)
    agree(op.matvec(x, out=y), a @ x.get())
    agree(op.T @ cupy.asarray(y), a.T @ y.get())


@pytest.mark.parametrize("label", FORMATS)
def test_nothing_is_allocated(cupy, a, pair, label):
    op = operator(a, format=label)
    for beta in (0, 1):
        for _ in range(2 * GRAPH_AFTER):
            op.matvec(*pair, alpha=2, beta=beta)
            op.matvec(*pair)
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes(), pool.total_bytes(), cupy.cuda.runtime.memGetInfo()
    for _ in range(50):
        op.matvec(*pair)
        op.matvec(*pair, alpha=3, beta=2)
    assert (pool.used_bytes(), pool.total_bytes(), cupy.cuda.runtime.memGetInfo()) == before


@pytest.mark.parametrize("label", FORMATS)
@pytest.mark.parametrize("bound_before", [True, False])
def test_captured_in_a_graph(cupy, a, pair, label, bound_before):
    op = operator(a, format=label)
    x, y = pair
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    with stream:
        if bound_before:
            for _ in range(2 * GRAPH_AFTER):
                op.matvec(x, out=y)
        stream.begin_capture()
        op.matvec(x, out=y)
        op.matvec(x, out=y, alpha=2, beta=1)
        graph = stream.end_capture()
        # Pairs that come and go take nothing away from the graph.
        others = [cupy.empty_like(y) for _ in range(2 * PAIRS)]
        for other in others:
            op.matvec(x, out=other)
        for sign in (1, -1):
            x *= sign
            y.fill(np.nan)
            graph.launch(stream)
            stream.synchronize()
            agree(y, 3 * (a @ x.get()))


@pytest.mark.parametrize("label", FORMATS)
def test_new_values_are_captured(cupy, a, pair, label):
    op = operator(a, format=label, updatable=True)
    x, y = pair
    values = cupy.asarray(a.data)
    flipped = op.T  # made before: it takes the values too
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    with stream:
        op.update(values)
        op.matvec(x, out=y)
        pool = cupy.get_default_memory_pool()
        before = pool.used_bytes(), pool.total_bytes()
        stream.begin_capture()
        op.update(values)
        op.matvec(x, out=y)
        graph = stream.end_capture()
        assert (pool.used_bytes(), pool.total_bytes()) == before
        for factor in (3, -2):
            values[...] = factor * cupy.asarray(a.data)
            y.fill(np.nan)
            graph.launch(stream)
            stream.synchronize()
            agree(y, factor * (a @ x.get()))
        agree(flipped @ x, factor * (a.T @ x.get()))


@pytest.mark.parametrize("label", FORMATS)
def test_on_the_current_stream(cupy, a, pair, label):
    """A kernel that takes long comes first on the stream: what does not wait for it takes an old x."""
    op = operator(a, format=label)
    x, y = pair
    expected = a @ (2 * x.get())
    op.matvec(x, out=y)
    large = cupy.ones((4096, 4096), np.float32)
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(5):
            large @ large
        x *= 2
        op.matvec(x, out=y)
    stream.synchronize()
    agree(y, expected)


def test_what_x_may_be(cupy, a, pair):
    op = operator(a, format="csr5")
    x = pair[0]
    expected = a @ x.get()
    assert isinstance(op @ x.get(), np.ndarray)
    np.testing.assert_allclose(op @ x.get(), expected, atol=1e-12)
    out = np.full(a.shape[0], 7.0)
    assert op.matvec(x.get(), out=out, alpha=2, beta=1) is out
    np.testing.assert_allclose(out, 2 * expected + 7, atol=1e-12)
    wide = cupy.zeros((a.shape[1], 2))
    wide[:, 0] = x
    with pytest.warns(RuntimeWarning, match="not contiguous"):
        agree(op @ wide[:, 0], expected)
    shifted = cupy.empty(a.shape[1] + 1)[1:]
    shifted[:] = x
    agree(op @ shifted, expected)
    agree((op @ x[:, None])[:, 0], expected)
    with pytest.raises(TypeError, match="out is of numpy and x of cupy"):
        op.matvec(x, out=out)
    with pytest.raises(TypeError, match="complex128"):
        op @ x.astype(complex)
    with pytest.raises(ValueError, match="overlaps"):
        op.matvec(x, out=x)


def test_cupys_matrices_and_interfaces(cupy, a, pair):
    from cupyx.scipy import sparse

    csr = sparse.csr_matrix((cupy.asarray(a.data), cupy.asarray(a.indices), cupy.asarray(a.indptr)), a.shape)
    op = operator(csr)
    assert op.device.name == "cuda:0"
    x, y = pair
    agree(op @ x, a @ x.get())

    class Foreign:
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    op.matvec(Foreign(x), out=Foreign(y))
    agree(y, a @ x.get())

    class Shared:
        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    y.fill(np.nan)
    op.matvec(Shared(x), out=Shared(y))
    agree(y, a @ x.get())


def test_pytorch(cupy, a, pair):
    torch = pytest.importorskip("torch", reason="needs PyTorch (pip install torch)")
    op = operator(a)
    x = torch.from_dlpack(pair[0])
    y = op @ x
    assert isinstance(y, torch.Tensor)
    np.testing.assert_allclose(y.cpu().numpy(), a @ x.cpu().numpy(), atol=1e-12)
    out = torch.empty_like(x)
    with torch.cuda.stream(torch.cuda.Stream()):
        op.matvec(x, out=out)
        torch.cuda.current_stream().synchronize()
    np.testing.assert_allclose(out.cpu().numpy(), y.cpu().numpy(), atol=1e-12)


def test_cupys_solvers_take_it(cupy, a, pair):
    """Not lsqr: CuPy's takes stored matrices alone, its lsmr takes operators."""
    from cupyx.scipy.sparse import linalg

    op, b = operator(a, format="csr5"), pair[0]
    expected = np.linalg.solve(a.toarray(), b.get())
    for solve, limits in ((linalg.cg, {"rtol": 1e-12}), (linalg.gmres, {"rtol": 1e-12, "restart": 60})):
        x, info = solve(op, b, **limits)
        assert info == 0
        np.testing.assert_allclose(x.get(), expected, rtol=1e-5)
    x = linalg.lsmr(op, b, atol=1e-14, btol=1e-14, maxiter=4000)[0]
    np.testing.assert_allclose(x.get(), expected, rtol=1e-3)
    start = cupy.random.default_rng(1).standard_normal((a.shape[0], 3))
    with pytest.warns(RuntimeWarning, match="not contiguous"):  # CuPy passes each column of X by itself
        found, _ = linalg.lobpcg(op, start, tol=1e-6, maxiter=500)
    np.testing.assert_allclose(np.sort(found.get())[-1], np.linalg.eigvalsh(a.toarray())[-1], rtol=1e-4)


def test_memory_is_given_back(cupy, a):
    pool = cupy.get_default_memory_pool()
    spmvbench.operator(a, format="csr5").free()
    gc.collect()
    before = pool.used_bytes()
    op = operator(a, format="csr5")
    x = cupy.ones(a.shape[1])
    op @ x
    op.T @ x
    op.free()
    del x
    gc.collect()
    assert pool.used_bytes() <= before


@pytest.mark.timing
def test_a_call_costs_a_fraction_of_cupys(cupy):
    """The host's time of a call on a small matrix, where it is all that counts: the least of several rounds."""
    from cupyx.scipy import sparse

    a = spmvbench.load("pde:16")
    csr = sparse.csr_matrix((cupy.asarray(a.data), cupy.asarray(a.indices), cupy.asarray(a.indptr)), a.shape)
    op = operator(a)
    x, y = cupy.ones(a.shape[1]), cupy.empty(a.shape[0])

    def seconds(work):
        taken = []
        for _ in range(20):
            cupy.cuda.runtime.deviceSynchronize()
            began = time.perf_counter()
            for _ in range(100):
                work()
            taken.append(time.perf_counter() - began)
        return min(taken)

    cupys = seconds(lambda: csr @ x)
    assert seconds(lambda: op.matvec(x, out=y)) < cupys / 5
    assert seconds(lambda: op @ x) < cupys / 3
