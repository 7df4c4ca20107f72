import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.devices import open_device
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr, Launch, Skip, per_thread
from spmvbench.formats.arrays import nonzero_mask
from spmvbench.formats.csr.csr import CsrScalar
from spmvbench.matrices import load
from spmvbench.measure import verify
from spmvbench.measure.verify import compare, references, run_and_verify, sparse_references

KEYS = formats.keys()


@pytest.fixture(scope="module")
def emulated():
    return open_device("emulated")


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


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from([np.float32, np.float64]), st.integers(-30, 30))
def test_any_order_of_summation_passes(seed, dtype, exponent):
    a = matrix(12, 40, seed, density=0.5, dtype=dtype)
    a = Csr(a.shape, a.row_ptr, a.col_idx, a.values * dtype(10.0**exponent))
    reference = references(a, seed)[0]
    verdict = compare(shuffled_product(a, reference.x, np.random.default_rng(seed)), reference)
    assert verdict.ratio <= 1, str(verdict)


def test_products_in_the_subnormal_range_pass():
    a = matrix(20, 20, dtype=np.float32)
    tiny = Csr(a.shape, a.row_ptr, a.col_idx, np.full(a.nnz, 1e-42, np.float32))
    reference = references(tiny, 0)[0]
    assert compare(shuffled_product(tiny, reference.x, np.random.default_rng(0)), reference).passed


def dropped(a, reference):
    k = a.row_ptr[4]
    return a.values[k] * reference.x[a.col_idx[k]]


@pytest.mark.parametrize("wrong", [dropped, *(lambda *_, bad=bad: bad for bad in (math.nan, math.inf, -math.inf))])
def test_a_dropped_entry_and_a_value_that_is_not_finite_are_detected(wrong):
    a = matrix(30, 30)
    reference = references(a, 0)[0]
    y = reference.y.copy()
    y[4] -= wrong(a, reference)
    verdict = compare(y, reference)
    assert (verdict.passed, verdict.row) == (False, 4) and str(verdict).startswith("y[4] is ")
    assert verdict.ratio == math.inf or np.isfinite(y).all()


def test_float32_accumulation_of_float64_values_is_detected():
    reference = references(matrix(50, 50), 0)[0]
    assert not compare(reference.y.astype(np.float32), reference).passed


def test_an_empty_row_must_be_exactly_zero():
    a = Csr.of(sparse.csr_array(([1.0], ([0], [0])), shape=(2, 2)))
    reference = references(a, 0)[0]
    assert reference.bound[1] == 0
    right = np.array([a.values[0] * reference.x[0], 0.0])
    assert compare(right, reference).ratio == 0
    assert compare(right + np.array([0, 1e-300]), reference).ratio == math.inf
    assert compare(np.empty(0), references(Csr.of(sparse.csr_array((0, 3))), 0)[0]).passed


def test_x_has_both_signs_differs_and_repeats_by_seed():
    a = matrix(5, 400)
    first, second, thin = references(a, 7)
    assert 0 < np.count_nonzero(thin.x) < 100 and first.x.min() < 0 < first.x.max()
    np.testing.assert_array_equal(first.x, references(a, 7)[0].x)
    assert not np.array_equal(first.x, second.x) and not np.array_equal(first.x, references(a, 8)[0].x)


def test_the_reference_uses_the_values_as_stored():
    a = matrix(40, 40)
    narrow = a.astype(np.float32)
    reference = references(narrow, 0)[0]
    exact = sparse.csr_array((narrow.values.astype(np.float64), a.col_idx, a.row_ptr), shape=a.shape)
    assert reference.x.dtype == np.float32
    np.testing.assert_array_equal(reference.y, exact @ reference.x.astype(np.float64))


@pytest.mark.parametrize(("value", "words"), [(np.inf, "not finite"), (np.nan, "not finite"), (3e38, "overflow")])
def test_a_matrix_without_a_correct_result_is_refused(value, words):
    a = matrix(20, 20, density=0.9, dtype=np.float32)
    with pytest.raises(Skip, match=words):
        references(Csr(a.shape, a.row_ptr, a.col_idx, np.full(a.nnz, value, np.float32)), 0)


