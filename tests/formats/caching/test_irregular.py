"""The one name for matrices that scatter x: what it looks at, and what it takes."""

import pytest

from spmvbench import load, testing
from spmvbench.formats import Csr, get
from spmvbench.formats.caching.irregular import Look, choice
from spmvbench.formats.conversion import Limits, converting_for

SMALL = Limits(multiprocessors=8, shared_bytes=2048)  # a device on which small matrices look as large ones do


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ("tridiag:20000", "sell-local"),
        ("denserow:4000", "csr5"),
        ("uniform:100000:2", "column-sweep"),
        ("rmat:13:16", "csr5"),  # its hubs are rows too, and 256 columns hold less than half
    ],
)
def test_a_matrix_gets_what_suits_its_columns(spec, key):
    a = Csr.of(load(spec))
    with converting_for(SMALL):
        assert get("irregular").from_csr(a).detail["chosen"] == key


def test_columns_that_hold_most_entries_are_cached():
    assert choice(Look(sectors=0.3, hub_share=0.7, longest=0.3, padding=8.0)).key == "hub-cache"


def test_a_sample_of_few_entries_is_all_of_them():
    look = Look.at(Csr.of(testing.hard_matrices()["diagonal"]))
    assert 0 < look.sectors <= 1
    assert look.hub_share == 1
    assert look.padding == pytest.approx(96 / 65)
