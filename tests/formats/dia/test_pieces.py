"""Diagonals in pieces: what each storage keeps of which matrix."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from spmvbench import load, testing
from spmvbench.formats import Skip, get
from spmvbench.formats.dia.ddd import MOST
from tests.formats.test_conversion import assert_kernels_convert_alike


def test_cds_finds_the_unknowns_of_a_node():
    fmt = get("cds").from_csr(load("fem:4:3"))
    assert fmt.width == 3
    assert len(fmt.offset) == 27
    assert fmt.values.shape == (81, 192)


@pytest.mark.parametrize("width", range(1, 17))
def test_cds_kernels_find_block_diagonals_of_every_width(width, emulated, same_arrays):
    """Where blocks are on both sides of the first one's diagonal, and the next ones' entries on the same diagonals."""
    matrices = {
        f"{rows} x {cols}, {density}": sparse.random_array(
            (rows * width, cols * width), density=density, rng=np.random.default_rng(width), format="csr"
        )
        for rows, cols, density in ((40, 23, 0.01), (7, 31, 0.02), (9, 9, 0.3))
    }
    matrices["blocks"] = sparse.kron(
        sparse.random_array((30, 30), density=0.1, rng=np.random.default_rng(0)), np.ones((width, width)), format="csr"
    )
    for spec in ("cds", f"cds[unknowns={width}]"):
        assert_kernels_convert_alike(spec, matrices, emulated, same_arrays)


def test_cds_with_one_unknown_is_dia(same_arrays):
    a = load("poisson2d:9")
    cds, dia = get("cds").from_csr(a, unknowns=1), get("dia").from_csr(a)
    same_arrays(cds.arrays(), dia.arrays())
    x, y = np.zeros(81), np.zeros(81)
    assert [(step.kernel, step.grid, step.block) for step in cds.launches(x, y)] == [
        (step.kernel, step.grid, step.block) for step in dia.launches(x, y)
    ]


def test_cds_refuses_unknowns_that_do_not_divide():
    with pytest.raises(Skip, match="7 unknowns a node do not divide 81 rows"):
        get("cds").from_csr(load("poisson2d:9"), unknowns=7)


@pytest.mark.parametrize(("matrix", "lanes"), [("fem:8:3", 4), ("rmat:8:8", 0), ("denserow:500", 0)])
def test_short_rows_with_dense_diagonals_have_half_the_threads(matrix, lanes):
    assert get("ddd-split").from_csr(load(matrix)).parts["csr"].lanes == lanes


def test_too_many_diagonals_are_not_cut():
    a = sparse.csr_array(np.ones((MOST, 2)))
    with pytest.raises(Skip, match="dense diagonals, more than the 4,096"):
        get("ddd-split").from_csr(a)


@pytest.mark.parametrize(("key", "places"), [("ddd-naive", 50 + 90 + 83), ("ddd-split", 2 * 50 + 3 * 34 + 2 * 8 + 10)])
def test_dense_diagonals_take_their_length_and_others_go_to_csr(key, places):
    a = sparse.lil_array(sparse.diags_array([1.0, 2.0, 3.0], offsets=[-50, 0, 7], shape=(100, 90)))
    a[3, 80] = 5.0
    fmt = get(key).from_csr(sparse.csr_array(a))
    assert len(fmt.parts["dia"].values) == places
    assert fmt.parts["csr"].rows.tolist() == [3]
    assert fmt.detail["csr_share"] == 1 / 224


def test_segments_with_the_same_diagonals_share_a_pattern():
    fmt = get("crsd").from_csr(load("pde:16"))
    assert len(fmt.parts["diagonals"].pattern) == 32
    assert fmt.detail["diagonals_patterns"] < 5


@pytest.mark.parametrize("kernel", ["fast", "paper"])
def test_a_pattern_s_adjacent_diagonals_are_groups_for_generated_code(kernel, emulated):
    """A table lists diagonals one by one: threads then know where several are."""
    a = sparse.csr_array(sparse.diags_array([1.0, 2, 3, 4, 5, 6], offsets=[-9, -1, 0, 1, 20, 21], shape=(300, 300)))
    fmt = testing.convert(f"crsd[kernel={kernel}]", a).parts["diagonals"]
    table = np.stack([fmt.offset, fmt.width], axis=1) if kernel == "paper" else fmt.offset
    patterns = [table[begin:end].tolist() for begin, end in pairwise(fmt.pattern_ptr)]
    assert patterns == [[[-9, 1], [-1, 3], [20, 2]] if kernel == "paper" else [-9, -1, 0, 1, 20, 21]]
    assert fmt.values.shape == (3 * 6, 128), "a segment has its diagonals one after the other"
    testing.check_product(f"crsd[kernel={kernel}]", a, emulated)


def test_a_row_with_a_scattered_entry_is_apart_as_a_whole():
    a = sparse.lil_array(sparse.eye_array(400))
    a[130, 5] = 2.0
    fmt = get("crsd").from_csr(sparse.csr_array(a))
    rows, cols, _ = fmt.parts["rows"].to_coo()
    assert (rows.tolist(), cols.tolist()) == ([130, 130], [5, 130])
