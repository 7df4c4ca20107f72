"""The table of claims in docs/results/papers.md: which rows count."""

import pandas as pd
import pytest

from spmvbench.analysis.older import older_programs
from spmvbench.errors import UsageError
from spmvbench.publishing import claims
from tests.made import row as made


def run(times, matrices, dtype="f64", day="2026-01-01", card="", **columns):
    """Rows of these labels on these matrices, each with the time that `times` gives its label."""
    rows = [
        made(matrix.rpartition("/")[2], label, time)
        | {"group": matrix.rpartition("/")[0], "matrix_sha256": matrix, "nnz": 1000, "dtype": dtype}
        | {"started_at": day, "case_id": f"{matrix} {label}", "sequence": place, "run_id": "a", "device_name": "gpu"}
        | columns
        for matrix in matrices
        for place, (label, time) in enumerate(times.items())
    ]
    return claims.measured(pd.DataFrame(rows), card)


ONE = {"tile-deferred-coo": 1.0, "csr5": 2.0}


def test_rows_that_do_not_count():
    assert run(ONE, ["a/b"], mode="cold").empty
    assert run(ONE, ["a/b"], device="emulated").empty
    assert run(ONE, ["a/b"], device_name="NVIDIA H100 80GB HBM3", card="h200").empty
    assert not run(ONE, ["a/b"], device_name="NVIDIA H200", card="h200").empty
    key, digest = next(pair for pair in older_programs() if pair[0] == "merge-csr")
    times = {"tile-deferred-coo": 1.0, key: 2.0}
    assert run(times, ["a/b"], source_hash=digest).empty
    assert not run(times, ["a/b"]).empty


def test_a_folder_without_runs(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        claims.main([str(tmp_path)])
