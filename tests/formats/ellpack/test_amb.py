"""amb: segments, blocks of columns, and their sharing of y."""

import numpy as np
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.formats import Csr
from spmvbench.formats.ellpack.amb import block_starts


def test_blocks_begin_at_the_first_entry_that_no_block_holds():
    column = np.array([0, 1, 2, 5, 6, 9, 3, 4, 5, 6], np.int32)
    group = np.array([0] * 6 + [1] * 4)
    assert block_starts(group, column, 1).tolist() == [*range(10)]
    assert block_starts(group, column, 2).tolist() == [0, 2, 3, 5, 6, 8]
    assert block_starts(group, column, 4).tolist() == [0, 3, 5, 6]


def test_fast_divides_only_slices_that_span_more_than_a_segment():
    rows, cols = 64, 200_000
    col = np.concatenate([np.full(32, 65_500), np.full(32, 65_600), np.full(32, 10), np.full(32, 190_000)])
    row = np.concatenate([np.arange(32), np.arange(32), np.arange(32, 64), np.arange(32, 64)])
    a = Csr.of(sparse.coo_array((np.ones(128), (row, col)), shape=(rows, cols)).tocsr())
    fast = formats.get("amb").from_csr(a)
    assert fast.pieces[:, 2].tolist() == [0, 1, 1] and fast.pieces[:, 1].tolist() == [65_500, 10, 10 + 2 * 65_536]
    assert (fast.pieces[:, 3] < 0).tolist() == [False, True, True]
    paper = formats.get("amb").from_csr(a, kernel="paper")
    assert (
        paper.pieces[:, 2].tolist() == [0, 1, 0, 1]
        and len(paper.rows) == 128
        and (paper.pieces[:, 1] % 65_536 == 0).all()
    )
    assert (paper.pieces[:, 3] < 0).all()


def test_the_width_of_blocks_is_that_of_fewest_bytes():
    assert formats.get("amb").from_csr(testing.hard_matrices()["uniform 8"]).width == 1
    dense = Csr.of(sparse.csr_array(np.ones((64, 40))))
    assert formats.get("amb").from_csr(dense).width == 4
