"""Tests of a new format: spmvbench.testing has the hard matrices and the checks."""

import numpy as np
import pytest

from spmvbench import devices, testing

SPECS = ["csr-padded", "csr-padded[step=1]", "csr-padded[step=8]"]
MATRICES = testing.hard_matrices()


@pytest.fixture(scope="module")
def device():
    return devices.open_device("emulated")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES.keys())
@pytest.mark.parametrize("spec", SPECS)
def test_conversion_loses_nothing(spec, matrix, dtype):
    with testing.skipping():  # a matrix that the format refuses, with its reason, is skipped
        testing.check_conversion(spec, matrix.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES.keys())
@pytest.mark.parametrize("spec", SPECS)
def test_product_is_right(spec, matrix, dtype, device):
    with testing.skipping():
        testing.check_product(spec, matrix.astype(dtype), device)


@pytest.mark.parametrize("op", ["spmm@8", "spmm-column@3"])
def test_several_vectors_are_right(op, device):
    for matrix in MATRICES.values():
        testing.check_product("csr-padded", matrix, device, ops=[op])
