"""Tiles of entries and blocks of rows: their regions and launches, and what kernels do with rows that they cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from spmvbench import testing
from spmvbench.formats.load_balanced.adaptive import region_cuts
from tests.formats.rows import names, with_lengths

lengths = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 200)), min_size=1, max_size=60)


def test_regions_change_above_128_and_below_32():
    assert region_cuts(np.array([1, 128, 129, 50, 32, 31, 100, 500])).tolist() == [2, 5, 7]


@pytest.mark.parametrize(
    ("spec", "lengths", "kernels"),
    [
        ("csr-flat", [3] * 9, ["tile_starts", "flat"]),
        ("csr-entry-tiles", [3] * 9, ["sum_tiles"]),  # one tile cuts no row
        ("csr-entry-tiles", [3] * 900, ["zero_cut_rows", "sum_tiles"]),
        ("csr-line-enhance", [3] * 900, ["line_enhance"]),
        ("csr-adaptive", [3] * 900 + [5000], ["adaptive"]),
        ("csr-adaptive-l", [3] * 900, ["adaptive_long"]),
        ("csr-adaptive-l", [3] * 900 + [3073], ["zero_cut_rows", "adaptive_long"]),
        ("csr-row-tiles", [3] * 900 + [1023], ["sum_tiles"]),
        ("csr-row-tiles", [3] * 900 + [1024], ["zero_cut_rows", "sum_tiles"]),
    ],
)
def test_launches(spec, lengths, kernels):
    assert names(testing.convert(spec, with_lengths(lengths, 9000))) == kernels


@pytest.mark.parametrize(
    ("lengths", "lanes"), [([32] * 10, 1), ([1] * 10 + [33] * 10, 4), ([65] * 10 + [1] * 10, 16), ([33, 0, 0], 4)]
)
def test_flat_s_lanes_go_by_the_half_with_the_longer_rows(lengths, lanes):
    assert testing.convert("csr-flat", with_lengths(lengths, 9000)).detail == {"lanes": lanes}


@pytest.mark.parametrize(
    "spec",
    [
        *("csr-flat[block=64]", "csr-flat[block=64,lanes=4]", "csr-entry-tiles[block=64]", "csr-stream[block=32]"),
        *("csr-line-enhance[block=64]", "csr-line-enhance[block=64,items=0,rows=0,lanes=0]", "csr-adaptive[block=32]"),
        *("csr-adaptive-l[block=64]", "csr-adaptive-l[block=128,items=4]", "csr-row-tiles[block=64]", "hola[block=64]"),
    ],
)
@pytest.mark.parametrize(
    "lengths",
    [
        [511, 512, 513, 1, 510],  # tiles end on, before and after the row's end
        [1, 7000, 0, 0, 2, 1500, 3],
        [0] * 1500 + [500] + [0] * 1500,  # more row ends than a tile has entries
        [13] * 69,  # odd first entries
        [8, 8, 150, 8, 8, 150] * 20,  # rows of two and of three in a block, lanes beyond a warp
        [2] * 100 + [300] + [2] * 100,  # one row long compared with the others of its tile
        [700],  # a single row, cut in the middle and at an odd place
        [341, 341, 1],
    ],
    ids=["ends", "cut rows", "mostly empty", "odd", "wide groups", "uneven", "one row", "lone last entry"],
)
def test_rows_that_tiles_cut(spec, lengths, checking):
    a = with_lengths(lengths, 9000)
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, checking)
