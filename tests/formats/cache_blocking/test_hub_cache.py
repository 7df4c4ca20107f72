"""Columns in shared memory: which they are, how many fit, and that the product takes x from the right place."""

import pytest

from spmvbench import testing
from spmvbench.formats import Csr, get
from spmvbench.formats.conversion import Limits, converting_for


def test_the_fullest_columns_are_cached():
    a = Csr.of(testing.hard_matrices()["one full column"])
    fmt = get("hub-cache").from_csr(a, hubs=1)
    assert fmt.order.tolist() == [7]
    assert fmt.detail == {"hubs": 1, "hub_share": 1.0}


@pytest.mark.parametrize(("params", "cached"), [({}, 89), ({"hubs": 5}, 5), ({"hubs": 9999}, 128)])
def test_no_more_is_cached_than_fits(params, cached):
    a = Csr.of(testing.hard_matrices()["power law"])
    with converting_for(Limits(multiprocessors=3, shared_bytes=1024)):
        fmt = get("hub-cache").from_csr(a, **params)
    assert fmt.cached == cached
    assert fmt.blocks == 3


@pytest.mark.parametrize("spec", ["hub-cache[hubs=20]", "hub-cache[hubs=64,sigma=8]"])
@pytest.mark.parametrize("name", ["power law", "one full row", "wide"])
def test_few_hubs(spec, name, emulated):
    testing.check_product(spec, testing.hard_matrices()[name], emulated)
