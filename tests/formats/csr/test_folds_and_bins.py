"""CSR in bins by powers of two, folded rows, batches that overlap and shares of entries: their rules."""

import numpy as np
import pytest

from spmvbench import testing
from spmvbench.formats import Csr
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.formats.csr.amf import LONG, Folds
from spmvbench.formats.csr.lrb import bin_of
from spmvbench.formats.csr.overlap import BATCH
from tests.formats.rows import launches, with_lengths


def launched(spec, a, **limits):
    with converting_for(Limits(multiprocessors=132, shared_bytes=0)):
        fmt = testing.convert(spec, a)
    return fmt, [(launch.kernel.split("<")[0], launch.grid) for launch in launches(fmt)]


def test_a_bin_ends_at_a_power_of_two():
    lengths = np.array([0, 1, 2, 3, 4, 5, 8, 9, 1024, 1025, 2**30 + 1])
    assert bin_of(lengths, np).tolist() == [0, 0, 1, 2, 2, 3, 3, 4, 10, 11, 31]


def test_each_bin_has_its_kernel_and_long_rows_are_set_to_zero_before():
    a = with_lengths([1, 20, 300, 16, 5000, 0, 1500], 20000)
    fmt, kernels = launched("csr-lrb", a)
    assert fmt.rows.tolist() == [0, 5, 3, 1, 2, 6, 4]
    assert kernels == [
        ("zero_cut_rows", 1),
        ("lrb_short", 1),
        ("lrb_short", 1),
        ("csr_rows", 1),
        ("csr_rows", 1),
        ("lrb_long", 3),  # up to 2,048 entries by 768
        ("lrb_long", 11),
    ]
    assert [name for name, _ in launched("csr-lrb[long=32]", a)[1]] == ["lrb_short"] * 2 + ["csr_rows"] * 4
    assert fmt.detail == {"bins": 6}


def test_rows_are_folded_up_to_a_number_of_entries_and_of_rows():
    folds = Folds.of(Csr.of(with_lengths([3] * 40, 20000)), 32)
    assert np.diff(folds.first_row).tolist() == [10, 10, 10, 10]
    assert folds.height == 16
    assert np.diff(Folds.of(Csr.of(with_lengths([1] * 40, 20000)), 32).first_row).tolist() == [16, 16, 8]
    assert Folds.of(Csr.of(with_lengths([40] * 3, 20000)), 32).height == 1


def test_entries_of_a_folded_row_are_in_order_of_column():
    fmt = testing.convert("csr-amf", with_lengths([3, 2, 4], 20000))
    assert (fmt.columns & (2**28 - 1)).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3]


def test_a_row_that_is_far_too_long_is_cut():
    longest = 32 * LONG
    folds = Folds.of(Csr.of(with_lengths([5, 2 * longest + 1, 4], 20000)), 32)
    assert folds.first_row.tolist() == [0, 1, 1, 1, 2, 3]
    assert np.diff(folds.ptr).tolist() == [5, longest, longest, 1, 4]
    assert folds.cut.tolist() == [1, 1]
    assert len(Folds.of(Csr.of(with_lengths([longest], 20000)), 32).cut) == 0


def test_a_batch_begins_with_the_first_row_that_ends_in_it():
    fmt, _ = launched("csr-overlap", with_lengths([0, BATCH - 1, 1, 0, 3 * BATCH, 5, 0], 20000))
    assert fmt.first_row.tolist() == [0, 4, 4, 4, 5, 7]
    assert fmt.per_block == 1
    assert testing.convert("csr-overlap[batches=3]", with_lengths([9], 20000)).per_block == 3


@pytest.mark.parametrize(("nnz", "items"), [(2_700_000, 1), (2_710_000, 4), (5_400_000, 4), (5_410_000, 8)])
def test_entries_per_thread_are_those_of_the_library(nnz, items):
    from spmvbench.formats.load_balanced.nnzsplit import CsrNnzsplit

    a = Csr((1, 1), np.array([0, nnz]), np.zeros(nnz, np.int8), np.zeros(nnz, np.int8))
    with converting_for(Limits(multiprocessors=132, shared_bytes=0)):
        assert CsrNnzsplit.items_for(a, 0) == items
        assert CsrNnzsplit.items_for(a, 8) == 8
