"""Tables of what the options of `run` are worth, and what is said of runs that have no rows for them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.publishing import run_options as options
from spmvbench.rows import store

ORDERS = Path(spmvbench.__file__).parents[1] / "results" / "published" / "h200-orders"
pytestmark = pytest.mark.skipif(not ORDERS.exists(), reason="needs a checkout (git clone)")


@pytest.fixture(scope="module")
def rows():
    found = store.load(ORDERS)
    return found[found["name"].isin(found["name"].unique()[:2])]


@pytest.mark.parametrize(
    ("option", "change", "message"),
    [
        (
            "order",
            lambda rows: rows.drop(columns="order"),
            "mine has no column 'order': the table of the option",
        ),
        ("values", lambda rows: rows.drop(columns="dtype"), "mine has no column 'dtype': the table"),
        ("op", lambda rows: rows.drop(columns="t_median"), "mine has no column 't_median': the table"),
        ("op", lambda rows: rows, "of the option 'op': no verified row has 'spmv-t@1' in the column 'op'"),
        ("order", lambda rows: rows[rows["order"] != "rcm"], "no verified row has 'rcm' in the column 'order'"),
        ("order", lambda rows: rows[rows["order"] != "none"], "option 'order': the table would have no column 'rcm'"),
        ("values", lambda rows: rows, "mine has no rows that compare values of the option 'values'$"),
    ],
)
def test_what_is_missing_is_named(rows, option, change, message, monkeypatch):
    monkeypatch.setattr(store, "load", lambda run: change(rows))
    with pytest.raises(UsageError, match=message) as error:
        options.of_run(option, "mine")
    assert "\n" not in str(error.value)


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
