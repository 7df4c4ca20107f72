"""What NVML says of a GPU, and what it refuses to say: on older GPUs and in virtual machines."""

import math
import sys
from types import SimpleNamespace

import pytest

from spmvbench.devices.cuda import Cuda


class Refused(Exception):
    """As NVML's errors: NotSupported, FunctionNotFound."""


def refuse(*args):
    raise Refused("Not Supported")


@pytest.fixture
def nvml(monkeypatch):
    """A library that answers nothing until a test gives it an answer."""
    names = "TotalEnergyConsumption", "CurrentClocksEventReasons", "MaxClockInfo", "ClockInfo"
    answers = {f"nvmlDeviceGet{name}": refuse for name in names}
    library = SimpleNamespace(NVMLError=Refused, NVML_CLOCK_SM=1, **answers)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


@pytest.fixture
def device(nvml):
    """A device that is asked for nothing but NVML's facts: it needs no GPU."""
    found = Cuda.__new__(Cuda)
    found._nvml = object()
    return found


def test_a_gpu_that_refuses_everything_is_measured_all_the_same(device):
    assert math.isnan(device.energy()) and math.isnan(device.sm_clock_mhz())
    assert device.throttled() is False


def test_millijoules_become_joules(device, nvml):
    nvml.nvmlDeviceGetTotalEnergyConsumption = lambda handle: 1_234_567
    assert device.energy() == pytest.approx(1234.567)


def test_without_the_library_there_is_no_energy(device):
    device._nvml = None
    assert math.isnan(device.energy())


@pytest.mark.parametrize(
    ("reasons", "clock", "known"),
    [
        (0x40, 1980, "heat, hardware slowdown: 1980 of 1980 MHz"),
        (0x4, 1000, "power cap: 1000 of 1980 MHz"),
        (0x84, 345, "power brake, power cap: 345 of 1980 MHz"),
        (0x4, 1900, ""),
        (0x1, 345, ""),  # it has no work
    ],
)
def test_throttling_is_seen_where_the_gpu_tells_it(device, nvml, reasons, clock, known):
    nvml.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: reasons
    nvml.nvmlDeviceGetMaxClockInfo = lambda handle, which: 1980
    nvml.nvmlDeviceGetClockInfo = lambda handle, which: clock
    assert device.throttle_reason() == known and device.throttled() is bool(known)
