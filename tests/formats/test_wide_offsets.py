"""Formats that hold 2^31 entries and more, in memory that is mapped and not touched.

A small matrix is put behind 2^31 entries or slots of which hardly a page is ever read: launches begin with the first
block that has to do with the matrix.
"""

import mmap
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats
from spmvbench.devices import open_device
from spmvbench.formats import Csr, Skip, flat
from spmvbench.formats.arrays import INT32_MAX, expand, expand_in_pieces, index_dtype, offsets
from spmvbench.formats.compressed.bro import BroEll
from spmvbench.formats.vendor import cusparse
from tests.formats import wide_on_gpu

KEYS = {*formats.keys()}
BEFORE = 2**31 + 2**16  # entries or slots in front: a multiple of what slices and tiles have
WARP = 32
NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux; Python names it since 3.13


@pytest.fixture(scope="module")
def device():
    return open_device("emulated")


def behind(array, before=BEFORE):
    """An array of `before` elements that are not touched, with the given ones after them."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    try:
        memory = mmap.mmap(-1, (before + array.size) * array.itemsize, flags=flags)
    except OSError as error:
        pytest.skip(f"needs {before * array.itemsize:,} bytes of address space: {error}")
    found = np.frombuffer(memory, array.dtype)
    found[before:] = array.ravel()
    return found


def matrix(dtype):
    """Integers in rows of up to 40 entries, one of 700 and some without, over columns that take more than 16 bits."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 40, 600)
    lengths[400] = 700
    shifts = np.where(np.arange(600) >= 256, rng.integers(0, 20_000, 600), 0)
    columns = [np.sort(rng.choice(60_000, n, replace=False)) + shift for n, shift in zip(lengths, shifts, strict=True)]
    values = rng.integers(1, 5, lengths.sum()).astype(dtype)
    row_ptr = np.append(0, lengths.cumsum()).astype(np.int32)
    return Csr((600, 80_000), row_ptr, np.concatenate(columns).astype(np.int32), values)


def under(a):
    """The matrix under a row of BEFORE entries, which are zeros in column 0."""
    row_ptr = np.append(0, a.row_ptr.astype(np.int64) + BEFORE)
    return Csr((a.rows + 1, a.cols), row_ptr, behind(a.col_idx), behind(a.values))


def check(device, fmt, a, first=None, exact_from=0):
    """Compares the last rows of y with the product. first: the first block of a kernel by its name, else 0.

    exact_from: row of `a` from which on they are compared: those before are in blocks that are left out.
    """
    x = np.random.default_rng(4).integers(1, 9, a.cols).astype(a.dtype)
    y = np.zeros(fmt.shape[0], a.dtype)
    launches = list(fmt.launches(x, y))
    known = (*fmt.arrays().values(), x, y)
    for launch in launches:
        for arg in flat(launch.args):
            if isinstance(arg, np.ndarray) and not any(np.may_share_memory(arg, array) for array in known):
                arg[...] = 0  # scratch memory: what is left out does not write to it
    program = device.compile(launches)
    for bound, launch in zip(program._bound, launches, strict=True):
        device.execute(bound, (first or {}).get(launch.kernel.partition("<")[0], 0))
    expected = sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape) @ x
    assert expected.max() > 1000
    np.testing.assert_array_equal(y[fmt.shape[0] - a.rows + exact_from :], expected[exact_from:])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("spec", "block_rows"), [("csr-lanes", 4), ("csr-scalar", 256), ("csr-lanes[lanes=8]", 64)])
