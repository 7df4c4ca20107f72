"""DASP: classes of rows and their slots by hand, every way that a warp takes its share, y in the order of classes."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.formats.hybrid.dasp import Classes
from spmvbench.formats.vectors import restored
from tests.formats.rows import with_lengths

HARD = testing.hard_matrices()


def test_classes():
    lengths = np.array([3, 300, 0, 5, 1, 256, 2, 4, 255, 3, 9])
    found = Classes.of(lengths, 256)
    assert found.order.tolist() == [1, 5, 8, 10, 3, 4, 0, 9, 7, 6, 2]
    assert found.counts == (2, 3, 1, 0, 3, 1, 1)
    assert found.long_ptr.tolist() == [0, 5, 9]
    # Fragments hold 3 * 4 entries, then 4 + 4 + 1, then less: none has 24.
    assert found.block_ptr.tolist() == [0, 0]
    assert found.rest_ptr.tolist() == [0, 255, 264, 269]
    assert found.bases == (576, 576, 577, 577, 705, 769)
    assert found.slots == 769 + 269


def test_fragments_end_where_less_than_three_quarters_are_filled():
    def kept(*lengths):
        return Classes.of(np.array(lengths), 256).block_ptr[-1] // 32

    assert kept(*[6] * 8) == 1  # 2 in each of 8 rows: 16 of 32
    assert kept(*[7] * 8) == 2  # 24
    assert kept(*[8] * 6, 6, 6) == 2
    assert kept(*[20] * 6) == 5
    assert kept(*[20] * 5, 5, 5, 5) == 1  # in the second 20 + 3


def test_pairs_of_rows_with_one_and_three_entries():
    few = Classes.of(np.repeat([1, 3], [127, 500]), 256)
    assert few.counts[2:5] == (127, 0, 500)
    lengths = np.repeat([3, 1], [135, 140])
    found = Classes.of(lengths, 256)
    assert found.counts[2:5] == (12 - 8 + 8, 256, 7)
    assert found.order[:12].tolist() == list(range(135, 147))
    assert found.order[12:20].tolist() == list(range(147, 155))  # rows of one entry
    assert found.order[20:28].tolist() == list(range(8))  # rows of three
    fmt = testing.convert("dasp", with_lengths(lengths, 5000))
    pair = fmt.classes.bases[2]
    assert fmt.columns[pair : pair + 8].tolist() == [0, 0, 1, 2, 0, 0, 1, 2]
    assert fmt.values[pair : pair + 4].tolist() == [135 * 3 + 13, 1, 2, 3]


def test_short_rows_by_hand():
    fmt = testing.convert("dasp", with_lengths([2] * 9 + [4, 3], 5000))
    four, two = fmt.classes.bases[3:5]
    assert fmt.permutation.tolist() == [10, 9, *range(9)]
    assert fmt.columns[four : four + 9].tolist() == [0, 1, 2, -1, 0, 1, 2, 3, -1]
    assert fmt.values[two : two + 8].tolist() == [1, 2, 17, 18, 3, 4, 0, 0]
    assert len(fmt.columns) == 128 + 64


def test_medium_rows_by_hand():
    fmt = testing.convert("dasp", with_lengths([8] * 7 + [5], 5000))
    # The first fragment is full, the second lacks 3 of its last row.
    assert fmt.block_ptr.tolist() == [0, 64]
    assert fmt.values[:8].tolist() == [1, 2, 3, 4, 9, 10, 11, 12]
    assert fmt.values[32:40].tolist() == [5, 6, 7, 8, 13, 14, 15, 16]
    assert fmt.columns[60:].tolist() == [4, -1, -1, -1]
    assert fmt.detail["slots_per_entry"] == 64 / 61


SHARES = {
    "every class": [300, 5, 1, 0, 2, 3, 4, 700, 255, 256, 17, 40] * 6,
    "pairs": [1, 3] * 200 + [2] * 45 + [4] * 33,
    "medium": [*range(5, 200)],
    "rest": [200, 6, 6, 6, 6, 6, 6, 6] * 5,
}


SPECS = "dasp", "dasp[order=native,loop=4]", pytest.param("dasp[loop=2,longest=20]", marks=pytest.mark.slow)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", SHARES)
def test_shares_of_warps(name, spec, emulated):
    a = with_lengths(np.random.default_rng(0).permutation(SHARES[name]), 700)
    a.data[:] = np.random.default_rng(1).uniform(0.5, 1.5, a.nnz)
    for dtype in (np.float64, np.float32):
        testing.check_conversion(spec, a.astype(dtype))
        testing.check_product(spec, a.astype(dtype), emulated)


def test_native_order_is_that_of_the_classes(emulated):
    fmt = testing.convert("dasp[order=native]", with_lengths([1, 0, 6, 2], 5000))
    x, y = np.ones(5000), np.empty(4)
    emulated.compile(fmt.launches(x, y)).run()
    assert y.tolist() == [2 + 3 + 4 + 5 + 6 + 7, 1, 8 + 9, 0]
    assert restored(y, fmt.y_order).tolist() == [1, 0, 27, 17]
    assert testing.convert("dasp", HARD["stencil"]).y_order is None
