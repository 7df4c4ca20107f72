"""The binding on a GPU, tried where there is none: CuPy and the driver are stood in for, kernels run emulated."""

import ctypes
import multiprocessing
import sys
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import spmvbench.errors
from spmvbench import formats
from spmvbench.devices import DeviceFault, open_device
from spmvbench.devices.cuda import Cuda
from spmvbench.formats import Struct
from spmvbench.formats.conversion import EMULATED
from spmvbench.formats.refilling import places
from spmvbench.operators import Operator, operator
from spmvbench.operators.binding import GRAPH_AFTER, PAIRS, CudaBinder, GraphBound


class Array(np.ndarray):
    """CuPy's array as far as operators look at it, in the host's memory."""

    def __new__(cls, shape, dtype=float, memory=None):
        made = np.empty(shape, dtype) if memory is None else memory.host(shape, dtype)
        return made.view(cls)

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self):
        return SimpleNamespace(id=0)

    @property
    def _c_contiguous(self):
        return self.flags.c_contiguous

    def get(self):
        return np.array(self)


class Memory:
    """UnownedMemory and MemoryPointer in one."""

    def __init__(self, address, size, owner, ordinal):
        self.address, self.size = address, size

    def host(self, shape, dtype):
        return np.ndarray(shape, dtype, (ctypes.c_byte * self.size).from_address(self.address))


class Stream:
    """A stream that runs at once; while it captures, it keeps what is enqueued."""

    current = None
    captures = {}
    handles = 100

    def __init__(self, non_blocking=False):
        Stream.handles += 1
        self.ptr = Stream.handles

    def __enter__(self):
        self.before, Stream.current = Stream.current, self

    def __exit__(self, *_):
        Stream.current = self.before

    def synchronize(self):
        pass

    def begin_capture(self):
        Stream.captures[self.ptr] = []

    def end_capture(self):
        return SimpleNamespace(graphExec=Graph.keep(Stream.captures.pop(self.ptr)))


class Graph:
    """Graphs by their handles, and which were launched."""

    known, launched = {}, []

    @classmethod
    def keep(cls, work):
        cls.known[1000 + len(cls.known)] = work
        return 999 + len(cls.known)

    @classmethod
    def launch(cls, handle, stream):
        cls.launched.append(handle)
        for step in cls.known[handle]:
            step()


class Gpu(Cuda):
    """The emulated device as a GPU: each launch is a step that a stream runs or captures."""

    def __init__(self, cupy):
        self.emulated, self.xp, self.name, self.limits = open_device("emulated"), cupy, "cuda:0", EMULATED
        self.stream = Stream()

    def synchronize(self):
        assert not Stream.captures, "waiting for the device ends a capture"

    def memory_free(self):
        return 2**40

    def compile(self, launches):
        def step_of(launch):
            def value(arg):
                """An argument when the kernel runs: an array of the host stands for the number that it holds then."""
                if isinstance(arg, Struct):
                    return Struct(map(value, arg))
                if isinstance(arg, Array):
                    return np.asarray(arg)
                return arg[0] if isinstance(arg, np.ndarray) else arg

            def work():
                self.emulated.compile([replace(launch, args=tuple(map(value, launch.args)))]).run()

            def step(stream):
                Stream.captures[stream].append(work) if stream in Stream.captures else work()

            return step

        made = [step_of(launch) for launch in launches if np.min(launch.grid) > 0]
        return SimpleNamespace(steps=tuple(made), host_driven="")


@contextmanager
def no_device(_):
    yield


@pytest.fixture
def cupy(monkeypatch):
    """A stand-in for CuPy, in which everything that operators do not change is NumPy's."""
    Stream.current, Stream.captures = Stream(), {}
    Graph.launched.clear()
    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        streamIsCapturing=lambda stream: stream in Stream.captures,
        graphLaunch=Graph.launch,
        CUDARuntimeError=type("CUDARuntimeError", (Exception,), {}),
    )
    cuda = SimpleNamespace(
        runtime=runtime,
        driver=SimpleNamespace(CUDADriverError=type("CUDADriverError", (Exception,), {})),
        get_current_stream=lambda ordinal: Stream.current,
        Device=no_device,
        Stream=Stream,
        UnownedMemory=Memory,
        MemoryPointer=lambda memory, offset: memory,
    )

    class Module(SimpleNamespace):
        def __getattr__(self, name):
            found = getattr(np, name)
            if not callable(found) or isinstance(found, type):
                return found

            def call(*args, **options):
                made = found(*args, **options)
                return made.view(Array) if isinstance(made, np.ndarray) else made

            return call

    module = Module(ndarray=Array, cuda=cuda, __spec__=None)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return module


@pytest.fixture
def gpu(cupy):
    return Gpu(cupy)


