"""The count of false alarms, on verdicts that were published and on rows with a known difference."""

import pandas as pd
import pytest
from scipy import stats

from spmvbench.paths import configs
from spmvbench.rows import store
from tests.measure.aa_verdicts import compared, interval, told
from tests.reports.conftest import generated_rows

IDENTICAL = configs().parent / "docs" / "pairs" / "identical.csv"


def test_interval_is_that_of_the_binomial_distribution():
    for alarms, of in ((0, 625), (3, 1000), (72, 78), (5, 5)):
        low, high = interval(alarms, of)
        known = stats.binomtest(alarms, of).proportion_ci(0.95, "exact")
        assert (low, high) == pytest.approx((known.low, known.high), abs=1e-12)


@pytest.mark.skipif(not IDENTICAL.is_file(), reason="needs a checkout (git clone)")
def test_published_verdicts_on_identical_builds():
    said = told("run --against", pd.read_csv(IDENTICAL))
    assert "625 verdicts: 0 slower, 0 faster" in said and "false alarms 0.00 % (95 %: 0.00 to 0.59 %)" in said


def test_compare_counts_each_run_against_the_one_before(tmp_path):
    rows = generated_rows(3, {"csr-vector": (4.0, 0.7, 0.0), "ell": (4.0, 0.8, 0.0)}, seed=5)
    rows = rows[(rows["mode"] == "hot") & (rows["dtype"] == "f64") & (rows["status"] == "ok")]
    for at, factor in enumerate((1.0, 1.0, 1.5)):
        for row in rows.to_dict("records"):
            samples = [factor * row["t_median"]] * 20
            store.append(
                tmp_path / f"aa-{at}", row | {"t_median": samples[0], "samples": samples, "run_id": f"aa-{at}"}
            )
        store.append_session(tmp_path / f"aa-{at}", {"started": "2026-03-01", "device": "cuda:0"})
    table = compared([tmp_path / f"aa-{at}" for at in range(3)])
    counts = table.groupby("runs")["verdict"].value_counts()
    assert counts["0 1"]["same"] == len(rows) and counts["1 2"]["slower"] == len(rows)
    assert f"false alarms {50:.2f} %" in told("compare", table)
    assert told("compare", compared([tmp_path / "aa-0"])) == "compare: no verdict"
