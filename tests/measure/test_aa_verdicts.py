"""The count of false alarms, on verdicts that were published and on rows with a known difference."""

from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner

from spmvbench.paths import configs
from spmvbench.rows import store
from tests.measure.aa_verdicts import compared, joined, main, rest, spreads, told
from tests.reports.conftest import generated_rows

IDENTICAL = configs().parent / "docs" / "pairs" / "identical.csv"


@pytest.mark.skipif(not IDENTICAL.is_file(), reason="needs a checkout (git clone)")
def test_published_verdicts_on_identical_builds():
    said = told("run --against", pd.read_csv(IDENTICAL))
    assert (
        "625 verdicts on 120 cases: 0 slower, 0 faster" in said and "false alarms 0.00 % (95 %: 0.00 to 0.59 %)" in said
    )


def test_compare_counts_each_run_against_the_one_before(tmp_path):
    rows = generated_rows(3, {"csr-vector": (4.0, 0.7, 0.0), "ell": (4.0, 0.8, 0.0)}, seed=5)
    rows = rows[(rows["mode"] == "hot") & (rows["dtype"] == "f64") & (rows["status"] == "ok")]
    for at, factor in enumerate((1.0, 1.0, 1.5)):
        for row in rows.to_dict("records"):
            samples = [factor * row["t_median"]] * 20
            store.append(
                tmp_path / f"aa-{at}",
                row | {"t_median": samples[0], "samples": samples, "run_id": f"aa-{at}", "gpu": f"card {at // 2}"},
            )
        store.append_session(tmp_path / f"aa-{at}", {"started": "2026-03-01", "device": "cuda:0"})
    table = compared([tmp_path / f"aa-{at}" for at in range(3)])
    counts = table.groupby("runs")["verdict"].value_counts()
    assert counts["0 1"]["same"] == len(rows) and counts["1 2"]["slower"] == len(rows)
    assert f"false alarms {50:.2f} %" in told("compare", table)
    two, one, by_format = spreads(table)
    assert one.startswith(f"  on one card, {len(rows)} cases: 0.00 %, ")
    assert two.startswith(f"  between two cards, {len(rows)} cases: 50.00 %, ")
    assert "ell 50.0 %" in by_format
    assert told("compare", compared([tmp_path / "aa-0"])) == "compare: no verdict"
    assert spreads(compared([tmp_path / "aa-0"])) == []


def test_the_cases_with_the_fewest_verdicts_come_next():
    matrices = [SimpleNamespace(id=name) for name in ("a", "b")]
    cases = [SimpleNamespace(matrix=matrix, label=label) for matrix in matrices for label in ("ell", "csr5")]
    had = pd.DataFrame({"matrix": ["a", "a", "b"], "label": ["ell", "csr5", "ell"]})
    assert rest(cases, had) == cases[3:]
    assert rest(cases[:3], had) == cases[:3] == rest(cases[:3], had[:0])
    assert rest([], had) == []


@pytest.mark.slow
def test_the_same_command_goes_on_until_all_verdicts_are_there(tmp_path):
    """Emulated, where `compare` gives no verdict: all else is as on a GPU."""
    words = ["pde:4", "--formats", "csr-scalar,dia", "--budget", "1e-3", "--pairs", "8", "--device", "emulated"]
    words += ["--out", str(tmp_path), "--verdicts", "2"]
    first = CliRunner().invoke(main, [*words, "--seconds", "600"], catch_exceptions=False)
    assert "compare: no verdict, 2 cases without times of a GPU" in first.output
    assert "run --against: 2 verdicts on 2 cases: " in first.output
    assert [len(store.load(tmp_path / name)) for name in ("aa-0", "aa-1")] == [2, 2]
    kept = (tmp_path / "against.csv").read_bytes()
    again = CliRunner().invoke(main, [*words, "--seconds", "5"], catch_exceptions=False)
    assert again.output.splitlines()[:2] == first.output.splitlines()[:2]
    assert (tmp_path / "against.csv").read_bytes() == kept and not (tmp_path / "aa-2").exists()


def test_verdicts_of_two_cards_are_counted_together(tmp_path):
    for card, verdict in (("a", "same"), ("b", "slower")):
        (tmp_path / card).mkdir()
        pairs = pd.DataFrame({"matrix": ["m"] * 5, "label": ["ell"] * 5, "verdict": [verdict] * 5, "ratio": [1.0] * 5})
        pairs.to_csv(tmp_path / card / "against.csv", index=False)
    words = ["--of", str(tmp_path / "a"), "--of", str(tmp_path / "b"), "--out", str(tmp_path / "both")]
    said = CliRunner().invoke(main, words, catch_exceptions=False).output
    assert "compare: no verdict" in said
    assert "run --against: 10 verdicts on 1 cases: 5 slower" in said
    assert len(pd.read_csv(tmp_path / "both" / "against.csv")) == 10


def test_columns_keep_their_types_beside_tables_without_rows():
    ratios, empty = pd.DataFrame({"ratio": [1.0, 1.5]}), pd.DataFrame(columns=["ratio"])
    assert joined([empty, ratios, empty])["ratio"].quantile(0.5) == 1.25
    assert list(joined([empty, empty]).columns) == ["ratio"]
