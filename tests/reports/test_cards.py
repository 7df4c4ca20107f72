"""Two cards side by side: ratios by format and matrix, and what carries over."""

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis import cards
from spmvbench.analysis.cases import latest_cases
from spmvbench.errors import UsageError
from spmvbench.reports import page
from spmvbench.reports.figures import comparisons
from spmvbench.rows import store
from tests.reports.conftest import generated_rows

FORMATS = {"csr-vector": (4.0, 0.7, 0.0), "csr5": (4.4, 0.78, 0.0), "ell": (4.0, 0.8, 0.1)}
SLOWER = {"csr-vector": 1.2, "csr5": 1.3, "ell": 2.0}


@pytest.fixture(scope="module")
def few():
    rows = generated_rows(4, FORMATS, seed=5)
    return rows[(rows["mode"] == "hot") & (rows["dtype"] == "f64")]


@pytest.fixture(scope="module")
def there(few):
    slower = few["t_median"] * few["label"].map(SLOWER)
    return few.assign(
        t_median=slower, samples=slower.map(lambda t: [t] * 30), device_name="NVIDIA Other", run_id="other"
    )


def test_ratios_are_those_of_the_times(few, there):
    table = cards.ratios(latest_cases(few), latest_cases(there))
    good = few[few["status"] == "ok"]
    assert len(table) == len(good)
    assert np.allclose(table["ratio"], table["label"].map(SLOWER))
    # Rows of before there were orders have none; another order is another case.
    old, new, ordered = (
        latest_cases(rows.assign(order=order)) for rows, order in ((few, ""), (there, "none"), (there, "rcm"))
    )
    assert len(cards.ratios(old, new)) == len(cards.ratios(new.assign(device_name="NVIDIA H"), old)) == len(good)
    assert cards.ratios(old, ordered).empty
    # A matrix of the same name with other content is another case.
    other = there.assign(matrix_sha256="0" * 64)
    assert cards.ratios(latest_cases(few), latest_cases(other)).empty


def test_what_carries_over():
    made = pd.DataFrame(
        {
            "setting": "f64 hot",
            "matrix": "a",
            "nnz": 1,
            "label": list("pqr"),
            "t_here": [1.0, 2, 3],
            "t_there": [4.0, 2, 6],
        }
    )
    (row,) = cards.carried_over(made.assign(ratio=made["t_there"] / made["t_here"])).to_dict("records")
    assert row["rank_correlation"] == pytest.approx(0.5) and row["formats"] == 3
    assert (row["low"], row["middle"], row["high"]) == (1, 2, 4)
    assert row["best"] == "p" and row["lost"] == pytest.approx(1.0), "4 there, where q takes 2"
    two = cards.carried_over(made.head(2).assign(ratio=1.0))
    assert np.isnan(two["rank_correlation"]).all()


@pytest.mark.slow
def test_the_report_compares_two_cards(few, there, command, tmp_path):
    for name, rows, bandwidth in (("mine", few, 4800.0), ("theirs", there, 3200.0)):
        for row in rows.assign(run_id=name).to_dict("records"):
            store.append(tmp_path / name, row)
        session = {"started": "2026-03-01", "device": "cuda:0", "read_bandwidth_gbps": bandwidth}
        store.append_session(tmp_path / name, session)
    words = ["report", "mine", "--results", tmp_path, "--beside", "theirs", "--figures", "bytes"]
    result = command(*words)
    assert result.code == 0, result.err
    assert "ratio of their bandwidths 1.50" in result.out and "formats, 1.20 to 2.00, median 1.30" in result.out
    out = tmp_path / "mine" / "report"
    table = pd.read_csv(out / "figures" / "cards.csv")
    assert set(table["there"]) == {"NVIDIA Other"} and np.allclose(table["ratio"], table["label"].map(SLOWER))
    assert np.allclose(table["bandwidths"], 1.5)
    text = (out / "index.html").read_text()
    assert "Compared with theirs, of an NVIDIA Other" in text and "Rank correlation" in text
    assert '<svg role="img" aria-label="Two cards"' in text
    assert "(theirs)" not in (out / "figures" / "bytes.csv").read_text(), "rows of another card enter no figure"


def test_two_formats_are_compared_on_the_page(few, tmp_path):
    pair = few[few["label"].isin(["csr5", "csr-vector"])]
    found = page.write(pair, {}, tmp_path, names=["two-formats"])
    (drawn,) = found.drawn
    assert drawn.tables[0].caption == "csr5 compared with csr-vector"
    geomean = drawn.tables[0].rows[0][5].key
    times = pair[pair["status"] == "ok"].pivot(index="name", columns="label", values="t_median").dropna()
    assert geomean == pytest.approx(np.exp(np.log(times["csr-vector"] / times["csr5"]).mean()))
    left = page.write(few, {}, tmp_path, names=["two-formats"]).left_out
    assert left == {"the report has not exactly two formats (--formats A,B)": ["two-formats"]}


def test_cards_without_a_case_in_common_are_refused(few, there):
    with pytest.raises(UsageError, match="no case was verified on both"):
        comparisons.compared(few, there.assign(matrix_sha256="0" * 64))
    assert comparisons.differ(few, there) and not comparisons.differ(few, few)
    assert np.isnan(comparisons.bandwidth_ratio({}, {"read_bandwidth_gbps": 1.0}))
