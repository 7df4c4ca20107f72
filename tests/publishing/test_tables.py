"""Which rows the tables of pages count, and what is said of runs without any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import spmvbench
from spmvbench.analysis.older import older_programs
from spmvbench.errors import UsageError
from spmvbench.paths import configs
from spmvbench.publishing import claims, in_page, run_tables, speed, testing
from spmvbench.rows import store
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


ORDERS = Path(spmvbench.__file__).parents[1] / "results" / "published" / "h200-orders"


@pytest.fixture(scope="module")
def rows():
    found = store.load(ORDERS)
    return found[found["name"].isin(found["name"].unique()[:2])]


@pytest.mark.skipif(not ORDERS.exists(), reason="needs a checkout (git clone)")
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
        run_tables.of_run(option, "mine")


def test_public_programs_with_wrong_results_or_work_left_out_do_not_count():
    best = speed.public()
    given = pd.read_csv(speed.folder() / "public.csv")
    for (matrix, dtype), found in best.iterrows():
        case = given[(given["matrix"] == matrix) & (given["type"] == dtype)]
        faster = case[case["gflops"] > found["public"]]
        assert ((faster["verdict"] != "ok") | faster["program"].str.endswith("-once")).all()
    settings = len(set(given.loc[~given["program"].str.endswith("-once"), "program"]))
    for page in ("README.md", "docs/results/speed.md"):
        assert f"{settings} settings" in (configs().parent / page).read_text(encoding="utf-8"), page
    assert len(best) == 16 and best.loc[("denserow:1000000", "f32"), "program"] == "hola"


def test_a_page_without_a_place_is_refused():
    with pytest.raises(UsageError, match="no place for the table"):
        in_page.updated("# Speed\n", "| a |", "spmvbench.publishing.speed")


def test_every_cell_has_a_target():
    assert len(speed.targets()) == 16 and not np.isnan(speed.targets()).any()


def test_parts_are_ordered_and_added_up():
    table = testing.markdown({"installation": 30.4}, {"tests/a": [1.2, 2.0], "tests/b": [0.4, 9.6]})
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    assert rows[0] == ["Part", "make test", "make test-all"]
    assert rows[2:] == [
        ["installation", "30", "30"],
        ["tests/b", "0", "10"],
        ["tests/a", "1", "2"],
        ["together", "32", "42"],
    ]
