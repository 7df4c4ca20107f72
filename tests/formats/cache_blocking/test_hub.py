"""Hub sorting and hub-cache: which columns move, which stay, and which are cached."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.formats import Csr, get
from spmvbench.formats.cache_blocking.hub import hub_order
from spmvbench.formats.conversion import Limits, converting_for


def with_counts(counts):
    """A matrix whose column j has counts[j] entries, in its first rows."""
    cols = np.repeat(np.arange(len(counts)), counts)
    rows = np.concatenate([np.arange(n) for n in counts])
    return Csr.of(sparse.csr_array((np.ones(len(cols)), (rows, cols)), shape=(8, len(counts))))


@pytest.mark.parametrize(
    ("above", "order"),
    [
        (1.0, [4, 1, 6, 0, 3, 5]),  # mean 3: 7, 4 and 4 are more; equal counts keep their order
        (2.0, [4, 0, 1, 3, 5, 6]),
        (3.0, [0, 1, 3, 4, 5, 6]),
        (0.0, [4, 1, 6, 0, 3, 5]),
    ],
)
def test_hubs_come_first_and_empty_columns_go(above, order):
    assert hub_order(with_counts([1, 4, 0, 1, 7, 1, 4]), above).tolist() == order


def test_a_column_of_the_mean_is_no_hub():
    assert hub_order(with_counts([3, 2, 4]), 1.0).tolist() == [2, 0, 1]


def test_hub_cache_the_fullest_columns_are_cached():
    a = Csr.of(testing.hard_matrices()["one full column"])
    fmt = get("hub-cache").from_csr(a, hubs=1)
    assert fmt.order.tolist() == [7]
    assert fmt.detail == {"hubs": 1, "hub_share": 1.0}


@pytest.mark.parametrize(("params", "cached"), [({}, 89), ({"hubs": 5}, 5), ({"hubs": 9999}, 128)])
def test_hub_cache_no_more_is_cached_than_fits(params, cached):
    a = Csr.of(testing.hard_matrices()["power law"])
    with converting_for(Limits(multiprocessors=3, shared_bytes=1024)):
        fmt = get("hub-cache").from_csr(a, **params)
    assert fmt.cached == cached
    assert fmt.blocks == 3


@pytest.mark.parametrize("spec", ["hub-cache[hubs=20]", "hub-cache[hubs=64,sigma=8]"])
@pytest.mark.parametrize("name", ["power law", "one full row", "wide"])
def test_hub_cache_few_hubs(spec, name, emulated):
    testing.check_product(spec, testing.hard_matrices()[name], emulated)
