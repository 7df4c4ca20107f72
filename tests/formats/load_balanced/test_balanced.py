"""Load-balanced products: what tables and tiles hold, and the order in which sums are added."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import formats, testing
from spmvbench.formats import Csr, Skip
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.formats.load_balanced import merbit
from spmvbench.formats.load_balanced.adaptive import region_cuts
from spmvbench.formats.load_balanced.load_balance import warps_in_use
from tests.formats.rows import launches, names, products, with_lengths


@pytest.mark.parametrize("sigma", [5, 14, 15, 42])
def test_widths_of_merbit_s_fields(sigma, checking):
    a = with_lengths([5, 0, 900, 1, 1, 0, 0, 33, 2200] * 2 + [0] * 700 + [3] * 100, 3000)
    testing.check_product(f"merbit[sigma={sigma},block=64]", a, checking)


def test_merbit_refuses_more_steps_than_31_bits():
    a = Csr((2**31 - 2, 1), np.zeros(1, np.int32), np.zeros(2, np.int32), np.ones(2))
    with pytest.raises(Skip, match="2,147,483,648"):
        merbit.Merbit.convert(a, sigma=14, block=256)


@pytest.mark.parametrize(
    ("nnz", "warps"), [(0, 0), (33, 2), (199_999, 800), (200_000, 3200), (1_999_999, 3200), (2_000_000, 12_800)]
)
def test_warps_grow_with_the_entries(nnz, warps):
    assert warps_in_use(nnz, 100) == warps
    assert warps_in_use(nnz, 100, most=32) == min(warps, 3200)


def test_warps_are_those_of_the_device():
    a = with_lengths([3000] * 70, 3000)
    with converting_for(Limits(2, 48 << 10)):
        assert len(testing.convert("csr-load-balance", a).start_row) == 2 * 4 * 32
        assert testing.convert("coo-load-balance", a).at_once == 8
    assert testing.convert("coo-load-balance[warps=3]", a).at_once == 3


@pytest.mark.parametrize(
    "spec",
    [
        "csr-load-balance[warps=1]",
        "csr-load-balance[warps=1,lines=3]",
        "coo-load-balance[warps=1]",
        "coo-scan[blocks=2]",
    ],
)
@pytest.mark.parametrize(
    "lengths",
    [[1] * 900, [31, 33] * 20, [2000, 0, 0, 1, 2000], [0] * 200 + [7] * 90 + [0] * 200, [64] * 30, [9, *[0] * 70] * 30],
    ids=["1", "31 and 33", "long", "empty ends", "64", "empty between"],
)
def test_rows_that_shares_of_several_lines_cut(spec, lengths, checking):
    testing.check_product(spec, with_lengths(lengths, 3000), checking)


FIXED = [
    formats.label(cls, params)
    for cls, params in formats.parse("all[sum=fixed],csr5[kernel=paper,sum=fixed],-csr5-nv,-csr5-dict")
]


@pytest.mark.parametrize("lengths", [[1500, 3, 0, 2000, 700], [9000, 0, 400_000, 5]], ids=["short", "long"])
@pytest.mark.parametrize("spec", ["coo-scan", "coo-scan[blocks=3]", *FIXED])
def test_sums_in_a_fixed_order_have_the_same_bits_every_time(spec, lengths, emulated):
    """Those of the longer rows come from carries of more tiles than `carry_ordered` has threads in a block."""
    a = with_lengths(lengths, 400_000)
    fmt = testing.convert(spec, a)
    testing.check_product(spec, a, emulated)
    products(fmt, np.cos(np.arange(a.shape[1])), emulated)


def test_hola_gives_a_thread_4_entries_of_small_matrices():
    kernels = {}
    for rows in (100, 101):
        a = with_lengths([2999] * rows, 3000)
        kernels[a.nnz] = [launch.kernel for launch in launches(testing.convert("hola", a))]
    starts = "tile_starts<double, int>"
    assert kernels == {
        299_900: [starts, "hola<double, int, 128, 4, false, false>"],
        302_899: [starts, "hola<double, int, 128, 8, false, false>"],
    }


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
