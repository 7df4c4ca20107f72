"""How rows, lanes and warps share slots, and what their columns take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from spmvbench import load, testing
from spmvbench.formats import get
from tests.formats.rows import with_lengths

TILES = [0, 5, 0], [0, 0], [700, 0, *[1] * 40], [3, 500, *[1] * 95], [900]
STRIPS = [0, 0, 0], [900], [0] * 40 + [7], [*range(70)], [1000, *[1] * 31, 2]
SLICES = [0, 0], [1], [700, 0, *[1] * 40], [3, *range(70)], [0] * 33 + [9]
KINDS = {
    "aligned-coo": ([0, 0], [1], [700, 0, *[1] * 40], [128, 129], [3] * 33),
    "argcsr": ([0, 0], [1], [700, 0, *[1] * 40], [500], [3] * 33, [0] * 16 + [400] * 2),
    "rgcsr": ([0, 0], [1], [700, 0, *[1] * 40], [500], [0] * 160, [0] * 16 + [400] * 2),
    "ell-warp-k2": ([0, 5, 0], [0, 0], [70, 0, *[1] * 40]),
    **dict.fromkeys(("biell", "bijad"), STRIPS),
    **dict.fromkeys(("adell", "adell-plus[side=1]", "brc", "brc[order=row]"), TILES),
    **dict.fromkeys(("vcsr[longest=3]", "vcsr[longest=300]", "vcsr[align=4]"), SLICES),
}


@pytest.mark.parametrize("spec", KINDS)
def test_rows_of_every_kind(spec, checking):
    for lengths in KINDS[spec]:
        testing.check_conversion(spec, with_lengths(lengths))
        testing.check_product(spec, with_lengths(lengths), checking)


def test_aligned_coo_long_and_short_pieces_share_lanes():
    # Pieces of at most 16: 16 and 4 of row 0, 10, 6, 3, 3. Alternately: 16, 3, 10, 3, 6, 4.
    fmt = testing.convert("aligned-coo[L=16]", with_lengths([20, 10, 0, 6, 3, 3]))
    cut = -(2**31)
    assert fmt.warp_ptr.tolist() == [0, 32 * 16]
    lanes = fmt.rows.reshape(16, 32).T
    assert lanes[0].tolist() == [cut] * 16
    assert lanes[1].tolist() == [5] * 3 + [1] * 10 + [4] * 3
    assert lanes[2].tolist() == [3] * 6 + [cut] * 10, "10 entries, the last repeated"
    assert set(lanes[3:].ravel()) == {2**31 - 1}
    columns = fmt.columns.reshape(16, 32).T
    assert columns[2].tolist() == [0, 1, 2, 3, 4, 5, 16, 17, 18, *[19] * 7]
    assert set(columns[3:].ravel()) == {-1}
    assert fmt.detail == {"L": 16, "slots": 512}


def test_argcsr_threads_go_to_rows_by_their_lengths():
    # 32 threads, 4 rows: a thread each, and 28 by length: 28 * 30 // 40 = 21, 28 * 5 // 40 = 3 twice, 0. One is left.
    fmt = testing.convert("argcsr[block=32]", with_lengths([5, 30, 0, 5]))
    assert fmt.threads_end.tolist() == [4, 27, 28, 32]
    assert fmt.groups.tolist() == [[4, 2, 0, 0]]
    steps = fmt.columns.reshape(2, 32)
    assert steps[0].tolist() == [*range(4), *range(23), -1, *range(4)]
    assert steps[1].tolist() == [4, -1, -1, -1, *range(23, 30), *[-1] * 17, 4, -1, -1, -1]


def test_argcsr_groups_grow_by_16_rows_until_they_are_full():
    # 128 entries fill a group of 32 threads; and it has 32 rows at most.
    fmt = testing.convert("argcsr[block=32]", with_lengths([*[8] * 16, *[1] * 40, 300, *[1] * 3]))
    assert fmt.groups[:, [0, 2]].tolist() == [[16, 0], [32, 16], [12, 48]]


def test_argcsr_groups_of_rgcsr_have_about_as_many_entries_and_at_most_a_row_a_thread():
    # 32 threads, 4 rows: 1 + 28 * 5 // 40 = 4, 1 + 28 * 30 // 40 = 22, 1, 4: the last is left over.
    fmt = testing.convert("rgcsr[block=32,workload=36]", with_lengths([5, 30, 0, 5, *[0] * 40, 3]))
    assert fmt.groups[:, [0, 2]].tolist() == [[4, 0], [32, 4], [9, 36]]
    assert fmt.threads_end[:4].tolist() == [4, 26, 27, 31]
    assert fmt.groups[:, 1].tolist() == [2, 0, 1]
    steps = fmt.columns[:64].reshape(2, 32)
    assert steps[0].tolist() == [*range(4), *range(22), -1, *range(4), -1]
    assert steps[1].tolist() == [4, -1, -1, -1, *range(22, 30), *[-1] * 15, 4, -1, -1, -1, -1]


@given(lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 300)), min_size=1, max_size=90))
def test_argcsr_all_threads_of_a_group_are_distributed(lengths):
    fmt = testing.convert("argcsr[block=64]", with_lengths(lengths))
    assert fmt.groups[:, 0].sum() == len(lengths)
    assert set(fmt.threads_end[fmt.groups[:, 2] + fmt.groups[:, 0] - 1]) == {64}
    first = np.repeat(fmt.groups[:, 2], fmt.groups[:, 0])
    before = np.where(np.arange(len(lengths)) > first, np.roll(fmt.threads_end, 1), 0)
    assert (fmt.threads_end > before).all(), "every row has one"


def test_biell_lanes_of_rows_that_are_done_go_to_the_others():
    # 16 rows are done after a step, another 8 after a step of 2 lanes each, 7 of the others after one of 4 lanes. No
    # second row is left, so 8 and 16 lanes have no step, and the longest takes 2 of 32 lanes.
    fmt = testing.convert("biell", with_lengths([*[1] * 16, *[3] * 8, *[4] * 7, 40]))
    assert fmt.perm.tolist() == [31, *range(24, 31), *range(16, 24), *range(16)]
    assert np.diff(fmt.group_ptr).tolist() == [1, 1, 1, 0, 0, 2]
    steps = fmt.columns.reshape(-1, 32)
    assert steps[0].tolist() == [0] * 32
    assert steps[1].tolist() == [1] * 16 + [2] * 16, "two lanes a row"
    assert steps[2].tolist() == [3] * 8 + [4, *[-1] * 7, 5, *[-1] * 7, 6, *[-1] * 7], "four lanes a row"
    assert steps[3].tolist() == list(range(7, 39)), "all for the longest"
    assert steps[4].tolist() == [39, *[-1] * 31]


def test_biell_a_sort_of_all_rows_pads_less():
    a = with_lengths([*range(32), *range(31, -1, -1)])
    assert len(testing.convert("bijad", a).values) < len(testing.convert("biell", a).values)


@pytest.mark.parametrize(("gap", "width"), [(1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_coadell_a_warp_takes_as_many_bytes_as_its_largest_difference(gap, width):
    rows, cols = np.repeat(np.arange(32), 3), np.tile([0, 1, 1 + gap], 32)
    a = sparse.csr_array((np.ones(96), (rows, cols)), shape=(32, 70_000))
    fmt = get("coadell").from_csr(a)
    assert fmt.width.tolist() == [width]
    assert fmt.columns.nbytes == width * 32 * (len(fmt.values) // 32 - 1)


def test_coadell_a_stencil_takes_a_third_of_the_bytes_of_whole_columns():
    assert get("coadell").from_csr(load("pde:12")).detail["index_bytes_per_slot"] < 2


def test_vcsr_rows_are_sorted_in_windows_alone():
    part = testing.convert("vcsr[sigma=32]", with_lengths([*[1] * 32, 2])).parts["slices"]
    assert part.perm.tolist() == [*range(33)]


@given(lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 300)), min_size=1, max_size=90))
def test_vcsr_long_rows_leave_the_slices_and_nothing_is_padded(lengths):
    fmt = testing.convert("vcsr[longest=100]", with_lengths(lengths))
    short = sum(n for n in lengths if n <= 100)
    assert fmt.entries == {"slices": short, "long": sum(lengths) - short}
    if short:
        assert len(fmt.parts["slices"].values) == short
