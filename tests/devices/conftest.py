"""What both devices are tested with."""

from pathlib import Path

import numpy as np
import pytest

from spmvbench.formats import Launch, Struct

SOURCE = str(Path(__file__).parent / "kernels/structs.cu")


@pytest.fixture(scope="session")
def check_struct():
    """Asserts that a kernel on a device finds every member of a struct, and the size that Python gives it."""

    def check(device):
        xp, n = device.xp, 40
        values, found = xp.arange(n, dtype=np.float32), xp.zeros(n, np.float32)
        numbers, size = xp.zeros(5), xp.zeros(1, np.int32)
        scalars = np.int8(-3), np.float64(0.1), np.uint16(65535)
        mixed = Struct((*scalars, values, np.int32(-(2**31)), found, np.bool_(True)))
        args = np.int32(n), mixed, numbers, size
        device.compile([Launch(SOURCE, "unpack<float>", 1, 64, args)]).run()
        device.synchronize()
        assert numbers.tolist() == [-3, 0.1, 65535, -(2**31), 1]
        assert found.tolist() == [2 * i for i in range(n)]
        assert int(size[0]) == mixed.packed(lambda array: 0).itemsize == 56

    return check