# One kernel, several kernels with memory of their own, and an order of x and y.
FORMATS = ("csr-scalar", "merge-csr", "ehyb[order=native]")


@pytest.fixture
def a():
    a = sparse.random_array((60, 60), density=0.1, format="csr", rng=np.random.default_rng(0))
    return (a + sparse.eye_array(60)).tocsr()


def operator_of(label, a, gpu):
    """An operator on the stand-in of a GPU: converted on the host, for conversions would ask CuPy for more."""
    ((cls, params),) = formats.parse(label)
    fmt = cls.from_csr(a, **params)
    return operator(fmt.with_arrays(lambda name, array: gpu.xp.asarray(array)), device=gpu)


def vector(cupy, seed=0):
    return cupy.asarray(np.random.default_rng(seed).standard_normal(60))


@pytest.mark.parametrize(("host_driven", "graphs"), [("", 1), ("the host, product by product", 0)])
def test_what_no_graph_holds_stays_out_of_graphs(cupy, gpu, host_driven, graphs):
    products = []
    program = SimpleNamespace(steps=(lambda stream: products.append(stream),), host_driven=host_driven)
    bound = GraphBound(program, CudaBinder(gpu), workspace=True)
    for _ in range(GRAPH_AFTER + 3):
        bound.run(7)
    assert len(Graph.launched) == 2 * graphs
    assert products.count(7) == GRAPH_AFTER + 3 - 2 * graphs


@pytest.mark.parametrize("label", FORMATS)
def test_products_and_factors(cupy, gpu, a, label):
    op = operator_of(label, a, gpu)
    x, y = vector(cupy), vector(cupy, 1)
    for _ in range(3 * GRAPH_AFTER):
        x *= -1
        assert op.matvec(x, out=y) is y
        np.testing.assert_allclose(y, a @ x.get(), rtol=1e-12)
    for alpha, beta in [(2, 0), (1, 1), (-1, 0.5), (3, 0.25), (0, 3)]:
        expected = alpha * (a @ x.get()) + beta * y.get()
        op.matvec(x, out=y, alpha=alpha, beta=beta)
        np.testing.assert_allclose(y, expected, rtol=1e-12)
    assert isinstance(op @ x, Array) and isinstance(op @ x.get(), np.ndarray)
    np.testing.assert_allclose(op @ x.get(), a @ x.get(), rtol=1e-12)
    assert Graph.launched
    assert any(bound.workspace for bound in op._pairs._kept.values()) is (label == "merge-csr")


def test_the_fast_path_takes_bound_pairs_alone(cupy, gpu, a, monkeypatch):
    op = operator_of("csr-scalar", a, gpu)
    x, y = vector(cupy), cupy.empty(60)
    op.matvec(x, out=y)
    slow = []
    through = op._product
    monkeypatch.setattr(op, "_product", lambda *given: slow.append(given) or through(*given))
    op.matvec(x, out=y)
    assert not slow
    op.matvec(x, out=cupy.empty(60))
    op.matvec(x.get(), out=y.get())
    assert len(slow) == 2
    expected = 2 * (a @ x.get()) + 3 * y.get()
    op.matvec(x, out=y, alpha=2, beta=3)
    assert len(slow) == 2
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    for factor in (1j, np.nan, 10**400):
        with pytest.raises(spmvbench.errors.UsageError, match="alpha is a finite number"):
            op.matvec(x, out=y, alpha=factor)
    overlapping = cupy.empty(90)
    with pytest.raises(ValueError, match="overlaps"):
        op.matvec(overlapping[:60], out=overlapping[30:], alpha=2, beta=1)
    with pytest.raises(ValueError, match="shape"):
        op.matvec(x[:50], out=y)  # the address of a pair that is bound
    with pytest.raises(TypeError, match="float32"):
        op.matvec(x, out=y.view(np.float32)[:60])
    with pytest.raises(ValueError, match="shape"):
        op.matvec(x.reshape(6, 10), out=y)


def test_the_same_arrays_are_known_until_a_pair_is_bound(cupy, gpu, a):
    op = operator_of("csr-scalar", a, gpu)
    x, y = vector(cupy), cupy.empty(60)
    for _ in range(2):
        op.matvec(x, out=y)
    assert list(op._known) == [(id(x), id(y))]
    op @ x
    assert not op._known, "a new pair was bound, and another one may be dropped"
    op.matvec(x, out=y)
    for _ in range(5 * PAIRS):  # vectors that are made anew are not worth knowing
        op @ x
        op.matvec(x.view(), out=y)
    assert len(op._known) <= 4 * PAIRS
    # Another array that now has the identity of a known one.
    of_x, of_y, key, bound = op._known[id(x), id(y)]
    other = vector(cupy, 3)
    op._known[id(other), id(y)] = of_x, of_y, key, bound
    np.testing.assert_allclose(op.matvec(other, out=y), a @ other.get(), rtol=1e-12)
    # Factors, and another length at the same place.
    op._known[id(x), id(y)] = of_x, of_y, key, bound
    before = y.get()
    np.testing.assert_allclose(op.matvec(x, out=y, beta=1), a @ x.get() + before, rtol=1e-12)
    with pytest.raises(ValueError, match="shape"):
        op.matvec(x[:50], out=y)
    op.free()
    with pytest.raises(spmvbench.errors.UsageError, match="freed"):
        op.matvec(x, out=y)


