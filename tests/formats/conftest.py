"""The emulated device in both builds, and how arrays of two conversions are compared."""

import numpy as np
import pytest

from spmvbench.devices import open_device


@pytest.fixture(scope="session")
def emulated():
    return open_device("emulated")


@pytest.fixture(scope="session")
def checking():
    return open_device("emulated-check")


@pytest.fixture(scope="session", params=["emulated", "emulated-check"])
def either(request):
    """Each build in its turn."""
    return open_device(request.param)


@pytest.fixture(scope="session")
def same_arrays():
    """Asserts that two conversions gave the same arrays: names, types and every element."""

    def check(found, expected, of=""):
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            assert found[name].dtype == array.dtype, (of, name)
            np.testing.assert_array_equal(found[name], array, err_msg=f"{of}: {name}")

    return check
