"""The page and the tables say which formats are one program, and count it once."""

import json

import pandas as pd
import pytest

from spmvbench.reports import export, page
from tests.reports.conftest import data_of

KEYS = ["csr-vector", "csr-scalar", "ell", "hyb"]


@pytest.fixture(scope="module")
def met(rows):
    """On the first of three matrices hyb is ell and the fastest; csr-vector2 is csr-vector on all."""
    names = list(rows.loc[(rows["format"] == "ell") & (rows["status"] == "ok"), "name"].unique()[:3])
    some = rows[rows["name"].isin(names) & rows["format"].isin(KEYS)].reset_index(drop=True)
    assert (some["status"] == "ok").all()
    some["program"] = "of " + some["label"]
    first = some["name"] == names[0]
    some.loc[first & some["format"].isin(["ell", "hyb"]), ["program", "t_median", "gflops"]] = ["one", 1e-9, 4321.0]
    twin = some[some["format"] == "csr-vector"].assign(format="csr-vector2", label="csr-vector2", params='{"a": 1}')
    every = pd.concat([some, twin], ignore_index=True)
    every["case_id"] = every["case_id"] + every["label"]
    return every, f"{some.loc[first, 'group'].iloc[0]}/{names[0]}"


@pytest.fixture(scope="module")
def text(met, environment, tmp_path_factory):
    found = page.write(met[0], environment, tmp_path_factory.mktemp("report"), names=["programs", "winners"])
    return found.page.read_text(encoding="utf-8"), found


def test_the_page_counts_programs_and_says_where_names_meet(text):
    text, found = text
    assert "<dt>programs on a matrix</dt><dd>3 to 4</dd>" in text
    (table,) = found.drawn[0].tables
    cells = [[cell.text for cell in row] for row in table.rows]
    assert cells == [
        ["csr-vector2", "csr-vector", "100 %", "12", "12", "3"],
        ["hyb", "ell", "33.3 %", "4", "12", "1"],
    ]
    numbers = pd.read_csv(found.drawn[0].files[-1])
    assert numbers["share"].tolist() == [1.0, pytest.approx(1 / 3, abs=1e-6)]


def test_the_page_knows_the_program_of_each_case(text, met):
    data = data_of(text[0])
    names, cases = data["formats"]["name"], data["cases"]
    found = {}
    for f, program, m in zip(cases["format"], cases["program"], cases["matrix"], strict=True):
        if data["matrices"]["name"][m] == met[1]:
            found.setdefault(program, set()).add(names[f])
    assert sorted(map(sorted, found.values())) == [["csr-scalar"], ["csr-vector", "csr-vector2"], ["ell", "hyb"]]


def test_a_page_of_rows_without_programs_is_as_before(rows, environment, tmp_path):
    found = page.write(rows[rows["name"] == "matrix0001"], environment, tmp_path, names=["programs"])
    assert found.left_out == {"no row names its program: rows of older versions do not": ["programs"]}
    text = found.page.read_text(encoding="utf-8")
    assert "programs on a matrix" not in text
    assert not data_of(text)["cases"]["program"].any()


def test_a_table_of_matrices_has_each_program_once_and_says_where_names_meet(met):
    rows, matrix = met
    text = export.text(rows, "markdown", "matrices")
    first = next(line for line in text.splitlines() if line.startswith(f"| {matrix} "))
    heads = [cell.strip() for cell in next(line for line in text.splitlines() if "| Matrix" in line).split("|")]
    cells = dict(zip(heads, (cell.strip() for cell in first.split("|")), strict=True))
    assert "csr-vector2" not in cells
    assert (cells["Best"], cells["ell"], cells["hyb"]) == ("ell", "**4,321**", "4,321 [a]")
    assert "[a] = ell here" in text


def test_a_table_of_formats_marks_what_is_another_everywhere(met):
    table = pd.DataFrame(json.loads(export.text(met[0], "json", "formats")))
    hot = table[table["Table"] == "f64 hot"].set_index("Format")
    assert hot["Kernel"].to_dict() == dict.fromkeys(KEYS, "") | {"csr-vector2": "= csr-vector", "hyb": "other bits"}
    assert hot.loc[["ell", "hyb", "csr-vector2"], "Wins"].tolist() == [
        1,
        0,
        0,
    ]  # a tie of ell and hyb without programs


def test_programs_as_tables_for_other_programs(met):
    found = pd.DataFrame(json.loads(export.text(met[0], "json", "programs")))
    shared = found[found["Table"] == "Formats that are one program"]
    assert shared["Same as"].tolist() == ["csr-vector", "ell"]
    counted = found[found["Table"] == "Programs on a matrix"]
    assert counted["Fewest programs"].tolist() == [3, 3, 3, 3]
    assert counted["Most"].tolist() == [4, 4, 4, 4]
