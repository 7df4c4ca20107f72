"""Diagonals: the survey's footprints, conversion by kernels, storages of brcsd, and distinct rows stored once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats
from spmvbench.devices import multiply
from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Skip
from spmvbench.formats.dia.dia import Hdi
from spmvbench.formats.dia.row_patterns import MOST, RowPatterns
from spmvbench.formats.footprint import compresses_values
from spmvbench.matrices.synthetic import generate
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


def part(spec, **params):
    return next(iter(formats.get("brcsd").from_csr(generate(spec, 1), **params).parts.values()))


def test_brcsd_a_full_diagonal_is_dia_and_broken_ones_are_row_blocks():
    assert part("tridiag:4096").key == "dia"
    assert part("poisson2d:256").key == "dia"  # row blocks would be a little smaller
    a = generate("tridiag:4096", 1).tolil()
    a[0, 4000] = 1.0  # DIA would store a diagonal for it
    names = formats.get("brcsd").from_csr(a.tocsr()).parts
    assert list(names) == ["brcsd-2"]


def test_brcsd_the_commonest_lists_have_kernels_with_their_offsets(emulated):
    a = Csr.of(generate("poisson2d:256", 1))
    fmt = formats.get("brcsd").from_csr(a, storage="brcsd-2", least=8)
    blocks = fmt.parts["brcsd-2"]
    assert [each.offsets for each in blocks.generated] == [(-256, -1, 0, 1, 256)]
    assert blocks.generated[0].blocks == 508 and sorted(blocks.members.tolist()) == list(range(512))
    x, y = np.ones(a.cols), np.zeros(a.rows)
    names = [launch.kernel for launch in fmt.launches(x, y)]
    assert names[0] == "brcsd_list<double, int, false, -256, -1, 0, 1, 256>" and names[1].startswith("brcsd_table")
    x = np.random.default_rng(0).uniform(1, 2, a.cols)
    expected = np.bincount(a.row_idx, a.values * x[a.col_idx], a.rows)
    np.testing.assert_allclose(multiply(fmt, x, emulated), expected, rtol=1e-13, atol=1e-13)
    assert not part("poisson2d:256", storage="brcsd-2", least=0).generated


def test_brcsd_own_lists_repeat_shared_ones():
    own, shared = (part("poisson2d:256", storage=name) for name in ("brcsd-1", "brcsd-2"))
    assert len(own.pattern_ptr) == 513 and len(shared.pattern_ptr) == 4
    assert own.nbytes > shared.nbytes


def stencil(points: int) -> sparse.csr_array:
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(points, points))
    one = sparse.eye_array(points)
    kron = sparse.kron
    a = kron(kron(line, one), one) + kron(kron(one, line), one) + kron(kron(one, one), line)
    return sparse.csr_array(a)


def test_row_patterns_a_stencil_with_constant_coefficients_has_27_rows():
    fmt = RowPatterns.from_csr(stencil(8))
    assert fmt.detail == {"patterns": 27} and fmt.pattern.dtype == np.uint8
    entries = sum(count * (4 + inside) for inside, count in enumerate((8, 12, 6, 1)))  # corners, edges, faces, inner
    assert len(fmt.values) == entries
    assert fmt.nbytes == RowPatterns.estimate(Csr.of(stencil(8))) == 512 + 4 * 28 + entries * 12


def test_row_patterns_rows_that_differ_in_one_bit_are_two():
    a = stencil(8)
    a.data[a.indptr[300]] = np.nextafter(a.data[a.indptr[300]], 0)
    assert RowPatterns.from_csr(a).detail == {"patterns": 28}
    a.data[:] = 0.0
    a.data[a.indptr[300]] = -0.0
    decoded = RowPatterns.from_csr(a)
    assert decoded.detail == {"patterns": 28}
    assert np.signbit(decoded.to_coo()[2]).sum() == 1


def test_row_patterns_more_distinct_rows_than_two_bytes_tell_apart_are_refused():
    a = sparse.diags_array(1.0 + np.arange(MOST + 1), format="csr")
    with pytest.raises(Skip, match="65,537 of 65,537 rows are distinct, a dictionary holds 65,536"):
        RowPatterns.from_csr(a)
    kept = RowPatterns.from_csr(a[:MOST, :MOST])
    assert kept.pattern.dtype == np.uint16 and kept.detail == {"patterns": MOST}


@pytest.mark.parametrize("key", ["csr-scalar", "dia", "hyb", "block-sell", "cb", "cusparse-csr-alg1"])
def test_row_patterns_other_storages_compress_no_values(key):
    a = Csr.of(stencil(6))
    assert not compresses_values(formats.get(key).from_csr(a), a)
    assert compresses_values(RowPatterns.from_csr(a), a)


def test_row_patterns_zeros_that_a_format_drops_are_no_compression():
    a = stencil(6)
    a.data[::2] = 0.0
    a = Csr.of(a)
    assert not compresses_values(formats.get("dia").from_csr(a), a)
