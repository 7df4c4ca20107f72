"""The flat COO kernel: rows that lanes, batches and warps cut, and sums that are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.devices import open_device
from spmvbench.devices.emulated import Emulated
from tests.formats.rows import with_lengths

# A lane takes 8 entries, a batch is 256, a warp's share a multiple of it.
LENGTHS = {
    "a lane's share each": [8] * 100,
    "a batch each": [256] * 5,
    "a warp's share each, and one entry": [512] * 4 + [1],
    "one row over warps": [2000],
    "single entries": [1] * 600,
    "ends in the middle of lanes": [3, 20, 0, 0, 11, 1, 1, 1, 40, 500, 0, 7] * 3,
    "long between short": [1, 1, 700, 1, 1, 0, 1300, 2],
}


@pytest.mark.slow
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_rows_cut_by_lanes_batches_and_warps(lengths):
    device = open_device("emulated-check")
    for warps in (1, 3, 100):
        for kernel in ("kernel=fast", "kernel=paper", "lines=true"):
            testing.check_product(f"coo-flat[warps={warps},{kernel}]", with_lengths(lengths), device)


def test_batches_of_one_row_are_loaded_without_their_rows():
    # With a warp's share of 2,048 entries, batches 1 to 6 of 8 are within the long row.
    fmt = testing.convert("coo-flat[lines=true,warps=1]", with_lengths([100, 1900, 48]))
    assert fmt.bytes_read == fmt.nbytes - fmt.row_idx.nbytes
    fmt.row_idx[300:1790] = np.where(np.arange(300, 1790) % 256 % 255, 0, 1)  # but for the ends of batches
    x, y = np.ones(fmt.shape[1]), np.empty(fmt.shape[0])
    open_device("emulated").compile(fmt.launches(x, y)).run()
    expected = [fmt.values[:100].sum(), fmt.values[100:2000].sum(), fmt.values[2000:].sum()]
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    assert testing.convert("coo-flat[lines=true,kernel=paper]", with_lengths([9])).bytes_read == 9 * 16


def test_the_order_of_lanes_changes_no_bit():
    a = with_lengths(LENGTHS["ends in the middle of lanes"] + LENGTHS["long between short"])
    found = []
    for seed in (None, 1, 2):
        x, y = np.linspace(-1, 1, a.shape[1]), np.empty(a.shape[0])
        Emulated(seed=seed).compile(testing.convert("coo-flat[warps=5]", a).launches(x, y)).run()
        found.append(y)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize(("k", "dtype"), [(2, "f"), (2, "d"), (4, "f")])
def test_warps_sum_the_runs_of_several_vectors_if_entries_are_few(k, dtype):
    a, device = with_lengths(sum(LENGTHS.values(), [0, 0])).astype(dtype), open_device("emulated-check")
    x, y = np.empty(a.shape[1] * k, dtype), np.empty(a.shape[0] * k, dtype)
    assert "2, false, false" in testing.convert("coo-flat", a).multiplied(x, y, k, "row")[-1].kernel
    assert testing.check_product("coo-flat", a, device, ops=[f"spmm@{k}"]) <= 1
