"""ALIGNED-COO: what a lane holds, how much padding there is, and what of it decodes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spmvbench import testing
from tests.formats.rows import with_lengths


def test_long_and_short_pieces_share_lanes():
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


@given(lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 300)), min_size=1, max_size=60))
def test_rows_in_one_lane_are_stored_and_others_added(lengths):
    fmt = testing.convert("aligned-coo[L=16]", with_lengths(lengths))
    warp = np.repeat(np.arange(len(fmt.warp_ptr) - 1), np.diff(fmt.warp_ptr))
    lane = 32 * warp + np.arange(len(fmt.rows)) % 32
    for row, length in enumerate(lengths):
        assert len(set(lane[fmt.rows == row])) == (0 < length <= 16)
        assert bool((fmt.rows == row - 2**31).any()) == (length > 16)