class HostDevice:
    def synchronize(self):
        pass

    def to_host(self, array):
        return array


class Backwards(CsrScalar):
    """Takes x and returns y in reverse order."""

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

    return run_and_verify(verify.Run(cls.from_csr(a), Program(), HostDevice(), x, y), references(a, 0))


def skips_a_row(product, x, y):
    y[1:] = product(x)[1:]


def adds_to_old(product, x, y):
    y += product(x)


def remembers_the_first_x(product, x, y):
    y[:] = vars(remembers_the_first_x).setdefault("kept", product(x))


def returns_where_finite(product, x, y):
    if not np.isfinite(y).all():
        y[:] = product(x)


def adds_where_finite(product, x, y):
    y[:] = np.where(np.isfinite(y), y, 0) + product(x)


def spoils_x(product, x, y):
    y[:] = product(x)
    x[7] = 0


def multiplies(product, x, y):
    y[:] = product(x)


def multiplies_backwards(product, x, y):
    y[::-1] = product(x[::-1])


@pytest.mark.parametrize(
    ("multiply", "cls", "said"),
    [
        (multiplies, CsrScalar, ""),
        (multiplies_backwards, Backwards, ""),  # verified in the matrix's order
        (multiplies_backwards, CsrScalar, "y["),
        (multiplies, Backwards, "y["),
        *((wrong, CsrScalar, "y[") for wrong in (skips_a_row, adds_to_old, remembers_the_first_x)),
        *((wrong, CsrScalar, "y[") for wrong in (returns_where_finite, adds_where_finite)),
        (spoils_x, CsrScalar, "x[7] is 0, expected "),
    ],
)
def test_stale_results_other_orders_and_writing_to_x_are_detected(multiply, cls, said):
    a = matrix(30, 30)
    right = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)
    verdict = check(lambda x, y: multiply(right.__matmul__, x, y), a, cls)
    assert verdict.passed == (not said) and str(verdict).startswith(said)


def long_row(entries, dtype, values):
    """A row of so many entries between rows of three."""
    rng = np.random.default_rng(5)
    a = sparse.random_array((40, entries + 100), density=3 / (entries + 100), rng=rng).tolil()
    a[17, :entries] = values(rng, entries)
    return Csr.of(a.tocsr()).astype(dtype)


def hidden_entries(a, found):
    """Entries whose loss no reference of `found` detects: y without their product is within the bound."""
    rng, hidden = np.random.default_rng(0), []
    for k in rng.choice(np.arange(a.row_ptr[17], a.row_ptr[18]), 300, replace=False):
        for reference in found:
            product = float(a.values[k]) * reference.whole_x(a.cols)[a.col_idx[k]]
            place = 17 if reference.rows is None else int(np.flatnonzero(reference.rows == 17)[0])
            y = reference.y.copy()
            y[place] -= product
            if not compare(spread(y, reference, a.rows), reference).passed:
                break
        else:
            hidden.append(k)
    return hidden


def spread(y, reference, rows):
    """A result for some rows, extended to all rows; the other rows are arbitrary."""
    if reference.rows is None:
        return y
    whole = np.full(rows, 1e9)
    whole[reference.rows] = y
    return whole


@pytest.mark.parametrize("values", [lambda rng, n: rng.uniform(0.5, 1, n), lambda rng, n: rng.normal(size=n)])
def test_sparse_checks_detect_entries_of_long_rows(values):
    a = long_row(6000, np.float32, values)
    dense = references(a, 0, 1)
    thin = sparse_references(a, dense, np.random.default_rng(2))
    assert len(hidden_entries(a, dense[:2])) > 200
    assert hidden_entries(a, [*dense, *thin]) == []
    assert 2 < len(thin) <= verify.SPARSE_CHECKS
    assert all((reference.rows == [17]).all() for reference in thin)


