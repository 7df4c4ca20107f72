"""PETSc's rule for the kernel of sliced ELLPACK, and the chunks of the balanced one."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.formats import Skip
from spmvbench.formats.ellpack.petsc import Choice, chunk_places


# Rows, slots of a slice of 16 rows on average, positions of the widest: the kernel and its warps.
@pytest.mark.parametrize(
    ("rows", "places", "widest", "expected"),
    [
        (1_000_000, 112, 7, (7, 2)),
        (100_000, 112, 7, (9, 2)),  # too few rows
        (1_000_000, 432, 128, (9, 2)),  # too wide
        (1_000_000, 433, 30, (9, 8)),
        (1_000_000, 2401, 151, (9, 16)),
        (10_000, 160, 121, (8, 4)),  # over twelve times the mean of ten
        (10_000, 160, 120, (9, 2)),
        (20_000_000, 160, 1210, (9, 2)),  # the ratio is small for so many rows
    ],
)
def test_the_kernel_is_the_librarys(rows, places, widest, expected):
    slices = rows // 16
    assert Choice.of(rows, 16, slices, places * slices, widest) == expected


@pytest.mark.parametrize(
    ("row_lengths", "dtype", "expected"),
    [
        ([24] * 64, np.float64, (1, 1)),  # a thread takes a row
        ([33] * 64, np.float64, (9, 8)),
        ([33] * 64, np.float32, (9, 2)),
        ([1] * 63 + [20], np.float64, (9, 2)),  # uneven rows: the library's rule
    ],
)
def test_the_kernel_is_the_measured_one_for_even_rows(row_lengths, dtype, expected):
    columns = np.concatenate([np.arange(n) for n in row_lengths])
    a = sparse.csr_array((np.ones(len(columns), dtype), columns, np.cumsum([0, *row_lengths])))
    assert testing.convert("sell-petsc", a).choice == expected
    assert testing.convert("sell-petsc[rule=library]", a).choice.kernel == 9


def test_a_chunk_is_as_large_as_half_a_slice_allows():
    assert [chunk_places(n) for n in (0, 127, 128, 300, 1024, 10**6)] == [64, 64, 128, 256, 1024, 1024]


def test_chunks_know_the_slice_of_their_first_place():
    lengths = np.repeat([6, 0, 5, 9], 16)
    columns = np.concatenate([np.arange(n) for n in lengths])
    a = sparse.csr_array((np.ones(len(columns)), columns, np.concatenate([[0], np.cumsum(lengths)])), shape=(64, 9))
    fmt = testing.convert("sell-petsc[kernel=8]", a)
    assert fmt.slice_ptr.tolist() == [0, 96, 96, 176, 320]
    assert fmt.chunk_slice.tolist() == [0, 0, 2, 3, 3]  # of 64 places each
    x, y = np.zeros(9), np.zeros(64)
    assert [step.kernel.split("<")[0] for step in fmt.launches(x, y)] == ["zero_fill", "petsc_chunk"]
    assert [step.kernel.split("<")[0] for step in fmt.accumulate(x, y)] == ["petsc_chunk"]


def test_low_slices_are_multiples_of_16_places_and_high_ones_have_no_chunks():
    a = sparse.csr_array(np.eye(40))
    assert np.diff(testing.convert("sell-petsc[height=4]", a).slice_ptr).tolist() == [16] * 10
    with pytest.raises(Skip, match="16 rows or fewer"):
        testing.convert("sell-petsc[height=32,kernel=8]", a)
