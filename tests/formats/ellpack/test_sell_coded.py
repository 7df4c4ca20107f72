"""Sliced ELLPACK with columns as codes of offsets, or in bits that the values leave free."""

from contextlib import suppress

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.formats import Csr, Skip
from spmvbench.formats.ellpack.sell_coded import free_bits
from tests.formats.rows import with_long_pointers

HARD = testing.hard_matrices()


def rounded(name, dtype=np.float64):
    """A hard matrix whose values are multiples of 1/8, zeros and both signs among them."""
    a = HARD[name].astype(dtype)
    a.data = np.round(a.data * 8) / 8
    return a


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sigma", [-1, 1, 0])
def test_short_values_are_packed_with_every_column(dtype, sigma, emulated):
    spec = f"sell-pack[sigma={sigma}]"
    packed = 0
    for name in HARD:
        with suppress(Skip):  # single precision leaves few bits where columns are far apart
            testing.check_conversion(spec, rounded(name, dtype))
            packed += 1
            if sigma == -1:
                testing.check_product(spec, rounded(name, dtype), emulated)
    assert packed > len(HARD) // 2


def test_64_bit_row_pointers_are_packed(emulated):
    a = Csr.of(rounded("power law"))
    wide = with_long_pointers(a)
    testing.check_conversion("sell-pack", wide)
    testing.check_product("sell-pack", wide, emulated)


def test_free_bits_are_those_that_no_value_has():
    assert free_bits(np.array([1.0, -2.0, 0.0, 1 + 2.0**-30])) == 22
    assert free_bits(np.array([1.0, 3.0], dtype=np.float32)) == 22
    assert free_bits(np.array([0.0, -0.0])) == free_bits(np.empty(0)) == 30
    assert free_bits(np.array([1 / 3])) < 2


def test_values_with_no_free_bits_are_refused():
    with pytest.raises(Skip, match="low bits free"):
        testing.convert("sell-pack", sparse.csr_array(np.full((3, 3), np.pi)))


def test_gaps_wider_than_a_difference_take_slots_of_their_own():
    value = 1 + 2.0**-46  # 6 free bits: differences up to 62
    columns = [0, *range(200, 210)]
    a = sparse.csr_array((np.full(11, value), (np.zeros(11, dtype=int), columns)), shape=(1, 210))
    fmt = testing.convert("sell-pack", sparse.vstack([a] * 40).tocsr())
    assert fmt.bits == 6
    assert len(fmt.packed) == 64 * 14  # 200 = 3 * 63 + 11: three slots without an entry in each row
    testing.check_conversion("sell-pack", sparse.vstack([a] * 40).tocsr())
    with pytest.raises(Skip, match="bridge gaps"):
        testing.convert("sell-pack", sparse.csr_array(([value, value], ([0, 0], [0, 5000])), shape=(1, 5001)))


def test_a_slice_of_equal_offsets_has_the_codes_of_one_row():
    a = sparse.diags_array([1.0, 2.0, 3.0], offsets=[0, 3, 7], shape=(96, 103)).tocsr()
    fmt = testing.convert("sell-dict", a)
    assert fmt.table.tolist() == [0, 3, 7]
    assert fmt.word_ptr.tolist() == [0, 1, 2, 3]
    assert fmt.codes.tolist() == [[0, 1, 2, 255]] * 3
    assert fmt.detail["uniform_share"] == 1
    shorter = a.copy()
    shorter.data[-1] = 5.0
    shorter = sparse.csr_array((shorter.data[:-1], shorter.indices[:-1], np.minimum(shorter.indptr, 287)), a.shape)
    assert np.diff(testing.convert("sell-dict", shorter).word_ptr).tolist() == [1, 1, 32]


def test_many_offsets_take_16_bits_and_too_many_are_refused():
    rng = np.random.default_rng(0)
    a = sparse.random_array((400, 900), density=0.01, rng=rng).tocsr()
    assert testing.convert("sell-dict", a).codes.dtype == np.uint16
    columns = np.arange(70_000)
    with pytest.raises(Skip, match="65,535"):
        testing.convert("sell-dict", sparse.csr_array((np.ones(70_000), (columns * 0, columns))))
