"""Verdicts on two runs whose truth is known."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spmvbench.analysis import compare
from spmvbench.measure.timing import median_interval
from tests.made import row as made


def row(t=1e-5, spread=0.002, **columns):
    """A right case of `t` seconds whose samples are within `spread` of that."""
    samples = t * np.linspace(1 - spread, 1 + spread, 41)
    known = {"case_id": "", "device_name": "H200", "samples": samples.tolist(), "started_at": "2026-01-02"}
    return made("a", "ell", t) | known | columns


def compared(before, after, threshold=None):
    return compare.compared(pd.DataFrame(before), pd.DataFrame(after), median_interval, threshold)


def verdict(before, after, threshold=None):
    (found,) = compared([before], [after], threshold)["verdict"]
    return found


@pytest.mark.parametrize(
    ("factor", "spread", "threshold", "expected"),
    [
        (1.0, 0.002, None, "same"),
        (1.05, 0.002, None, "same"),  # within what one build differs by from session to session
        (1.10, 0.002, None, "slower"),
        (0.90, 0.002, None, "faster"),
        (1.05, 0.002, 0.02, "slower"),
        (0.96, 0.002, 0.02, "faster"),
        (1.10, 0.3, None, "undecided"),  # a difference that the samples do not carry
        (1.0, 0.5, None, "undecided"),
        (1.0, 0.0, 0.0, "same"),
        (1.0001, 0.0, 0.0, "slower"),
    ],
)
def test_a_verdict_needs_samples_and_the_threshold(factor, spread, threshold, expected):
    assert verdict(row(1e-5, spread), row(1e-5 * factor, spread), threshold) == expected


PAIRS = st.tuples(st.floats(0.2, 5), st.floats(0, 0.3), st.floats(0, 0.3))


@settings(max_examples=10)  # of 20 pairs each: the tables are what takes the time
@given(st.lists(PAIRS, min_size=20, max_size=20), st.floats(0, 0.5))
@pytest.mark.slow
def test_the_other_way_round_is_the_opposite(pairs, threshold):
    ends = {"slower": "faster", "faster": "slower", "same": "same", "undecided": "undecided"}
    old = [row(1e-5, one, name=f"{i:02}") for i, (_, one, _) in enumerate(pairs)]
    new = [row(1e-5 * factor, other, name=f"{i:02}") for i, (factor, _, other) in enumerate(pairs)]
    both = compared(old, new, threshold), compared(new, old, threshold)
    assert len(both[0]) == len(both[1]) == len(pairs)
    for there, back in zip(*(table.itertuples() for table in both), strict=True):
        assert back.matrix == there.matrix
        assert back.verdict == ends[there.verdict]
        assert back.low == pytest.approx(1 / there.high)
        assert there.low <= there.ratio * (1 + 1e-9) and there.ratio <= there.high * (1 + 1e-9)
        assert (there.verdict == "slower") == (there.low > 1)


def test_interval_takes_both_ends_of_both_medians():
    samples = {"samples": [0.9, 0.95, 1.0, 1.0, 1.05, 1.1], "t_median": 1.0}
    found = compared([row(**samples)], [row(**samples)], 0.1).iloc[0]  # six samples: their whole range
    assert (found["low"], found["high"]) == pytest.approx((0.9 / 1.1 / 1.1, 1.1 / 0.9 * 1.1))


@pytest.mark.parametrize("held", [{"samples": []}, {"samples": [], "t_median": math.nan}, {"samples": [1e-5]}])
def test_without_samples_nothing_is_decided(held):
    assert verdict(row(), row() | held) == verdict(row() | held, row()) == "undecided"


def test_rows_of_one_session_are_held_to_less():
    sessions = [{"started": "2026-01-01"}, {"started": "2026-02-01"}]
    rows = pd.DataFrame([row(started_at="2025"), row(), row(started_at="2026-03")])
    assert compare.with_session(rows, sessions)["session"].tolist() == ["", "2026-01-01", "2026-02-01"]
    slow = row(1.02e-5, session="s")
    assert verdict(row(session="s"), slow) == "slower"
    assert verdict(row(session="t"), slow) == verdict(row(session=""), slow | {"session": ""}) == "same"
    assert verdict(row(session="s"), slow, 0.05) == "same"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("ok", "wrong", "failed"),
        ("ok", "skipped", "failed"),
        ("crashed", "crashed", "failed"),
        ("skipped", "timeout", "failed"),
        ("wrong", "ok", "fixed"),
        ("skipped", "ok", "fixed"),
        ("skipped", "skipped", "skipped"),
        ("error", "skipped", "skipped"),
    ],
)
def test_what_is_not_right_in_both_has_no_ratio(before, after, expected):
    found = compared([row(status=before)], [row(3e-5, status=after)]).iloc[0]
    assert found["verdict"] == expected and math.isnan(found["ratio"]) and math.isnan(found["low"])


@pytest.mark.parametrize(
    "other", [{"name": "b"}, {"label": "ell[threads=2]"}, {"dtype": "f32"}, {"mode": "cold"}, {"op": "spmm"},
              {"device": "emulated"}, {"matrix_sha256": "cd"}],
)  # fmt: skip
def test_other_cases_are_not_compared(other):
    table = compared([row()], [row(**other)])
    assert sorted(table["verdict"]) == ["missing", "new"]


def test_another_card_of_the_kind_is_compared_and_said():
    other = row(device="cuda:1", device_name="H100")
    assert verdict(row(), other) == "same"
    record = {"started": "1", "properties": {"driver": "580", "nvrtc": "13.0"}, "git": None}
    newer = {"started": "2", "properties": {"driver": "590", "nvrtc": "13.0"}, "git": "abc"}
    found = compare.differences((pd.DataFrame([row()]), [record]), (pd.DataFrame([other]), [newer]))
    assert found == {
        "Device": ("H200", "H100"), "Driver": ("580", "590"), "Revision": ("not recorded", "abc")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("programs", "sources", "codes", "expected"),
    [
        ("ab", "ff", ("2-a", "2-b"), True),
        ("ab", "ff", ("a", "a"), True),  # other arrays
        ("ab", "ff", ("a", "b"), False),  # perhaps of other folders
        ("ab", "ff", ("a", "2-b"), False),
        ("aa", "ff", ("a", "a"), False),
        ("ab", "fe", ("a", "a"), False),
        (["a", ""], "ff", ("a", ""), False),
        (["", "a"], "ff", ("", "a"), False),
    ],
)
def test_another_program_of_the_same_sources_is_marked(programs, sources, codes, expected):
    before, after = (
        row(program=program, source_hash="f" + end, code_hash=code)
        for program, end, code in zip(programs, sources, codes, strict=True)
    )
    assert compared([before], [after])["other_program"].tolist() == [expected]


def test_times_of_the_emulated_device_have_no_verdict():
    assert verdict(row(device="emulated"), row(9e-5, device="emulated-check")) == "untimed"
    assert verdict(row(device="emulated"), row(device="emulated", status="wrong")) == "failed"


def test_the_row_written_last_counts_in_each_run():
    old = [row(9e-5, sequence=1), row(1e-5, sequence=2)]
    (found,) = compared(old, [row(1e-5, sequence=1)])["verdict"]
    assert found == "same"


def test_summary_counts_and_means():
    names = ("a", "b", "c", "d")
    before = [row(name=name) for name in names]
    after = [row(2e-5, name="a"), row(0.5e-5, name="b"), row(name="c", status="oom")]
    table = compared(before, after)
    (found,) = compare.summary(table, "label").to_dict("records")
    assert found["ratio"] == pytest.approx(1) and found["worst"] == pytest.approx(2)
    assert found | {"ratio": 1, "worst": 2} == {
        "label": "ell", "cases": 4, "slower": 1, "faster": 1, "undecided": 0, "same": 0, "incomplete": 2,
        "ratio": 1, "worst": 2, "worst_of": "G/a f64 hot",
    }  # fmt: skip
    assert compare.summary(table, "matrix")["matrix"].tolist() == ["G/a", "G/b", "G/c", "G/d"]
