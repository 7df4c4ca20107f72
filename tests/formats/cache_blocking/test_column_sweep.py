"""Row blocks with y in shared memory: how they are cut, and that kernels cut and sort as arrays do."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import load, testing
from spmvbench.formats import Csr, get
from spmvbench.formats.cache_blocking import column_sweep
from spmvbench.formats.cache_blocking.column_sweep import CONTINUED, Cut
from tests.formats.rows import runs_on, with_lengths


@pytest.mark.parametrize("name", ["power law", "long rows among empty", "no entries", "0x5", "tall"])
def test_a_kernel_cuts_as_arrays_do(name, checking):
    a = Csr.of(testing.hard_matrices()[name])
    for blocks, weight in ((1, 1), (7, 1), (7, 5), (60, 1)):
        cuts = Cut.by_kernel(a, blocks, weight, runs_on(checking)), Cut.by_arrays(a, blocks, weight)
        kernel, arrays = ([*map(np.ndarray.tolist, cut[:3]), cut.most] for cut in cuts)
        assert kernel == arrays and max(np.diff(kernel[1]), default=0) <= cuts[0].most


def test_a_long_row_is_in_several_blocks():
    fmt = get("column-sweep").from_csr(with_lengths([3, 400, 2] + [0] * 5, 500, drawn=1), sms=4, shared_bytes=1024)
    assert len(fmt.row_start) == 2  # few entries: one block
    a = Csr.of(sparse.csr_array(np.ones((1, 30_000))))
    fmt = get("column-sweep").from_csr(a, sms=4)
    assert fmt.row_start.tolist() == [0, CONTINUED, CONTINUED, CONTINUED, 1]


@pytest.mark.parametrize(
    ("matrix", "blocks"),
    [
        (load("uniform:6000:6"), 2),  # several tiles, which share bins
        (sparse.vstack([sparse.csr_array((300, 3)), sparse.csr_array(np.ones((9000, 3)))]), 1),  # bins of too many keys
        (sparse.random_array((30, 2**24 + 3), density=3e-6, rng=np.random.default_rng(2)), 2),  # panels without entries
    ],
    ids=["tiles", "long columns", "panels"],
)
def test_kernels_sort_as_arrays_do(matrix, blocks, checking, same_arrays):
    a = Csr.of(sparse.csr_array(matrix)).astype(np.float32)
    cut = Cut.of(a, blocks, 4 * a.rows)
    found, expected = column_sweep.by_kernels(a, cut, runs_on(checking)), column_sweep.sorted_entries(a, cut)
    assert found.pop("most_rows") == expected.pop("most_rows")
    same_arrays(found, expected, "kernels")


@pytest.mark.parametrize("spec", ["column-sweep[sms=3,shared_bytes=1024]", "column-sweep[sms=7,parts=3,chunks=1]"])
@pytest.mark.parametrize("name", ["power law", "tall", "long rows among empty"])
def test_many_blocks_and_parts_of_them(spec, name, emulated):
    a = testing.hard_matrices()[name]
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, emulated)
