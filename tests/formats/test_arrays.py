"""Canonical CSR: what becomes one, and what is refused; pointers and keys that take 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench.formats.arrays import PARTS, Csr, nonzero_mask, offsets, stable_order
from spmvbench.formats.csr.csr import CsrScalar


def test_canonical_form_sorts_sums_and_keeps_zeros():
    a = sparse.csr_array((np.array([1.0, 2.0, 0.0, 4.0]), np.array([3, 3, 0, 1]), np.array([0, 2, 4])), shape=(2, 5))
    csr = Csr.of(a)
    assert csr.row_ptr.tolist() == [0, 1, 3]
    assert csr.col_idx.tolist() == [3, 0, 1]
    assert csr.values.tolist() == [3.0, 0.0, 4.0]
    assert a.nnz == 4, "the caller's matrix is left as it was"
    assert (csr.row_ptr.dtype, csr.col_idx.dtype) == (np.int32, np.int32)


def test_values_that_are_not_floats_become_double():
    assert Csr.of(sparse.csr_array(np.eye(3, dtype=np.int8))).dtype == np.float64
    assert Csr.of(sparse.csr_array(np.eye(3, dtype=np.float32))).dtype == np.float32


def test_pointers_and_keys_of_64_bits_and_blocks_of_rows():
    assert [offsets(np.array([most, 1])).dtype for most in (2**30, 2**31 - 1)] == [np.int32, np.int64]
    assert stable_order(np.array([5, 3, 5, 2**61, 3, 0]), 2**62).tolist() == [5, 1, 4, 0, 2, 3]
    blocks = list(Csr.of(sparse.csr_array(np.triu(np.ones((9, 9))))).row_blocks(2, 20))
    assert [(first, block.rows, block.nnz) for first, block in blocks] == [
        (0, 2, 17),
        (2, 2, 13),
        (4, 4, 14),
        (8, 1, 1),
    ]


def test_complex_values_and_dense_arrays_are_refused():
    with pytest.raises(TypeError, match="complex128"):
        Csr.of(sparse.csr_array(np.eye(2) * 1j))
    with pytest.raises(TypeError, match="ndarray"):
        Csr.of(np.eye(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormals_are_not_zero_and_negative_zero_is(dtype):
    smallest = np.finfo(dtype).smallest_subnormal
    values = np.array([[0.0, -0.0, smallest], [-smallest, 1.0, np.nan]], dtype=dtype)
    assert nonzero_mask(values).tolist() == [[False, False, True], [True, True, True]]


def bad(cls, change):
    """A matrix of 3 x 5 in a format of SciPy's, an array of it changed."""
    a = cls(np.array([[1.0, 2, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 3, 4, 5]]))
    change(a)
    return a


def put(name, place, value):
    """What changes an element, in 64 bits where it takes that many."""

    def change(a):
        array = getattr(a, name).astype(np.int64 if abs(value) > 2**31 else np.int32)
        array[place] = value
        setattr(a, name, array)

    return change


BAD = [
    (sparse.csr_array, put("indices", 3, 5), "entry 3 is in column 5, the matrix has 5"),
    (sparse.csr_array, put("indices", 1, -1), "entry 1 is in column -1, the matrix has 5"),
    (sparse.csr_array, put("indices", 4, 2**31 + 1), "entry 4 is in column 2147483649, the matrix has 5"),
    (sparse.csr_array, put("indices", 2, 2**32 + 2), "entry 2 is in column 4294967298"),
    (sparse.csr_matrix, put("indices", slice(1, 3), 99), "entry 1 is in column 99"),
    (sparse.csr_array, put("indptr", 0, 1), "row pointers run from 1 to 5, not from 0 to 5"),
    (sparse.csr_array, put("indptr", 3, 6), "row pointers run from 0 to 6, not from 0 to 5"),
    (sparse.csr_array, put("indptr", 1, 7), "pointers of row 1 fall from 7 to 2"),
    (sparse.csr_array, put("indptr", 2, -1), "pointers of row 1 fall from 2 to -1"),
    (sparse.csr_array, lambda a: setattr(a, "indptr", a.indptr[:3]), "row pointers must be an array of 4 integers"),
    (sparse.csr_array, lambda a: setattr(a, "indices", a.indices * 1.0), "column indices must be an array of integers"),
    (sparse.csr_array, lambda a: setattr(a, "data", a.data[:4]), "5 indices and 4 values"),
    (sparse.csr_array, lambda a: setattr(a, "data", np.array([1, 2, 3, 4, -(2**53) - 1])), "integers beyond 2\\^53"),
    (sparse.csc_array, put("indices", 0, 3), "entry 0 is in row 3, the matrix has 3"),
    (sparse.csc_array, put("indptr", 5, 9), "column pointers run from 0 to 9, not from 0 to 5"),
    (sparse.bsr_array, put("indices", 0, 12), "entry 0 is in block column 12"),
    (sparse.coo_array, put("col", 2, -7), "entry 2 is in column -7"),
    (sparse.coo_array, put("row", 4, 3), "entry 4 is in row 3, the matrix has 3"),
]