def test_csr_by_lanes(spec, block_rows, dtype, device):
    a = matrix(dtype)
    ((cls, params),) = formats.parse(spec)
    check(device, cls.converted(under(a), **params), a, {"csr_vector": 1}, exact_from=block_rows - 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sums", ["atomic", "fixed"])
@pytest.mark.parametrize("key", ["merge-csr", "csr-merge-tiles"])
def test_merge_tiles(key, sums, dtype, device):
    a = matrix(dtype)
    fmt = formats.get(key).converted(under(a), sum=sums)
    items, block, tiles = fmt.sizes_in_use()
    assert tiles * items * block > 2**31
    tile = BEFORE // (items * block) - 1
    by_tile = dict.fromkeys(("merge_tiles", "merge_pairs"), tile)
    by_thread = dict.fromkeys(("merge_search", "carry_add", "carry_ordered", "zero_cut_rows"), tile // 256)
    check(device, fmt, a, by_tile | by_thread)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_coo_load_balance(dtype, device):
    a = matrix(dtype)
    arrays = {"row_idx": behind(a.row_idx), "col_idx": behind(a.col_idx), "values": behind(a.values)}
    fmt = formats.get("coo-load-balance").holding(a.shape, {**arrays, "at_once": 2**16}, warps=2**16)
    lines = fmt.accumulate(a.values, a.values)[0].args[1]
    check(device, fmt, a, {"coo_load_balance": BEFORE // (4 * WARP * int(lines)) - 1})


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["fast", "paper"])
def test_csr5(kernel, dtype, device):
    a, sigma = matrix(dtype), 8
    fmt = formats.get("csr5").converted(a, sigma=sigma, kernel=kernel)
    tiles, (whole, packets, lanes) = BEFORE // (WARP * sigma), fmt.tile_desc.shape
    assert whole > 10
    fmt = replace(
        fmt,
        row_ptr=fmt.row_ptr + np.int64(BEFORE),
        tile_ptr=behind(fmt.tile_ptr, tiles),
        tile_desc=behind(fmt.tile_desc, tiles * packets * lanes).reshape(-1, packets, lanes),
        empty_ptr=behind(fmt.empty_ptr, tiles),
        col_idx=behind(fmt.col_idx),
        values=behind(fmt.values),
    )
    by_warp = dict.fromkeys(("csr5_fused", "csr5_tiles"), tiles // 8)
    check(device, fmt, a, by_warp | dict.fromkeys(("zero_cut_rows", "carry_add"), tiles // 256))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("pieces", [1, 2])
def test_sell_local(pieces, dtype, device):
    a = matrix(dtype)
    fmt = formats.get("sell-local").converted(a, pieces=pieces)
    assert len(fmt.column_ptr) and (fmt.bases >= 0).any()
    fmt = replace(
        fmt,
        slice_ptr=fmt.slice_ptr + np.int64(BEFORE),
        column_ptr=fmt.column_ptr + np.int64(BEFORE // WARP),
        columns=behind(fmt.columns),
        values=behind(fmt.values),
    )
    check(device, fmt, a)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_column_sweep(dtype, device):
    a = matrix(dtype)
    fmt = formats.get("column-sweep").converted(a)
    fmt = replace(
        fmt,
        chunk_start=fmt.chunk_start + np.int32(BEFORE // WARP),
        panel=behind(fmt.panel, BEFORE // WARP),
        places=behind(fmt.places),
        values=behind(fmt.values),
    )
    check(device, fmt, a)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("height", [32, 256])
def test_bro_ell(height, dtype, device):
    a, positions = matrix(dtype), BEFORE // height
    fmt = formats.get("bro-ell").converted(a, height=height)
    fmt = replace(
        fmt,
        slice_ptr=fmt.slice_ptr + np.int64(positions),
        symbol_ptr=fmt.symbol_ptr + np.int64(positions),
        widths=behind(fmt.widths, positions),
        symbols=behind(fmt.symbols),
        values=behind(fmt.values),
    )
    check(device, fmt, a)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("r", "c"), [(1, 1), (2, 3)])
def test_block_sell(r, c, dtype, device):
    a = matrix(dtype)
    fmt = formats.get("block-sell").converted(a, r=r, c=c)
    fmt = replace(
        fmt,
        slice_ptr=fmt.slice_ptr + np.int32(BEFORE // WARP),
        block_col=behind(fmt.block_col).reshape(-1, WARP),
        values=behind(fmt.values, BEFORE * r * c).reshape(-1, r * c * WARP),
    )
    check(device, fmt, a)


def test_bro_ell_in_pieces(monkeypatch):
    a = matrix(np.float64)
    for height in (32, 128):
        whole = formats.get("bro-ell").converted(a, height=height)
        with monkeypatch.context() as patch:
            patch.setattr(BroEll, "piece", 1000)
            pieces = formats.get("bro-ell").converted(a, height=height)
            assert BroEll.estimate(a, height=height) == whole.nbytes
        for name, array in whole.arrays().items():
            assert pieces.arrays()[name].dtype == array.dtype
            np.testing.assert_array_equal(pieces.arrays()[name], array)


def test_owners_in_pieces():
    rng = np.random.default_rng(5)
    for counts in (rng.integers(0, 4, 50), np.array([0, 0, 9, 0, 1]), np.array([7]), np.array([3, 0, 0])):
        ptr = offsets(counts)
        for piece in (1, 2, 5, 1000):
            found = expand_in_pieces(ptr, int(ptr[-1]), piece)
            np.testing.assert_array_equal(found, expand(ptr, int(ptr[-1])))


def test_32_bits_leave_room_for_a_step():
    assert index_dtype(INT32_MAX - 2**16) == np.int32
    assert index_dtype(INT32_MAX - 2**16 + 1) == np.int64


def test_all_others_refuse_so_many_entries():
    nnz = 2**31
    columns, values = np.broadcast_to(np.int32(0), nnz), np.broadcast_to(np.float32(0), nnz)
    a = Csr((1, 1), np.array([0, nnz]), columns, values)
    wide = {key for key in KEYS if formats.get(key).wide_offsets}
    asked = "csr-lanes csr-merge-tiles csr5 merge-csr sell-local column-sweep coo-load-balance bro-ell block-sell"
    assert wide >= {*asked.split(), "cusparse-csr-alg1", "cusparse-csr-alg2"}
    for key in KEYS - wide:
        with pytest.raises(Skip, match=f"offsets of {key} have 32 bits, and this matrix has 2,147,483,648 entries"):
            formats.get(key).converted(a)
    for key in wide:
        formats.get(key)._refuse_shape(a)


@pytest.mark.parametrize(
    ("version", "entries", "expected"), [(12603, 2**31, Skip), (12900, 2**31, RuntimeError), (12603, 7, RuntimeError)]
)
def test_an_old_cusparse_skips_more_than_2_31_entries(monkeypatch, version, entries, expected):
    def fail(*_):
        raise RuntimeError("cusparseSpMV_preprocess: internal error")

    monkeypatch.setattr(cusparse, "_version", lambda: version)
    monkeypatch.setattr(cusparse.CusparseCsrAlg1, "product", fail)
    monkeypatch.setattr(cusparse.CusparseCsrAlg1, "_descriptor", lambda *_: None)
    many = Csr(
        (1, 1), np.array([0, entries]), np.broadcast_to(np.int32(0), entries), np.broadcast_to(np.float32(0), entries)
    )
    fmt = cusparse.CusparseCsrAlg1(
        shape=(1, 1), params={}, row_ptr=many.row_ptr, col_idx=many.col_idx, values=many.values
    )
    vector = np.zeros(1, np.float32)
    with pytest.raises(expected, match="12603, refuses more than 2\\^31" if expected is Skip else "internal error"):
        fmt.launches(vector, vector)


def test_the_program_for_gpus_at_a_small_size(device, monkeypatch, capsys):
    monkeypatch.setattr(wide_on_gpu, "PIECE", 1 << 10)
    assert wide_on_gpu.run(8, 18, device, "csr-lanes,merge-csr") == []
    assert capsys.readouterr().out.count("right; ") == 2
    monkeypatch.setattr(wide_on_gpu, "product", lambda a, x: np.arange(a.rows, dtype=float))
    assert wide_on_gpu.run(6, 4, device, "csr-lanes") == ["csr-lanes"]
