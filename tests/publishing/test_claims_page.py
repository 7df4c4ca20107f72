"""The table of claims in docs/results/papers.md: which run tests a claim, and what its cells say."""

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


def row_of(**given):
    """The row over CSR5 of TileSpMV in the table of these runs."""
    found = claims.table(given)
    return found[(found["paper"] == "TileSpMV") & (found["over"] == "CSR5")]


ONE = {"tile-deferred-coo": 1.0, "csr5": 2.0}
BOTH = ONE | {"tile-deferred-coo[kernel=paper]": 4.0, "csr5[kernel=paper]": 2.0}


@pytest.mark.slow
def test_a_claim_is_tested_by_the_run_with_the_most_kernels_then_matrices_of_the_paper_then_matrices():
    three = ["a/b", "a/c", "a/d"]
    assert row_of(few=run(ONE, three[:1]), many=run(ONE, three))["run"].tolist() == ["many"]
    own = run(ONE, ["synthetic/like:Williams/cant"], tiles=62_000)
    assert row_of(own=own, real=run(ONE, three[:1]))["run"].tolist() == ["real"]
    assert row_of(own=own, generated=run(ONE, ["synthetic/a", "synthetic/b"]))["run"].tolist() == ["own"]
    assert row_of(own=own, both=run(BOTH, three[:1]))["run"].tolist() == ["both", "both"]
    assert row_of(older=own, newer=run(ONE, ["Williams/cant"], day="2026-02-02"))["run"].tolist() == ["newer"]


def test_rows_that_do_not_count():
    assert run(ONE, ["a/b"], mode="cold").empty
    assert run(ONE, ["a/b"], device="emulated").empty
    assert run(ONE, ["a/b"], device_name="NVIDIA H100 80GB HBM3", card="h200").empty
    assert not run(ONE, ["a/b"], device_name="NVIDIA H200", card="h200").empty
    key, digest = next(pair for pair in older_programs() if pair[0] == "merge-csr")
    times = {"tile-deferred-coo": 1.0, key: 2.0}
    assert run(times, ["a/b"], source_hash=digest).empty
    assert not run(times, ["a/b"]).empty


def test_cells_of_the_table():
    found = claims.table({"r": run(BOTH, ["synthetic/like:Williams/cant", "a/b"], tiles=62_000)})
    text = claims.markdown(found, "../runs")
    (line,) = [line for line in text.splitlines() if line.startswith("| TileSpMV | CSR5 |")]
    assert line == (
        "| TileSpMV | CSR5 | f64 | at most 3.96, faster on 73.99 % "
        "| holds by direction: 2.00, at most 2.00, faster on 100 % | differs: 0.500, at most 0.500, faster on 0 % "
        "| This project's kernel takes 0.25 of the time of the authors'. The authors' kernel takes 4.00 times the time "
        "of this project's. | 2, 1 by stand-ins | [r](../runs/r) | the A100 |"
    )
    assert (
        "| TileSpMV | merge path | f64 | at most 2.61, faster on 65.76 % | not tested | not tested |  | - | - |" in text
    )
    summed = [line for line in claims.sums(found).splitlines() if line.startswith("| TileSpMV")]
    assert summed == ["| TileSpMV | this project's | 0 | 1 | 0 | 11 |", "| TileSpMV | the authors' | 0 | 0 | 1 | 11 |"]


def test_a_folder_without_runs(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        claims.main([str(tmp_path)])
