"""Blocked formats: the shape that is chosen, by how many threads a tile is multiplied."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spmvbench
from spmvbench import formats, testing
from spmvbench.errors import UsageError
from spmvbench.formats import Csr
from spmvbench.formats.dense_blocks import blocks
from spmvbench.formats.dense_blocks.block_sell import threads_by_slices
from tests.formats.rows import runs_on, with_long_pointers
from tests.formats.test_conversion import assert_kernels_convert_alike

HARD = testing.hard_matrices()


def of_blocks(r, c):
    """A csr_array of dense r x c blocks, three in each of 96 block rows."""
    return sparse.csr_array(sparse.kron(spmvbench.load("uniform:96:3"), np.arange(1, 1 + r * c).reshape(r, c)))


def test_tiles_are_found_in_pieces(monkeypatch):
    monkeypatch.setattr(blocks, "PIECE", 100)
    testing.over(HARD, lambda a: testing.check_conversion("bellpack[r=8,c=6]", a))


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
    some = blocks.sampled(Csr.of(a), 768)
    assert (some.shape, some.nnz) == ((2 * 768, a.shape[1]), 2 * 256 * 9)
    for choices in (blocks.shapes(0, 0), blocks.shapes(7, 0)):  # slabs of 896 rows
        tiles = blocks.FoundTiles(with_long_pointers(a), runs_on(emulated)).sample(choices.slab)
        expected = blocks.SortedTiles(Csr.of(a)).sample(choices.slab)
        assert tiles.measure(choices, 8, sort=True).tolist() == [expected.steps(*x, 8, sort=True) for x in choices]
        counts = [{f"{r} x {c}": of.counts(r, c).astype(int) for r, c in choices} for of in (tiles, expected)]
        same_arrays(*counts, "")
    assert testing.convert("block-sell", a).tile == (3, 3)
    for key in ("block-sell", "bellpack", "bsr"):
        assert_kernels_convert_alike(key, {"sampled": a}, emulated, same_arrays)
    assert_kernels_convert_alike("block-sell[r=2,c=2]", {"no padding": of_blocks(2, 2)}, emulated, same_arrays)
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


def test_threads_by_slices():
    assert [threads_by_slices(n) for n in (0, 2047, 2048, 4096, 8191, 8192, 16384)] == [8, 8, 8, 4, 4, 2, 1]
    several = ((161, 24), (1131, 26), (2000, 27), (402, 12), (332, 8), (5854, 16), (10, 2))
    assert [threads_by_slices(*sizes, sharing=4) for sizes in several] == [8, 4, 2, 4, 2, 1, 1]


@pytest.mark.parametrize("spec", ["bellpack[r=3,c=3,threads=3]", "bsellpack[r=2,c=4,threads=1]"])
def test_any_number_of_threads(spec, emulated):
    for name in ("power law", "stencil", "1xN"):
        testing.check_product(spec, HARD[name], emulated)


@pytest.mark.parametrize("block", [2, 3, 16])
def test_block_csr_of_the_vendor_is_converted_without_it(block):
    for a in HARD.values():
        testing.check_conversion(f"cusparse-bsr[block={block}]", a)
