import collections
import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spmvbench.formats.arrays import Csr
from spmvbench.matrices import features as f
from spmvbench.matrices.synthetic import generate
from spmvbench.rows.schema import COLUMNS, MATRIX_COLUMNS


def csr(dense):
    return Csr.of(sp.csr_array(np.asarray(dense, dtype=np.float64)))


def by_hand(a):
    """The structural features of a small matrix, straight from their definitions."""
    stored = {(int(i), int(j)) for i, j in zip(*(part.tolist() for part in (a.row_idx, a.col_idx)), strict=True)}
    off = [(i, j) for i, j in stored if i != j]
    rows = [sorted(j for i, j in stored if i == k) for k in range(a.rows)]
    steps = [b - a for row in rows for a, b in itertools.pairwise(row)]
    on = collections.Counter(j - i for i, j in stored)
    full = {d: n for d, n in on.items() if 2 * n >= min(a.rows + min(d, 0), a.cols - max(d, 0), a.rows, a.cols)}
    slots = sum(32 * max(map(len, rows[k : k + 32])) for k in range(0, a.rows, 32))
    square = a.rows == a.cols
    return {
        "nnz": len(stored),
        "stored_zeros": int((a.values == 0).sum()),
        "empty_rows": a.rows - len({i for i, _ in stored}),
        "empty_cols": a.cols - len({j for _, j in stored}),
        "bandwidth": max((abs(i - j) for i, j in stored), default=0),
        "diagonals": len({j - i for i, j in stored}),
        "tiles": len({(i // 16, j // 16) for i, j in stored}),
        "full_diagonals": len(full),
        "full_diagonal_share": sum(full.values()) / a.nnz if a.nnz else 0,
        "contiguous_run_mean": a.nnz / (a.nnz - steps.count(1)) if a.nnz else 0,
        "repeated_row_share": sum(one == two != [] for one, two in itertools.pairwise(rows)) / max(a.rows, 1),
        "column_step_log2": sum(map(math.log2, steps)) / len(steps) if steps else 0,
        "ell_fill": a.nnz / slots if slots else 1,
        "pattern_symmetry": (sum((j, i) in stored for i, j in off) / len(off) if off else 1.0) if square else math.nan,
    }


@pytest.mark.parametrize("block", [1, 64, 1 << 22])
@pytest.mark.parametrize(
    "spec",
    ["pde:4", "fem:3:2", "rmat:7:5", "powerlaw:100:5", "rect:20:300:11", "rect:90:17:3", "denserow:70", "empty:40:3"],
)
def test_agrees_with_the_definitions(spec, block, monkeypatch):
    monkeypatch.setattr(f, "BLOCK", block)
    agrees(Csr.of(generate(spec)))


def agrees(a):
    found, expected = f.features(a), by_hand(a)
    assert {name: found[name] for name in expected} == pytest.approx(expected, nan_ok=True)


@settings(max_examples=60)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.02, 0.3, 1.0]))
def test_agrees_with_the_definitions_on_any_shape(rows, cols, seed, share):
    pattern = np.random.default_rng(seed).random((rows, cols)) < share
    a = csr(pattern)
    a.values[::3] = 0
    agrees(a)


def test_exactly_the_columns_of_a_row_and_of_a_description():
    names = list(COLUMNS)
    expected = names[names.index("rows") : names.index("ell_fill") + 1]
    found = f.features(csr(np.eye(3)))
    assert sorted(found) == sorted(expected)
    for name, value in found.items():
        assert type(value).__name__ == COLUMNS[name][0].removesuffix(" or null"), name
    names = list(MATRIX_COLUMNS)
    expected = names[names.index("row_lengths") : names.index("started_at")]
    assert sorted(f.description(Csr.of(generate("tridiag:200")))) == sorted(expected)


