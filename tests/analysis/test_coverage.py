import math

import pandas as pd
import pytest

from spmvbench.analysis.coverage import coverage, geometric_mean
from tests.made import row


def rows(*cases, **columns):
    """Rows from (matrix, label, status, seconds), 1e9 flops each."""
    return pd.DataFrame(
        row(matrix, label, seconds, matrix_sha256="" if matrix == "unread" else "hash", error_ratio=0.25)
        | {"status": status, "gflops": 1 / seconds}
        | columns
        for matrix, label, status, seconds in cases
    )


TABLE = rows(
    ("a", "fast", "ok", 1.0),
    ("b", "fast", "ok", 4.0),
    ("c", "fast", "skipped", math.nan),
    ("a", "broad", "ok", 2.0),
    ("b", "broad", "ok", 2.0),
    ("c", "broad", "ok", 16.0),
    ("a", "bad", "wrong", 0.001),
    ("b", "bad", "timeout", math.nan),
    ("c", "bad", "oom", math.nan),
    ("unread", "fast", "skipped", math.nan),
    ("unread", "broad", "skipped", math.nan),
)


def test_counts_means_wins_and_worst_cases():
    table = coverage(TABLE).set_index("label")
    # On all three matrices; the means over those that each one holds say otherwise.
    assert table.index.tolist() == ["broad", "fast", "bad"]
    assert table["mean_slowdown"].tolist() == pytest.approx([2 ** (1 / 3), 20 ** (1 / 3), math.nan], nan_ok=True)
    assert table["gflops"].tolist() == pytest.approx([64 ** (-1 / 3), 0.5, math.nan], nan_ok=True)
    counts = table[["cases", "ok", "skipped", "wrong", "failed", "wins", "ties"]]  # a wrong row wins nothing
    assert counts.to_numpy().tolist() == [[3, 3, 0, 0, 0, 2, 0], [3, 2, 1, 0, 0, 1, 0], [3, 0, 0, 1, 2, 0, 0]]
    assert table["coverage"].tolist() == pytest.approx([1, 2 / 3, 0])
    assert table["worst_matrix"].tolist() == ["G/a", "G/b", ""]
    assert table["worst_slowdown"].tolist() == pytest.approx([2, 2, math.nan], nan_ok=True)


def test_times_within_half_a_per_cent_share_the_win():
    times = rows(("a", "x", "ok", 1.0), ("a", "y", "ok", 1.0049), ("a", "z", "ok", 1.0051), ("b", "z", "ok", 1.0))
    table = coverage(times).set_index("label")
    assert table.loc[["x", "y", "z"], ["wins", "ties"]].to_numpy().tolist() == [[0, 1], [0, 1], [1, 0]]


def test_what_is_out_of_reach_counts_as_what_is_not_held():
    far = coverage(rows(("a", "x", "ok", 1.0), ("b", "x", "ok", 1.0), ("a", "y", "ok", 1.0), ("b", "y", "ok", 500.0)))
    gap = coverage(
        rows(("a", "x", "ok", 1.0), ("b", "x", "ok", 1.0), ("a", "y", "ok", 1.0), ("b", "y", "oom", math.nan))
    )
    assert far["mean_slowdown"].tolist() == gap["mean_slowdown"].tolist() == pytest.approx([1, 10**0.5])


def test_settings_are_apart():
    both = pd.concat([TABLE, rows(("a", "broad", "ok", 1.0), ("a", "fast", "ok", 3.0), dtype="f32")])
    table = coverage(both)
    assert table["setting"].drop_duplicates().tolist() == ["f64 hot", "f32 hot"]
    assert table[table["setting"] == "f32 hot"]["label"].tolist() == ["broad", "fast"]
    assert table[table["setting"] == "f64 hot"]["wins"].sum() == 3


@pytest.mark.parametrize("some", [TABLE.iloc[:0], TABLE[TABLE["name"] == "unread"]])
def test_nothing_read_gives_an_empty_table(some):
    assert coverage(some).empty


def test_geometric_mean():
    assert geometric_mean([1, 100]) == pytest.approx(10)
    assert geometric_mean([4, 0, -1, math.nan, math.inf]) == pytest.approx(4)
    assert math.isnan(geometric_mean([]))


def test_what_no_graph_starts_is_marked():
    starts = {"a": "graph", "b": "host", "c": "stream", "d": "self"}
    for device, marks in {
        "cuda:0": ["", "started by the host", "started on a stream", "self-timed"],
        "emulated": ["", "", "started on a stream", "self-timed"],
    }.items():
        made = rows(*(("m", label, "ok", 1.0) for label in starts)).assign(device=device)
        table = coverage(made.assign(timed_by=made["label"].map(starts))).set_index("label")
        assert table["kernel"].loc[list(starts)].tolist() == marks
