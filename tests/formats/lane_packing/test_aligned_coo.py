"""ALIGNED-COO: what a lane holds, and how much padding there is."""

from __future__ import annotations

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
