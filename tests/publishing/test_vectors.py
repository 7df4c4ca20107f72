"""The tables of docs/results/vectors.md, on rows small enough to do by hand."""

import pandas as pd

from spmvbench.publishing import vectors
from tests.made import row


def several(name, label, k, seconds, **group):
    return row(
        name, label, seconds, op=f"spmm@{k}", k=k, layout="row", bound_gflops=4e-3 / seconds, bound_by="bytes", **group
    )


def test_matrices_of_the_set_are_means_and_the_others_columns():
    times = {"pde:100": (1e-5, 4e-5), "xxz:16": (2e-5, 4e-5), "xxz:20": (4e-5, 2e-5), "ash85": (1e-5, 3e-5)}
    groups = {name: {"group": "HB" if name == "ash85" else "synthetic"} for name in times}
    given = [row(name, "csr", 1e-5, **groups[name]) for name in times]
    for name, seconds in times.items():
        given += [
            several(name, *of, **groups[name]) for of in zip(("csr", "cusparse-coo"), (8, 8), seconds, strict=True)
        ]
    found = vectors.tables(pd.DataFrame(given))
    assert found["beside"].splitlines()[2:] == [
        "| f64, 8 | 4.00 (0.50) | 1.00 (0.50), 2 | 0.50, xxz:20 | 3.00 (0.50), 1 | 3.00, ash85 |"
    ]
    assert found["fastest"].splitlines()[2:] == [
        "| pde:100 | f64 | 8 | `csr` | 10.0 | 0.50 of bytes | `cusparse-coo`, by rows | 40.0 | 4.00 | 8.00 |"
    ]
    assert found["slower"].splitlines()[0] == "1 of 4 cases are below 0.97."
    assert found["slower"].splitlines()[-1] == "| xxz:20 | 1.00 | f64 | 8 | `csr` | 0.50 of `cusparse-coo` | 2.00 |"
    assert found["pays"].splitlines()[2:] == ["| `csr` | 2.83 | 8 | 8 |"]
    assert vectors.tables(pd.DataFrame(given[:1]))["pays"].startswith("No format")
