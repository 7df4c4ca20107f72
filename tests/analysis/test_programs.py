"""Names of one program are counted once a matrix, under the same name everywhere."""

import math

import pytest

from spmvbench.analysis.coverage import coverage
from spmvbench.analysis.profiles import performance_profile
from spmvbench.analysis.programs import aliases, same_as, without_aliases
from spmvbench.analysis.ranking import best_formats, by_mean_slowdown, mean_slowdowns, ranked, ratios
from spmvbench.analysis.speedup import speedups
from tests.made import row as made
from tests.made import rows as table


def row(name, label, seconds, program="", **columns):
    return made(name, label, seconds, program=program, nnz=1000, gflops=1 / seconds if seconds else math.nan) | columns


@pytest.fixture
def stencil():
    """On a: dia, hdc and ell-dia are one program, the fastest; on b hdc has its own, ell-dia is hdc's; csr differs."""
    return table(
        row("a", "csr", 4.0, "c"),
        row("a", "dia", 1.0, "d"),
        row("a", "ell-dia", 1.0, "d", params='{"x": 1}'),
        row("a", "hdc", 1.0, "d"),
        row("b", "csr", 4.0, "c"),
        row("b", "dia", None),
        row("b", "ell-dia", 2.0, "h", params='{"x": 1}'),
        row("b", "hdc", 2.0, "h"),
    )


def of(rows, column):
    return dict(zip(zip(rows["matrix"].str[2:], rows["label"], strict=True), column, strict=True))


def test_one_name_stands_for_a_program_on_a_matrix(stencil):
    found = {case: name for case, name in of(stencil, same_as(stencil)).items() if name}
    assert found == {("a", "ell-dia"): "dia", ("a", "hdc"): "dia", ("b", "ell-dia"): "hdc"}


def test_what_stands_for_a_program_is_the_plainest_name_whatever_the_order_of_rows():
    names = [
        row("a", "best", 1.0, "p", alias_of="zoo"),
        row("a", "aaa", 1.0, "p", experiment=True),
        row("a", "ell[t=2]", 1.0, "p"),
        row("a", "cc-too", 1.0, "p"),
        row("a", "bbb", 1.0, "p", params='{"u": 1, "v": 2}'),
        row("a", "ccc", 1.0, "p", params='{"u": 1}'),
        row("a", "ddd", 1.0, "p", params='{"u": 1}'),
    ]
    for given in (names, names[::-1]):
        assert set(same_as(table(*given))) == {"", "ccc"}
    assert set(same_as(table(*names[:3]))) == {"", "ell[t=2]"}


def test_what_is_right_stands_for_what_is_not():
    found = table(row("a", "ell", 1.0, "p", status="wrong"), row("a", "hyb", 1.0, "p"))
    assert of(found, same_as(found)) == {("a", "ell"): "hyb", ("a", "hyb"): ""}


def test_rows_from_before_programs_were_known_are_programs_of_their_own_unless_declared():
    older = table(row("a", "ell", 1.0), row("a", "hyb", 1.0), row("a", "bell", 1.0, alias_of="ell"))
    assert of(older, same_as(older)) == {("a", "ell"): "", ("a", "hyb"): "", ("a", "bell"): "ell"}
    assert aliases(older) == {"bell": "ell"}
    alone = older[older["label"] != "ell"]
    assert set(same_as(alone)) == {""}
    assert aliases(alone) == {}
    without = older.drop(columns=["program", "alias_of"])
    assert set(same_as(without)) == {""}
    assert aliases(without) == {}


def test_one_program_in_one_setting_or_matrix_is_none_in_another():
    found = table(row("a", "ell", 1.0, "p"), row("a", "hyb", 1.0, "p", mode="cold"), row("b", "hec", 1.0, "p"))
    assert set(same_as(found)) == {""}


def test_a_win_is_credited_once(stencil):
    found = mean_slowdowns(stencil).droplevel("setting")
    assert found["wins"].to_dict() == {"csr": 0, "dia": 1, "hdc": 1}  # ell-dia is hdc everywhere
    assert found["ties"].sum() == 0
    best = best_formats(stencil)
    assert best["label"].tolist() == ["dia", "hdc"]
    assert best["margin"].tolist() == [4.0, 2.0]  # not to another name of the best
    assert best["tied"].tolist() == ["", ""]


def test_a_name_that_is_another_program_somewhere_keeps_its_place_and_curve(stencil):
    assert aliases(stencil) == {"ell-dia": "hdc"}
    assert by_mean_slowdown(stencil) == ["hdc", "csr", "dia"]
    profile = performance_profile(stencil, by="label")
    assert profile.loc[profile["label"] == "ell-dia", "rho"].max() == 1
    assert len(ranked(stencil)) == 7
    assert len(speedups(stencil, "csr")) == 5


def test_another_name_everywhere_is_shown_once_with_what_it_is(stencil):
    found = coverage(stencil).set_index("label")
    assert found["kernel"].to_dict() == {"csr": "", "dia": "", "ell-dia": "= hdc", "hdc": ""}
    assert found.loc["ell-dia", ["cases", "ok", "wins"]].tolist() == [2, 2, 0]
    assert math.isnan(found.loc["ell-dia", "mean_slowdown"])
    assert found.index[-1] == "ell-dia"
    assert set(ratios(stencil)["label"]) == {"csr", "dia", "hdc"}
    assert set(without_aliases(stencil)["label"]) == {"csr", "dia", "hdc"}


def test_a_name_that_holds_fewer_matrices_is_no_other_name():
    found = table(
        row("a", "ell", 1.0, "p"), row("a", "hyb", 1.0, "p"), row("b", "ell", None), row("b", "hyb", 1.0, "q")
    )
    assert aliases(found) == {}
    assert len(mean_slowdowns(found)) == 2
