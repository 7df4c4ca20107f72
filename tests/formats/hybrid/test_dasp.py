"""DASP: where fragments end, every way that a warp takes its share."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.formats.hybrid.dasp import Classes
from tests.formats.rows import with_lengths


def test_fragments_end_where_less_than_three_quarters_are_filled():
    def kept(*lengths):
        return Classes.of(np.array(lengths), 256).block_ptr[-1] // 32

    assert kept(*[6] * 8) == 1  # 2 in each of 8 rows: 16 of 32
    assert kept(*[7] * 8) == 2  # 24
    assert kept(*[8] * 6, 6, 6) == 2
    assert kept(*[20] * 6) == 5
    assert kept(*[20] * 5, 5, 5, 5) == 1  # in the second 20 + 3


@pytest.mark.parametrize(("ones", "threes", "found"), [(127, 500, (127, 0, 500)), (140, 135, (12, 256, 7))])
def test_rows_of_one_and_three_entries_are_pairs_if_they_are_128_of_each(ones, threes, found):
    assert Classes.of(np.repeat([3, 1], [threes, ones]), 256).counts[2:5] == found


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
