"""Diagonals: hacks by hand, the survey's footprints, conversion by kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.formats import Csr
from spmvbench.formats.dia.dia import Dia, Hdi, diagonal_sizes
from tests.formats.rows import runs_on, with_long_pointers
from tests.formats.test_conversion import assert_kernels_convert_alike


def two_hacks():
    """A diagonal of 34 rows, and one entry at the lower left that the second hack alone has to pay for."""
    a = sparse.diags_array(np.arange(1.0, 35.0)).tolil()
    a[33, 0] = -5.0
    return a.tocsr()


def test_every_hack_has_its_own_diagonals():
    fmt = Hdi.from_csr(two_hacks())
    assert fmt.hack_ptr.tolist() == [0, 1, 3]
    assert fmt.offset.tolist() == [0, -33, 0]
    assert fmt.values.shape == (3, 32)
    assert fmt.values[0].tolist() == list(range(1, 33))
    assert fmt.values[1].tolist() == [0, -5] + [0] * 30
    assert fmt.values[2].tolist() == [33, 34] + [0] * 30


def test_dia_is_one_hack_of_all_rows():
    fmt = Dia.from_csr(two_hacks())
    assert fmt.offset.tolist() == [-33, 0]
    assert fmt.values.shape == (2, 64)
    assert fmt.values[0].tolist() == [0] * 33 + [-5] + [0] * 30
    assert fmt.values[1].tolist() == [*range(1, 35)] + [0] * 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("points", "diagonals", "published"), [(60, 46906, 12.10), (80, 111280, 12.07), (100, 217626, 12.06)]
)
def test_footprint_of_the_library_is_the_surveys(points, diagonals, published):
    # Table 9 of Filippone et al. (2017), column HDI.
    a = Csr.of(spmvbench.load(f"pde:{points}"))
    needed = Hdi.estimate(a, footprint="psblas")
    assert needed == 12 * 32 * diagonals + 4 * (points**3 // 32 + 1)
    assert round(needed / a.nnz, 2) == published


def test_footprint_without_offsets_to_spare():
    a = Csr.of(spmvbench.load("pde:60"))
    exact, psblas = Hdi.from_csr(a), Hdi.from_csr(a, footprint="psblas")
    assert exact.nbytes == (8 * 32 + 4) * 46906 + 4 * (60**3 // 32 + 1)
    assert round(exact.nbytes / a.nnz, 2) == 8.20
    assert round(psblas.nbytes / a.nnz, 2) == 12.10
    assert len(psblas.offset) == 32 * 46906
    assert psblas.bytes_read == exact.bytes_read == exact.nbytes, "no kernel reads what the library allocates besides"
    np.testing.assert_array_equal(psblas.offset[:46906], exact.offset)


def test_other_footprints_are_refused():
    with pytest.raises(UsageError, match="footprint takes exact, psblas"):
        Hdi.from_csr(two_hacks(), footprint="hacked")


@pytest.mark.parametrize("long_pointers", [False, True])
def test_kernels_count_the_entries_of_diagonals(long_pointers, checking):
    rng = np.random.default_rng(0)
    scattered = sparse.random_array((300, 4000), density=0.01, rng=rng) + sparse.eye_array(300, 4000, k=5)
    for a in (two_hacks(), sparse.csr_array(scattered)):
        a = Csr.of(a)
        if long_pointers:
            a = with_long_pointers(a)
        offset, held, length = diagonal_sizes(a, runs_on(checking))
        expected, entries = np.unique(a.col_idx - a.row_idx, return_counts=True)
        np.testing.assert_array_equal(offset, expected)
        np.testing.assert_array_equal(held, entries)
        whole = [np.broadcast_to(0, a.shape).diagonal(k).size for k in offset]
        np.testing.assert_array_equal(length, whole)


def test_entries_on_no_kept_diagonal_keep_their_order(emulated, same_arrays):
    """In more shares than one of the kernel that takes them, some of them without such entries."""
    rest = sparse.random_array((2000, 6000), density=1e-3, rng=np.random.default_rng(0))
    rest = sparse.vstack([sparse.coo_array((6000, 6000)), rest])
    a = sparse.csr_array(sparse.diags_array([1.0, 2, 3], offsets=[-7, 0, 1], shape=rest.shape) + rest)
    launched = assert_kernels_convert_alike("hdc", {"shares": a}, emulated, same_arrays)
    assert max(launch.grid for launch in launched if launch.kernel.startswith("dia_rest")) == 4
