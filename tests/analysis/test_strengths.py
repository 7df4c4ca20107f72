"""What formats are best at, on tables small enough to do by hand, and the table that follows."""

from pathlib import Path

import pandas as pd
import pytest

from spmvbench import formats
from spmvbench.analysis.strengths import COLUMNS, EVERY, strengths, structures
from spmvbench.publishing import run_tables as report
from tests.made import row, rows

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {
    "contiguous_run_mean": 1.0,
    "x_sectors": 0.1,
    "full_diagonal_share": 0.0,
    "row_len_max": 9,
    "row_len_mean": 8.0,
}


def case(name, label, gflops, **columns):
    return row(name, label, 2e-3 / gflops, **(PLAIN | columns))


@pytest.fixture
def some():
    stencil, blocks = {"full_diagonal_share": 1.0}, {"contiguous_run_mean": 3.0}
    return rows(
        *(case("s", label, rate, **stencil) for label, rate in (("dia", 100), ("amb", 50), ("cb", 25))),
        *(case("t", label, rate, **stencil) for label, rate in (("dia", 100), ("amb", 96))),
        *(case("b", label, rate, **blocks) for label, rate in (("dia", 10), ("amb", 20), ("cb", 40))),
        *(case("c", label, rate, **blocks) for label, rate in (("amb", 20), ("cb", 80))),
        case("b", "row-patterns", 900, compresses_values=True, **blocks),
        case("c", "dia", 500, status="wrong", **blocks),
    )


def test_the_first_structure_that_fits_counts():
    given = [{}, {"contiguous_run_mean": 2.0}, {"contiguous_run_mean": 2.0, "x_sectors": 0.18}, {"x_sectors": 0.9}]
    given += [{"full_diagonal_share": 0.5, "x_sectors": 0.9}, {"full_diagonal_share": 0.5, "row_len_max": 400}]
    found = structures(pd.DataFrame([PLAIN | columns for columns in given]))
    assert found.tolist() == ["other", "blocks", "scattered", "scattered", "diagonals", "long rows"]


def test_rates_are_compared_with_the_fastest_of_all(some):
    table = strengths(some, ["amb", "cb", "mbsr"])
    assert list(table.columns) == COLUMNS
    found = {(line["label"], line["structure"]): line for line in table.to_dict("records")}
    assert len(found) == 9 and set(table["setting"]) == {"f64 hot"}
    amb = found["amb", EVERY]
    assert (amb["matrices"], amb["held"], amb["first"], amb["near"]) == (4, 4, 2, 1)
    assert amb["share"] == pytest.approx((0.5 * 0.96 * 0.5 * 0.25) ** 0.25)
    assert (found["cb", "blocks"]["first"], found["cb", "blocks"]["near"], found["cb", "blocks"]["share"]) == (2, 2, 1)
    assert (found["cb", "diagonals"]["matrices"], found["cb", "diagonals"]["held"]) == (2, 1)
    assert found["mbsr", EVERY]["held"] == 0 and pd.isna(found["mbsr", EVERY]["share"])


def test_a_table_has_the_best_first_and_shares_by_structure(some):
    (shown,) = report.shares(some, ["amb", "cb", "mbsr"])
    assert shown.caption == "Share of the fastest format's rate, f64 hot, 4 matrices"
    assert [column.heading for column in shown.columns][-2:] == ["Blocks", "Diagonals"]
    assert [[cell.text for cell in row] for row in shown.rows] == [
        ["cb", "3", "0.630", "2", "2", "1.00", "-"],
        ["amb", "4", "0.495", "2", "1", "0.354", "0.693"],
        ["mbsr", "0", "-", "0", "0", "-", "-"],
    ]


def test_the_formats_are_known():
    assert set(report.FORMATS) <= set(formats.keys())
