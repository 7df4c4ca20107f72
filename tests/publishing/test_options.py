"""Tables of what the options of `run` are worth, and what is said of runs that have no rows for them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.publishing import run_tables as options
from spmvbench.rows import store

ORDERS = Path(spmvbench.__file__).parents[1] / "results" / "published" / "h200-orders"
pytestmark = pytest.mark.skipif(not ORDERS.exists(), reason="needs a checkout (git clone)")


@pytest.fixture(scope="module")
def rows():
    found = store.load(ORDERS)
    return found[found["name"].isin(found["name"].unique()[:2])]


@pytest.mark.parametrize(
    ("option", "change"),
    [
        ("op", lambda rows: rows),
        ("order", lambda rows: rows[rows["order"] != "rcm"]),
        ("order", lambda rows: rows[rows["order"] != "none"]),
        ("values", lambda rows: rows),
    ],
)
def test_a_run_without_rows_for_a_table_is_named(rows, option, change, monkeypatch):
    monkeypatch.setattr(store, "load", lambda run: change(rows))
    with pytest.raises(UsageError, match=f"mine has no rows that compare values of the option '{option}'$"):
        options.of_run(option, "mine")


def test_a_run_with_all_of_its_rows_has_a_table(rows, monkeypatch):
    monkeypatch.setattr(store, "load", lambda run: rows)
    assert {"rcm", "random"} < set(options.of_run("order", "mine"))


def test_a_matrix_is_whole_although_a_format_skips_it_but_not_if_it_was_not_measured():
    cases = [("a", "csr", "ok"), ("b", "csr", "ok"), ("c", "csr", "ok"), ("a", "dia", "ok"), ("b", "dia", "skipped")]
    rows = [
        {"matrix": matrix, "label": label, "op": op, "status": status, "t_median": time if status == "ok" else np.nan}
        for matrix, label, status in cases
        for op, time in (("spmv-t@1", 4.0), ("spmv-t@2", 2.0))
    ]
    found = options.by_copies(pd.DataFrame(rows))
    assert list(found.columns) == ["a", "b"]  # dia was not measured on c
    assert found.loc["`csr`"].tolist() == [2, 2]
    assert found.loc["`dia`", "a"] == 2
    assert np.isnan(found.loc["`dia`", "b"])
