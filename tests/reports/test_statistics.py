"""The page's statistics and those of `analysis`: same rows in, same numbers out, for every filter of a table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis import coverage, profiles, programs, ranking, trend
from spmvbench.analysis.cases import families, latest_cases
from spmvbench.reports import page

pytestmark = pytest.mark.slow
ANSWER = (Path(__file__).with_name("browser") / "statistics.js").read_text(encoding="utf-8")
FEW = ["csr-vector", "ell", "ell-again", "hyb", "trial"]
# By selection in the address, the same selection of rows; without a setting it is the first.
FILTERS = {
    "": lambda rows: rows["setting"] == "f64 hot",
    "setting=f32+cold": lambda rows: rows["setting"] == "f32 cold",
    "name=matrix001": lambda rows: rows["matrix"].str.contains("matrix001") & (rows["setting"] == "f64 hot"),
    "kind=directed+graph": lambda rows: (rows["kind"] == "directed graph") & (rows["setting"] == "f64 hot"),
    "family=HB&setting=f32+hot": lambda rows: (families(rows) == "HB") & (rows["setting"] == "f32 hot"),
    "least=100000&most=10000000": lambda rows: rows["nnz"].between(1e5, 1e7) & (rows["setting"] == "f64 hot"),
    "even=0.1": lambda rows: (rows["row_len_cv"] >= 0.1) & (rows["setting"] == "f64 hot"),
    "uneven=0.5&family=SNAP": lambda rows: (
        (rows["row_len_cv"] <= 0.5) & (families(rows) == "SNAP") & (rows["setting"] == "f64 hot")
    ),
    "&".join(f"only={label}" for label in FEW): lambda rows: rows["label"].isin(FEW) & (rows["setting"] == "f64 hot"),
    "only=csr5&name=matrix0007": lambda rows: (
        (rows["label"] == "csr5") & (rows["name"] == "matrix0007") & (rows["setting"] == "f64 hot")
    ),
    "without=ell&without=csr-vector&kind=structural+problem": lambda rows: (
        ~rows["label"].isin(["ell", "csr-vector"])
        & (rows["kind"] == "structural problem")
        & (rows["setting"] == "f64 hot")
    ),
}


@pytest.fixture(scope="module")
def every(rows):
    """With an experiment, a declared alias, one by its program, a format that is one on small matrices, no times."""
    rows = rows.assign(program=[f"{matrix}{label}" for matrix, label in zip(rows["name"], rows["label"], strict=True)])
    ell, csr = rows[rows["format"] == "ell"], rows[rows["format"] == "csr-vector"]
    extra = [
        ell.assign(
            format="trial",
            label="trial",
            experiment=True,
            t_median=ell["t_median"] / 5,
            program=ell["program"] + "trial",
        ),
        ell.assign(format="ell-again", label="ell-again", alias_of="ell", program=""),
        csr.assign(format="csr-vector-too", label="csr-vector-too"),
        csr.assign(
            format="csr-now-and-then",
            label="csr-now-and-then",
            program=csr["program"].where(csr["nnz"] < 1e6, csr["program"] + "other"),
        ),
    ]
    found = pd.concat([rows, *extra], ignore_index=True).sort_values(["name", "label"])
    found.loc[found["name"] == "matrix0003", ["t_median", "gflops"]] = np.nan  # without entries, no product takes time
    return found.assign(case_id=[str(case) for case in range(len(found))])


@pytest.fixture(scope="module")
def written(every, environment, tmp_path_factory):
    names = ["ratios", "profile", "gflops"]
    return page.write(every, environment, tmp_path_factory.mktemp("statistics"), names=names, images=[]).page


@pytest.fixture(scope="module")
def answers(browser, written):
    """What the page's script computes, by filter."""
    opened = browser.open(written.as_uri())
    found = json.loads(opened.run(ANSWER.replace("FILTERS", json.dumps(list(FILTERS)))))
    opened.close()
    return found


@pytest.fixture(scope="module")
def cases(every):
    found = latest_cases(every)
    return found[found["matrix_sha256"] != ""]


@pytest.fixture(params=FILTERS)
def both(request, answers, cases):
    """The rows of a filter, and the answers for them."""
    rows = cases[FILTERS[request.param](cases)]
    assert len(rows)
    return rows, answers[request.param]


def near(value):
    return pytest.approx(value, rel=1e-5, nan_ok=True)


