"""Sliced ELLPACK and its names: rules on both sides of their thresholds, published footprints."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, load, testing
from spmvbench.formats import Csr
from spmvbench.formats.ellpack.sell_convert import falling_order, sorted_rows
from tests.formats.rows import names, runs_on, with_lengths

HARD = testing.hard_matrices()


def from_rows(rows, cols):
    """A csr_array with these columns in each row, values counting up from 1."""
    row_ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    col_idx = np.concatenate([np.asarray(row, dtype=int) for row in rows])
    return sparse.csr_array((np.arange(1.0, len(col_idx) + 1), col_idx, row_ptr), shape=(len(rows), cols))


@pytest.mark.parametrize("spec", ["sell", "sell-var", "sliced-ellr-t[threads=4]", "sell-local"])
def test_slots_beyond_31_bits_have_their_kernels(spec, emulated):
    a = HARD["power law"]
    fmt = testing.convert(spec, a)
    pointers = {name: array for name, array in fmt.arrays().items() if name in ("slice_ptr", "column_ptr")}
    fmt = dataclasses.replace(fmt, **{name: array.astype(np.int64) for name, array in pointers.items()})
    x, y = np.random.default_rng(0).uniform(-1, 1, a.shape[1]), np.full(a.shape[0], np.nan)
    emulated.compile(fmt.launches(x, y)).run()
    np.testing.assert_allclose(y, a @ x, atol=1e-12)


def test_rows_are_sorted_within_windows_and_equal_ones_keep_their_order():
    a = Csr.of(with_lengths([1, 3, 1, 3, 0, 2, 5, 2, 9], 300, drawn=0))
    assert sorted_rows(a, 4).tolist() == [1, 3, 0, 2, 6, 5, 7, 4, 8]
    assert sorted_rows(a, 0).tolist() == [8, 6, 1, 3, 5, 7, 0, 2, 4]
    assert sorted_rows(a, 100).tolist() == sorted_rows(a, 0).tolist()
    assert sorted_rows(a, 0, drop_empty=True).tolist() == [8, 6, 1, 3, 5, 7, 0, 2]
    assert sorted_rows(a, 1).tolist() == list(range(9))


# Several blocks and digits, one digit, windows that make digits of their own, windows of one place, all numbers 0.
@pytest.mark.parametrize(
    ("n", "window", "most"), [(9000, 9000, 2**31 - 1), (5000, 5000, 255), (9000, 1500, 300), (5000, 1, 9), (3, 100, 0)]
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_places_are_ordered_by_falling_numbers(n, window, most, dtype, emulated):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, most, n, dtype=dtype, endpoint=True) * (rng.random(n) < 0.7)
    perm = falling_order(numbers, n, window, most, runs_on(emulated))
    assert perm.tolist() == np.lexsort((-numbers.astype(np.int64), np.arange(n) // window)).tolist()


def test_warped_ell_has_the_arrays_of_sell_c_sigma():
    a = HARD["power law"]
    warped, sorted_ = (testing.convert(key, a).arrays() for key in ("warped-ell", "sell-c-sigma"))
    assert warped.keys() == sorted_.keys()
    assert all((warped[name] == sorted_[name]).all() for name in warped)


def test_the_vendor_s_slices_are_ours():
    a = HARD["empty rows and columns"]
    ours, theirs = testing.convert("sell-cusparse", a), testing.convert("cusparse-sell", a)
    for name, array in theirs.arrays().items():
        np.testing.assert_array_equal(getattr(ours, name), array)
    assert (theirs.columns >= -1).all()


def test_y_is_set_to_zero_only_where_rows_are_not_stored():
    for lengths, stored in (([3, 0, 2], 2), ([3, 1, 2], 3)):
        fmt = testing.convert("ell-warp", with_lengths(lengths, 300, drawn=0))
        assert fmt.places == stored
        assert names(fmt) == (["zero_fill"] if stored < 3 else []) + ["sell_spmv"]


# Filippone et al. (2017), Table 9: bytes per nonzero.
TABLE_9 = {"pde:60": (13.33, 13.26), "pde:80": (13.29, 13.23), "pde:100": (13.26, 13.21)}


def test_library_footprints_are_the_survey_s():
    for name, published in TABLE_9.items():
        a = Csr.of(load(name))
        for key, expected in zip(("ell-psblas", "hll"), published, strict=True):
            found = formats.get(key).estimate(a, **formats.get(key).resolve({"footprint": "psblas"}))
            assert f"{found / a.nnz:.2f}" == f"{expected:.2f}", (name, key)
            if name == "pde:60":
                assert testing.convert(f"{key}[footprint=psblas]", a).nbytes == found


def test_what_the_library_stores_besides():
    a = from_rows([[0, 2], [0, 1, 3], [0, 1]], 4)
    fmt = testing.convert("hll[footprint=psblas]", a)
    assert fmt.diagonal.tolist() == [0, 1, -1]
    assert fmt.sizes.tolist() == [32, 3]
    assert testing.convert("hll", a).nbytes == fmt.nbytes - 3 * 4 - 2 * 4


def threads(spec, length, rows=64):
    ((cls, params),) = formats.parse(spec)
    row_ptr, col_idx = np.arange(rows + 1) * length, np.tile(np.arange(length, dtype=np.int32), rows)
    a = Csr((rows, length), row_ptr, col_idx, np.ones(len(col_idx)))
    layout = cls.layout(a, **params)
    return layout.threads or cls.threads_by_rule(a, layout.height)


def test_threads_follow_the_mean_row():
    assert [threads("hll", n) for n in (31, 32)] == [1, 2]
    assert [threads("ell-psblas[threads=1]", n) for n in (31, 32)] == [1, 1]
    assert [threads("ellr-t", n) for n in (8, 9, 16, 17, 128, 129, 300)] == [1, 2, 2, 4, 16, 32, 32]
    assert [threads(f"sell[height={c}]", 3) for c in (32, 64, 128, 256)] == [8, 4, 2, 1]
    # sell-cusparse: by the mean row, and by the longest in 64,000ths of all entries.
    assert [threads("sell-cusparse", n, 64_000) for n in (7, 31, 32)] == [1, 1, 4]
    assert [threads("sell-cusparse", 20, rows) for rows in (64_000, 63_999, 16_000, 15_999, 8_000, 7_999)] == [
        1, 4, 4, 8, 8, 32,
    ]  # fmt: skip
    assert [threads("sell-cusparse", n, 32) for n in (1, 2, 7, 8, 15, 16)] == [1, 4, 4, 8, 8, 32]


def test_slices_are_cut_where_that_saves_more_than_it_costs():
    def heights(lengths, price=64):
        fmt = testing.convert(f"sell-var[price={price}]", with_lengths(lengths, 300, drawn=0))
        return np.diff(fmt.first_row).tolist()

    assert heights([5] * 256) == [256]
    # Two slices of 5 and 3 positions: merged they take 64 slots more and save one price.
    assert heights([5] * 32 + [3] * 32) == [64]
    assert heights([5] * 32 + [3] * 32, price=63) == [32, 32]
    assert heights([5] * 32 + [2] * 32) == [32, 32]
    assert heights([9] * 32 + [1] * 224) == [32, 32, 64, 128]
    assert heights([1] * 300) == [256, 64]  # nothing after the last row


@pytest.mark.parametrize(
    ("pieces", "rows", "bases", "narrow"),
    [
        (1, [[10, 10 + 65_534], *[[]] * 31, [70_000]], [[10], [70_000]], 1),
        (1, [[10, 10 + 65_535], *[[]] * 31, [70_000]], [[-1], [70_000]], 1 / 3),
        (0, [[10, 20, 30, 40]], [[10]], 1),
        (0, [[10, 20, 80_000, 80_010]], [[10, 80_000]], 1),
        # Columns 0 to 20, then 70,000 apart; one column in each half.
        (0, [[0, 10, 20, 70_000, 140_000], [5], *[[]] * 30, [0, 90_000]], [[0, -1], [0, 90_000]], 5 / 7),
        (
            2,
            [[0, 70_000, 140_000, 210_000, 280_000], [5], *[[]] * 30, [0, 70_000, 140_000, 210_000, 210_007]],
            [[-1, -1], [-1, 210_000]],
            1 / 5,
        ),
    ],
)
def test_a_piece_has_16_bits_where_its_columns_reach_no_further(pieces, rows, bases, narrow, emulated):
    a, spec = from_rows(rows, 300_000), f"sell-local[pieces={pieces},sigma=1]"
    fmt = testing.convert(spec, a)
    wide = round((1 - narrow) * len(fmt.values))  # slots of 4 bytes, the others have 2
    assert fmt.bases.tolist() == bases and fmt.detail["narrow_share"] == pytest.approx(narrow)
    assert len(fmt.columns) == len(fmt.values) + wide and (len(fmt.column_ptr) > 0) == (wide > 0)
    assert (
        fmt.detail["bytes_saved"]
        == 4 * len(fmt.values) - 2 * len(fmt.columns) - fmt.bases.nbytes - fmt.column_ptr.nbytes
    )
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, emulated)


@pytest.mark.parametrize("sigma", [1, 64])
def test_long_rows_are_stored_apart_in_the_same_launch(sigma, checking):
    lengths = [2, 5000, *[1] * 300, 512, 3, 0, 513, 2]
    a = with_lengths(lengths, cols=80_000, drawn=0)
    spec = f"sell-local[long=0,sigma={sigma}]"
    fmt = testing.convert(spec, a)
    assert fmt.piece_row.tolist() == [1, 1, 1, 305] and fmt.piece_of.tolist() == [[0, 3], [0, 3], [0, 3], [3, 1]]
    assert (fmt.piece_end - fmt.piece_begin).tolist() == [1666, 1667, 1667, 513]
    assert np.unpackbits(fmt.apart.view(np.uint8)).sum() == 2 and fmt.detail["long_row_entries"] == 5513
    assert len(fmt.launches(*testing.vectors(type(fmt), Csr.of(a)))) == 1
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, checking)
    assert not len(testing.convert(spec, with_lengths([512] * 3, cols=600, drawn=0)).apart)


@pytest.mark.parametrize(("longest", "ordered"), [(5, False), (6, True)])
def test_rows_are_sorted_where_their_own_order_pads_by_more_than_a_quarter(longest, ordered, emulated):
    # Slices of 31 rows of 4 entries and one of `longest`: slots per entry 1.242 and 1.477.
    a = from_rows([[*range(longest)] if row % 32 == 7 else [row, 70, 80, 90] for row in range(64)], 100)
    fmt = testing.convert("sell-local", a)
    assert fmt.detail["sorted"] == ordered
    assert len(fmt.values) == (32 * (4 + longest) if ordered else 64 * longest)
    if ordered:
        assert fmt.perm[:3].tolist() == [7, 39, 0]
    testing.check_conversion("sell-local", a)
    testing.check_product("sell-local", a, emulated)


def test_where_rows_end_early_padding_is_stored_and_not_read():
    a = sparse.csr_array(np.tril(np.ones((64, 64))))
    whole, early = (testing.convert(key, a) for key in ("ell", "ell-r"))
    assert whole.bytes_read == whole.nbytes == 64 * 64 * 12
    assert early.nbytes == 64 * 64 * 12 + 64 * 4
    assert early.bytes_read == a.nnz * 12 + 64 * 4
