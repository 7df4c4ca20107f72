"""The two roofs: sectors of x counted as a loop counts them, and which roof is the lower."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from spmvbench import load
from spmvbench.bench.roofs import columns, sectors_per_entry
from spmvbench.formats import Csr

ROOFS = {"read": [(1000, 1e-6), (100_000, 1e-5)], "gather": [(1000, 4e9), (100_000, 1e9)]}


@given(st.integers(0, 5), st.integers(1, 5), st.sampled_from([np.float64, np.float32]))
@settings(max_examples=40)
def test_sectors_are_those_that_a_loop_counts(seed, shares, dtype):
    a = Csr.of(sparse.random_array((30, 70), density=0.1, rng=seed, format="csr")).astype(dtype)
    each = 32 // np.dtype(dtype).itemsize
    bounds = [a.nnz * i // shares for i in range(shares + 1)]
    expected = sum(len({c // each for c in a.col_idx[b:e].tolist()}) for b, e in pairwise(bounds))
    assert sectors_per_entry(a, shares) == expected / a.nnz


def test_without_entries_there_are_no_sectors():
    assert math.isnan(sectors_per_entry(Csr.of(sparse.csr_array((3, 3))), 4))


def test_neighbours_share_sectors_and_strangers_do_not():
    assert sectors_per_entry(Csr.of(load("tridiag:4000")), 4) < 0.1
    assert sectors_per_entry(Csr.of(load("uniform:100000:1")), 100) > 0.9


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"sectors": 0.001, "model_bytes": 1000, "x_bytes": 1000}, 1e-6),  # reading is the lower roof
        ({"sectors": 0.001, "model_bytes": 10_000, "x_bytes": 1000}, math.sqrt(1e-6 * 1e-5)),  # halfway by logarithm
        ({"sectors": 0.01, "model_bytes": 1_000_000, "x_bytes": 1000}, 1e-4),  # beyond what was measured: in proportion
        ({"sectors": 1.0, "model_bytes": 1000, "x_bytes": 10**9}, 1e6 / 1e9),  # gathering is
        ({"sectors": 0.5, "model_bytes": 1000, "x_bytes": 10}, 0.5e6 / 4e9),
    ],
)
def test_the_lower_roof_counts(given, seconds):
    assert columns(ROOFS, nnz=10**6, **given)["bound_gflops"] == pytest.approx(2e-3 / seconds)


def test_without_roofs_there_is_no_bound():
    assert columns({}, nnz=10, sectors=1.0, model_bytes=10, x_bytes=10) == {}
