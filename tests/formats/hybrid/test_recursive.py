"""Ginkgo's rules for the width of HYB, the levels of recursive HYB, and blocks of rows cut at least cost."""

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.formats import Csr
from spmvbench.formats.hybrid.optimal import Block, best_blocks
from spmvbench.formats.hybrid.recursive import HybGinkgo
from tests.formats.rows import with_lengths


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
def test_widths_are_those_of_the_library(rule, share, ratio, dtype, width):
    a = Csr.of(with_lengths(range(100)).astype(dtype))
    assert HybGinkgo.width(a, rule=rule, share=share, ratio=ratio) == width


def test_the_rest_is_split_until_little_is_left():
    a = with_lengths([2] * 60 + [5] * 30 + [20] * 9 + [90])
    fmt = testing.convert("rhc[rest=0]", a)
    assert fmt.entries == {"ell": 320, "ell1": 150, "ell2": 70, "coo": 0}  # widths 5, 15 and 70
    assert list(fmt.parts) == ["ell", "ell1", "ell2"]
    assert testing.convert("rhc[rest=0.5]", a).entries == {"ell": 320, "coo": 220}
    assert list(testing.convert("rhc[levels=1]", a).parts) == ["ell", "coo"]


def test_blocks_are_cut_where_they_cost_least():
    lengths, rows = np.array([1, 2, 30]), np.array([100, 100, 2])
    assert best_blocks(lengths, rows, 1.25, 10) == [Block(0, 1, False), Block(1, 2, False), Block(2, 30, False)]
    assert best_blocks(lengths, rows, 1.25, 90) == [Block(0, 30, True)]
    assert best_blocks(lengths, rows, 9.0, 150) == [Block(0, 2, False), Block(2, 30, False)]
    assert best_blocks(lengths, rows, 1.25, 1e6) == [Block(0, 30, True)]
    assert best_blocks(lengths[:0], rows[:0], 1.25, 1.0) == []


def test_no_other_cuts_cost_less():
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