@pytest.mark.parametrize("spec", ["pde:12", "band:500:9:40", "rect:300:900:7", "rmat:8:8"])
def test_quick_ones_of_a_small_matrix_are_those_of_the_whole(spec):
    a = Csr.of(generate(spec))
    whole, quick = f.features(a), f.quick_features(a, f.sample(a))
    assert set(whole) - set(quick) == {"stored_zeros", "empty_cols", "diagonals", "pattern_symmetry", "tiles"}
    assert quick == pytest.approx({name: whole[name] for name in quick})


@pytest.mark.parametrize("spec", ["pde:30", "fem:12:3", "band:20000:9:40", "uniform:20000:9", "rmat:13:16"])
def test_quick_ones_of_a_sample_come_near_those_of_the_whole(spec, monkeypatch):
    monkeypatch.setattr(f, "SAMPLE", 1 << 14)
    a = Csr.of(generate(spec))
    part, rows = f.sample(a)
    assert part.nnz < a.nnz / 2
    for row in (0, 50, part.rows - 1):
        (first, last), (begin, end) = part.row_ptr[row : row + 2], a.row_ptr[rows[row] : rows[row] + 2]
        np.testing.assert_array_equal(part.col_idx[first:last], a.col_idx[begin:end])
    whole, quick = f.features(a), f.quick_features(a, f.sample(a))
    exact = [name for name in quick if name not in ("contiguous_run_mean", "repeated_row_share", "column_step_log2")]
    assert {n: quick[n] for n in exact} == pytest.approx({n: whole[n] for n in exact}, rel=0.02)
    assert quick["contiguous_run_mean"] == pytest.approx(whole["contiguous_run_mean"], rel=0.1)
    assert quick["column_step_log2"] == pytest.approx(whole["column_step_log2"], rel=0.2 if spec[0] == "r" else 0.05)
    assert quick["repeated_row_share"] == pytest.approx(whole["repeated_row_share"], abs=0.05)


def test_row_statistics():
    lengths = [0, 1, 1, 6]
    a = csr(np.arange(6) < np.array(lengths)[:, None])
    found = f.features(a)
    assert (found["row_len_min"], found["row_len_max"], found["row_len_median"]) == (0, 6, 1.0)
    assert found["row_len_mean"] == 2
    assert found["row_len_std"] == pytest.approx(np.std(lengths))
    assert found["row_len_cv"] == pytest.approx(np.std(lengths) / 2)
    differences = sum(abs(a - b) for a in lengths for b in lengths)
    assert found["row_len_gini"] == pytest.approx(differences / (2 * 4**2 * 2))


def test_histogram():
    a = csr(np.arange(9) < np.array([0, 1, 2, 3, 3, 9])[:, None])
    assert f.row_length_histogram(a) == [(0, 0, 1), (1, 1, 1), (2, 3, 3), (4, 7, 0), (8, 15, 1)]
    assert f.row_length_histogram(csr(np.zeros((2, 0)))) == [(0, 0, 2)]


@pytest.mark.parametrize("block", [16, 1 << 22])
def test_density(monkeypatch, block):
    monkeypatch.setattr(f, "BLOCK", block)
    rng = np.random.default_rng(0)
    pattern = rng.random((70, 33)) < 0.2
    found = f.density(csr(pattern), 7, 11)
    np.testing.assert_allclose(found, pattern.reshape(7, 10, 11, 3).mean(axis=(1, 3)))
    uneven = f.density(csr(np.ones((7, 5))), 3, 2)
    np.testing.assert_array_equal(uneven, np.ones((3, 2)))


def test_a_part_holds_what_a_slice_holds():
    dense = np.random.default_rng(1).random((30, 20)) * (np.random.default_rng(2).random((30, 20)) < 0.3)
    a = csr(dense)
    for row, col, rows, cols in [(0, 0, 30, 20), (7, 3, 11, 9), (29, 19, 1, 1), (5, 5, 0, 4), (2, 6, 3, 0)]:
        found = f.part(a, row, col, rows, cols)
        expected = Csr.of(sp.csr_array(dense[row : row + rows, col : col + cols]))
        assert found.shape == expected.shape
        for array in ("row_ptr", "col_idx", "values"):
            np.testing.assert_array_equal(getattr(found, array), getattr(expected, array))


