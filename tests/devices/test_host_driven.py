"""Products that the host starts itself, tried without a GPU: CuPy and the device's stream are stood in for."""

import sys
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats
from spmvbench.devices import cuda, open_device
from spmvbench.devices.host_driven import HostDriven
from spmvbench.formats import Call, Skip
from spmvbench.measure import timing
from spmvbench.rows import store

A = sparse.random_array((30, 20), density=0.2, format="csr", rng=np.random.default_rng(0))


class Stream:
    """A stream whose handle is 7, and how often it was waited for."""

    ptr, waits = 7, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        self.waits += 1


class Clock:
    """The host's clock, which only the products below move on."""

    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def device(monkeypatch, clock):
    """A GPU of which everything is stood in for that products of the host use."""
    monkeypatch.setattr(cuda, "_Faults", nullcontext)
    monkeypatch.setattr(cuda, "perf_counter", clock.perf_counter)

    def copy(found, y, stream):
        clock.now += 1000  # a copy that would be timed would be seen
        y[...] = found

    monkeypatch.setattr(cuda, "_copy", copy)
    made = object.__new__(cuda.Cuda)
    made.stream, made.overlaps, made.graphs_loop, made._events = Stream(), False, True, (None, None)
    made.functions, made.code_hash = lambda launches: {}, lambda launches: ""
    made.enqueued, made.waiting = set(), set()
    return made


@pytest.fixture
def cupy(monkeypatch):
    """CuPy as far as its product needs it: SciPy's matrices on NumPy's arrays. Lists the streams that were entered."""
    entered = []

    def external(stream):
        entered.append(stream.__cuda_stream__()[1])
        return nullcontext()

    of_streams = SimpleNamespace(
        get_current_stream=lambda: SimpleNamespace(ptr=7), Stream=SimpleNamespace(from_external=external)
    )
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=of_streams, ndarray=Stream, __spec__=None))
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupyx.scipy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", sparse)
    return entered


def slow(call, clock, seconds):
    """The call, with so many seconds on the clock for each product."""

    def function(stream):
        clock.now += seconds
        return call.function(stream)

    return Call(call.name, function, call.args, y=call.y)


def test_the_time_is_that_of_the_calls_and_y_is_there_afterwards(device, clock, cupy):
    x, y = np.arange(20.0), np.full(30, np.nan)
    (call,) = formats.get("cupy-csr").from_csr(A).launches(x, y)
    program = device.compile([slow(call, clock, 3.0)])
    assert program.host_driven == "the host, product by product: no graph captures cupy-csr"
    work = device.capture(program, 5)
    assert device.elapsed(work) == 5 * 3.0
    assert device.stream.waits == 2  # before and after, and not between
    np.testing.assert_allclose(y, A @ x)
    y[:], x[:] = np.nan, 1
    program.run()
    np.testing.assert_allclose(y, A @ x)
    y[:] = np.nan
    work()
    np.testing.assert_allclose(y, A @ x)
    assert cupy == []  # the stream was the current one already


def test_samples_hold_many_calls(device, clock, cupy):
    (call,) = formats.get("cupy-csr").from_csr(A).launches(np.ones(20), np.zeros(30))
    rule = timing.Rule(rounds=1, budget=1.0, sample=1.0, min_samples=3)
    series = timing.prepare(device.compile([slow(call, clock, 0.25)]), device, "hot", rule)
    assert series.repeats == 4
    assert device.elapsed(series.work) / series.repeats == 0.25


def test_allocations_are_not_counted_during_calls(device, monkeypatch):
    """CuPy's hook costs microseconds in each allocation, which users of CuPy do not have."""
    counting = []

    class Hook:
        def __enter__(self):
            counting.append(True)

        def __exit__(self, *_):
            counting.append(False)

    @cache
    def hook():
        return Hook()

    monkeypatch.setattr(cuda, "_peak_memory", hook)
    seen, y = [], np.zeros(3)

    def function(stream):
        seen.append(counting[-1] if counting else None)
        return y

    work = device.capture(device.compile([Call("seen", function, (), y=y)]), 2)
    device.elapsed(work)
    assert (seen, counting) == ([None, None], [])  # nobody has asked for a peak
    hook().__enter__()
    device.elapsed(work)
    assert seen[2:] == [False, False]
    assert counting[-1]


