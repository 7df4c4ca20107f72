"""CSR5: every sigma, rows that tiles cut, the tail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.errors import UsageError
from spmvbench.formats import Skip
from spmvbench.formats.compressed import dictionary
from spmvbench.formats.csr.csr5 import Csr5, sigma_by_rule
from tests.formats.rows import names, with_lengths
from tests.formats.test_conversion import assert_kernels_convert_alike

LENGTHS = {
    "short": [3, 1, 4, 1, 5, 9, 2, 6] * 60,
    "rows as long as a lane": [4] * 300,
    "rows as long as a tile": [128] * 5,
    "a row over several tiles": [5, 1000, 3, 40, 2000, 7],
    "empty rows across tiles": [0, 0, 60, 0, 68, 0, 0, 0, 130, 0, 126, 0, 0, 1, 0],
    "every other empty": [0, 3] * 200,
    "empty ends": [0] * 50 + [7] * 120 + [0] * 50,
    "a full last tile and empty rows after it": [32] * 16 + [0] * 5,
}


@pytest.mark.parametrize("sigma", [4, 17, 18, 32])
def test_kernels_convert_as_arrays_do(sigma, emulated, same_arrays):
    matrices = {name: with_lengths(lengths, 9000, drawn=0) for name, lengths in LENGTHS.items()}
    assert_kernels_convert_alike(f"csr5[sigma={sigma}]", matrices, emulated, same_arrays)


def test_sigma_follows_the_authors_rule():
    rule = {0: 4, 3: 4, 4: 4, 5: 5, 31: 31, 32: 32, 33: 32, 256: 32, 257: 6, 5000: 6}
    assert {mean: sigma_by_rule(10, 10 * mean + 9) for mean in rule} == rule
    assert sigma_by_rule(0, 0) == 4


@pytest.mark.parametrize("sigma", [1, 3, -1, 33])
def test_other_sigmas_are_refused(sigma):
    with pytest.raises(UsageError, match="sigma"):
        Csr5.from_csr(with_lengths([3], 9000, drawn=0), sigma=sigma)


@pytest.mark.parametrize(
    "sigma", [n if n in (4, 13, 16, 32) else pytest.param(n, marks=pytest.mark.slow) for n in range(4, 33)]
)
def test_every_sigma(sigma, emulated):
    lengths = [0, 1, 700, 2, 0, 0, 3, 32 * sigma, 1, 0, 2500, 0, *range(40), 5 * sigma, 0]
    spec = f"csr5[sigma={sigma}]"
    a = with_lengths(lengths, 9000, drawn=0)
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, emulated)


@pytest.mark.parametrize("kernel", ["fast", "paper"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_tile_boundaries(lengths, kernel, checking):
    testing.check_product(f"csr5[sigma=4,kernel={kernel}]", with_lengths(lengths, 9000, drawn=0), checking)


@pytest.mark.parametrize("batch", [4, 8, 16])
@pytest.mark.parametrize("sigma", [6, 17, 32])
def test_batches_that_do_not_divide_sigma(sigma, batch, emulated):
    a = with_lengths([3, 1000, 0, 7, 300] * 3, 9000, drawn=0)
    testing.check_product(f"csr5[sigma={sigma},batch={batch}]", a, emulated)


def test_only_what_must_be_zero_is_set_to_zero(emulated):
    tail = with_lengths([3] * 30, 9000, drawn=0)
    tiles = with_lengths([3] * 300, 9000, drawn=0)
    gaps = with_lengths([3, 0] * 300, 9000, drawn=0)
    assert names(testing.convert("csr5", tail)) == ["csr5_fused"]
    assert names(testing.convert("csr5", tiles)) == ["zero_cut_rows", "csr5_fused"]
    assert names(testing.convert("csr5", gaps)) == ["zero_fill", "csr5_fused"]
    assert names(testing.convert("csr5[kernel=paper]", gaps)) == ["zero_fill", "csr5_tiles", "carry_add", "csr5_tail"]
    for a in (tail, tiles, gaps):
        testing.check_product("csr5", a, emulated)


def test_sums_of_small_rows_next_to_large_ones_keep_their_digits(emulated):
    # A difference of prefix sums over the lanes would lose the small rows.
    a = with_lengths([40] * 30, 9000, drawn=0)
    a.data[:] = np.where(np.repeat(np.arange(30), 40) % 2, 1e-12, 1e12) * np.sign(a.data)
    testing.check_product("csr5[sigma=4]", a, emulated)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_that_are_all_the_same_are_stored_once(dtype, emulated):
    for name, matrix in testing.hard_matrices().items():
        a = matrix.astype(dtype)
        a.data[:] = -2.5
        testing.check_conversion("csr5-nv", a)
        testing.check_product("csr5-nv", a, emulated)
        fmt = testing.convert("csr5-nv", a)
        assert len(fmt.values) == min(a.nnz, 1), name
        assert fmt.nbytes == testing.convert("csr5", a).nbytes - max(a.nnz - 1, 0) * a.dtype.itemsize


@pytest.mark.slow
@pytest.mark.parametrize(("distinct", "size"), [(3, 1), (300, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_that_repeat_are_numbers_of_a_dictionary(dtype, distinct, size, emulated):
    for matrix in testing.hard_matrices().values():
        a = matrix.astype(dtype)
        a.data[:] = np.linspace(-2, 1, distinct)[np.arange(a.nnz) % distinct]
        testing.check_conversion("csr5-dict", a)
        testing.check_product("csr5-dict", a, emulated)
        fmt = testing.convert("csr5-dict", a)
        assert len(fmt.values) == len(np.unique(a.data))
        assert fmt.number.nbytes == a.nnz * (size if a.nnz > 256 else 1)


def test_a_dictionary_holds_values_that_no_sample_has_and_their_bits():
    values = np.zeros(1 << 17)
    values[70_001], values[70_003] = -0.0, 5e-324
    known, number = dictionary.coded(values)
    assert np.array_equal(known[number].view(np.int64), values.view(np.int64)) and len(known) == 3
    with pytest.raises(Skip, match="65,537 distinct values, more than 65,536"):
        dictionary.coded(np.arange(65_537.0))


def test_values_that_differ_in_a_bit_are_refused():
    with pytest.raises(Skip, match="values differ"):
        testing.convert("csr5-nv", sparse.csr_array(np.array([[0.0, 1.0], [1.0, np.nextafter(1, 2)]])))
    zeros = sparse.csr_array((np.array([0.0, -0.0]), ([0, 1], [0, 1])))
    with pytest.raises(Skip, match="values differ"):
        testing.convert("csr5-nv", zeros)
