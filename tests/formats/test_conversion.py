"""What a conversion knows of the device that it converts for."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench.formats import Csr
from spmvbench.formats.conversion import EMULATED, Limits, converting_for, device_limits

A = Csr((1, 1), np.array([0, 1], np.int32), np.zeros(1, np.int32), np.ones(1))


def test_a_matrix_on_the_host_is_for_the_device_at_hand(emulated):
    assert emulated.limits == device_limits(A) == EMULATED
    with converting_for(Limits(3, 1000)):
        assert device_limits(A) == (3, 1000)
        with pytest.raises(ZeroDivisionError), converting_for(Limits(4, 1000)):
            raise ZeroDivisionError
        assert device_limits(A).multiprocessors == 3
    assert device_limits(A) == EMULATED


@pytest.mark.gpu
def test_a_gpu_tells_its_own_limits():
    from spmvbench.devices import open_device

    device = open_device("cuda:0")
    assert device.limits == device_limits(A.on(device.xp))
    assert device.limits.multiprocessors == device.properties()["multiprocessors"]
    assert device.limits.shared_bytes >= 48 * 1024
