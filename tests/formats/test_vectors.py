"""Orders of x and y: data that the benchmark checks once and applies."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import multiply
from spmvbench.formats import Csr
from spmvbench.formats.csr.csr import CsrScalar
from spmvbench.formats.vectors import check_order, in_order, orders, restored
from spmvbench.measure.verify import put, references

A = Csr.of(sparse.csr_array(np.array([[1.0, 2, 0], [0, 0, 3]])))


def test_an_order_says_what_each_place_holds():
    x, order = np.array([10.0, 11, 12]), np.array([2, 0, 1])
    assert in_order(x, order).tolist() == [12, 10, 11]
    assert restored(in_order(x, order), order).tolist() == x.tolist()
    assert in_order(x, None) is x
    assert restored(x, None) is x


@pytest.mark.parametrize("order", [np.array([2, 0, 1]), np.array([0, 1, 2], dtype=np.uint8)])
def test_permutations_are_orders(order):
    check_order(order, 3)
    check_order(order[:0], 0)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (np.array([0.0, 1, 2]), "array of integers, not float64"),
        ([0, 1, 2], "array of integers, not list"),
        (np.array([True, False, True]), "array of integers, not bool"),
        (np.array([0, 1]), r"shape \(3,\), not \(2,\)"),
        (np.array([[0, 1, 2]]), r"shape \(3,\), not \(1, 3\)"),
        (np.array([0, 1, 1]), "each of 0 to 2 once"),
        (np.array([1, 2, 3]), "each of 0 to 2 once"),
        (np.array([0, 1, -1]), "each of 0 to 2 once"),
    ],
)
def test_what_is_no_permutation_is_no_order(order, words):
    with pytest.raises(ValueError, match=words):
        check_order(order, 3)


class Asked(CsrScalar):
    """Notes how often it is asked for its orders."""

    @property
    def x_order(self):
        TIMES.append("x")
        return np.arange(self.shape[1])

    @property
    def y_order(self):
        TIMES.append("y")
        return np.arange(self.shape[0])


TIMES = []


def test_a_format_is_asked_for_its_orders_once():
    fmt = Asked.from_csr(A)
    TIMES.clear()
    for _ in range(3):
        assert (fmt @ np.ones(3)).tolist() == [3, 3]
        put(fmt, references(A, 0)[0], np.zeros(3))
    assert TIMES == ["x", "y"]
    assert orders(Asked.from_csr(A))[1].tolist() == [0, 1]


class Doubled(CsrScalar):
    """Its order of y names a row twice."""

    @property
    def y_order(self):
        return np.zeros(self.shape[0], dtype=np.int32)


def test_a_wrong_order_is_an_error_wherever_it_would_be_applied():
    fmt = Doubled.from_csr(A)
    for use in (lambda: multiply(fmt, np.ones(3)), lambda: put(fmt, references(A, 0)[0], np.zeros(3))):
        with pytest.raises(ValueError, match="each of 0 to 1 once"):
            use()
