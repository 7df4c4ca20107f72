"""Constant diagonals: what a row takes, what is refused, and that a neighbour's x does not count."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.devices import open_device
from spmvbench.formats import Skip
from spmvbench.formats.arrays import Csr
from spmvbench.formats.dia.constant_diagonals import MOST, ConstantDiagonals, DiagonalPatterns
from spmvbench.formats.footprint import compresses_values


def periodic(points: int) -> sparse.csr_array:
    """A line of points whose ends have fewer neighbours, many times."""
    line = sparse.diags_array([-1.0, 2.0, 0.5], offsets=[-1, 0, 1], shape=(points, points))
    return sparse.csr_array(sparse.kron(sparse.eye_array(40), line))


@pytest.mark.parametrize(("diagonals", "size"), [(1, 1), (8, 1), (9, 2), (16, 2), (17, 4), (MOST, 4)])
def test_a_row_takes_a_bit_per_diagonal(diagonals, size):
    a = sparse.diags_array(np.arange(1.0, diagonals + 1), offsets=range(diagonals), shape=(100, 100)).tocsr()
    fmt = ConstantDiagonals.from_csr(a)
    assert fmt.nbytes == ConstantDiagonals.estimate(Csr.of(a)) == 100 * size + 12 * diagonals
    assert fmt.detail == {"constant_diagonals": diagonals}
    assert compresses_values(fmt, Csr.of(a))


def test_what_is_not_constant_in_every_bit_is_refused():
    a = periodic(30)
    a.data[5] = np.nextafter(a.data[5], 3)
    with pytest.raises(Skip, match="1 of 3 diagonals hold different values"):
        ConstantDiagonals.from_csr(a)
    a.data[:] = 0.0
    a.data[0] = -0.0
    with pytest.raises(Skip, match="1 of 3"):
        ConstantDiagonals.from_csr(a)
    with pytest.raises(Skip, match="33 diagonals hold entries"):
        ConstantDiagonals.from_csr(sparse.diags_array(np.ones(33), offsets=range(33), shape=(50, 50)).tocsr())


def test_a_dictionary_has_a_value_for_each_diagonal():
    a = periodic(30)
    a.data[a.indptr[31]] = 7.0
    fmt = DiagonalPatterns.from_csr(a)
    assert fmt.detail == {"patterns": 4, "diagonals": 3}  # at both ends of a line, inside, and the one that differs
    assert fmt.nbytes == DiagonalPatterns.estimate(Csr.of(a)) == 1200 + 4 * 4 + 3 * 4 + 4 * 4 * 8


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("params", ["", "[rows=1,threads=128]", "[rows=2]", "[rows=8,threads=512]"])
@pytest.mark.parametrize("key", ["constant-diagonals", "diagonal-patterns"])
def test_products_are_right(key, params, dtype):
    """Of blocks at both ends, whose x is loaded by the masks, and between, where all of it is."""
    device = open_device("emulated")
    for a in (periodic(101), sparse.diags_array([1.5, 2.0], offsets=[-900, 1500], shape=(6000, 7000)).tocsr()):
        testing.check_conversion(f"{key}{params}", a.astype(dtype))
        testing.check_product(f"{key}{params}", a.astype(dtype), device)


@pytest.mark.parametrize("cls", [ConstantDiagonals, DiagonalPatterns])
def test_x_beside_a_missing_entry_does_not_count(cls):
    a = periodic(50)
    device = open_device("emulated")
    fmt = cls.from_csr(a, rows=1, threads=128)
    x, y = np.ones(a.shape[1]), np.zeros(a.shape[0])
    x[50] = np.nan  # of a row whose neighbour before has no entry there
    device.compile(fmt.launches(x, y)).run()
    expected = a @ x
    assert np.isnan(y[50]) and np.isnan(y[51]) and y[49] == expected[49] == 1.0
    np.testing.assert_array_equal(y, expected)
