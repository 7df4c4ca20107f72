"""Launches that overlap with the one before: where they may, and that their kernels wait."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import spmvbench
from spmvbench import formats
from spmvbench.devices import open_device
from spmvbench.devices.cuda import overlapping
from spmvbench.formats import Call, Launch, after_zeros
from spmvbench.formats.kernels import headers, kernel_path, read

ZERO = Launch("vector.cu", "zero_fill<double>", 1, 32, ())
PRODUCT = Launch("csr/csr5.cu", "csr5_fused<double, int, 4, 4>", 1, 32, ())
KEYS = ("csr5", "csr-merge-tiles", "csr-load-balance", "coo-load-balance", "csr-entry-tiles", "csr-row-tiles")


def test_only_after_a_kernel_of_the_same_product_that_runs():
    both = after_zeros(ZERO, PRODUCT)
    assert both == [ZERO, replace(PRODUCT, overlaps=True)]
    assert overlapping(both, possible=True) == both
    alone = [ZERO, PRODUCT]
    assert overlapping(both, possible=False) == alone
    assert overlapping(both[1:], possible=True) == alone[1:], "x may come from the kernel before"
    nothing = replace(ZERO, grid=0)
    assert overlapping([nothing, both[1]], possible=True) == [nothing, PRODUCT]
    library = Call("a library's", lambda stream: None, ())
    assert overlapping([library, both[1]], possible=True) == [library, PRODUCT]


def text_of(source):
    """A kernel file with what it includes."""
    path = kernel_path(source)
    return "\n".join(read(file) for file in (path, *headers(path)))


@pytest.mark.parametrize("key", [*KEYS, "csr-adaptive-l"])
def test_a_kernel_that_overlaps_waits_and_the_one_before_lets_it_start(key):
    device = open_device("emulated")
    a = formats.Csr.of(spmvbench.load("rmat:9:16"))
    fmt = formats.get(key).from_csr(a)
    x, y = np.zeros(a.cols), np.zeros(a.rows)
    launches = fmt.launches(x, y)
    found = [(before, step) for before, step in pairwise(launches) if step.overlaps]
    assert len(found) == 1
    ((zero, product),) = found
    name = zero.kernel.partition("<")[0]
    kernel = text_of(zero.source).partition(f"__global__ void {name}(")[2]
    assert kernel.partition("{")[2].lstrip().startswith("let_next_start();")
    assert "wait_for_previous();" in text_of(product.source)
    device.compile(launches)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("key", [*KEYS, "csr-adaptive-l"])
def test_overlapping_products_are_right_after_a_kernel_that_writes_x(key, dtype):
    cupy = pytest.importorskip("cupy")
    a = spmvbench.load("rmat:12:16").astype(dtype)
    op = spmvbench.operator(a, format=key, device="cuda:0")
    x, y = cupy.ones(a.shape[1], dtype), cupy.empty(a.shape[0], dtype)
    for k in range(1, 40):
        x.fill(k)  # on the same stream, just before
        y.fill(np.nan)
        op.matvec(x, out=y)
        y += 0  # and a kernel that reads it, just behind
        if k % 13 == 0:
            np.testing.assert_allclose(y.get(), a @ x.get(), rtol=0, atol=np.finfo(dtype).eps * 4000 * k)
