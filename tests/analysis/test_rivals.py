"""Formats beside their authors' programs."""

import pandas as pd
import pytest

from spmvbench import formats
from spmvbench.analysis.rivals import BEST, beside
from spmvbench.reports import published, tables

PROGRAMS = pd.DataFrame({"program": ["p", "q"], "title": ["P", "Q"], "label": ["ell", "csr5[sigma=4]"]})
MEASURED = pd.DataFrame(
    [("p", "a", "f64", 100.0), ("q", "a", "f64", 150.0), ("q", "a", "f32", 300.0), ("p", "b", "f64", 10.0)],
    columns=["program", "matrix", "dtype", "gflops"],
)


def run(**columns):
    rows = [("a", "ell", 120.0, False), ("a", "csr5[sigma=4]", 75.0, False), ("a", "row-patterns", 900.0, True)]
    found = pd.DataFrame(rows, columns=["name", "label", "gflops", "compresses_values"])
    settings = pd.Categorical(["f64 hot"] * len(rows))
    found = found.assign(bound_gflops=2 * found["gflops"])
    return found.assign(setting=settings, dtype="f64", op="spmv", mode="hot", order="", status="ok", **columns)


def test_a_program_is_beside_the_format_of_its_label_and_type():
    found = beside(run(), PROGRAMS, MEASURED).set_index("program")
    assert found.loc["p", ["label", "ours", "theirs"]].tolist() == ["ell", 120, 100]
    assert found.loc["q", "ratio"] == 0.5 and found.loc["q", "matrix"] == "a"
    # The fastest of all stores every value; the programs' fastest is another one's.
    assert found.loc[BEST, ["label", "ours", "theirs"]].tolist() == ["ell", 120, 150]
    (table,) = [tables.rivals("f64 hot", found.reset_index())]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["Best of all", "ell", "120 / 150 = 0.80 ell"],
        ["P", "ell", "120 / 100 = 1.20"],
        ["Q", "csr5[sigma=4]", "75 / 150 = 0.50"],
    ]
    assert [row[2].best for row in table.rows] == [False, True, False]


def test_of_programs_with_one_title_the_fastest_on_a_matrix_counts():
    programs = PROGRAMS.assign(title="P", label="ell")
    (found,) = beside(run(), programs, MEASURED).query("title == 'P'").to_dict("records")
    assert (found["program"], found["ours"], found["theirs"], found["bound"]) == ("q", 120, 150, 240)


def test_of_formats_with_one_time_the_first_counts_and_never_auto():
    rows = run()
    names = ["auto[spmvs=100]", "sell-local", "irregular"]
    alike = pd.concat([rows.iloc[:1].assign(label=name, gflops=200.0) for name in names], ignore_index=True)
    for cases in (alike, pd.concat([rows, alike], ignore_index=True)):
        best = beside(cases, PROGRAMS, MEASURED).query("program == @BEST")
        assert best["label"].tolist() == ["sell-local"]


def test_failed_rows_and_other_types_are_beside_nothing():
    assert beside(run().assign(status="wrong"), PROGRAMS, MEASURED).empty
    found = beside(run().assign(dtype="f32", setting=pd.Categorical(["f32 hot"] * 3)), PROGRAMS, MEASURED)
    assert found["program"].tolist() == [BEST, "q"]


def test_labels_of_programs_are_formats_and_every_program_has_figures():
    public = published.public_programs()
    for label in public.programs["label"]:
        ((cls, params),) = formats.parse(label)
        assert formats.label(cls, params) == label
    assert set(public.programs["program"]) <= set(public.rows["program"])
    assert (public.rows["gflops"] > 0).all() and set(public.rows["dtype"]) == {"f64", "f32"}
    assert public.rows.set_index(["program", "matrix", "dtype"])["gflops"].get(("petsc-sell-7", "fem:60:3", "f64")) == (
        pytest.approx(670, abs=1)
    )
