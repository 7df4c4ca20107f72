"""Footprints: each byte that an SpMV needs in addition to x and y counts once, and no format counts for itself."""

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.devices import open_device
from spmvbench.formats import Csr, Format, Launch, Loop, flat, single_steps
from spmvbench.formats.csr.csr import CsrScalar
from spmvbench.formats.footprint import bytes_read, footprint, outside, span
from spmvbench.formats.vectors import parts
from tests.formats.rows import with_lengths

KEYS = formats.keys()
EMULATED = [key for key in KEYS if "emulated" in formats.get(key).devices]
MATRICES = {name: testing.hard_matrices()[name] for name in ("0x5", "1xN", "stencil")}
A = Csr.of(sparse.csr_array(np.array([[1.0, 2, 0], [0, 0, 3]])))
X, Y = np.zeros(3), np.zeros(2)


def addresses(array):
    """The address of every byte of an array."""
    found = np.array(array.ctypes.data)
    for n, stride in zip((*array.shape, array.itemsize), (*array.strides, 1), strict=True):
        found = found[..., None] + stride * np.arange(n)
    return found.ravel()


@pytest.mark.parametrize("key", EMULATED)
def test_a_footprint_is_what_the_buffers_of_an_spmv_take(key):
    cls = formats.get(key)

    def check(matrix):
        a = testing.suited(cls, matrix)
        fmt, (x, y) = testing.convert(key, a), testing.vectors(cls, a)
        launches = fmt.launches(x, y)
        found = footprint(fmt, launches, x, y)
        used = [arg for step in single_steps(launches) for arg in flat(step.args) if isinstance(arg, np.ndarray)]
        buffers = [*fmt.arrays().values(), *used]
        everything = np.concatenate([np.zeros(0, np.int64), *map(addresses, buffers)])
        vectors = np.concatenate([addresses(array) for array in (*parts(x), y)])
        assert sum(found.values()) == len(np.setdiff1d(everything, vectors))
        assert sum(found.get(name, 0) for name in fmt.arrays()) == fmt.nbytes
        assert 0 <= bytes_read(fmt, found, launches) <= sum(found.values())

    testing.over(MATRICES, check)


# Slots for rows of 17, 16 times 2 and no entries, and what `detail` says of them.
STORED = {
    "csr-bb": (32 + 16 * 16, {}),
    "icsr": (32 + 16 * 32, {}),
    "jds-enh": (32 + 32 + 15 * 16, {}),
    "pjds": (17 * 32, {}),
    "ellr-t[threads=4]": (32 * 32, {}),
    "sell-p": (20 * 32, {}),
    "sliced-ellr-t[threads=4]": (20 * 32, {}),
    "sliced-ellr-t[threads=16]": ((32 + 16 + 16) * 8, {}),
    "bccoo[h=2,w=2,steps=8,group=64]": (64 * 8 * 4, {"fill": 49 / 2048}),
    "pcsr[width=1024]": (20 + 16 * 4, {"x_bytes_copied": 8 * 1024}),
    "dasp": (17 + 64, {"slots_per_entry": 81 / 49}),
    "ell-warp-k2[thr=4]": (5 * 32 * 3, {"warps": 5}),
    "tile-spmspv[nt=16,extract=2]": (46, {"tiles": 1, "extracted_share": 3 / 49}),
}


@pytest.mark.parametrize("spec", STORED)
def test_rows_are_padded_as_the_paper_says(spec):
    fmt, (slots, said) = testing.convert(spec, with_lengths([17, *[2] * 16, 0], 100)), STORED[spec]
    assert fmt.values.size == slots and said.items() <= fmt.detail.items()


OF_LIBRARIES = [key for key in KEYS if "footprint" in formats.get(key).parameters()]


@pytest.mark.parametrize("key", OF_LIBRARIES)
def test_what_a_library_stores_besides_is_not_counted_as_read(key):
    """Its kernel is that of the arrays without it, of which the checking device knows the bounds."""
    checking = open_device("emulated-check")

    def check(matrix):
        a = Csr.of(matrix)
        exact, library = (testing.convert(spec, a) for spec in (key, f"{key}[footprint=psblas]"))
        assert library.nbytes >= exact.nbytes
        read = []
        for fmt in (exact, library):
            x, y = np.ones(a.cols), np.full(a.rows, np.nan)
            launches = fmt.launches(x, y)
            found = footprint(fmt, launches, x, y)
            read.append(([step.kernel for step in launches], bytes_read(fmt, found, launches)))
            checking.compile(launches).run()
            np.testing.assert_allclose(y, np.bincount(a.row_idx, a.values, a.rows), atol=1e-9)
        assert read[0] == read[1]

    testing.over({name: a for name, a in testing.hard_matrices().items() if max(a.nnz, *a.shape) < 3000}, check)


