"""The survey's rules of thumb: each verdict on rows made by hand, and on the survey's own tables."""

import math

import pandas as pd
import pytest

from spmvbench.analysis.lessons import FAILS, HOLDS, OPEN, lessons
from spmvbench.reports import published

NONE = math.nan
EVEN, UNEVEN, POWER_LAW = (10.0, 11), (10.0, 40), (10.0, 600)  # mean and longest row


def measured(*matrices, **sizes):
    """A table from (rows, rates by format) a matrix; sizes: bytes per nonzero by format, 12 for others."""
    return pd.DataFrame(
        {
            "matrix": f"m{number}",
            "format": name,
            "gflops": rate,
            "bytes_per_nnz": sizes.get(name, 12.0) if rate > 0 else NONE,
            "break_even": 0.0 if name == "CSR" else NONE,
            "row_len_mean": rows[0],
            "row_len_max": rows[1],
        }
        for number, (rows, rates) in enumerate(matrices)
        for name, rate in rates.items()
    )


def verdict(lesson, table, **options):
    return lessons(table, **options).set_index("lesson").loc[lesson]


def of(found):
    return found["verdict"], found["yes"], found["of"]


ALL = {"CSR": 10.0, "HLL": 20.0, "HYB": 20.0}
CASES = {
    "diagonals": [
        ([(EVEN, {"HDI": rate, "ELL": 20.0}) for rate in (30.0, 18.0, 20.0)], (HOLDS, 2, 3)),
        ([(EVEN, {"HDI": rate, "ELL": 20.0}) for rate in (30.0, 18.0)], (FAILS, 1, 2)),
        ([(EVEN, {"HDI": 30.0})], (OPEN, 0, 0)),
        ([(EVEN, {"ELL": 30.0, "CSR": 1.0})], (OPEN, 0, 0)),
    ],
    "even rows": [
        ([(EVEN, {"ELL": 19.5, "HLL": 20.0}), (UNEVEN, {"ELL": 5.0, "HLL": 20.0})], (HOLDS, 1, 1)),
        ([(EVEN, {"ELL": 19.5, "HLL": 20.0}), (EVEN, {"ELL": NONE, "HLL": 20.0})], (FAILS, 1, 2)),
        ([(EVEN, {"ELL": 18.5, "HLL": 19.0, "HYB": 20.0})], (FAILS, 0, 1)),
        ([(EVEN, {"ELL": 19.5, "CSR": 40.0})], (OPEN, 0, 0)),
        ([(UNEVEN, {"ELL": 19.5, "HLL": 20.0})], (OPEN, 0, 0)),
        ([(EVEN, {"HLL": 20.0, "HYB": 20.0})], (OPEN, 0, 0)),
    ],
    "generalists": [
        ([(EVEN, ALL), (UNEVEN, ALL)], (HOLDS, 1, 1)),
        ([(EVEN, ALL), (UNEVEN, ALL | {"CSR": 40.0})], (FAILS, 0, 1)),
        ([(EVEN, ALL | {"ELL": 20.0}), (UNEVEN, ALL)], (HOLDS, 2, 2)),
        ([(EVEN, {"CSR": 10.0, "HYB": 20.0})], (OPEN, 0, 0)),
        ([(EVEN, {"HLL": 10.0, "HYB": 20.0})], (OPEN, 0, 0)),
        ([(EVEN, dict.fromkeys(ALL, NONE))], (OPEN, 0, 0)),
    ],
    "any matrix": [
        ([(EVEN, {"CSR": csr, "ELL": ell}) for csr, ell in ((1.0, 20.0), (1.0, NONE), (NONE, NONE))], (HOLDS, 2, 2)),
        ([(EVEN, {"CSR": csr, "ELL": ell}) for csr, ell in ((NONE, 20.0), (1.0, 2.0))], (FAILS, 1, 2)),
        ([(EVEN, {"HYB": 1.0, "ELL": 20.0})], (OPEN, 0, 0)),
    ],
    "power law": [
        ([(POWER_LAW, {"ELL": NONE, "HLL": 7.0, "CSR": 10.0})], (HOLDS, 1, 1)),
        ([(POWER_LAW, {"ELL": NONE, "HLL": NONE, "CSR": 10.0})], (HOLDS, 1, 1)),
        ([(POWER_LAW, {"ELL": NONE, "HLL": 9.0, "CSR": 10.0})], (FAILS, 0, 1)),
        ([(POWER_LAW, {"HYB": 9.0, "CSR": 10.0})], (OPEN, 0, 0)),
        ([(UNEVEN, {"ELL": NONE, "HLL": 7.0, "CSR": 10.0})], (OPEN, 0, 0)),
    ],
    "power law, HYB": [
        ([(POWER_LAW, {"HYB": 4.0, "CSR": 3.0}), (EVEN, {"HYB": 9.0, "CSR": 3.0})], (HOLDS, 1, 1)),
        # Nearly as fast there as elsewhere.
        ([(POWER_LAW, {"HYB": 4.0, "CSR": 3.0}), (EVEN, {"HYB": 7.0, "CSR": 3.0})], (FAILS, 1, 1)),
        ([(POWER_LAW, {"HYB": 2.0, "CSR": 3.0}), (EVEN, {"HYB": 9.0, "CSR": 3.0})], (FAILS, 0, 1)),
        ([(POWER_LAW, {"ELL": 4.0, "CSR": 3.0}), (EVEN, {"ELL": 9.0, "CSR": 3.0})], (OPEN, 0, 0)),
        ([(POWER_LAW, {"HYB": 4.0}), (EVEN, {"HYB": 9.0})], (OPEN, 0, 0)),
    ],
    "footprint": [
        ([(EVEN, {"CSR": 1.0, "HLL": 1.0})], (HOLDS, 1, 1)),
        ([(EVEN, {"CSR": 1.0, "ELL": 1.0})], (OPEN, 0, 0)),
        ([(EVEN, {"CSR": 1.0, "HLL": NONE})], (OPEN, 0, 0)),
    ],
}


