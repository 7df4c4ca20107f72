"""Formats in solvers, on tables small enough to do by hand."""

import json

import numpy as np
import pytest

from spmvbench.analysis.solvers import COLUMNS, solvers
from spmvbench.reports import figures
from tests.made import row, rows


def solver(name, label, seconds, share, op="cg@10", **columns):
    parts = json.dumps({"spmv": share * 1e-3, "vectors": (1 - share) * 1e-3})
    return row(name, label, seconds, op=op, t_kernels=parts, **columns)


@pytest.fixture
def two():
    """In the solver csr wins on both matrices, in the product ell does."""
    return rows(
        solver("m", "csr", 1e-3, 0.5),
        solver("m", "ell", 2e-3, 0.8),
        solver("n", "csr", 4e-3, 0.7),
        solver("n", "ell", 4e-3, 0.8, status="wrong"),
        row("m", "csr", 4e-5),
        row("m", "ell", 1e-5),
        row("n", "csr", 4e-5),
        row("n", "ell", 1e-5),
        row("n", "dia", 1e-6),
        row("elsewhere", "csr", 1e-7),
        row("elsewhere", "ell", 1e-5),
    )


def test_ranks_in_the_solver_and_alone_are_of_the_same_formats_and_matrices(two):
    table = solvers(two)
    assert list(table.columns) == COLUMNS
    assert list(table["label"]) == ["csr", "ell"]
    csr, ell = table.to_dict("records")
    assert (csr["setting"], csr["rank"], csr["rank_spmv"], csr["matrices"]) == ("f64 hot cg@10", 1, 2, 2)
    assert (ell["rank"], ell["rank_spmv"], ell["matrices"]) == (2, 1, 1)
    assert csr["seconds"] == pytest.approx(2e-4), "the mean of 1 and 4 ms in ten iterations"
    assert csr["share"] == pytest.approx(0.6)
    assert csr["slowdown"] == 1
    assert ell["slowdown"] == pytest.approx(np.sqrt(2 * 10)), "wrong on n"
    assert csr["slowdown_spmv"] == pytest.approx(4)


def test_without_products_alone_there_is_no_rank_beside():
    table = solvers(rows(solver("m", "csr", 1e-3, 0.5, op="pagerank@50")))
    (found,) = table.to_dict("records")
    assert (found["rank"], found["matrices"]) == (1, 1)
    assert found["seconds"] == pytest.approx(2e-5)
    assert np.isnan(found["rank_spmv"])


def test_an_iteration_with_two_products_is_ranked_beside_pairs():
    parts = json.dumps({"spmv": 1e-3, "spmv-t": 2e-3, "vectors": 1e-3})
    table = solvers(
        rows(
            row("m", "csr", 1e-3, op="pdhg@20", t_kernels=parts),
            row("m", "csr", 1e-5, op="pair"),
            row("m", "csr", 1e-5),
        )
    )
    (found,) = table.to_dict("records")
    assert (found["setting"], found["share"], found["rank_spmv"]) == ("f64 hot pdhg@20", 0.75, 1)


def test_the_figure_takes_rows_of_all_operations(two):
    (figure,) = figures.choose(["solvers"])
    options = figures.Options("csr", {})
    (shown,) = figure.show(figures.table_of(figure, two, options), options)
    assert shown.caption == "Formats in solvers, f64 hot cg@10"
    assert [cell.text for cell in shown.rows[0]] == ["csr", "200 us", "60 %", "1.00", "1.00", "4.00", "2.00", "2"]
