"""CSR by groups of threads: how many lanes each rule gives, and what tuning asks for."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import testing
from tests.formats.rows import launches, with_lengths


def launch(spec, a):
    """(lanes, entries per lane, rows per group, threads per block, blocks) of the only launch."""
    (only,) = launches(testing.convert(spec, a))
    return *map(int, only.kernel.rstrip(">").split(", ")[2:]), only.block, only.grid


FILLED = {0.5: 1, 1: 1, 1.5: 1, 2: 2, 3.5: 2, 4: 4, 31.5: 16, 32: 32, 100: 32}
LANES = {
    "csr-guo-wang": {1: 16, 16: 16, 16.5: 32, 100: 32},
    "csr-elzein": {7.5: 1, 8: 32},
    "csr-elzein[switch=3]": {2.5: 1, 3: 32},
    "csr-rg": FILLED,
    "csr-jsr": FILLED,
    "csr-wang": {0.5: 2, 1: 2, 1.5: 4, 3: 4, 7: 8, 7.5: 16, 31: 32, 100: 32},
    "csr-bb": {1: 16, 100: 16},
}


@pytest.mark.parametrize("spec", LANES)
def test_lanes_by_the_mean_row(spec):
    found = {mean: launch(spec, with_lengths([int(mean), int(mean + 0.5)]))[0] for mean in LANES[spec]}
    assert found == LANES[spec]


@pytest.mark.parametrize(
    ("lengths", "each", "stored"),
    [([0, 1], 64, np.uint8), ([255, 0], 4, np.uint8), ([256, 0], 4, np.uint16), ([65535, 1], 4, np.uint16),
     ([65536], 4, np.int32)],
)  # fmt: skip
def test_csr_wang_of_the_paper_has_short_lengths_and_a_pointer_for_each_block(lengths, each, stored, emulated):
    a = with_lengths(lengths * 70)
    fmt = testing.convert("csr-wang[kernel=paper]", a)
    assert fmt.lengths.dtype == stored and fmt.lengths.tolist() == lengths * 70
    assert fmt.row_ptr.tolist() == [*a.indptr[:-1:each], a.nnz]
    testing.check_product("csr-wang[kernel=paper]", a, emulated)


def test_the_longest_row_sizes_all_groups():
    found = {longest: launch("csr-yt", with_lengths([1, longest, 0]))[0] for longest in (0, 1, 2, 3, 16, 17, 33)}
    assert found == {0: 1, 1: 1, 2: 2, 3: 4, 16: 16, 17: 32, 33: 32}


def test_rows_and_threads_that_the_papers_fix():
    a = with_lengths([*[4] * 1000])
    assert launch("csr-rg", a) == (4, 1, 2, 128, 16)  # 32 groups of 2 rows per block
    assert launch("csr-rg[repeat=1]", a) == (4, 1, 1, 128, 32)
    assert launch("csr-guo-wang[block=512]", a) == (16, 1, 1, 512, 32)
    assert launch("csr-scalar", a) == (1, 1, 1, 256, 4)
    assert launch("csr-vector", a) == (32, 1, 1, 128, 250)


@pytest.mark.parametrize("mean", [1, 8, 40])
def test_papers_rules_are_compared_with_one_entry_a_lane_in_blocks_of_one_size(mean):
    a = with_lengths([*[mean] * 70])
    for spec in ("csr-guo-wang", "csr-elzein", "csr-rg", "csr-yt", "csr-wang", "csr-jsr", "csr-am", "csr-bb"):
        _, entries, _, block, _ = launch(spec, a)
        assert (entries, block) == (1, 128), spec


def test_our_own_rule_gives_a_lane_two_entries():
    assert launch("csr-lanes", with_lengths([*[12] * 100])) == (8, 2, 1, 512, 2)
    assert launch("csr-lanes", with_lengths([*[7] * 100])) == (4, 2, 1, 128, 4)
    assert launch("csr-lanes[lanes=32]", with_lengths([*[7] * 100])) == (32, 2, 1, 128, 25)


def test_nothing_is_timed_on_the_host():
    a = with_lengths([*[12] * 100])
    assert launch("csr-am", a)[:2] == (16, 1)
    assert testing.convert("csr-am", a).detail == {"lanes": 16, "block": 128}
