"""Tiles of lanes: how rows become pieces, pieces lanes, and which rows warps add up among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmvbench import testing
from spmvbench.formats import Skip
from tests.formats.rows import with_lengths

KEYS = ["adell", "adell-plus[side=1]", "brc", "brc[order=row]"]


def test_adell_gives_long_rows_lanes_and_fills_warps_in_order():
    # A lane is meant to have int(1.1 * 150 / 20) = 8 entries: the long row takes 14 lanes, with the first 18 rows it
    # fills a warp; distributed again for the fewest steps, 4 lanes are left over, and it takes all of them with 7
    # entries.
    fmt = testing.convert("adell", with_lengths([*[2] * 18, 112, 2]))
    assert np.diff(fmt.tile_ptr).tolist() == [32 * 8, 32]
    assert fmt.lane_row[:32].tolist() == [*range(18), *[18] * 14]
    assert fmt.lane_row[32:].tolist() == [19, 19, *[-1] * 30]
    lanes = fmt.columns[:256].reshape(8, 32).T
    assert lanes[18:].tolist() == np.arange(112).reshape(14, 8).tolist()
    assert fmt.adds.tolist() == [0, 0]
    assert not fmt.missing
    assert len(fmt.cut_rows) == 0


def test_a_warp_takes_no_more_steps_than_it_needs():
    # Lanes are meant to have 14 entries: 27 short rows and 5 lanes of the long one fill a warp, and 13 steps hold it.
    fmt = testing.convert("adell", with_lengths([*[1] * 8, 64, *[8] * 32, *[40] * 8]))
    assert fmt.tile_ptr[1] == 32 * 13
    assert fmt.lane_row[:32].tolist() == [*range(8), *[8] * 5, *range(9, 28)]


def test_rows_too_long_for_a_warp_are_cut_and_added_up():
    fmt = testing.convert("adell", with_lengths([3, 500, *[1] * 95]))
    per_lane = int(1.1 * 598 / 97)
    parts = -(-500 // (32 * per_lane))
    assert parts == 3
    cut = np.flatnonzero(fmt.adds)
    assert len(cut) == parts
    assert set(fmt.lane_row.reshape(-1, 32)[cut].ravel()) <= {1, -1}
    assert fmt.cut_rows.tolist() == [1]


def test_adell_plus_lets_rows_go_over_from_warp_to_warp():
    fmt = testing.convert("adell-plus[side=1]", with_lengths([*[4] * 30, 20, *[4] * 3]))
    assert fmt.lane_row[:40].tolist() == [*range(30), *[30] * 5, 31, 32, 33, -1, -1]
    assert fmt.adds.tolist() == [1 << 31, 1 << 2]
    assert fmt.in_use == {"side": 1, "compress": "no", "unroll": 4, "block": 128}


def test_adell_plus_takes_the_blocks_with_the_fewest_bytes():
    blocks = testing.hard_matrices()["3x3 blocks"]
    fmt = testing.convert("adell-plus", blocks)
    assert fmt.in_use["side"] == 3
    assert fmt.lane_row[:43].tolist() == list(range(43))
    assert (np.count_nonzero(fmt.values), len(fmt.values)) == (9 * 43, 9 * 64)
    assert fmt.values[:32].tolist() == [blocks[3 * i, 3 * i] for i in range(32)]
    blocks.data[5] = 0.0
    assert testing.convert("adell-plus", blocks).in_use["side"] == 1
    with pytest.raises(Skip, match="stored zeros"):
        testing.convert("adell-plus[side=3]", blocks)


@pytest.mark.parametrize("side", [1, 3])
def test_adell_plus_compresses_its_columns(side, checking):
    a = testing.hard_matrices()["power law"]
    plain, packed = (testing.convert(f"adell-plus[side={side},compress={c}]", a) for c in ("no", "yes"))
    assert packed.columns.nbytes < plain.columns.nbytes
    for spec in (f"adell-plus[side={side},compress={c}]" for c in ("no", "yes")):
        testing.check_product(spec, a, checking)


def test_brc_queues_pieces_by_their_number():
    a = with_lengths([1, 7, 0, 5])
    fmt = testing.convert("brc[b1=8,b2=3]", a)
    assert fmt.lane_row.tolist() == [1, 3, 0, 1, 3, 1, -1, -1], "a place has 4 lanes"
    assert fmt.columns[:12].tolist() == [0, 1, 2, -1, 0, 1, 2, -1, 0, -1, -1, -1]
    assert fmt.adds.tolist() == [1 << 3 | 1 << 7 | 1 << 15 | 1 << 19 | 1 << 23]
    assert fmt.missing
    rows = testing.convert("brc[b1=8,b2=3,order=row]", a)
    assert rows.lane_row.tolist() == [1, 1, 1, 3, 3, 0, -1, -1]
    assert rows.adds.tolist() == [0], "pieces side by side are one run"


def test_brc_takes_the_fewest_slots():
    for name in ("power law", "uniform 8", "3x3 blocks"):
        a = testing.hard_matrices()[name]
        mean = a.nnz / a.shape[0]
        sizes = {max(round(mean), 1), max(round(2 * mean), 1)}
        fewest = min(len(testing.convert(f"brc[b1={b1},b2={b2}]", a).values) for b1 in (8, 16, 32) for b2 in sizes)
        assert len(testing.convert("brc", a).values) <= fewest


@pytest.mark.parametrize("key", KEYS)
@given(lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 300)), min_size=1, max_size=60))
def test_no_lane_has_two_rows_and_every_row_one_that_stores_or_only_such_that_add(key, lengths):
    fmt = testing.convert(key, with_lengths(lengths))
    lane_row = np.repeat(fmt.lane_row, fmt.place_lanes).reshape(-1, 32)
    adds = (fmt.adds[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)
    stored, added = [], []
    for rows, bits in zip(lane_row, adds, strict=True):
        ends = [i for i in range(32) if rows[i] >= 0 and (i == 31 or rows[i + 1] != rows[i])]
        stored += [rows[i] for i in ends if not bits[i]]
        added += [rows[i] for i in ends if bits[i]]
        assert set(np.flatnonzero(bits)) <= set(ends)
    assert len(stored) == len(set(stored))
    assert not set(stored) & set(added)
    assert set(stored) | set(added) == set(np.flatnonzero(lengths))
