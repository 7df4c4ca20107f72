"""CSR by lists of rows: bins and ranges by hand, rows assigned at run time, strips."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.formats import Csr
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.formats.csr import bins
from tests.formats.rows import launches, with_lengths


def kernels(fmt):
    return [(launch.kernel, launch.grid, launch.block) for launch in launches(fmt)]


def test_csr_gg_sorts_rows_by_length_and_gives_each_range_its_lanes():
    fmt = testing.convert("csr-gg", with_lengths([40, 0, 3, 33, 2, 32, 17, 4], 20000))
    assert fmt.rows.tolist() == [1, 4, 2, 7, 6, 5, 3, 0]
    assert (fmt.ranges, fmt.lanes) == ((0, 2, 4, 6, 8), (1, 2, 16, 32))
    lanes = [kernel.split(", ")[2:4] for kernel, _, _ in kernels(fmt)]
    assert lanes == [["1", "1"], ["2", "1"], ["16", "1"], ["32", "1"]]
    more = kernels(testing.convert("csr-gg[shift=1]", with_lengths([40, 0, 3, 33, 2, 32, 17, 4], 20000)))
    assert [kernel.split(", ")[2] for kernel, _, _ in more] == ["2", "4", "32"]


def test_csr_gg_gives_every_class_its_fastest_lanes_and_joins_neighbours(monkeypatch):
    a = Csr.of(with_lengths([300, 5, 1, 9, 0, 20, 40], 20000))

    class Held(Csr):
        xp = property(lambda self: NotNumpy)

    class NotNumpy:
        zeros, empty = np.zeros, np.empty

    timed = []

    def seconds(launches):
        ((lanes, rows),) = [(int(launch.kernel.split(", ")[2]), launch.args[2]) for launch in launches]
        timed.append((lanes, rows.tolist()))
        return abs(lanes - (4 if a.row_lengths[rows].max() < 32 else 16))

    monkeypatch.setattr(bins, "seconds", seconds)
    held = Held(a.shape, a.row_ptr, a.col_idx, a.values)
    found = bins.CsrGg.convert(held, shift=0, tune=True)
    assert (found["ranges"], found["lanes"]) == ((0, 5, 7), (4, 16))
    assert timed[:6] == [(lanes, [4, 2]) for lanes in (1, 2, 4, 8, 16, 32)]
    timed.clear()
    assert bins.CsrGg.convert(held, shift=0, tune=False)["lanes"] == (1, 4, 8, 16, 32)
    assert bins.CsrGg.convert(held, shift=1, tune=True)["lanes"] == (2, 8, 16, 32)
    assert not timed


def test_acsr_bins_by_powers_of_two():
    fmt = testing.convert("acsr", with_lengths([0, 1, 2, 3, 4, 5, 64, 65, 1024, 1025, 9000], 20000))
    assert fmt.bin_ptr.tolist()[:8] == [0, 1, 3, 5, 6, 6, 6, 7]
    assert fmt.detail == {"bins": 8, "long_rows": 2}
    assert fmt.rows.tolist()[-2:] == [9, 10]
    launched = kernels(fmt)
    assert [block for _, _, block in launched[1:]] == [128, 128, 128, 128, 64, 512, 256]
    assert launched[-2][1:] == (1, 512)  # a block for the row of 1024 entries


def test_acsr_gives_the_longest_rows_alone_a_grid_where_they_are_many():
    fmt = testing.convert("acsr[row_max=2]", with_lengths([1500, 3000, 1600, 2000], 20000))
    assert sorted(fmt.rows[fmt.bin_ptr[-2] :].tolist()) == [1, 3]
    assert kernels(fmt)[1][1:] == (2, 1024)


def test_acsr_gives_long_rows_a_grid_each(checking):
    a = with_lengths([0, 3, 9000, 1024, 1025], 9000)
    fmt = testing.convert("acsr", a)
    kernel, grid, block = kernels(fmt)[-1]
    assert kernel.startswith("csr_row_grids<")
    assert (grid, block) == ((8, 2), 256)  # 9,000 entries are 8 blocks of 256 threads with 5 each
    assert "csr_row_grids" not in str(kernels(testing.convert("acsr", with_lengths([1024, 2], 20000))))
    for spec in ("acsr", "acsr[kernel=paper]"):
        testing.check_product(spec, a, checking)
    launched, waiting = kernels(testing.convert("acsr[kernel=paper]", a))[-2:]
    assert launched[0].startswith("launch_row_grids<") and waiting == ("wait_for_row_grids", 1, 1)
    assert testing.convert("acsr[kernel=paper]", a).row_blocks == 8 + 1


def test_csr_bins_is_one_kind_where_others_are_few(emulated):
    a = with_lengths([7] * 400 + [1] * 9 + [3000], 20000)
    with converting_for(Limits(multiprocessors=1, shared_bytes=0)):
        fmt = testing.convert("csr-bins", a)
    assert fmt.detail == {"pieces": 1, "rows_32": 0, "rows_16": 0, "rows_8": 0, "rows_4": 409, "rows_2": 0}
    assert fmt.rows.tolist() == list(range(409))
    same = testing.convert("csr-bins", with_lengths([7] * 400, 20000))
    assert len(same.rows) == 0
    assert len(kernels(same)) == 1


@pytest.mark.parametrize("block", [256, *(pytest.param(block, marks=pytest.mark.slow) for block in (128, 512))])
def test_csr_bins_gives_every_kind_its_blocks(block, emulated):
    rng = np.random.default_rng(0)
    lengths = rng.permutation([*[3] * 700, *[9] * 300, *[20] * 130, *[100] * 70, *[400] * 40, 1500, 2048, 5000])
    a = with_lengths(lengths, 6000)
    a.data = rng.standard_normal(a.nnz)
    with converting_for(Limits(multiprocessors=1, shared_bytes=0)):
        fmt = testing.convert(f"csr-bins[block={block}]", a)
        assert fmt.detail["rows_32"] == 40
        assert fmt.detail["rows_2"] == 700
        testing.check_product(f"csr-bins[block={block},piece=1000]", a, emulated)


@pytest.mark.parametrize(("piece", "cut"), [(5000, False), (4999, True)])
def test_csr_bins_zeroes_and_adds_only_where_a_row_has_several_pieces(piece, cut, checking):
    a = with_lengths([0, 1500, *[3] * 70, 0, *[20] * 13, 5000, *[400] * 4, 0], 6000)
    spec = f"csr-bins[piece={piece}]"
    with converting_for(Limits(multiprocessors=1, shared_bytes=0)):
        *zero, (kernel, _, _) = kernels(testing.convert(spec, a))
        assert len(zero) == cut and kernel.endswith(", false>") != cut
        assert testing.check_product(spec, a, checking, ops=["spmv", "spmm@2", "spmm@8"]) <= 1


@pytest.mark.parametrize(("mean", "lanes"), [(2, 2), (3, 4), (4, 4), (5, 8), (64, 8), (65, 32)])
def test_lightspmv_takes_lanes_by_the_mean_row(mean, lanes):
    fmt = testing.convert("lightspmv-warp", with_lengths([mean] * 10, 20000))
    assert fmt.detail == {"lanes": lanes}
    assert kernels(fmt)[0][0] == "zero_fill<unsigned int>"


def test_lightspmv_fills_the_device_and_no_more():
    a = with_lengths([3] * 3000, 20000)
    with converting_for(Limits(multiprocessors=3, shared_bytes=0)):
        assert kernels(testing.convert("lightspmv-vector", a))[1][1:] == (6, 1024)
        assert kernels(testing.convert("lightspmv-vector[blocks=2]", a))[1][1] == 2
    assert kernels(testing.convert("lightspmv-vector", with_lengths([3] * 30, 20000)))[1][1] == 1


@pytest.mark.parametrize(("cols", "packed"), [(1 << 28, True), ((1 << 28) + 1, False)])
def test_cmrs_packs_28_bits_of_a_column(cols, packed):
    a = sparse.csr_array((np.ones(2), [5, cols - 1], [0, 0, 2]), shape=(2, cols))
    fmt = testing.convert("cmrs", a)
    assert (len(fmt.in_strip) == 0) == packed
    testing.check_conversion("cmrs", a)


@pytest.mark.parametrize(("mean", "h"), [(1, 16), (4, 16), (5, 16), (8, 8), (40, 2), (64, 1)])
def test_cmrs_strips_have_64_entries(mean, h):
    assert testing.convert("cmrs", with_lengths([mean] * 20, 20000)).detail == {"h": h}
