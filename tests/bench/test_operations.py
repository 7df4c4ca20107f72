"""What formats compute: the names of operations, their right answers, and rows from before there were several."""

from pathlib import Path

import pytest

import spmvbench
from spmvbench.bench import operations
from spmvbench.errors import UsageError
from spmvbench.store import load

PUBLISHED = Path(spmvbench.__file__).parents[1] / "results" / "published"


@pytest.mark.parametrize("name", ["spvm", "spmv@0.1", "", "spmm"])
def test_unknown_operations_are_refused_with_those_that_there_are(name):
    with pytest.raises(UsageError, match=r"there is no operation .*spmv"):
        operations.get(name)


def test_rows_measured_before_there_were_other_operations_still_load():
    rows = load("h200-all", PUBLISHED)
    assert set(rows["op"]) == {"spmv"}
    assert set(rows["work"]) == {0}
    right = rows[rows["status"] == "ok"]
    assert ((right["gflops"] * right["t_median"] * 1e9 / (2 * right["nnz"]) - 1).abs() < 1e-9).all()
