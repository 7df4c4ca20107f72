"""Time to N products, on tables small enough to do by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis.products import (
    ADVISED,
    COLUMNS,
    CUPY,
    HOST_CALLED,
    MEASURED,
    NUMBERS,
    ORACLE,
    SINGLE,
    VENDOR,
    products,
)
from spmvbench.reports import advised, tables
from tests.made import row, rows

CUSPARSE = "cusparse-csr-alg1"


def case(name, label, conversion, seconds, **columns):
    return row(name, label, seconds, t_convert_device=conversion, **columns)


@pytest.fixture
def two():
    """On m, ell costs 100 SpMVs more than cuSPARSE and is twice as fast; on n it fails, and csr is as fast."""
    return [
        case("m", CUSPARSE, 0.0, 2.0, t_setup=4.0),
        case("m", "ell", 104.0, 1.0),
        case("m", "csr", 0.0, 3.0),
        case("n", CUSPARSE, 0.0, 1.0, t_setup=1.0),
        case("n", "ell", 0.0, 0.1, status="wrong"),
        case("n", "csr", 0.0, 1.04),
    ]


def line(table, chooser, n):
    (found,) = table[(table["chooser"] == chooser) & (table["spmvs"] == n)].to_dict("records")
    return found


def test_the_time_is_that_of_conversion_preprocessing_and_spmvs(two):
    table = products(rows(*two))
    assert list(table.columns) == COLUMNS
    assert set(table["spmvs"]) == set(NUMBERS)
    # One SpMV: cuSPARSE takes 6 and 2 seconds, csr 3 and 1.04, ell 105 and never.
    assert line(table, ORACLE, 1)["speedup"] == pytest.approx(math.sqrt(6 / 3 * 2 / 1.04))
    assert line(table, ORACLE, 1)["slowdown"] == 1
    assert line(table, SINGLE, 1)["label"] == "csr"
    assert line(table, VENDOR, 1)["slowdown"] == pytest.approx(math.sqrt(6 / 3 * 2 / 1.04))
    assert line(table, VENDOR, 1)["speedup"] == line(table, VENDOR, 1)["within"] == 1
    # A thousand: 2,004 and 1,001, csr 3,000 and 1,040, ell 1,104.
    assert line(table, ORACLE, 1000)["speedup"] == pytest.approx(math.sqrt(2004 / 1104))
    assert line(table, SINGLE, 1000)["label"] == CUSPARSE
    assert line(table, VENDOR, 1000)["slowdown"] == pytest.approx(math.sqrt(2004 / 1104))
    assert set(table["matrices"]) == {2}


def test_the_share_near_cusparse_is_at_most_five_per_cent_above_it():
    given = [case(name, CUSPARSE, 0.0, 1.0) for name in "abc"]
    given += [case(name, "csr", 0.0, seconds) for name, seconds in (("a", 1.05), ("b", 1.06), ("c", 0.1))]
    found = line(products(rows(*given)), SINGLE, 100)
    assert found["label"] == "csr"
    assert found["within"] == pytest.approx(2 / 3)


def test_the_advised_format_counts_on_the_matrices_that_have_one(two):
    choices = pd.DataFrame(
        {
            "matrix": ["G/m", "G/m", "G/n", "G/elsewhere"],
            "dtype": "f64",
            "spmvs": [1, 1000, 1000, 1],
            "label": ["csr", "ell", "ell", "unknown"],
        }
    )
    table = products(rows(*two), choices)
    assert (line(table, ADVISED, 1)["matrices"], line(table, ADVISED, 1)["slowdown"]) == (1, 1)
    later = line(table, ADVISED, 1000)
    assert later["matrices"] == 2
    assert later["slowdown"] == pytest.approx(math.sqrt(10)), "ell failed on n"
    assert later["within"] == 0.5
    assert later["always"] == line(table, ADVISED, 1)["always"] == 0.5
    assert line(table, ORACLE, 1)["always"] == 1
    assert MEASURED not in set(table["chooser"])
    measured = products(rows(*two), choices.assign(measured=["csr", "csr", "csr", "csr"]))
    assert line(measured, MEASURED, 1000)["slowdown"] == pytest.approx(math.sqrt(3000 / 1104 * 1040 / 1001))
    assert line(measured, ADVISED, 1000)["slowdown"] == later["slowdown"]
    untried = products(rows(*two), choices.assign(measured="unknown"))
    assert ADVISED in set(untried["chooser"]) and MEASURED not in set(untried["chooser"])
    assert set(table.loc[table["chooser"] == ADVISED, "spmvs"]) == {1, 1000}
    # Another type has no advice, and a format that was not tried leaves no fair selection.
    assert ADVISED not in set(products(rows(*two), choices.assign(dtype="f32"))["chooser"])
    choices.loc[0, "label"] = "unknown"
    assert ADVISED not in set(products(rows(*two), choices)["chooser"])


def test_cupys_default_is_the_calls_from_the_host(two):
    assert CUPY not in set(products(rows(*two))["chooser"])
    (about,) = tables.products(products(rows(*two))).notes
    assert about[1] == "its default is not in this table: the run has no rows of cupy-csr"
    call = case("m", HOST_CALLED, 0.5, 5.0, experiment=True, t_setup=0.5)
    table = products(rows(*(one | {"experiment": False} for one in two), call))
    names = ["label", "slowdown", "within", "always", "speedup", "matrices"]
    assert [line(table, CUPY, 1)[name] for name in names] == [HOST_CALLED, pytest.approx(6 / 3), 1, 0, 1, 1]
    assert line(table, CUPY, 1000)["speedup"] == pytest.approx(2004 / 5001)
    assert line(table, ORACLE, 1)["speedup"] == line(products(rows(*two)), ORACLE, 1)["speedup"]
    assert "from the host" in tables.products(table).notes[0][1]
    # The fastest of all, it is no choice of others; refused, it counts as any format.
    free = products(rows(*(one | {"experiment": False} for one in two), call | {"t_median": 1e-9, "t_setup": 0.0}))
    assert line(free, ORACLE, 1000)["speedup"] == line(table, ORACLE, 1000)["speedup"]
    assert line(free, CUPY, 1000)["slowdown"] < 1
    refused = products(rows(*(one | {"experiment": False} for one in two), call | {"status": "skipped"}))
    assert line(refused, CUPY, 1)["slowdown"] == pytest.approx(10)


def test_only_matrices_with_cusparse_are_compared(two):
    table = products(rows(*two, case("other", "csr", 0.0, 1.0)))
    assert set(table["matrices"]) == {2}
    without = products(rows(*[case for case in two if case["label"] != CUSPARSE]))
    assert without.empty
    assert list(without.columns) == COLUMNS


def test_an_unknown_conversion_is_no_time(two):
    unknown = case("m", "ell", np.nan, 1e-9, t_convert_host=np.nan)
    table = products(rows(*[case for case in two if case["label"] != "ell"], unknown))
    assert line(table, ORACLE, 1_000_000)["speedup"] == pytest.approx(1)


def test_choices_of_a_model_are_those_of_its_gpu(two):
    found = advised.choices(rows(*(case | {"device_name": "NVIDIA H200"} for case in two)))
    assert list(found.columns) == ["matrix", "dtype", "spmvs", "label", "measured"]
    assert set(found["spmvs"]) <= set(NUMBERS)
    assert len(found) == len(found.drop_duplicates(["matrix", "dtype", "spmvs"]))
    assert advised.choices(rows(*two)) is None, "GPU"
    assert advised.choices(rows(*two, case("m", "dia", 1.0, 1.0, device_name="NVIDIA H200"))) is None
