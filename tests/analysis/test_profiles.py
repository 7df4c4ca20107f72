import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis.profiles import performance_profile, share_within
from spmvbench.reports import published

# Filippone et al. 2017, Table 8; a missing value is a matrix that the format could not hold.
SURVEY = published.get("survey-k40m").rows


@pytest.fixture(scope="module")
def survey():
    return performance_profile(SURVEY)


@pytest.mark.parametrize(("label", "wins"), [("HYB", 11), ("HLL", 9)])
def test_survey_wins_on_the_k40m(survey, label, wins):
    assert share_within(survey, 1.0)[label] == pytest.approx(wins / 34)


def test_survey_curves_level_at_their_coverage(survey):
    held = SURVEY.dropna(subset="gflops").groupby("format").size() / 34
    pd.testing.assert_series_equal(share_within(survey, np.inf), held, check_names=False)
    assert held["HYB"] == 1
    assert held["ELL"] < 1


def test_zoomed_survey_curves_have_the_order_of_figure_14(survey):
    shares = share_within(survey, 1.5).sort_values(ascending=False)
    assert set(shares.index[:2]) == {"HYB", "HLL"}  # the fastest growth
    assert list(shares.index[2:4]) == ["SELL-P", "ELL"]
    assert shares.index[-1] == "HDI"


def test_curves_are_step_functions(survey):
    for _, curve in survey.groupby("format"):
        assert curve["tau"].iloc[0] == 1
        assert curve["tau"].is_monotonic_increasing and curve["tau"].is_unique
        assert curve["rho"].is_monotonic_increasing
        assert curve["rho"].between(0, 1).all()


def table(*rows):
    return pd.DataFrame(rows, columns=["matrix", "format", "gflops"])


def test_points_of_a_small_table():
    rows = table(("a", "ell", 10.0), ("a", "csr", 5.0), ("b", "csr", 8.0), ("b", "ell", None))
    profile = performance_profile(rows)
    assert profile.values.tolist() == [["csr", 1.0, 0.5], ["csr", 2.0, 1.0], ["ell", 1.0, 0.5]]
    assert performance_profile(table()).empty and list(performance_profile(table()).columns) == ["format", "tau", "rho"]


@pytest.mark.parametrize(
    ("rows", "ell"),
    [
        ([("a", "csr", 4.0), ("a", "ell", 4.0)], 1.0),  # a tie wins for each
        ([("a", "csr", 1.0), ("b", "csr", None), ("b", "ell", None)], 0.0),  # b counts for nobody
        ([("a", "csr", 1.0), ("a", "ell", 100.0, "wrong")], 0.0),
        *(([("a", "csr", 1.0), ("a", "ell", value)], 0.0) for value in (0.0, -1.0, np.inf, "-")),  # no rates
    ],
)
def test_what_counts_as_solved(rows, ell):
    found = pd.DataFrame([(*row, "ok")[:4] for row in rows], columns=["matrix", "format", "gflops", "status"])
    assert share_within(performance_profile(found), 1.0).to_dict() == {"csr": 1.0, "ell": ell}


def test_two_values_for_one_matrix_are_refused():
    with pytest.raises(ValueError, match="csr has more than one value for a"):
        performance_profile(table(("a", "csr", 1.0), ("a", "csr", 2.0)))
