"""Tests of a format for a sparse x: the checks get x and the reference results from its operation."""

import numpy as np
import pytest

from spmvbench import devices, testing

MATRICES = testing.hard_matrices()


@pytest.fixture(scope="module")
def device():
    return devices.open_device("emulated")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES.keys())
def test_product_is_right(matrix, dtype, device):
    with testing.skipping():
        testing.check_product("csr-search", matrix.astype(dtype), device)
