"""What formats are best at, on tables small enough to do by hand, and the sentences that follow."""

from pathlib import Path

import pandas as pd
import pytest

from spmvbench import formats
from spmvbench.analysis.strengths import COLUMNS, EVERY, strengths, structures
from spmvbench.publishing import strengths as report
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


def test_the_sentences_follow_from_the_rows(some):
    text = report.paragraph(some, ["amb", "cb", "mbsr"])
    assert text == (
        "In f64 hot, on 4 matrices: `cb` has 0.63 of the fastest format's rate on the 3 that it holds, 1.00 on blocks; "
        "it is the first of these on 2 and within 5 % of all on 2. `amb` has 0.49 of the fastest format's rate on the "
        "4 that it holds, from 0.69 on diagonals to 0.35 on blocks; it is the first of these on 2 and within 5 % of "
        "all on 1. "
        "No verified rows: `mbsr`."
    )
    assert report.paragraph(some, ["mbsr"]) == report.NOTHING
    text = report.paragraph(some, ["amb", "dia", "row-patterns", "mbsr"])
    assert "`dia` has 0.63 of the fastest format's rate on the 3 that it holds, 1.00 on diagonals; it is " in text
    assert text.endswith("fewer values than the matrix has: `row-patterns`. No verified rows: `mbsr`.")
    assert "`amb`" in text and report.paragraph(some[some["label"] != "cb"], ["amb", "cb"]).count("; it is") == 1


def test_the_formats_are_known():
    assert set(report.FORMATS) <= set(formats.keys())
