"""Diagonals: the survey's footprints, conversion by kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.formats import Csr
from spmvbench.formats.dia.dia import Hdi
from tests.formats.test_conversion import assert_kernels_convert_alike


def two_hacks():
    """A diagonal of 34 rows, and one entry at the lower left that the second hack alone has to pay for."""
    a = sparse.diags_array(np.arange(1.0, 35.0)).tolil()
    a[33, 0] = -5.0
    return a.tocsr()


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


def test_entries_on_no_kept_diagonal_keep_their_order(emulated, same_arrays):
    """In more shares than one of the kernel that takes them, some of them without such entries."""
    rest = sparse.random_array((2000, 6000), density=1e-3, rng=np.random.default_rng(0))
    rest = sparse.vstack([sparse.coo_array((6000, 6000)), rest])
    a = sparse.csr_array(sparse.diags_array([1.0, 2, 3], offsets=[-7, 0, 1], shape=rest.shape) + rest)
    launched = assert_kernels_convert_alike("hdc", {"shares": a}, emulated, same_arrays)
    assert max(launch.grid for launch in launched if launch.kernel.startswith("dia_rest")) == 4