def test_sparse_checks_detect_entries_far_smaller_than_their_rows():
    a = matrix(60, 60, density=0.2)
    a.values[::7] *= 1e-20
    dense = references(a, 0, 1)
    found = [*dense, *sparse_references(a, dense, np.random.default_rng(2))]
    for k in range(a.nnz):
        told = []
        for reference in found:
            row = a.row_idx[k] if reference.rows is None else np.searchsorted(reference.rows, a.row_idx[k])
            told.append(abs(a.values[k] * reference.whole_x(60)[a.col_idx[k]]) > 2 * reference.bound[row])
        assert any(told), k


def test_any_order_of_summation_passes_sparse_checks():
    a = long_row(3000, np.float32, lambda rng, n: rng.normal(size=n))
    rng = np.random.default_rng(3)
    for reference in sparse_references(a, references(a, 0, 1), rng):
        assert compare(shuffled_product(a, reference.whole_x(a.cols), rng), reference).passed


def test_ordinary_matrices_need_no_sparse_checks():
    a = matrix(300, 300)
    assert sparse_references(a, references(a, 0, 1), np.random.default_rng(0)) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_integers_are_exact_in_any_order_and_detect_every_lost_or_doubled_entry(dtype):
    a = long_row(5000, dtype, lambda rng, n: 1e-30 * rng.normal(size=n))
    integers, rng = verify.integer_matrix(a), np.random.default_rng(4)
    for reference in verify.integer_references(a, rng):
        y = shuffled_product(integers, reference.x, rng)
        assert compare(y, reference).ratio == 0
        for k in rng.integers(0, a.nnz, 50):
            product = integers.values[k] * reference.x[integers.col_idx[k]]
            for wrong in (y[a.row_idx[k]] - product, y[a.row_idx[k]] + product):
                changed = y.copy()
                changed[a.row_idx[k]] = wrong
                assert compare(changed, reference).ratio == math.inf


def test_the_integer_matrix_has_the_same_pattern_and_exact_sums():
    a = Csr.of(sparse.csr_array(np.ones((30, 30))))
    integers = verify.integer_matrix(a)
    dense = integers.values.reshape(30, 30)
    assert (dense == dense.T).all()
    assert set(dense.ravel()) == {1, 2, 3, 4}
    assert integers.row_ptr is a.row_ptr and integers.col_idx is a.col_idx
    a.values[::7], a.values[3] = 0, -0.0
    zeros = verify.integer_matrix(a)
    assert ((zeros.values == 0) == (a.values == 0)).all() and (zeros.values[1:3] == integers.values[1:3]).all()
    for reference in verify.integer_references(a, np.random.default_rng(0)):
        y = sparse.csr_array((zeros.values, a.col_idx, a.row_ptr), shape=a.shape) @ reference.x
        assert (y == reference.y).all()
    for length, value, largest in ((4, 4, 1000), (2**14, 4, 256), (2**22, 4, 1), (2**23, 2, 1), (2**24 + 1, 0, 0)):
        single = a.astype(np.float32)
        single.__dict__["row_len_max"] = length
        assert verify._integer_limits(single) == (value, largest)
        assert value * largest * length <= 2**24
    assert verify.integer_matrix(single) is None
    assert verify.integer_references(single, np.random.default_rng(0)) == []


@pytest.mark.parametrize("cls", [CsrScalar, Backwards])
def test_one_wrong_run_among_many_is_detected(cls):
    a = matrix(30, 30)
    right = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)
    x, y, runs = np.zeros(30), np.zeros(30), []

    class Program:
        def run(self):
            runs.append(1)
            backwards = slice(None, None, -1 if cls is Backwards else 1)
            y[backwards] = right @ x[backwards]
            if len(runs) == wrong:
                y[4] = 2 * y[4] + 1

    def verdict(most):
        runs.clear()
        run = verify.Run(cls.from_csr(a), Program(), HostDevice(), x, y)
        return verify.repeat_and_verify(run, references(a, 0)[:2], most, 100.0)

    wrong = 50
    assert not verdict(60).passed
    assert verdict(60).row == (25 if cls is Backwards else 4)
    assert verdict(49).passed
    assert len(runs) == 49


