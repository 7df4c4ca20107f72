"""Jagged diagonals: a matrix by hand, footprints, padding, conversion by kernels."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from spmvbench.formats.ellpack.jad import Jad, JdsEnhanced, Pjds, slot_dtype
from tests.formats.rows import with_lengths


def test_rows_are_sorted_and_stored_position_by_position():
    # 0 1 0 0 2
    # 0 0 0 3 0
    # 0 0 0 0 0
    # 4 5 6 0 0
    # 7 0 8 0 0
    dense = [[0, 1, 0, 0, 2], [0, 0, 0, 3, 0], [0] * 5, [4, 5, 6, 0, 0], [7, 0, 8, 0, 0]]
    fmt = Jad.from_csr(sparse.csr_array(np.array(dense, dtype=float)))
    assert fmt.perm.tolist() == [3, 0, 4, 1, 2]  # rows 0 and 4, of two entries each, stay in order
    assert fmt.diag_ptr.tolist() == [0, 4, 7, 8]
    assert fmt.columns.tolist() == [0, 1, 0, 3, 1, 4, 2, 2]
    assert fmt.values.tolist() == [4, 1, 7, 3, 5, 2, 8, 6]


def test_diagonals_begin_at_multiples_of_br():
    fmt = JdsEnhanced.from_csr(with_lengths([1] * 17 + [3], 100))
    assert fmt.diag_ptr.tolist() == [0, 32, 48, 64]
    assert fmt.columns[:18].tolist() == [0] * 18
    assert fmt.columns[32:34].tolist() == [1, -1]
    assert np.flatnonzero(fmt.columns >= 0).tolist() == [*range(18), 32, 48]


def test_footprints():
    lengths = np.random.default_rng(0).integers(0, 40, 1000)
    a = with_lengths(lengths, 100)
    nnz, longest = lengths.sum(), lengths.max()
    assert Jad.from_csr(a).nbytes == 12 * nnz + 4 * (longest + 1) + 4 * 1000
    # pJDS has the slots of sliced ELLPACK with slices of 32 sorted rows.
    descending = np.append(np.sort(lengths)[::-1], np.zeros(24, dtype=int))
    slots = 32 * descending.reshape(-1, 32).max(axis=1).sum()
    pjds = Pjds.from_csr(a)
    assert pjds.lengths.tolist() == descending[:1000].tolist()
    assert pjds.nbytes == 12 * slots + 4 * (longest + 1) + 8 * 1000


def test_pointers_are_long_where_the_slots_could_need_it():
    assert [slot_dtype(2**31 - 2**16 - 16, 1, br) for br in (1, 16, 32)] == [np.int32, np.int32, np.int64]
