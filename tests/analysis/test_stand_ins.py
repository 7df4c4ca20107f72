"""Deviations between stand-ins and their matrices."""

import pandas as pd
import pytest

from spmvbench.analysis.stand_ins import pairs, summary
from spmvbench.reports import figures

TIMES = {  # label: time and bytes on the matrix, on the stand-in, and on that from the index alone
    "ell": {"HB/a": (1.0, 10), "like:HB/a": (2.0, 10), "like:HB/a:index": (4.0, 20), "HB/b": (1.0, 8)},
    "hyb": {"HB/a": (3.0, 10), "like:HB/a": (1.5, 11), "like:HB/c": (1.0, 1)},
}


@pytest.fixture
def rows():
    return pd.DataFrame(
        {
            "matrix": f"synthetic/{matrix}" if ":" in matrix else matrix,
            "setting": "f64 hot", "mode": "hot", "op": "spmv", "label": label, "status": "ok",
            "t_median": time, "bytes_format": size,
        }
        for label, times in TIMES.items()
        for matrix, (time, size) in times.items()
    )  # fmt: skip


def test_ratios_are_of_cases_verified_on_both(rows):
    found = pairs(rows, "synthetic/like:")
    assert found[["label", "stands_for", "facts", "time", "bytes"]].values.tolist() == [
        ["ell", "HB/a", "all", 2.0, 1.0],
        ["ell", "HB/a", "index", 4.0, 2.0],
        ["hyb", "HB/a", "all", 0.5, 1.1],
    ]
    failed = rows.assign(status=rows["status"].mask(rows["matrix"] == "HB/a", "wrong"))
    assert pairs(failed, "synthetic/like:").empty


def test_deviations_count_slower_and_faster_alike(rows):
    table = summary(pairs(rows, "synthetic/like:")).set_index(["facts", "label"])
    every = table.loc[("all", "all formats")]
    assert (every["matrices"], every["time"], every["time_median"]) == (1, pytest.approx(1.0), pytest.approx(1.0))
    assert every["bytes_p90"] == pytest.approx(0.09)
    assert table.loc[("index", "ell"), "time_p90"] == pytest.approx(3.0)


def test_the_figure_keeps_what_others_leave_out(rows):
    rows = rows.astype({"setting": "category"})
    (stand_ins,) = figures.choose(["stand-ins"])
    table = figures.table_of(stand_ins, rows, figures.Options(None, {}))
    (shown,) = stand_ins.show(table, figures.Options(None, {}))
    assert shown.caption == "f64 hot"
    assert [row[0].text for row in shown.rows][:2] == ["all formats", "all formats"]
