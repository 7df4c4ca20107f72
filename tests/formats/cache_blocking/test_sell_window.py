"""Sliced ELLPACK with windows of x: shares of chunks, and the bits of columns."""

import numpy as np
import pytest
import scipy.sparse

from spmvbench import formats, testing
from spmvbench.formats import Csr
from spmvbench.formats.cache_blocking.sell_window import WIDE, WIDTH_UNIT
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.matrices.synthetic import generate


def converted(spec, shared_bytes=227 * 1024, **params):
    a = Csr.of(generate(spec, 1)).astype(np.float64)
    with converting_for(Limits(4, shared_bytes)):
        return a, formats.get("sell-window").from_csr(a, **params)


@pytest.mark.parametrize(
    ("spec", "bits"), [("tridiag:2000", 8), ("band:2000:5:60", 8), ("band:9000:9:500", 12), ("band:20000:9:3000", 16)]
)
def test_a_slice_has_as_few_bits_as_its_columns_span(spec, bits):
    _, fmt = converted(spec)
    found = fmt.slices[:, 3] % WIDTH_UNIT
    assert found.max() == bits
    assert fmt.detail["share_by_bits"][str(bits)] > 0.8


def test_chunks_have_equal_shares_of_the_slots_where_windows_allow():
    _, fmt = converted("tridiag:100000", blocks=2)
    slots = np.array([(fmt.slices[begin:end, 3] // WIDTH_UNIT).sum() for begin, end, *_ in fmt.chunks])
    assert len(slots) == 8 and slots.max() - slots.min() <= 2 * 3
    _, fmt = converted("band:30000:7:900", shared_bytes=64 * 1024)
    assert 0 < fmt.columns <= 32 * 1024 // 8, "two blocks share the memory"


def test_slices_that_span_more_than_a_window_have_whole_columns():
    _, fmt = converted("uniform:20000:4", shared_bytes=16 * 1024)
    assert set(fmt.slices[:, 3] % WIDTH_UNIT) == {WIDE}
    assert fmt.columns == 0  # nothing is staged for them


@pytest.mark.parametrize("span", range(764, 771))
def test_a_slice_that_spans_as_much_as_a_window_is_converted(span):
    """Windows begin at multiples of 4 columns; here they have 768. Where no window held it, conversion had no end."""
    first = np.arange(5)
    rows, columns = np.repeat(32 * first, 2), np.stack([first, first + span - 1], axis=1).ravel()
    a = scipy.sparse.coo_array((np.arange(1.0, 11), (rows, columns)), shape=(160, 800)).tocsr()
    with converting_for(Limits(1, 8192)):
        testing.check_conversion("sell-window[window=8,threads=128,blocks=1,sigma=1]", a)
        fmt = testing.convert("sell-window[window=8,threads=128,blocks=1,sigma=1]", a)
    whole = fmt.slices[:, 3] % WIDTH_UNIT == WIDE
    assert whole.tolist() == (span + first % 4 > 768).tolist()
    assert fmt.columns <= 768


def test_rows_of_very_different_lengths_are_sorted():
    _, fmt = converted("powerlaw:3000:4")
    assert len(fmt.perm) == 3000
    _, kept = converted("powerlaw:3000:4", sigma=1)
    assert len(kept.perm) == 0 and len(kept.values) > len(fmt.values)


@pytest.mark.parametrize("more", ["", "flight=3", "team=2"])
@pytest.mark.parametrize("moved", [0, 1])  # x at a multiple of 16 bytes, and not
def test_every_way_of_taking_slices_is_right(more, moved, emulated):
    a, _ = converted("band:6000:7:300")
    with converting_for(Limits(4, 227 * 1024)):
        fmt = testing.convert(f"sell-window[threads=128{',' * bool(more)}{more}]", a)
    room = np.zeros(a.cols + 4)
    begin = moved + (-room.ctypes.data // 8) % 2
    x, y = room[begin : begin + a.cols], np.full(a.rows, np.nan)
    x[:] = np.random.default_rng(0).uniform(1, 2, a.cols)
    emulated.compile(fmt.launches(x, y)).run()
    np.testing.assert_allclose(y, np.bincount(a.row_idx, a.values * x[a.col_idx], a.rows), rtol=1e-12, atol=1e-12)


def test_long_rows_are_stored_apart():
    _, fmt = converted("denserow:3000")
    assert list(fmt.parts) == ["long"] and fmt.detail["long_row_entries"] == 3000
    assert (fmt.slices[:, 3] // WIDTH_UNIT).max() < 10
    _, whole = converted("denserow:3000", long=3000)
    assert not whole.parts and (whole.slices[:, 3] // WIDTH_UNIT).max() == 3000


@pytest.mark.parametrize("more", ["", ",team=1", ",team=2"])
def test_packed_columns_take_fewer_bytes_and_are_exact(more, emulated):
    a, plain = converted("band:6000:24:2000")
    _, fmt = converted("band:6000:24:2000", packed=True)
    assert fmt.detail["packed_share"] == 1 and plain.detail["share_by_bits"]["12"] > 0.9
    assert fmt.words.nbytes < 1.25 * a.nnz < 1.5 * a.nnz <= plain.words.nbytes
    spec = f"sell-window[packed=true{more}]"
    testing.check_conversion(spec, a)
    testing.check_product(spec, a, emulated)
