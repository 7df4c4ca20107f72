"""RgCSR and ArgCSR: where groups end, and how their threads are distributed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spmvbench import testing
from tests.formats.rows import with_lengths


def test_threads_go_to_rows_by_their_lengths():
    # 32 threads, 4 rows: a thread each, and 28 by length: 28 * 30 // 40 = 21, 28 * 5 // 40 = 3 twice, 0. One is left.
    fmt = testing.convert("argcsr[block=32]", with_lengths([5, 30, 0, 5]))
    assert fmt.threads_end.tolist() == [4, 27, 28, 32]
    assert fmt.groups.tolist() == [[4, 2, 0, 0]]
    steps = fmt.columns.reshape(2, 32)
    assert steps[0].tolist() == [*range(4), *range(23), -1, *range(4)]
    assert steps[1].tolist() == [4, -1, -1, -1, *range(23, 30), *[-1] * 17, 4, -1, -1, -1]


def test_groups_grow_by_16_rows_until_they_are_full():
    # 128 entries fill a group of 32 threads; and it has 32 rows at most.
    fmt = testing.convert("argcsr[block=32]", with_lengths([*[8] * 16, *[1] * 40, 300, *[1] * 3]))
    assert fmt.groups[:, [0, 2]].tolist() == [[16, 0], [32, 16], [12, 48]]


def test_groups_of_rgcsr_have_about_as_many_entries_and_at_most_a_row_a_thread():
    # 32 threads, 4 rows: 1 + 28 * 5 // 40 = 4, 1 + 28 * 30 // 40 = 22, 1, 4: the last is left over.
    fmt = testing.convert("rgcsr[block=32,workload=36]", with_lengths([5, 30, 0, 5, *[0] * 40, 3]))
    assert fmt.groups[:, [0, 2]].tolist() == [[4, 0], [32, 4], [9, 36]]
    assert fmt.threads_end[:4].tolist() == [4, 26, 27, 31]
    assert fmt.groups[:, 1].tolist() == [2, 0, 1]
    steps = fmt.columns[:64].reshape(2, 32)
    assert steps[0].tolist() == [*range(4), *range(22), -1, *range(4), -1]
    assert steps[1].tolist() == [4, -1, -1, -1, *range(22, 30), *[-1] * 15, 4, -1, -1, -1, -1]


@given(lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 300)), min_size=1, max_size=90))
def test_all_threads_of_a_group_are_distributed(lengths):
    fmt = testing.convert("argcsr[block=64]", with_lengths(lengths))
    assert fmt.groups[:, 0].sum() == len(lengths)
    assert set(fmt.threads_end[fmt.groups[:, 2] + fmt.groups[:, 0] - 1]) == {64}
    first = np.repeat(fmt.groups[:, 2], fmt.groups[:, 0])
    before = np.where(np.arange(len(lengths)) > first, np.roll(fmt.threads_end, 1), 0)
    assert (fmt.threads_end > before).all(), "every row has one"
