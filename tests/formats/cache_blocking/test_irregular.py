"""The one name for matrices that scatter x: what it looks at, and what it takes."""

import numpy as np
import pytest

from spmvbench import load, testing
from spmvbench.formats import Csr, get
from spmvbench.formats.cache_blocking import irregular
from spmvbench.formats.cache_blocking.irregular import Look, choice
from spmvbench.formats.conversion import Limits, converting_for
from tests.formats.rows import runs_on

SMALL = Limits(multiprocessors=32, shared_bytes=4096)  # a device on which small matrices look as large ones do


@pytest.mark.parametrize(
    ("spec", "dtype", "key"),
    [
        ("tridiag:20000", "f64", "sell-local"),
        ("denserow:4000", "f64", "csr5"),
        ("uniform:100000:2", "f64", "column-sweep"),
        ("powerlaw_t:30000:8", "f32", "column-sweep"),  # its columns have hubs, its rows are short
        ("powerlaw:30000:8", "f64", "csr5"),  # hubs among the rows alone
        ("rmat:13:16", "f64", "hub-cache"),
        ("rmat:13:16", "f32", "hub-cache"),
    ],
)
def test_a_matrix_gets_what_suits_its_columns(spec, dtype, key):
    a = Csr.of(load(spec)).astype({"f64": "float64", "f32": "float32"}[dtype])
    with converting_for(SMALL):
        assert get("irregular").from_csr(a).detail["chosen"] == key


LOOKS = {
    "column-sweep": Look(fetched=2.0, filling=0.9, ordering=0.1, hub_share=0.1, longest=0.001, padding=1.0),
    "hub-cache": Look(fetched=0.8, filling=0.2, ordering=0.1, hub_share=0.5, longest=0.3, padding=8.0),
}


@pytest.mark.parametrize(
    ("key", "changed", "instead"),
    [
        ("column-sweep", {"hub_share": 0.9}, "column-sweep"),  # short rows come first
        ("column-sweep", {"longest": 0.1}, "sell-local"),  # additions to one y would collide
        ("column-sweep", {"fetched": 0.9}, "sell-local"),
        ("column-sweep", {"filling": 2.1}, "sell-local"),  # few entries
        ("column-sweep", {"filling": 2.1, "padding": 1.3}, "csr5"),
        ("hub-cache", {"filling": 0.4}, "csr5"),  # a small graph
        ("hub-cache", {"ordering": 0.3}, "csr5"),
        ("hub-cache", {"hub_share": 0.3, "fetched": 2.0}, "csr5"),
        ("hub-cache", {"fetched": 0.4}, "csr5"),
        ("hub-cache", {"longest": 0.001}, "csr5"),
    ],
)
def test_each_number_of_a_look_can_decide(key, changed, instead):
    assert choice(LOOKS[key]).key == key
    assert choice(LOOKS[key]._replace(**changed)).key == instead


def test_a_sample_of_few_entries_is_all_of_them():
    a = Csr.of(testing.hard_matrices()["diagonal"])
    look = Look.at(a, every=True)
    assert 0 < look.fetched <= 32 / 12
    assert look.hub_share == 1
    assert look.padding == pytest.approx(96 / 65)
    assert Look.at(a) == look._replace(fetched=0, ordering=0, hub_share=0)  # none of which can decide
    assert choice(Look.at(a)) == choice(look)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["power law", "wide", "long rows among empty", "diagonal"])
def test_kernels_look_as_arrays_do(name, dtype, checking):
    a = Csr.of(testing.hard_matrices()[name]).astype(dtype)
    share = max(a.nnz // 5, 1)
    for hubs in (1, 3, 1000):
        found = irregular.by_kernels(a, share, hubs, runs_on(checking))
        assert found == irregular.by_arrays(a, share, hubs)
    assert irregular.by_rows(a, runs_on(checking)) == irregular.by_rows(a, None)


def test_more_columns_than_bins_tell_apart_are_sorted(emulated):
    col_idx = np.repeat(np.arange(3, dtype=np.int32), (1100, 2000, 1500))  # all of them in the last bin
    a = Csr((len(col_idx), 3), np.arange(len(col_idx) + 1, dtype=np.int32), col_idx, np.ones(len(col_idx)))
    share = len(col_idx) // 8
    for hubs in (1, 2, 3):
        found = irregular.by_kernels(a, share, hubs, runs_on(emulated))
        assert found == irregular.by_arrays(a, share, hubs)


@pytest.mark.parametrize("spec", ["uniform:3000:4", "rmat:9:16"])
def test_what_it_chooses_gives_the_product(spec, emulated):
    with converting_for(SMALL):
        testing.check_conversion("irregular", load(spec))
        testing.check_product("irregular", load(spec), emulated)