def test_without_a_gpu_the_row_says_why_there_is_no_time(command, tmp_path):
    words = "run pde:3 --formats cupy-csr --dtype f64 --device emulated --run r --results"
    command(*words.split(), tmp_path)
    (row,) = store.load(tmp_path / "r").to_dict("records")
    assert (row["status"], row["reason"], row["experiment"]) == ("skipped", "runs on cuda only", True)


def test_another_stream_becomes_the_current_one(cupy):
    x = np.ones(20)
    (call,) = formats.get("cupy-csr").from_csr(A).launches(x, np.zeros(30))
    np.testing.assert_allclose(call.function(9), A @ x)
    assert cupy == [9]


def test_the_transpose_is_cupys(cupy):
    x = np.arange(30.0)
    (call,) = formats.get("cupy-csr").from_csr(A).transposed(x, np.zeros(20))
    np.testing.assert_allclose(call.function(7), A.T @ x)


def test_values_that_cupy_would_convert_in_each_product_are_refused(cupy):
    with pytest.raises(Skip, match="one type"):
        formats.get("cupy-csr").from_csr(A.astype(np.float32)).launches(np.ones(20), np.zeros(30))


def test_a_call_before_other_steps_leaves_y_to_them(device, cupy):
    x, y, seen = np.ones(20), np.full(30, np.nan), []
    (call,) = formats.get("cupy-csr").from_csr(A).launches(x, y)
    after = Call("after", lambda stream: seen.append(y.copy()), ())
    work = device.capture(device.compile([call, after]), 2)
    assert isinstance(work, HostDriven)
    device.elapsed(work)
    assert len(seen) == 2
    np.testing.assert_allclose(seen[0], A @ x)


@pytest.mark.parametrize("found", [np.zeros(29), np.zeros(30, np.float32)])
def test_a_result_unlike_y_is_an_error(device, found):
    program = device.compile([Call("wrong", lambda stream: found, (), y=np.zeros(30))])
    with pytest.raises(TypeError, match=r"not float64 \(30,\)"):
        program.run()


@pytest.mark.gpu
@pytest.mark.timing
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_call_on_a_gpu_takes_longer_than_its_kernel(dtype):
    """A product of a small matrix: the host takes longer to start it than a graph of cuSPARSE's kernel takes."""
    device = open_device("cuda:0")
    a = sparse.random_array((2000, 2000), density=0.005, format="csr", rng=np.random.default_rng(0), dtype=dtype)
    a_device = formats.Csr.of(a).on(device.xp)
    x, y = device.to_device(np.ones(2000, dtype)), device.to_device(np.full(2000, np.nan, dtype))
    seconds = {}
    for key in ("cupy-csr", "cusparse-csr-alg1"):
        y[...] = np.nan
        work = device.capture(device.compile(formats.get(key).converted(a_device).launches(x, y)), 50)
        device.elapsed(work)
        seconds[key] = min(device.elapsed(work) for _ in range(5))
        np.testing.assert_allclose(device.to_host(y), a @ np.ones(2000, dtype), rtol=1e-4)
    assert seconds["cupy-csr"] > 2 * seconds["cusparse-csr-alg1"]


@pytest.mark.gpu
def test_a_row_says_that_the_host_calls(tmp_path, command):
    words = (
        "run pde:16 --formats cupy-csr,cusparse-csr-alg1 --dtype f64 --mode hot,cold --budget 0.05 --op spmv,spmv-t@1"
    )
    assert command(*words.split(), "--device", "cuda:0", "--results", tmp_path, "--run", "r").code == 0
    rows = store.load(tmp_path / "r")
    assert rows["status"].eq("ok").all()
    driven = {label: {"driven_by" in detail for detail in part["detail"]} for label, part in rows.groupby("label")}
    assert driven == {"cupy-csr": {True}, "cusparse-csr-alg1": {False}}
    assert rows.loc[rows["label"] == "cupy-csr", "experiment"].all()
