"""Tables of pairs and of primal-dual hybrid gradient, from rows that can be done by hand."""

import json

import pandas as pd

from spmvbench.publishing import linear_programs
from tests.made import row, rows


def pair(name, label, plain, transposed, vectors=0.0, op="pair", **columns):
    parts = {"spmv": plain, "spmv-t": transposed} | ({"vectors": vectors} if vectors else {})
    seconds = plain + transposed + vectors
    return row(name, label, seconds, op=op, t_kernels=json.dumps(parts), bytes_format=24_000_000, **columns)


MADE = rows(
    pair("m", "cusparse-a+cusparse-a", 4e-6, 9e-6),
    pair("m", "cusparse-b+cusparse-b", 5e-6, 8e-6),
    pair("m", "ell+csr", 2e-6, 2e-6),
    pair("m", "auto+auto", 4e-6, 2e-6),
    pair("n", "cusparse-a+cusparse-a", 6e-6, 6e-6, nnz=2_000_000),
    pair("n", "auto+auto", 6e-6, 6e-6, nnz=2_000_000),
    pair("n", "csr", 1e-6, 1e-6, nnz=2_000_000, status="wrong"),
    pair("m", "ell+csr", 40e-6, 40e-6, 20e-6, op="pdhg@10"),
    pair("m", "cusparse-a+cusparse-a", 50e-6, 100e-6, 50e-6, op="pdhg@10"),
)


def lines(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_speed_is_over_the_best_of_the_library_in_each_product():
    found = {line[0]: line[1:] for line in lines(linear_programs.by_format(linear_programs.measured(MADE)))}
    assert found["`ell+csr`"] == ["2.00", "4.00", "2.83", "500.00", "500.0", "24.0", "", "1"]
    assert found["`auto+auto`"][:3] == ["1.00", "2.00", "1.41"]
    assert found["`auto+auto`"][-1] == found["`cusparse-a+cusparse-a`"][-1] == "2"
    assert "`csr`" not in found
    assert next(iter(found)) == "`auto+auto`", "those of all matrices come first"


def test_a_matrix_has_the_best_of_the_library_the_choice_and_the_fastest():
    without = rows(pair("none advised", "cusparse-a+cusparse-a", 6e-6, 6e-6))
    n, m, mean = lines(linear_programs.by_matrix(linear_programs.measured(pd.concat([MADE, without]))))
    assert n[:5] == ["n", "2 M", "6.0", "6.0", "6.0"]
    assert m[2:8] == ["4.0", "4.0", "2.0", "8.0", "2.0", "2.0"]
    assert m[-2:] == ["2.00", "`auto+auto`"]
    assert mean[-2] == "1.41"


def test_an_iteration_is_beside_its_products():
    cupy = pd.DataFrame({"seconds": [30e-6], "fused": [15e-6]}, index=["m"])
    found, mean = lines(linear_programs.by_iteration(linear_programs.measured(MADE), cupy))
    assert found == ["m", "1 M", "10.0", "8.0", "20.0", "30.0", "15.0", "1.25", "2.00", "3.00", "1.50", "`ell+csr`"]
    assert mean[7:11] == found[7:11]
    parts = json.dumps({"spmv+vectors": 3e-5, "spmv-t+vectors": 2e-5})
    made = pd.concat(
        [MADE[MADE["t_median"] != 100e-6], rows(row("m", "ell+csr", 60e-6, op="pdhg@10", t_kernels=parts))]
    )
    found, _ = lines(linear_programs.by_iteration(linear_programs.measured(made), cupy[:0]))
    assert found[2:8] == ["6.0", "4.0", "20.0", "", "", "1.50"], "products of the pair's row, no time of CuPy"
