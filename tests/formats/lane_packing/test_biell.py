"""BiELL: which lanes a row has in each group of a strip's steps."""

from __future__ import annotations

import numpy as np

from spmvbench import testing
from tests.formats.rows import with_lengths


def test_lanes_of_rows_that_are_done_go_to_the_others():
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


def test_a_sort_of_all_rows_pads_less():
    a = with_lengths([*range(32), *range(31, -1, -1)])
    assert len(testing.convert("bijad", a).values) < len(testing.convert("biell", a).values)