TINY = 1e-40  # a subnormal in single precision, of 17 bits


def tiny(rows=50, seed=3):
    """A matrix in single precision all whose values, and products with an x below 1, are subnormal."""
    a = matrix(rows, rows, seed=seed)
    return Csr(a.shape, a.row_ptr, a.col_idx, np.copysign(TINY, a.values).astype(np.float32))


def test_references_keep_subnormals_and_bounds_allow_for_atomics_that_flush_them():
    a = tiny()
    right = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)
    for reference in references(a, 0):
        y = right @ reference.x
        assert (abs(y[y != 0]) < np.finfo(np.float32).tiny).all()
        np.testing.assert_allclose(reference.y, right.astype(np.float64) @ reference.x.astype(np.float64))
        assert (reference.y[a.row_lengths > 0] != 0).any()
        assert compare(y, reference).passed and compare(np.zeros_like(y), reference).passed
        assert not compare(y + np.float32(1e-30), reference).passed


@pytest.mark.parametrize("key", ["csr-scalar", "coo-flat", "dia"])
def test_formats_pass_with_subnormals(key, emulated):
    a = tiny()
    testing.check_conversion(key, a)
    assert testing.check_product(key, a, emulated) <= 1


SPECIAL = np.array(
    [0, 1e-45, 3e-45, 1e-40, 1.1754942e-38, 1.1754944e-38, 1.0, 3.4028235e38, np.inf, np.nan], dtype=np.float32
)


def special():
    """Single precision numbers of every kind, of both signs."""
    return np.concatenate([SPECIAL, -SPECIAL, np.random.default_rng(0).integers(0, 2**32, 5000, np.uint32).view("f4")])


def test_exact_conversion_of_single_precision(tmp_path, emulated):
    source = tmp_path / "exact.cu"
    kernel = "if (global_thread() < n) found[global_thread()] = exact(values[global_thread()]);"
    head = "__global__ void convert(int n, const float* values, double* found)"
    source.write_text(f'#include "spmv.cuh"\n{verify.EXACT}\n{head} {{ {kernel} }}\n')
    values = special()
    found = np.zeros(len(values))
    args = np.int32(len(values)), values, found
    emulated.compile([Launch(str(source), "convert", *per_thread(len(values)), args)]).run()
    with np.errstate(invalid="ignore"):
        expected = values.astype(np.float64)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.gpu
def test_subnormals_are_kept_on_a_gpu():
    import cupy

    values = special()
    with np.errstate(invalid="ignore"):
        expected = values.astype(np.float64)
    on_device = cupy.asarray(values)
    np.testing.assert_array_equal(verify.exact(on_device).get(), expected)
    np.testing.assert_array_equal(nonzero_mask(on_device).get(), values != 0)
    finite = np.isfinite(values)
    bound = cupy.zeros(int(finite.sum()))
    assert compare(on_device[finite], verify.Reference(None, cupy.asarray(expected[finite]), bound)).ratio == 0


@pytest.mark.gpu
@pytest.mark.parametrize("key", [key for key in KEYS if formats.get(key).op == "spmv"])
def test_formats_pass_with_subnormals_on_a_gpu(key):
    device, a = open_device("cuda:0"), tiny(96)
    try:
        testing.check_conversion(key, a, device.xp)
        assert testing.check_product(key, a, device) <= 1
    except Skip as skip:
        pytest.skip(skip.reason)


@pytest.mark.gpu
@pytest.mark.parametrize("key", ["csr-scalar", "csr5", "ell", "hyb", "cusparse-csr-alg1"])
def test_hang_glider_is_verified_in_single_precision(key, mirror, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(mirror))
    try:
        a = Csr.of(load("VDOL/hangGlider_2")).astype(np.float32)
    except SpmvbenchError as error:
        pytest.skip(f"needs VDOL/hangGlider_2 in the mirror (SPMVBENCH_MIRROR): {error}")
    assert testing.check_product(key, a, open_device("cuda:0")) <= 1