def test_ranking(both):
    rows, found = both
    expected = coverage.coverage(rows.assign(device=""))
    assert [line["label"] for line in found["coverage"]] == list(expected["label"])
    for column in ("cases", "ok", "skipped", "wrong", "failed", "wins", "ties", "worst_matrix"):
        assert [line[column] for line in found["coverage"]] == list(expected[column]), column
    for column in (
        "coverage",
        "mean_slowdown",
        "gflops",
        "worst_slowdown",
        "bytes_per_nnz",
        "conversion",
        "error_ratio",
    ):
        values = [float("nan") if line[column] is None else line[column] for line in found["coverage"]]
        packed = column in ("bytes_per_nnz", "conversion", "error_ratio")  # as logarithms of 16 bits
        assert values == pytest.approx(list(expected[column]), rel=2e-4 if packed else 1e-5, nan_ok=True), column
    names = [f"= {line['same_as']}" if line["same_as"] else "" for line in found["coverage"]]
    told = [kernel.removesuffix("other bits").removesuffix(", ") for kernel in expected["kernel"]]
    assert names == [kernel if kernel != "project" else "" for kernel in told]


def test_heat_map_and_the_views_of_one_matrix_and_one_format(both):
    rows, found = both
    expected = ranking.ratios(rows)
    assert found["order"] == list(dict.fromkeys(expected["label"]))
    cells = {(label, matrix): (status, ratio) for label, matrix, status, ratio in found["cells"]}
    assert len(cells) == len(expected)
    for row in expected.itertuples():
        status, ratio = cells[row.label, row.matrix]
        assert status == row.status and (float("nan") if ratio is None else ratio) == near(row.ratio)


def test_fastest_formats(both):
    rows, found = both
    expected = ranking.best_formats(rows)
    assert {matrix: best["label"] for matrix, best in found["best"].items()} == dict(
        zip(expected["matrix"], expected["label"], strict=True)
    )
    for row in expected.itertuples():
        best = found["best"][row.matrix]
        assert ", ".join(best["tied"]) == row.tied and best["rate"] == near(row.gflops)
        assert (float("nan") if best["margin"] is None else best["margin"]) == near(row.margin)


def test_performance_profile(both):
    rows, found = both
    expected = profiles.performance_profile(rows, by="label")
    assert set(found["profile"]) == set(expected["label"])
    for label, part in expected.groupby("label"):
        tau, rho = zip(*found["profile"][label], strict=True)
        assert list(tau) == near(list(part["tau"])) and list(rho) == near(list(part["rho"]))


def test_rates_over_nonzeros(both):
    rows, found = both
    expected = ranking.ranked(rows)
    points = {(label, matrix): rate for label, matrix, rate in found["rates"]}
    by_case = expected.set_index(["label", "matrix"])["gflops"]
    assert points == near(by_case.to_dict())


def test_medians_of_rates(browser, answers, written):
    rng = np.random.default_rng(1)
    points = pd.DataFrame({"label": rng.choice(["csr5", "ell", "hyb"], 400, p=[0.6, 0.38, 0.02])})
    points = points.assign(x=10 ** rng.uniform(3, 7, 400), y=rng.uniform(1, 500, 400))
    expected = trend.medians(points, "x", "y")
    opened = browser.open(written.as_uri())
    given = json.dumps(points.rename(columns={"label": "f"}).to_dict("records"))
    found = opened.run(f"return Object.fromEntries(statistics.medians({given}));")
    opened.close()
    assert set(found) == set(expected["label"]) == {"csr5", "ell"}
    for label, part in expected.groupby("label"):
        x, y = zip(*found[label], strict=True)
        assert list(x) == near(list(part["x"])) and list(y) == near(list(part["y"]))


def test_other_names_of_a_program(both):
    rows, found = both
    assert found["aliases"] == programs.aliases(rows)
    same = programs.same_as(rows)
    there = {
        (label, matrix): name for label, matrix, name in zip(rows["label"], rows["matrix"], same, strict=True) if name
    }
    assert {(label, matrix): name for label, matrix, name in found["same"]} == there


def test_the_table_of_filters_meets_every_case(answers):
    whole = answers[""]
    assert set(whole["aliases"]) == {"ell-again", "csr-vector-too"}
    assert len(whole["same"]) > len(whole["aliases"]) * 10
    assert {status for _, _, status, _ in whole["cells"]} >= {"ok", "skipped", "wrong", "timeout"}
    assert any(best["tied"] for best in whole["best"].values())
    assert len({tuple(answer["order"]) for answer in answers.values()}) > 6


def test_a_filter_that_leaves_nothing(browser, written):
    opened = browser.open(f"{written.as_uri()}#name=nothing")
    found = opened.run("return [statistic('coverage').length, document.querySelector('#ranking caption').textContent];")
    opened.close()
    assert found == [0, "f64 hot: 0 formats on 0 matrices"]
