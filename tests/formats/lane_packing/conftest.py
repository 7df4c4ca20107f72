"""Matrices of which only the lengths of rows matter."""

import numpy as np
import pytest

from spmvbench.formats import Csr
from spmvbench.formats.arrays import offsets


@pytest.fixture(scope="session")
def with_lengths():
    """Rows of so many entries from column 0 on, their values counted from 1."""

    def matrix(*lengths):
        row_ptr = offsets(np.array(lengths))
        col_idx = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
        return Csr((len(lengths), max(*lengths, 1)), row_ptr, col_idx, np.arange(1.0, row_ptr[-1] + 1))

    return matrix