def test_a_small_matrix_is_described_place_by_place():
    dense = np.array([[1.0, 0, 2], [0, 0, 0], [3, 4, 5], [0, 0, 6]])
    found = f.description(csr(dense))
    assert (found["row_lengths"].tolist(), found["row_counts"].tolist()) == ([0, 1, 2, 3], [1, 1, 1, 1])
    assert (found["down"], found["across"]) == (4, 3)
    assert found["density"].tolist() == (dense != 0).ravel().tolist()
    assert "zoom_rows" not in found


def test_the_fullest_cell_is_what_a_description_enlarges():
    dense = np.eye(1000)
    dense[600:640, 900:930] = 1  # in the 128 x 128 grid, cells of seven or eight places
    found = f.description(csr(dense))
    row, col = found["zoom_row"], found["zoom_col"]
    assert (found["zoom_rows"], found["zoom_cols"]) == (f.CELLS, f.CELLS)
    assert row <= 600 < 640 <= row + f.CELLS and col <= 900 < 930 <= col + f.CELLS
    shown = found["zoom_density"].reshape(found["zoom_down"], found["zoom_across"])
    np.testing.assert_array_equal(shown, dense[row : row + f.CELLS, col : col + f.CELLS])


def test_what_is_enlarged_lies_inside_and_is_as_wide_as_a_cell():
    n = 300 * f.CELLS  # all cells alike: the first is the fullest
    a = Csr.of(sp.diags_array([np.ones(n), np.ones(2)], offsets=[0, n - 2]).tocsr())
    found = f.description(a)
    assert (found["zoom_row"], found["zoom_col"]) == (0, 0)
    assert (found["zoom_rows"], found["zoom_down"]) == (300, f.CELLS)
    assert sum(found["row_counts"]) == n
    wide = f.description(Csr.of(generate("rect:3:5000:20")))
    assert (wide["down"], wide["across"], wide["zoom_rows"], wide["zoom_cols"]) == (1, 128, 3, 128)
    assert 0 <= wide["zoom_col"] <= 5000 - 128


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 3), (5, 4)])
def test_a_matrix_without_entries_has_no_picture(shape):
    found = f.description(csr(np.zeros(shape)))
    assert found["row_counts"].tolist() == ([shape[0]] if shape[0] else [])
    assert set(found) == {"row_lengths", "row_counts"}


@pytest.mark.gpu
@pytest.mark.parametrize("spec", ["pde:8", "fem:4:2", "rmat:9:5", "rect:20:300:11", "denserow:700", "empty:40:3"])
def test_the_same_on_a_gpu(spec):
    cupy = pytest.importorskip("cupy")
    a = Csr.of(generate(spec))
    assert f.features(a.on(cupy)) == pytest.approx(f.features(a), nan_ok=True)
    on_gpu, on_host = f.description(a.on(cupy)), f.description(a)
    assert on_gpu.keys() == on_host.keys()
    for name, value in on_host.items():
        np.testing.assert_array_equal(on_gpu[name], value)


@pytest.mark.parametrize(
    ("a", "spd"),
    [
        ([[2, -1], [-1, 2]], True),
        ([[1, -1], [-1, 1]], False),  # singular
        ([[1, 2], [2, 5]], True),  # by its pivots, 1 and 1
        ([[1, 2], [2, 3]], False),
        ([[2, -1], [1, 2]], False),
        ([[0, 0], [0, 1]], False),
        ([[1, -1, 0], [-1, 1, 0], [0, 0, 1]], False),  # one component is strict, the other singular
        ([[1, 0, 0]], False),
    ],
)
def test_positive_definiteness(a, spd):
    assert f.is_spd(sp.csr_array(np.array(a, dtype=float))) == spd
