"""The tables of docs/results/vectors.md, on rows small enough to do by hand."""

import pandas as pd

from spmvbench.publishing import vectors
from tests.made import row


def several(name, label, k, seconds):
    return row(name, label, seconds, op=f"spmm@{k}", k=k, layout="row", bound_gflops=4e-3 / seconds)


def test_matrices_of_the_set_are_means_and_the_others_columns():
    times = {"pde:100": (1e-5, 4e-5), "xxz:16": (2e-5, 4e-5), "xxz:20": (4e-5, 2e-5)}
    given = [row(name, "csr", 1e-5) for name in times]
    for name, (ours, theirs) in times.items():
        given += [several(name, "csr", 8, ours), several(name, "cusparse-coo", 8, theirs)]
    found = vectors.tables(pd.DataFrame(given))
    assert found["beside"].splitlines()[2:] == ["| f64, 8 | 4.00 (0.50) | 1.00 (0.50), 2 | 0.50, xxz:20 |"]
    assert found["fastest"].splitlines()[2:] == [
        "| pde:100 | f64 | 8 | `csr` | 10.0 | `cusparse-coo`, by rows | 40.0 | 4.00 | 8.00 |"
    ]
    assert found["slower"].splitlines()[0] == "1 of 3 cases are below 0.97."
    assert found["slower"].splitlines()[-1] == "| xxz:20 | 1.00 | f64 | 8 | `csr` | 0.50 of `cusparse-coo` | 2.00 |"
    assert found["pays"].splitlines()[2:] == ["| `csr` | 2.83 | 8 | 8 |"]
    assert vectors.tables(pd.DataFrame(given[:1]))["pays"].startswith("No format")