def test_arrays_of_launches_alone_count_once_and_views_of_stored_ones_never():
    fmt, carry = CsrScalar.from_csr(A), np.zeros((5, 2), np.float32)
    launches = [
        Launch("a.cu", "k<double>", 1, 1, (np.int32(3), X, fmt.values.reshape(-1, 1), carry)),
        Launch("a.cu", "k<float>", 1, 1, (fmt.values[1:], carry[::2], carry[3:], X[1:], Y)),
        Loop((Launch("a.cu", "more", 1, 1, (np.zeros(0), np.zeros(7, np.int8))),), np.zeros((), np.int32), 9),
    ]
    assert footprint(fmt, launches, X, Y) == {
        "row_ptr": 12,
        "col_idx": 12,
        "values": 24,
        "argument 3 of launch 0, k": 40,
        "argument 1 of launch 2, more": 7,
        "condition of step 2": 4,
    }


def test_parts_of_a_buffer_add_up():
    buffer = np.zeros(100, np.uint8)
    launches = [Launch("a.cu", "k", 1, 1, (buffer[10:20], buffer[40:60], buffer[5:50], buffer))]
    fmt = CsrScalar.from_csr(A)
    found = footprint(fmt, launches, X, Y)
    assert [found[f"argument {place} of launch 0, k"] for place in range(4)] == [10, 20, 25, 45]


class Hidden(CsrScalar):
    """Stores nothing: its matrix is made by `launches`."""

    def launches(self, x, y):
        copies = [array.copy() for array in (self.row_ptr, self.col_idx, self.values)]
        return [Launch("a.cu", "k", 1, 1, (*copies, x, y))]


def test_a_matrix_that_is_in_no_field_shows():
    fmt = Hidden.from_csr(A)
    nothing = fmt.with_arrays(lambda name, array: array[:0])
    hiding = footprint(nothing, fmt.launches(X, Y), X, Y)
    assert nothing.nbytes == 0
    assert sum(hiding.values()) == 12 + 12 + 24


def test_spans_include_the_gaps_of_strided_arrays():
    array = np.zeros((4, 6))
    begin = array.ctypes.data
    for view in (array, array.T, array[::-1], array[::-1, ::-1].T):
        assert span(view) == (begin, begin + 192)
    assert span(array[1:3, ::2]) == (begin + 48, begin + 48 + 48 + 40)
    assert span(np.broadcast_to(array[0, 1:2], (9, 1))) == (begin + 8, begin + 16)
    assert span(array[:0])[0] == span(array[:0])[1]
    assert outside((0, 10), [(2, 4), (6, 20), (3, 5)]) == [(0, 2), (5, 6)]
    assert outside((5, 5), []) == []


@pytest.mark.parametrize(("claim", "right"), [(48, True), (1, True), (49, False), (0, False), (-1, False)])
def test_what_a_product_reads_is_within_the_footprint(claim, right):
    class Claims(CsrScalar):
        @property
        def bytes_read(self):
            return claim

    fmt = Claims.from_csr(A)
    launches = fmt.launches(X, Y)
    found = footprint(fmt, launches, X, Y)
    if right:
        assert bytes_read(fmt, found, launches) == claim
    else:
        with pytest.raises(ValueError, match=rf"reads {claim} bytes, of a footprint of 48"):
            bytes_read(fmt, found, launches)


def test_arrays_that_no_launch_takes_are_not_read():
    fmt = CsrScalar.from_csr(A)
    ptr, col, values = (fmt.arrays()[name] for name in ("row_ptr", "col_idx", "values"))
    for args, read in (((ptr, col, values), 48), ((ptr, values), 36), ((col[1:], values[:1]), 16), ((), 0)):
        launches = [Launch("a.cu", "k", 1, 1, (*args, X, Y))]
        assert bytes_read(fmt, footprint(fmt, launches, X, Y), launches) == read


def test_a_transposed_product_reads_only_its_own_arrays():
    a = Csr.of(sparse.random_array((40, 30), density=0.2, rng=0, format="csr"))
    fmt, x, y = formats.get("csc-vector").from_csr(a), np.ones(40), np.zeros(30)
    read = {}
    for name, launches in (("A", fmt.launches(y, x)), ("A^T", fmt.transposed(x, y))):
        read[name] = bytes_read(fmt, footprint(fmt, launches, x, y), launches)
    assert read["A"] == fmt.nbytes
    assert read["A^T"] == fmt.nbytes - fmt.place.nbytes - fmt.row_ptr.nbytes


@pytest.mark.parametrize("name", ["arrays", "nbytes", "with_arrays", "ordered_x", "restored_y"])
def test_a_format_does_not_count_or_order_for_itself(name):
    with pytest.raises(TypeError, match=f"^Cheat must not define {name}: "):
        type("Cheat", (CsrScalar,), {name: property(lambda self: 0)})
    mixin = type("Mixin", (), {name: lambda self: 0})
    with pytest.raises(TypeError, match=f"^Cheat must not define {name}: "):
        type("Cheat", (mixin, Format), {})
    with pytest.raises(TypeError, match=f"^Cheat must not define {name}: "):
        type("Cheat", (CsrScalar,), {"__annotations__": {name: int}})
