"""Tables of what the options of `run` are worth, and what is said of runs that have no rows for them."""

from pathlib import Path

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
