"""CoAdELL: differences in the fewest bytes that hold a warp's, and columns that come back from them."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import load
from spmvbench.formats import get


@pytest.mark.parametrize(("gap", "width"), [(1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_a_warp_takes_as_many_bytes_as_its_largest_difference(gap, width):
    rows, cols = np.repeat(np.arange(32), 3), np.tile([0, 1, 1 + gap], 32)
    a = sparse.csr_array((np.ones(96), (rows, cols)), shape=(32, 70_000))
    fmt = get("coadell").from_csr(a)
    assert fmt.width.tolist() == [width]
    assert fmt.columns.nbytes == width * 32 * (len(fmt.values) // 32 - 1)


def test_a_stencil_takes_a_third_of_the_bytes_of_whole_columns():
    assert get("coadell").from_csr(load("pde:12")).detail["index_bytes_per_slot"] < 2
