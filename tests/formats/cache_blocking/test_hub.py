"""Hub sorting: which columns move, and which stay."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench.formats import Csr
from spmvbench.formats.cache_blocking.hub import hub_order


def with_counts(counts):
    """A matrix whose column j has counts[j] entries, in its first rows."""
    cols = np.repeat(np.arange(len(counts)), counts)
    rows = np.concatenate([np.arange(n) for n in counts])
    return Csr.of(sparse.csr_array((np.ones(len(cols)), (rows, cols)), shape=(8, len(counts))))


@pytest.mark.parametrize(
    ("above", "order"),
    [
        (1.0, [4, 1, 6, 0, 3, 5]),  # mean 3: 7, 4 and 4 are more; equal counts keep their order
        (2.0, [4, 0, 1, 3, 5, 6]),
        (3.0, [0, 1, 3, 4, 5, 6]),
        (0.0, [4, 1, 6, 0, 3, 5]),
    ],
)
def test_hubs_come_first_and_empty_columns_go(above, order):
    assert hub_order(with_counts([1, 4, 0, 1, 7, 1, 4]), above).tolist() == order


def test_a_column_of_the_mean_is_no_hub():
    assert hub_order(with_counts([3, 2, 4]), 1.0).tolist() == [2, 0, 1]