@pytest.mark.parametrize(("cls", "change", "words"), BAD)
def test_indices_outside_of_the_matrix_are_named(cls, change, words):
    with pytest.raises(ValueError, match=words):
        CsrScalar.from_csr(bad(cls, change))


def strided(array):
    return np.repeat(array, 2, axis=0)[::2]


def unaligned(array):
    table = np.zeros(len(array), [("pad", "i1"), ("column", array.dtype, array.shape[1:])])
    table["column"] = array
    return table["column"]


def swapped(array):
    return array.astype(array.dtype.newbyteorder()) if array.ndim == 1 else array  # SciPy's DIA refuses it


def unsigned(array):
    return array.astype(np.uint64) if array.dtype.kind == "i" else array


@pytest.mark.parametrize("change", [strided, unaligned, swapped, unsigned])
@pytest.mark.parametrize("kind", PARTS)
def test_any_arrays_become_regular(kind, change):
    a = sparse.random_array((20, 15), density=0.3, rng=np.random.default_rng(0))
    for name in PARTS[kind]:
        given = a.asformat(kind, copy=True)
        setattr(given, name, change(getattr(given, name)))
        found = Csr.of(given)
        assert all(
            array.flags.carray and array.dtype.isnative for array in (found.values, found.col_idx, found.row_ptr)
        )
        assert (sparse.csr_array((found.values, found.col_idx, found.row_ptr), found.shape) != a).nnz == 0


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_spare_capacity_is_cut(kind):
    a = sparse.random_array((20, 15), density=0.3, rng=np.random.default_rng(0), format="csr")
    given = a.asformat(kind, copy=True)
    given.indices, given.data = (np.append(array, array[:3], axis=0) for array in (given.indices, given.data))
    found = Csr.of(given)
    assert found.nnz == a.nnz == len(found.col_idx) and np.array_equal(found.values, a.data)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_parts_of_a_complex_matrix(part):
    a = sparse.csr_array(np.array([[1 + 2j, 0], [3 - 1j, 5j]]))
    assert CsrScalar.from_csr(getattr(a, part)) @ np.ones(2) == pytest.approx(getattr(a.sum(axis=1), part))


def test_pydatas_matrices():
    other = pytest.importorskip("sparse", reason="needs pydata/sparse (pip install sparse)")
    a = sparse.random_array((20, 15), density=0.3, rng=np.random.default_rng(0), format="csr")
    coo = other.COO.from_scipy_sparse(a)
    for given in (coo, other.GCXS(coo)):
        assert np.array_equal(Csr.of(given).values, a.data) and np.array_equal(Csr.of(given).col_idx, a.indices)
    with pytest.raises(ValueError, match="two dimensions"):
        Csr.of(other.COO(np.ones(3)))


@pytest.mark.parametrize("cls", [sparse.csr_array, sparse.csc_array, sparse.bsr_array, sparse.coo_array])
def test_indices_inside_are_taken_in_every_format(cls):
    assert Csr.of(bad(cls, lambda a: None)).col_idx.tolist() == [0, 1, 2, 3, 4]
    assert [Csr.of(cls(shape)).shape for shape in ((0, 4), (4, 0), (3, 3))] == [(0, 4), (4, 0), (3, 3)]


def test_only_two_dimensions_of_31_bits_are_matrices():
    with pytest.raises(ValueError, match="two dimensions, got the shape"):
        Csr.of(sparse.coo_array(np.ones(3)))
    with pytest.raises(ValueError, match="more rows or columns than 32 bits count"):
        Csr.of(sparse.coo_array((2, 2**31)))


def test_a_canonical_matrix_is_not_looked_at_again():
    a = Csr((1, 2**31 - 1), np.array([0, 1]), np.array([-1]), np.ones(1))  # would be refused
    assert Csr.of(a) is a


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "place", "value", "words"), [
    ("indices", 3, 5, "entry 3 is in column 5, the matrix has 5"),
    ("indices", 1, -1, "entry 1 is in column -1"),
    ("indptr", 1, 7, "pointers of row 1 fall from 7 to 2"),
    ("indptr", 3, 6, "row pointers run from 0 to 6"),
])  # fmt: skip
def test_indices_on_a_gpu_are_looked_at_too(name, place, value, words):
    cupyx = pytest.importorskip("cupyx.scipy.sparse")
    a = cupyx.csr_matrix(bad(sparse.csr_matrix, lambda a: None))
    assert Csr.of(a).nnz == 5
    getattr(a, name)[place] = value
    with pytest.raises(ValueError, match=words):
        Csr.of(a)
