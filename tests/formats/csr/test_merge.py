"""Merge-based CSR: rows that tiles cut, sizes of tiles."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import formats, testing
from spmvbench.devices import open_device
from tests.formats.rows import launches, names, products, with_lengths


@pytest.mark.parametrize("key", ["merge-csr[", "merge-csr[staged=true,", "csr-merge-tiles["])
@pytest.mark.parametrize(
    "lengths",
    [
        [55] * 40,  # a row and its end are 56 steps, 8 threads of 7: every tile of 448 ends with a row
        [447, 448, 449, 1, 446],  # tiles end on, before and after the row's end
        [3000],  # one row over many tiles
        [1, 3000, 0, 0, 2, 1500, 3],
        [0] * 1000 + [500] + [0] * 1000,  # tiles of nothing but row ends
        [0, 3] * 300,
        [13] * 69,  # odd first entries: pairs that two tiles share
        [8] * 200,  # rows of a thread each
        [25] * 60,  # rows of two lanes, of which the first tile's last is cut
        [2] * 100 + [150] + [2] * 100,  # one row long compared with the others of its tile
    ],
    ids=[
        *("ends with a row", "around the end", "one row", "cut rows", "only ends", "every other empty", "odd"),
        *("a thread a row", "two lanes a row", "uneven"),
    ],
)
def test_rows_that_tiles_cut(lengths, key, either):
    spec = f"{key}items=7,block=64]"
    a = with_lengths(lengths, 4000, drawn=0)
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, either)


ENDS = (1, 2, 15)


@pytest.mark.parametrize("items", [n if n in ENDS else pytest.param(n, marks=pytest.mark.slow) for n in range(1, 16)])
def test_every_number_of_items(items, either):
    if either.name == "emulated-check" and items not in ENDS:
        return  # the other sizes differ in nothing that this build could find
    a = with_lengths([5, 0, 900, 1, 1, 0, 0, 33] * 2, 4000, drawn=0)
    testing.check_product(f"csr-merge-tiles[items={items},block=64]", a, either)


def test_tiles_within_one_row_add_in_order_where_there_are_two():
    a = with_lengths([800], 4000, drawn=0)
    fmt = testing.convert("csr-merge-tiles[items=7,block=64]", a)
    assert len(fmt.tile_row) == 3
    y = products(fmt, np.ones(a.shape[1]), open_device("emulated"))
    np.testing.assert_allclose(y, a.sum(), rtol=1e-12)


def test_sizes_are_cub_s_for_the_paper_s_kernel():
    a = with_lengths([4] * 100, 4000, drawn=0)
    for dtype, expected in ((np.float64, "64, 5, false>"), (np.float32, "128, 7, false>")):
        fmt = testing.convert("merge-csr", a.astype(dtype))
        assert names(fmt) == ["merge_search", "merge_tiles", "carry_add"]
        assert launches(fmt)[1].kernel.endswith(expected)


def test_the_paper_s_kernel_stores_nothing_beyond_csr():
    a = with_lengths([4] * 100, 4000, drawn=0)
    assert testing.convert("merge-csr", a).nbytes == formats.Csr.of(a).nbytes
    ours = testing.convert("csr-merge-tiles[items=5,block=64]", a)
    assert ours.nbytes == formats.Csr.of(a).nbytes + 4 * 3  # 500 steps are two tiles of 320


def test_one_launch_where_no_row_can_be_cut():
    a = with_lengths([4] * 10, 4000, drawn=0)
    assert names(testing.convert("csr-merge-tiles", a)) == ["merge_pairs"]
