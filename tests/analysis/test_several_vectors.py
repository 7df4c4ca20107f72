"""Products of several vectors beside those of one, on a table small enough to do by hand."""

import numpy as np
import pytest

from spmvbench.analysis.several_vectors import beside_libraries, several_by_format, several_vectors
from tests.made import row, rows


def several(name, label, k, seconds, layout="row", **columns):
    return row(name, label, seconds, op=f"spmm{'-column' * (layout == 'column')}@{k}", k=k, layout=layout, **columns)


@pytest.fixture
def few():
    return rows(
        row("m", "csr", 1e-5), several("m", "csr", 2, 3e-5), several("m", "csr", 4, 2e-5), several("m", "csr", 8, 4e-5),
        row("n", "csr", 1e-5), several("n", "csr", 2, 1e-5), several("n", "csr", 4, 5e-5), several("n", "csr", 8, 9e-5),
        several("m", "csr", 8, 2e-5, "column"), several("m", "ell", 8, 1e-5), row("o", "csr", 1e-5),
        several("o", "csr", 8, 1e-5, status="wrong"),
    )  # fmt: skip


def test_speedups_are_over_as_many_products_of_one_vector(few):
    found = several_vectors(few).set_index(["matrix", "layout", "k"])["speedup"].to_dict()
    m = {("G/m", "row", 2): 2 / 3, ("G/m", "row", 4): 2, ("G/m", "row", 8): 2, ("G/m", "column", 8): 4}
    assert found == pytest.approx(m | {("G/n", "row", 2): 2, ("G/n", "row", 4): 0.8, ("G/n", "row", 8): 8 / 9})


def test_it_pays_from_the_k_after_which_it_always_does(few):
    found = several_by_format(several_vectors(few)).set_index(["layout", "k"])
    assert found.index.tolist() == [("column", 8), ("row", 2), ("row", 4), ("row", 8)]
    assert found["pays_from"].to_dict() == {("column", 8): 8, **dict.fromkeys((("row", 2), ("row", 4)), np.inf)} | {
        ("row", 8): np.inf
    }  # the median of 4 on m and never on n
    assert found.loc[("row", 4), "speedup"] == pytest.approx(np.sqrt(2 * 0.8))
    assert found.loc[("row", 4), ["pays", "matrices"]].tolist() == [0.5, 2]
    of_m = several_by_format(several_vectors(few).query("matrix == 'G/m'")).set_index(["layout", "k"])
    assert of_m.loc["row", "pays_from"].tolist() == [4, 4, 4]


def test_the_fastest_by_rows_is_beside_the_fastest_of_libraries_in_either_layout(few):
    table = rows(
        row("m", "csr", 1e-5), several("m", "csr", 8, 4e-5, bound_gflops=100.0), several("m", "ell", 8, 1e-5, "column"),
        several("m", "cusparse-coo", 8, 6e-5), several("m", "cusparse-coo", 8, 5e-5, "column"),
        several("m", "torch-csr", 8, 9e-5, family="Libraries"), row("m", "cusparse-coo", 1e-6),
        several("n", "csr", 4, 2e-5), several("n", "torch-csr", 4, 1e-5, family="Libraries"),
        several("o", "csr", 8, 1e-5), several("p", "csr", 8, 1e-5), several("p", "cusparse-coo", 8, 9e-5, "column"),
    )  # fmt: skip
    found = beside_libraries(table).set_index("matrix")
    assert found.index.tolist() == ["G/m", "G/n"]  # o has no library, p one by columns alone
    assert found[["label", "library", "library_layout"]].to_numpy().tolist() == [
        ["csr", "cusparse-coo", "column"], ["csr", "torch-csr", "row"],
    ]  # fmt: skip
    assert found["times"].tolist() == pytest.approx([5 / 4, 1 / 2])
    assert found["alone"].tolist() == pytest.approx([2, np.nan], nan_ok=True)
    assert found["share"]["G/m"] == pytest.approx(2e-3 / 4e-5 / 100)


def test_settings_go_by_the_number_of_vectors():
    table = rows(*(several("m", "csr", k, 1e-5) for k in (2, 8, 16)), row("m", "csr", 1e-5))
    assert list(table["setting"].cat.categories) == ["f64 hot", *(f"f64 hot spmm@{k}" for k in (2, 8, 16))]
