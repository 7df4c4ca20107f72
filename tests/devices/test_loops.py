"""Steps that are repeated for as long as the device asks for it."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from spmvbench.devices import DeviceFault, open_device
from spmvbench.formats import Launch, Loop

KERNELS = str(Path(__file__).parent / "kernels" / "countdown.cu")
DEVICES = ["emulated", "emulated-check", pytest.param("cuda:0", marks=pytest.mark.gpu)]


def searched(device, times, limit=1000):
    """(start and a loop of `times` iterations, what counts the iterations)."""
    more, done = (device.to_device(np.zeros(1, np.int32)) for _ in range(2))
    body = (
        Launch(KERNELS, "countdown", 1, 1, (more, done)),
        Launch(KERNELS, "countdown", 0, 1, (more, done)),
    )
    return [Launch(KERNELS, "start", 1, 1, (np.int32(times), more)), Loop(body, more, limit)], done


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return open_device(request.param)


@pytest.mark.parametrize("times", [1, 2, 300])
def test_a_loop_ends_when_the_device_says_so(device, times):
    steps, iterations = searched(device, times)
    device.compile(steps).run()
    device.synchronize()
    assert int(iterations[0]) == times


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_captured_loop_can_be_replayed(device, repeats):
    steps, iterations = searched(device, 7)
    work = device.capture(device.compile(steps), repeats)
    assert device.elapsed(work) > 0
    assert device.elapsed(work, flush=True) > 0
    device.synchronize()
    assert int(iterations[0]) == 2 * repeats * 7


def test_a_replay_keeps_the_arrays_of_its_program(device):
    program = device.compile(searched(device, 7)[0])
    kept = weakref.ref(program)
    work = device.capture(program, 1)
    del program
    gc.collect()
    assert kept() is not None  # a graph holds the addresses alone
    del work
    gc.collect()
    assert kept() is None


def test_a_loop_without_end_is_a_fault(device):
    steps, iterations = searched(device, 51, limit=50)
    with pytest.raises(DeviceFault, match="no end"):
        device.compile(steps).run()
    assert int(iterations[0]) == 50
    device.compile(searched(device, 50, limit=50)[0]).run()


def test_a_loop_of_empty_launches_is_no_step(device):
    more = device.to_device(np.ones(1, np.int32))
    device.compile([Loop((Launch(KERNELS, "countdown", 0, 1, (more, more)),), more, 5)]).run()
    device.synchronize()
    assert int(more[0]) == 1


@pytest.mark.gpu
def test_the_host_drives_where_graphs_have_no_loops(monkeypatch):
    device = open_device("cuda:0")
    monkeypatch.setattr(device, "graphs_loop", False)
    steps, iterations = searched(device, 7)
    program = device.compile(steps)
    assert program.host_driven
    assert device.elapsed(device.capture(program, 2)) > 0
    assert int(iterations[0]) == 14


@pytest.mark.gpu
def test_a_graph_leaves_a_loop_at_its_limit_and_starts_the_next_from_nothing():
    device = open_device("cuda:0")
    steps, iterations = searched(device, 60, limit=50)
    work = device.capture(device.compile(steps), 2)
    device.elapsed(work)
    assert int(iterations[0]) == 100
