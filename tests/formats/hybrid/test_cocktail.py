"""The cocktail: what a table says between its points, and what is peeled off by it."""

import csv

import numpy as np
import pytest
from scipy import sparse

from spmvbench import testing
from spmvbench.errors import UsageError
from spmvbench.formats import Csr
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.formats.hybrid import cocktail
from spmvbench.formats.hybrid.cocktail import SHAPES, ByBytes, Cocktail, Point, Table
from tests.formats.rows import runs_on

SPEEDS = {"dia": 8.0, "sbell": 6.0, "ell": 5.0, "sell": 4.9, "csr": 3.0, "coo": 2.0}


def points(speeds=SPEEDS):
    for dtype in ("float64", "float32"):
        for name, gflops in speeds.items():
            for r, c in SHAPES if name == "sbell" else [(1, 1)]:
                for rows in (1, 1 << 20):
                    yield Point(dtype, name, r, c, rows, 1, gflops)


@pytest.fixture
def table(tmp_path):
    def write(**speeds):
        file = tmp_path / f"t{len(list(tmp_path.iterdir()))}.csv"
        with file.open("w", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(Point._fields)
            writer.writerows(points(SPEEDS | speeds))
        return f"cocktail[table={file}]"

    return write


def parts(spec, a):
    return {name: part.nbytes > 0 for name, part in testing.convert(spec, a).parts.items()}


def test_shipped_tables_know_every_format_in_both_types():
    assert "nvidia-h200" in cocktail.shipped()
    for name in cocktail.shipped():
        table = cocktail.table_of(name)
        for dtype in (np.float64, np.float32):
            assert all(table.gflops(dtype, part, 1 << 20, 8) > 100 for part in cocktail.FORMATS if part != "sbell")
            assert all(table.gflops(dtype, "sbell", 1 << 20, 4, shape) > 100 for shape in SHAPES)
            assert 0 < table.overhead(dtype) < 1e-4


def test_between_points_rates_are_bilinear_and_beyond_them_constant():
    grid = {(10, 1): 1.0, (10, 3): 3.0, (20, 1): 5.0, (20, 3): 7.0}
    found = Table("t", [Point("float64", "ell", 1, 1, rows, width, g) for (rows, width), g in grid.items()])
    assert found.gflops(np.float64, "ell", 15, 2) == 4
    assert found.gflops(np.float64, "ell", 5, 0) == 1
    assert found.gflops(np.float64, "ell", 99, 99) == 7
    assert found.seconds(np.float64, "ell", 10, 30) == pytest.approx(2e-9 * 30 / 3)
    assert found.overhead(np.float64) == pytest.approx(2e-9 * 20 / 5)


def test_parts_are_peeled_off_in_the_order_of_the_table(table):
    rng = np.random.default_rng(0)
    a = sparse.lil_array((4000, 4000))
    a.setdiag(np.ones(4000))
    a.setdiag(np.ones(3990), 10)
    for block in range(0, 4000, 40):
        a[block : block + 8, 3000:3008] = 1
    a[rng.integers(0, 4000, 300), rng.integers(0, 4000, 300)] = 2
    a = a.tocsr()
    fmt = testing.convert(table(), a)
    assert list(fmt.parts)[:2] == ["dia", "sbell"]
    assert fmt.parts["dia"].offset.tolist() == [0, 10]
    assert sum(fmt.entries.values()) == a.nnz
    assert fmt.detail["table"].endswith("t0.csv")
    assert "dia" not in parts(table(dia=1.0), a)
    assert "sbell" not in parts(table(sbell=1.0), a)
    testing.check_conversion(table(), a)


def test_what_is_left_goes_to_the_best_flat_format(table, emulated):
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(3000) % 50 == 0, 90, 3)
    rows = np.repeat(np.arange(3000), lengths)
    a = sparse.csr_array((np.ones(len(rows)), (rows, rng.integers(0, 3000, len(rows)))), shape=(3000, 3000))
    a.sum_duplicates()
    assert list(parts(table(dia=1, sbell=1, coo=6), a)) == ["coo"]
    assert list(parts(table(dia=1, sbell=1, csr=6), a)) == ["csr"]
    mixed = testing.convert(table(dia=1, sbell=1, coo=0.1), a)
    assert list(mixed.parts) == ["ell", "csr"]
    assert mixed.parts["ell"].width == 3
    testing.check_product(table(dia=1, sbell=1, coo=0.1), a, emulated)


def test_one_row_that_outweighs_all_goes_to_coordinates(table):
    a = sparse.csr_array(np.ones((1, 5000)))
    a = sparse.csr_array(sparse.vstack([a, sparse.csr_array((999, 5000))]))
    assert list(parts(table(dia=1, sbell=1, csr=6), a)) == ["coo"]


def test_a_gpu_without_a_table_goes_by_bytes_and_a_wrong_name_says_which_there_are(tmp_path):
    a = testing.hard_matrices()["diagonal"]
    with converting_for(Limits(1, 1, "ACME 3000")):
        assert Cocktail.from_csr(a).detail["table"] == "bytes"
    with pytest.raises(UsageError, match=r"no table of cocktail in nothing.*there are bytes"):
        Cocktail.from_csr(a, table="nothing")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("dtype,format\nfloat64,ell\n")
    with pytest.raises(UsageError, match=r"wrong\.csv"):
        Cocktail.from_csr(a, table=str(wrong))


def test_diagonals_and_counts_by_kernels_give_the_same_parts(table, emulated, monkeypatch, same_arrays):
    a = testing.hard_matrices()["stencil"]
    spec = table()
    expected = testing.convert(spec, a)
    assert next(iter(expected.parts)) == "dia"

    monkeypatch.setattr(cocktail, "runner", lambda matrix: runs_on(emulated))
    monkeypatch.setattr("spmvbench.formats.hybrid.diagonals.runner", lambda matrix: runs_on(emulated))
    same_arrays(testing.convert(spec, Csr.of(a)).arrays(), expected.arrays(), spec)


def test_without_a_table_formats_are_as_fast_as_their_bytes():
    rule = ByBytes()
    assert rule.gflops(np.float64, "dia", 9, 5) / rule.gflops(np.float64, "ell", 9, 5) == pytest.approx(12 / 8)
    assert rule.gflops(np.float64, "sbell", 9, 5, (2, 4)) == pytest.approx(2e-9 / 8.5)
    assert rule.gflops(np.float32, "csr", 9, 4) == pytest.approx(2e-9 / 10)
    assert rule.seconds(np.float64, "coo", 9, 10) == pytest.approx(160)
    a = sparse.csr_array(sparse.diags_array(np.ones(2000000)))
    assert list(testing.convert("cocktail", a).parts) == ["dia"]
