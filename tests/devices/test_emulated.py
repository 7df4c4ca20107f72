import numpy as np
import pytest

from spmvbench.devices.emulated import Emulated
from spmvbench.formats.base import Launch


@pytest.fixture(scope="module")
def device():
    opened = Emulated()
    yield opened
    opened.close()


def test_a_thread_per_item(device):
    y = np.full(1000, np.nan)
    device.compile([Launch("vector.cu", "zero_fill<double>", 8, 128, (y, np.int32(1000)))]).run()
    assert not y.any()
