"""Distinct rows stored once: which rows are one, what they take, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats
from spmvbench.formats import Skip
from spmvbench.formats.arrays import Csr
from spmvbench.formats.dia.row_patterns import MOST, RowPatterns
from spmvbench.formats.footprint import compresses_values


def stencil(points: int) -> sparse.csr_array:
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(points, points))
    one = sparse.eye_array(points)
    kron = sparse.kron
    a = kron(kron(line, one), one) + kron(kron(one, line), one) + kron(kron(one, one), line)
    return sparse.csr_array(a)


def test_a_stencil_with_constant_coefficients_has_27_rows():
    fmt = RowPatterns.from_csr(stencil(8))
    assert fmt.detail == {"patterns": 27} and fmt.pattern.dtype == np.uint8
    entries = sum(count * (4 + inside) for inside, count in enumerate((8, 12, 6, 1)))  # corners, edges, faces, inner
    assert len(fmt.values) == entries
    assert fmt.nbytes == RowPatterns.estimate(Csr.of(stencil(8))) == 512 + 4 * 28 + entries * 12


def test_rows_that_differ_in_one_bit_are_two():
    a = stencil(8)
    a.data[a.indptr[300]] = np.nextafter(a.data[a.indptr[300]], 0)
    assert RowPatterns.from_csr(a).detail == {"patterns": 28}
    a.data[:] = 0.0
    a.data[a.indptr[300]] = -0.0
    decoded = RowPatterns.from_csr(a)
    assert decoded.detail == {"patterns": 28}
    assert np.signbit(decoded.to_coo()[2]).sum() == 1


def test_more_distinct_rows_than_two_bytes_tell_apart_are_refused():
    a = sparse.diags_array(1.0 + np.arange(MOST + 1), format="csr")
    with pytest.raises(Skip, match="65,537 of 65,537 rows are distinct, a dictionary holds 65,536"):
        RowPatterns.from_csr(a)
    kept = RowPatterns.from_csr(a[:MOST, :MOST])
    assert kept.pattern.dtype == np.uint16 and kept.detail == {"patterns": MOST}


@pytest.mark.parametrize("key", ["csr-scalar", "dia", "hyb", "block-sell", "cb", "cusparse-csr-alg1"])
def test_other_storages_compress_no_values(key):
    a = Csr.of(stencil(6))
    assert not compresses_values(formats.get(key).from_csr(a), a)
    assert compresses_values(RowPatterns.from_csr(a), a)


def test_zeros_that_a_format_drops_are_no_compression():
    a = stencil(6)
    a.data[::2] = 0.0
    a = Csr.of(a)
    assert not compresses_values(formats.get("dia").from_csr(a), a)
