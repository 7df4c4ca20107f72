"""Blocked formats: tiles counted and stored by arrays and by kernels, the shape that is chosen, a storage by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats, testing
from spmvbench.errors import UsageError
from spmvbench.formats import Csr
from spmvbench.formats.arrays import offsets
from spmvbench.formats.dense_blocks import blocks
from spmvbench.formats.dense_blocks.block_sell import threads_by_slices
from tests.formats.rows import runs_on, with_long_pointers
from tests.formats.test_conversion import assert_kernels_convert_alike

HARD = testing.hard_matrices()


def of_blocks(r, c):
    """A csr_array of dense r x c blocks, three in each of 96 block rows."""
    return sparse.csr_array(sparse.kron(spmvbench.load("uniform:96:3"), np.arange(1, 1 + r * c).reshape(r, c)))


def tiles_by_the_book(a, r, c):
    """The columns of the tiles of each block row: a list of sorted lists."""
    a = sparse.coo_array(a)
    found = [set() for _ in range(-(-a.shape[0] // r))]
    for row, col in zip(*a.coords, strict=True):
        found[row // r].add(int(col // c))
    return [sorted(columns) for columns in found]


def check_store(tiles, a, r, c):
    """Counts and block CSR of `tiles` against a walk over the entries."""
    expected = tiles_by_the_book(a, r, c)
    counts = tiles.counts(r, c)
    assert counts.tolist() == [len(columns) for columns in expected]
    block_col, values = tiles.store(r, c, 1, 1, offsets(counts), sum(map(len, expected)))
    assert block_col.reshape(-1).tolist() == [column for columns in expected for column in columns]
    padded = np.zeros((-(-a.shape[0] // r) * r, -(-a.shape[1] // c) * c))
    padded[: a.shape[0], : a.shape[1]] = a.toarray()
    owner = np.repeat(np.arange(len(counts)), counts)
    whole = padded.reshape(len(counts), r, padded.shape[1] // c, c).transpose(0, 2, 1, 3)[owner, block_col[:, 0]]
    np.testing.assert_array_equal(values, whole.reshape(len(values), r * c))


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (3, 3), (8, 6), (16, 16)])
def test_tiles_by_arrays_in_pieces(shape, monkeypatch):
    monkeypatch.setattr(blocks, "PIECE", 100)
    for name in ("power law", "empty rows and columns", "3x3 blocks", "one full row", "1xN", "Nx1", "no entries"):
        check_store(blocks.SortedTiles(Csr.of(HARD[name])), HARD[name], *shape)


@pytest.mark.parametrize(
    ("sides", "wide"), [((0, 0), False), ((0, 0), True), ((3, 0), False), ((16, 16), False), ((32, 32), False)]
)
def test_tiles_by_kernels(sides, wide, emulated):
    for name in ("power law", "empty rows and columns", "3x3 blocks", "one full row", "1xN", "Nx1", "no entries"):
        a = Csr.of(HARD[name])
        if wide:
            a = with_long_pointers(a)
        tiles, by_arrays = blocks.MergedTiles(a, runs_on(emulated)), blocks.SortedTiles(a)
        tiles.measure(blocks.shapes(*sides), 32)
        assert tiles.totals == {shape: int(by_arrays.counts(*shape).sum()) for shape in blocks.shapes(*sides)}
        assert all(tiles.steps(*shape, 32) == by_arrays.steps(*shape, 32) for shape in tiles.totals)
        check_store(tiles, HARD[name], sides[0] or 6, sides[1] or 3)


@pytest.mark.parametrize("key", ["bellpack", "block-sell"])
@pytest.mark.parametrize("given", [{}, {"r": 3}, {"c": 2}, {"C": 8}])
def test_the_chosen_shape_takes_the_fewest_bytes(key, given):
    cls = formats.get(key)
    for a in (HARD["power law"], HARD["3x3 blocks"], of_blocks(6, 3), HARD["stencil"].astype(np.float32)):
        a = Csr.of(a)
        sizes = {
            (r, c): cls.estimate(a, **cls.resolve(given | {"r": r, "c": c}))
            for r, c in blocks.shapes(given.get("r", 0), given.get("c", 0))
        }
        fmt = cls.from_csr(a.fresh(), **given)
        assert fmt.tile == min(sizes, key=lambda shape: (sizes[shape], shape))
        assert fmt.nbytes == min(sizes.values())


def test_the_shape_of_a_large_matrix_is_that_of_a_sample(emulated, same_arrays, monkeypatch):
    monkeypatch.setattr(blocks, "SAMPLE", 3000)
    monkeypatch.setattr(blocks, "LEAST_SLABS", 2)
    # Of ten slabs of 768 rows the third and the eighth are looked at, which alone have blocks.
    dense = sparse.kron(sparse.eye_array(256), np.ones((3, 3)))
    a = sparse.csr_array(sparse.block_diag([dense if slab in (2, 7) else sparse.eye_array(768) for slab in range(10)]))
    some = blocks.sampled(Csr.of(a), None)
    assert (some.shape, some.nnz) == ((2 * 768, a.shape[1]), 2 * 256 * 9)
    by_kernels = blocks.sampled(with_long_pointers(a), runs_on(emulated))
    same_arrays({"ptr": by_kernels.row_ptr, "col": by_kernels.col_idx}, {"ptr": some.row_ptr, "col": some.col_idx}, "")
    assert testing.convert("block-sell", a).tile == (3, 3)
    assert_kernels_convert_alike("block-sell", {"sampled": a}, emulated, same_arrays)
    monkeypatch.undo()
    assert testing.convert("block-sell", a).tile == (1, 1)


def test_bsellpack_has_the_tiles_of_its_paper_s_program():
    a = of_blocks(3, 3)
    eight = [(r, c) for r in (1, 2, 4, 8) for c in (4, 8)]
    sizes = {(r, c): testing.convert(f"bsellpack[r={r},c={c}]", a).nbytes for r, c in eight}
    assert testing.convert("bsellpack", a).tile == min(sizes, key=lambda shape: (sizes[shape], shape))
    assert testing.convert("block-sell", a).nbytes < min(sizes.values())
    for bad in ("r=3", "c=2", "c=1"):
        with pytest.raises(UsageError, match=bad[0]):
            testing.convert(f"bsellpack[{bad}]", a)


def test_an_unfit_shape_is_not_counted(monkeypatch):
    counted = []
    counts = blocks.SortedTiles.counts
    monkeypatch.setattr(blocks.SortedTiles, "counts", lambda self, r, c: counted.append((r, c)) or counts(self, r, c))
    assert testing.convert("block-sell", spmvbench.load("uniform:4096:12")).tile == (1, 1)
    assert set(counted) == {(1, 1), (1, 2), (1, 3), (2, 1), (3, 1)}


def test_a_small_matrix_by_hand():
    # Block rows of 2: tiles at columns 0 and 2, at 1, and at 0, 1, 2; the last row and column are over the edge.
    dense = np.zeros((5, 5))
    dense[0, 0], dense[1, 4], dense[2, 3], dense[3, 2] = 1, 2, 3, 4
    dense[4, [0, 3, 4]] = 5, 6, 7
    a = sparse.csr_array(dense)
    fmt = testing.convert("block-sell[r=2,c=2,C=8]", a)
    assert fmt.slice_ptr.tolist() == [0, 3]
    assert fmt.block_col[:, :3].tolist() == [[0, 1, 0], [2, -1, 1], [-1, -1, 2]]
    assert (fmt.block_col[:, 3:] == -1).all()
    assert len(fmt.perm) == 0
    # 16 bytes: the values of a tile's row are together, those of 8 block rows side by side.
    step = fmt.values.reshape(3, 2, 8, 2)
    assert step[0, :, :3].tolist() == [[[1, 0], [0, 3], [5, 0]], [[0, 0], [4, 0], [0, 0]]]
    assert step[1, :, :3].tolist() == [[[0, 0], [0, 0], [0, 6]], [[2, 0], [0, 0], [0, 0]]]
    assert step[2, :, :3].tolist() == [[[0, 0], [0, 0], [7, 0]], [[0, 0], [0, 0], [0, 0]]]
    assert not step[:, :, 3:].any()
    assert fmt.detail == {"r": 2, "c": 2, "fill": 7 / 96}

    fmt = testing.convert("bellpack[r=2,c=2,C=8]", a)
    assert fmt.perm.tolist() == [2, 0, 1]
    assert fmt.block_col[:, :3].tolist() == [[0, 0, 1], [1, 2, -1], [2, -1, -1]]
    step = fmt.values.reshape(3, 4, 8)  # one value at a time
    assert step[0, :, :3].T.tolist() == [[5, 0, 0, 0], [1, 0, 0, 0], [0, 3, 4, 0]]
    assert step[1, :, :3].T.tolist() == [[0, 6, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]]


def test_threads_by_slices():
    assert [threads_by_slices(n) for n in (0, 2047, 2048, 4096, 8191, 8192, 16384)] == [8, 8, 8, 4, 4, 2, 1]


@pytest.mark.parametrize("spec", ["bellpack[r=3,c=3,threads=3]", "bsellpack[r=2,c=4,threads=1]"])
def test_any_number_of_threads(spec, emulated):
    for name in ("power law", "stencil", "1xN"):
        testing.check_product(spec, HARD[name], emulated)


def test_a_stored_zero_is_fill():
    a = sparse.csr_array((np.array([0.0, 5, -0.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 3))
    rows, cols, values = testing.convert("bellpack[r=1,c=3]", a).to_coo()
    assert (rows.tolist(), cols.tolist(), values.tolist()) == ([0], [1], [5])


@pytest.mark.parametrize("block", [2, 3, 16])
def test_block_csr_of_the_vendor_is_converted_without_it(block):
    for a in HARD.values():
        testing.check_conversion(f"cusparse-bsr[block={block}]", a)