@pytest.mark.parametrize(
    ("lesson", "matrices", "expected"), [(lesson, *case) for lesson, cases in CASES.items() for case in cases]
)
def test_a_rule_holds_fails_or_is_open(lesson, matrices, expected):
    assert of(verdict(lesson, measured(*matrices, HDI=8.5, HLL=30.0 if lesson == "footprint" else 12.0))) == expected


def test_matrices_that_hdi_pads_are_not_those_of_diagonals():
    table = measured((EVEN, {"HDI": 30.0, "ELL": 20.0}), HDI=12.5)
    found = verdict("diagonals", table)
    assert (found["verdict"], "no matrix whose entries lie along diagonals" in found["numbers"]) == (OPEN, True)
    assert of(verdict("diagonals", table, slot_bytes=12.0)) == (HOLDS, 1, 1)
    missing = verdict("diagonals", measured((EVEN, {"ELL": 20.0, "CSR": 3.0})))
    assert missing["numbers"] == "HDI not measured"


def test_a_footprint_of_hll_below_twice_that_of_csr_is_no_problem_and_a_table_without_a_right_row_tells_nothing():
    assert of(verdict("footprint", measured((EVEN, {"CSR": 1.0, "HLL": 1.0}), HLL=20.0))) == (FAILS, 0, 1)
    table = measured((EVEN, dict.fromkeys(["CSR", "HDI", "ELL", "HLL", "HYB"], NONE)))
    assert set(lessons(table)["verdict"]) == {OPEN}


def test_numbers_tell_what_even_rows_are_compared_with():
    found = verdict(
        "even rows", measured((EVEN, {"ELL": 19.0, "HLL": 20.0, "HYB": 10.0}), (UNEVEN, {"ELL": 5.0, "HLL": 20.0}))
    )
    assert found["numbers"] == (
        "ELL is within 5 % of the best of HLL, HYB on 1 of 1 matrix; median 0.95 of it, 0.25 on the others"
    )


def test_matrix_that_csr_misses_is_named_and_its_worst_told():
    found = verdict("any matrix", measured((EVEN, {"CSR": NONE, "ELL": 2.0}), (EVEN, {"CSR": 1.0, "ELL": 3.5})))
    assert "not m0; at worst 3.5 times the best time" in found["numbers"]


@pytest.mark.parametrize(
    ("paid", "expected"),
    [
        ([11.0, math.inf, 3.0], (HOLDS, 2, 3)),
        ([10.0, 0.0, math.inf], (FAILS, 1, 3)),
        ([NONE], (OPEN, 0, 0)),
    ],
)
def test_csr_suffices_for_a_few_products(paid, expected):
    matrices = [(EVEN, {"CSR": 1.0, "ELL": 2.0})] * len(paid)
    table = measured(*matrices)
    table.loc[table["format"] == "ELL", "break_even"] = paid
    assert of(verdict("few products", table)) == expected


SURVEY = {  # what the survey's Tables 5 to 10 say of its own rules, device by device
    "survey-m2070": {},
    "survey-k20m": {},
    "survey-k40m": {},
    "survey-gtx660": {"diagonals": FAILS, "even rows": FAILS, "generalists": FAILS, "any matrix": FAILS},
}


@pytest.mark.parametrize("name", SURVEY)
def test_the_survey_s_tables_bear_its_rules_out(name):
    found = lessons(published.get(name).rows, slot_bytes=12).set_index("lesson")["verdict"].to_dict()
    expected = dict.fromkeys(found, HOLDS) | SURVEY[name]
    if name != "survey-k40m":
        expected["few products"] = OPEN  # Table 10 is of the K40M
    assert found == expected


def test_what_the_survey_says_of_the_k40m():
    found = lessons(published.get("survey-k40m").rows, slot_bytes=12).set_index("lesson")
    assert found.loc["diagonals", ["yes", "of"]].tolist() == [5, 7]  # not pde060 and FEM_3D_thermal1
    assert found.loc["any matrix", ["yes", "of"]].tolist() == [34, 34]  # CSR levels at 1 (section 5.2)
    assert found.loc["power law", "of"] == 4  # webbase-1M, dc1, web-Google, wiki-Talk
    assert "HYB 91 %, HLL 91 %" in found.loc["generalists", "numbers"]
    assert "12.0 times (SNAP/wiki-Talk)" in found.loc["footprint", "numbers"]
