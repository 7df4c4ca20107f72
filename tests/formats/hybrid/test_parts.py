"""DASP's fragments and shares of warps, Ginkgo's widths and recursive HYB, and blocks of rows cut at least cost."""

from __future__ import annotations

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.formats import Csr
from spmvbench.formats.hybrid.dasp import Classes
from spmvbench.formats.hybrid.optimal import Block, best_blocks
from spmvbench.formats.hybrid.recursive import HybGinkgo
from tests.formats.rows import with_lengths


def test_dasp_fragments_end_where_less_than_three_quarters_are_filled():
    def kept(*lengths):
        return Classes.of(np.array(lengths), 256).block_ptr[-1] // 32

    assert kept(*[6] * 8) == 1  # 2 in each of 8 rows: 16 of 32
    assert kept(*[7] * 8) == 2  # 24
    assert kept(*[8] * 6, 6, 6) == 2
    assert kept(*[20] * 6) == 5
    assert kept(*[20] * 5, 5, 5, 5) == 1  # in the second 20 + 3


@pytest.mark.parametrize(("ones", "threes", "found"), [(127, 500, (127, 0, 500)), (140, 135, (12, 256, 7))])
def test_dasp_rows_of_one_and_three_entries_are_pairs_if_they_are_128_of_each(ones, threes, found):
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
def test_dasp_shares_of_warps(name, spec, emulated):
    a = with_lengths(np.random.default_rng(0).permutation(SHARES[name]), 700)
    a.data[:] = np.random.default_rng(1).uniform(0.5, 1.5, a.nnz)
    for dtype in (np.float64, np.float32):
        testing.check_conversion(spec, a.astype(dtype))
        testing.check_product(spec, a.astype(dtype), emulated)


@pytest.mark.parametrize(
    ("rule", "share", "ratio", "dtype", "width"),
    [
        ("imbalance", 0.8, 0.0, np.float64, 80),
        ("imbalance", 1.0, 0.0, np.float64, 99),
        ("bounded", 0.8, 0.25, np.float64, 25),
        ("storage", 0.0, 0.0, np.float64, 25),
        ("storage", 0.0, 0.0, np.float32, 33),
        ("automatic", 0.0, 9.0, np.float64, 0),  # a thousandth of 100 rows
    ],
)
def test_hyb_widths_are_those_of_the_library(rule, share, ratio, dtype, width):
    a = Csr.of(with_lengths(range(100)).astype(dtype))
    assert HybGinkgo.width(a, rule=rule, share=share, ratio=ratio) == width


def test_hyb_the_rest_is_split_until_little_is_left():
    a = with_lengths([2] * 60 + [5] * 30 + [20] * 9 + [90])
    fmt = testing.convert("rhc[rest=0]", a)
    assert fmt.entries == {"ell": 320, "ell1": 150, "ell2": 70, "coo": 0}  # widths 5, 15 and 70
    assert list(fmt.parts) == ["ell", "ell1", "ell2"]
    assert testing.convert("rhc[rest=0.5]", a).entries == {"ell": 320, "coo": 220}
    assert list(testing.convert("rhc[levels=1]", a).parts) == ["ell", "coo"]


def test_hyb_blocks_are_cut_where_they_cost_least():
    lengths, rows = np.array([1, 2, 30]), np.array([100, 100, 2])
    assert best_blocks(lengths, rows, 1.25, 10) == [Block(0, 1, False), Block(1, 2, False), Block(2, 30, False)]
    assert best_blocks(lengths, rows, 1.25, 90) == [Block(0, 30, True)]
    assert best_blocks(lengths, rows, 9.0, 150) == [Block(0, 2, False), Block(2, 30, False)]
    assert best_blocks(lengths, rows, 1.25, 1e6) == [Block(0, 30, True)]
    assert best_blocks(lengths[:0], rows[:0], 1.25, 1.0) == []


def test_hyb_no_other_cuts_cost_less():
    rng = np.random.default_rng(0)
    lengths, rows = np.array([1, 3, 4, 9, 20, 50]), rng.integers(1, 60, 6)

    def cost(blocks):
        held = [(lengths > block.above) & (lengths <= block.longest) for block in blocks]
        return sum(
            min(int(rows[of].sum()) * int(lengths[of].max()), 1.5 * int((rows * lengths)[of].sum())) + 40 for of in held
        )

    every = []
    for cuts in range(2**5):
        ends = [i for i in range(5) if cuts >> i & 1] + [5]
        begins = [0, *(int(lengths[i]) for i in ends[:-1])]
        every.append(cost([Block(b, int(lengths[e]), False) for b, e in zip(begins, ends, strict=True)]))
    assert cost(best_blocks(lengths, rows, 1.5, 40)) == min(every)
