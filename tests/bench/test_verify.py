import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from spmvbench.bench.verify import judge, references, run_and_judge
from spmvbench.formats import Csr, Skip
from spmvbench.formats.csr.csr import CsrScalar


def matrix(rows, cols, seed=0, density=0.2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    a = sparse.random_array((rows, cols), density=density, rng=rng, data_sampler=lambda size: rng.normal(size=size))
    return Csr.of(a).astype(dtype)


def shuffled_product(a, x, rng):
    """Y = A x with every row's products summed one by one in the matrix's type, in a random order."""
    y = np.zeros(a.rows, a.dtype)
    for row in range(a.rows):
        for k in rng.permutation(np.arange(a.row_ptr[row], a.row_ptr[row + 1])):
            y[row] += a.values[k] * x[a.col_idx[k]]
    return y


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([np.float32, np.float64]), st.integers(-30, 30))
def test_any_order_of_summation_is_right(seed, dtype, exponent):
    a = matrix(12, 40, seed, density=0.5, dtype=dtype)
    a = Csr(a.shape, a.row_ptr, a.col_idx, a.values * dtype(10.0**exponent))
    reference = references(a, seed)[0]
    verdict = judge(shuffled_product(a, reference.x, np.random.default_rng(seed)), reference)
    assert verdict.ratio <= 1, str(verdict)


def test_products_in_the_subnormal_range_are_right():
    a = matrix(20, 20, dtype=np.float32)
    tiny = Csr(a.shape, a.row_ptr, a.col_idx, np.full(a.nnz, 1e-42, np.float32))
    reference = references(tiny, 0)[0]
    assert judge(shuffled_product(tiny, reference.x, np.random.default_rng(0)), reference).right


def test_a_dropped_entry_is_wrong():
    a = matrix(30, 30)
    reference = references(a, 0)[0]
    y = reference.y.copy()
    row = int(np.argmax(a.row_lengths))
    k = a.row_ptr[row]
    y[row] -= a.values[k] * reference.x[a.col_idx[k]]
    verdict = judge(y, reference)
    assert not verdict.right
    assert verdict.row == row
    assert f"y[{row}]" in str(verdict)


def test_float32_accumulation_of_float64_values_is_wrong():
    a = matrix(50, 50)
    reference = references(a, 0)[0]
    assert not judge(reference.y.astype(np.float32), reference).right


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_infinitely_wrong(bad):
    reference = references(matrix(30, 30), 0)[0]
    y = reference.y.copy()
    y[4] = bad
    assert judge(y, reference).ratio == math.inf
    assert judge(y, reference).row == 4


def test_an_empty_row_must_be_exactly_zero():
    a = Csr.of(sparse.csr_array(([1.0], ([0], [0])), shape=(2, 2)))
    reference = references(a, 0)[0]
    assert reference.bound[1] == 0
    right = np.array([a.values[0] * reference.x[0], 0.0])
    assert judge(right, reference).ratio == 0
    assert judge(right + np.array([0, 1e-300]), reference).ratio == math.inf


def test_a_matrix_without_rows_is_right():
    a = Csr.of(sparse.csr_array((0, 3)))
    assert judge(np.empty(0), references(a, 0)[0]).right


def test_x_has_both_signs_differs_and_repeats_by_seed():
    a = matrix(5, 400)
    first, second, thin = references(a, 7)
    assert 0 < np.count_nonzero(thin.x) < 100
    again = references(a, 7)[0]
    assert (first.x < 0).any()
    assert (first.x > 0).any()
    assert not np.array_equal(first.x, second.x)
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, references(a, 8)[0].x)


def test_the_reference_uses_the_values_as_stored():
    a = matrix(40, 40)
    narrow = a.astype(np.float32)
    reference = references(narrow, 0)[0]
    exact = sparse.csr_array((narrow.values.astype(np.float64), a.col_idx, a.row_ptr), shape=a.shape)
    assert reference.x.dtype == np.float32
    np.testing.assert_array_equal(reference.y, exact @ reference.x.astype(np.float64))


@pytest.mark.parametrize(("value", "words"), [(np.inf, "not finite"), (np.nan, "not finite"), (3e38, "overflow")])
def test_a_matrix_without_a_right_answer_is_refused(value, words):
    a = matrix(20, 20, density=0.9, dtype=np.float32)
    with pytest.raises(Skip, match=words):
        references(Csr(a.shape, a.row_ptr, a.col_idx, np.full(a.nnz, value, np.float32)), 0)


class HostDevice:
    def synchronize(self):
        pass

    def to_host(self, array):
        return array


class Backwards(CsrScalar):
    """Takes x and gives y in reverse."""

    @property
    def x_order(self):
        return np.arange(self.shape[1])[::-1]

    @property
    def y_order(self):
        return np.arange(self.shape[0])[::-1]


def check(product, a, cls=CsrScalar):
    x, y = np.zeros(a.cols), np.zeros(a.rows)

    class Program:
        def run(self):
            product(x, y)

    return run_and_judge(cls.from_csr(a), Program(), HostDevice(), x, y, references(a, 0))


def test_run_and_judge_accepts_a_right_product_and_finds_stale_results():
    a = matrix(30, 30)
    right = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)

    def skips_a_row(x, y):
        y[1:] = (right @ x)[1:]

    def adds_to_old(x, y):
        y += right @ x

    first = right @ references(a, 0)[0].x

    def remembers_the_first_x(x, y):
        y[:] = first

    def multiplies(x, y):
        y[:] = right @ x

    assert check(multiplies, a).right
    for wrong in (skips_a_row, adds_to_old, remembers_the_first_x):
        assert not check(wrong, a).right, wrong.__name__


def test_a_format_with_orders_of_its_own_is_judged_in_the_matrix_s():
    a = matrix(30, 20)
    right = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)

    def in_order(x, y):
        y[:] = right @ x

    def backwards(x, y):
        y[::-1] = right @ x[::-1]

    assert check(backwards, a, Backwards).right
    assert not check(backwards, a).right
    assert not check(in_order, a, Backwards).right
