"""What a format may give to a row: plain values are kept, anything else becomes an error that names it."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmvbench.rows.checks import invalid_rows
from spmvbench.rows.fitting import fitted, storable
from spmvbench.rows.schema import COLUMNS, arrow_schema, blank_row


class Hostile:
    def __repr__(self):
        raise RuntimeError

    __index__ = __add__ = __iter__ = __bool__ = encode = __repr__


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("bytes_needed", math.inf, "bytes_needed inf"),
        ("bytes_needed", 10**400, "bytes_needed 10000"),
        ("bytes_needed", -1, "bytes_needed -1"),
        ("bytes_format", math.nan, "bytes_format nan"),
        ("bytes_format", 2**63, f"bytes_format {2**63}"),
        ("bytes_format", "many", "bytes_format 'many'"),
        ("bytes_format", 1.5, "bytes_format 1.5"),
        ("bytes_format", -1, "bytes_format -1"),
        ("t_setup", math.inf, "t_setup inf"),
        ("detail", "[1]", "detail '[1]'"),
        ("family", "x" * 1001, "family 'xxx"),
        ("samples", [-1.0], "samples [-1.0]"),
        ("reason", "not \udcff Unicode", r"reason 'not \udcff Unicode'"),
        ("reason", 42, "reason 42"),
        ("reason", b"bytes", "reason b'bytes'"),
        ("reason", Hostile(), "reason a Hostile"),
        ("label", None, "label None"),
        ("experiment", "yes", "experiment 'yes'"),
        ("experiment", Hostile(), "experiment a Hostile"),
        ("t_setup", "0.1", "t_setup '0.1'"),
        ("t_setup", None, "t_setup None"),
        ("t_setup", 10**400, "t_setup 1000"),
        ("samples", [1.0, "x"], "samples"),
        ("samples", Hostile(), "samples a Hostile"),
    ],
    ids=range(24),
)
def test_what_a_column_cannot_hold_makes_an_error_that_names_it(column, value, words):
    row = storable(blank_row() | {"status": "skipped", "reason": "because"} | {column: value})
    assert row["status"] == "error"
    assert row["reason"].startswith("a row cannot hold what the format gave: ")
    assert words in row["reason"]
    pa.Table.from_pylist([row], schema=arrow_schema())


def test_an_error_still_says_what_the_row_would_have_said():
    row = storable({"status": "skipped", "reason": "inf TB, over the limit", "bytes_needed": math.inf})
    assert row["reason"].endswith("bytes_needed inf; the case was skipped: inf TB, over the limit")
    assert math.isnan(row["bytes_needed"])


def test_plain_values_come_through():
    values = {"nnz": np.int32(3), "bytes_format": 1e6, "t_setup": 2, "experiment": np.True_, "reason": np.str_("x")}
    row = storable(values | {"samples": np.array([0.5, 1], np.float32)})
    assert row == {
        "nnz": 3, "bytes_format": 10**6, "t_setup": 2.0, "experiment": True, "reason": "x", "samples": [0.5, 1.0],
    }  # fmt: skip
    assert {type(value) for value in row.values()} == {int, float, bool, str, list}
    assert fitted(blank_row())[1] == []


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters()), st.binary(), st.complex_numbers(),
    st.lists(st.one_of(st.floats(), st.text(), st.none())), st.dictionaries(st.text(), st.integers()),
)  # fmt: skip


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(COLUMNS)), ANYTHING, max_size=6))
def test_arrow_takes_every_row(columns):
    row = storable(blank_row() | {"status": "skipped"} | columns)
    table = pa.Table.from_pylist([row], schema=arrow_schema())
    assert all(value is not None or COLUMNS[name][0] == "int or null" for name, value in row.items())
    assert invalid_rows(table) == {} or not row["status"], "a row that is written can be read"
