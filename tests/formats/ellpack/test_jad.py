"""Jagged diagonals: footprints, and when pointers have 64 bits."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.ellpack.jad import Jad, Pjds, slot_dtype
from tests.formats.rows import with_lengths


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
