"""Ginkgo's rules for the width of HYB, and the levels of recursive HYB."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.formats import Csr
from spmvbench.formats.hybrid.recursive import HybGinkgo


def with_lengths(lengths):
    columns = np.concatenate([np.arange(n) for n in lengths])
    row_ptr = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_array((np.ones(len(columns)), columns, row_ptr), shape=(len(lengths), max(lengths)))


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