@pytest.mark.parametrize("label", FORMATS)
def test_a_captured_pair_is_kept(cupy, gpu, a, label):
    op = operator_of(label, a, gpu)
    x, y = vector(cupy), cupy.empty(60)
    stream = Stream()
    with stream:
        stream.begin_capture()
        op.matvec(x, out=y)
        graph = stream.end_capture()
    assert not Graph.launched, "a graph cannot launch another while it is captured"
    others = [cupy.empty(60) for _ in range(2 * PAIRS)]
    for other in others:
        op.matvec(x, out=other)
    pinned = [bound for bound in op._pairs._kept.values() if bound.pinned]
    assert len(pinned) == (label == "merge-csr") and len(op._pairs) <= PAIRS + 1
    x *= 3
    Graph.launch(graph.graphExec, 0)
    np.testing.assert_allclose(y, a @ x.get(), rtol=1e-12)


@pytest.mark.parametrize("label", FORMATS)
def test_many_pairs_in_one_capture(cupy, gpu, a, label):
    op = operator_of(label, a, gpu)
    x, ys = vector(cupy), [cupy.empty(60) for _ in range(PAIRS + 5)]
    for y in ys:
        op.matvec(x, out=y)
    stream = Stream()
    with stream:
        stream.begin_capture()
        for y in [*ys, *(out := [cupy.empty(60) for _ in range(PAIRS + 5)])]:
            op.matvec(x, out=y)
        graph = stream.end_capture()
    x *= -2
    Graph.launch(graph.graphExec, 0)
    for y in (*ys, *out):
        np.testing.assert_allclose(y, a @ x.get(), rtol=1e-12)


def test_an_error_of_the_driver_is_the_devices(cupy, gpu, a, monkeypatch):
    op = operator_of("csr-scalar", a, gpu)
    x, y = vector(cupy), cupy.empty(60)
    op.matvec(x, out=y)

    def fail(stream):
        raise cupy.cuda.driver.CUDADriverError("an illegal address")

    (bound,) = op._pairs._kept.values()
    monkeypatch.setattr(bound, "run", fail)
    with pytest.raises(DeviceFault, match="illegal address"):
        op.matvec(x, out=y)
    with pytest.raises(DeviceFault, match="illegal address"):
        op.matvec(x, out=y, alpha=2)


@pytest.mark.parametrize("label", FORMATS)
def test_an_update_is_captured(cupy, gpu, a, label):
    ((cls, params),) = formats.parse(label)
    fmt = cls.from_csr(a, **params)
    where = places(fmt, formats.Csr.of(a))
    there = replace(
        where,
        moves={
            name: replace(moves, **{key: cupy.asarray(getattr(moves, key)) for key in ("sector", "entry", "start")})
            for name, moves in where.moves.items()
        },
    )
    choice = operator(fmt, device="emulated").choice
    op = Operator(fmt.with_arrays(lambda name, array: cupy.array(array)), choice, gpu, places=there)
    x, y, values = vector(cupy), cupy.empty(60), cupy.asarray(-a.data)
    op.update(values)
    np.testing.assert_allclose(op.matvec(x, out=y), -(a @ x.get()), rtol=1e-12)
    stream = Stream()
    with stream:
        stream.begin_capture()
        op.update(values)
        op.matvec(x, out=y)
        graph = stream.end_capture()
    values *= 3
    Graph.launch(graph.graphExec, 0)
    np.testing.assert_allclose(y, -3 * (a @ x.get()), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_is_told(cupy, gpu, a):
    op = operator_of("csr-scalar", a, gpu)
    x, y = vector(cupy), cupy.empty(60)
    for _ in range(2):
        op.matvec(x, out=y)

    def child():
        for call in (
            lambda: op.matvec(x, out=y),
            lambda: op @ x.get(),
            lambda: op.matmat(np.ones((60, 2))),
            lambda: op.T,
        ):
            with pytest.raises(spmvbench.errors.UsageError, match="CUDA cannot be used after a fork"):
                call()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    np.testing.assert_allclose(op.matvec(x, out=y), a @ x.get(), rtol=1e-12)
