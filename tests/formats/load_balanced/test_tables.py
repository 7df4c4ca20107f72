"""MERBIT and CSR+: widths of fields; shares of warps; sums that are reproducible."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import formats, testing
from spmvbench.formats import Csr, Skip
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.formats.load_balanced import merbit
from spmvbench.formats.load_balanced.load_balance import warps_in_use
from tests.formats.rows import launches, with_lengths


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
    x, y = np.cos(np.arange(a.shape[1])), np.full(a.shape[0], np.nan)
    program = emulated.compile(fmt.launches(x, y))
    results = set()
    for _ in range(3):
        program.run()
        results.add(y.tobytes())
    assert len(results) == 1


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
