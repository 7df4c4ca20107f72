import json

import pytest

from spmvbench import formats
from spmvbench.cli.formats import BEGIN, END, describe, markdown_table, with_table
from spmvbench.errors import UsageError


def test_list_names_every_format_once_under_its_family(command):
    result = command("formats")
    assert result.code == 0
    listed = [line.split()[0] for line in result.out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert sorted(listed) == formats.keys()
    headings = [line for line in result.out.splitlines()[:-1] if line and not line.startswith(" ")]
    assert headings == sorted({cls.family for cls in map(formats.get, formats.keys())})


def test_family_narrows_the_list_whatever_its_case(command):
    shown = json.loads(command("formats", "--family", "ellpack", "--json").out)
    assert shown
    assert {entry["family"] for entry in shown} == {"ELLPACK"}


def test_unknown_family_names_the_nearest(command):
    result = command("formats", "--family", "elpack")
    assert result.code == 2
    assert "did you mean ellpack" in result.err


def test_one_format_shows_what_a_reader_needs(command):
    result = command("formats", "ell")
    cls = formats.get("ell")
    assert result.code == 0
    shown = " ".join(result.out.split())  # lines are wrapped to the terminal
    for text in (
        cls.reference,
        "ellpack/sell.cu",
        "cuda, emulated",
        "(slots,), int32",
        cls.core,
        "threads=1",
        "1, 2, 4, 8, 16, 32",
    ):
        assert text in shown


def test_json_of_one_format(command):
    about = json.loads(command("formats", "csr-vector", "--json").out)
    assert about == describe(formats.get("csr-vector"))
    assert about["arrays"] == {
        "row_ptr": "(rows + 1,), int32, or int64 where nnz needs it",
        "col_idx": "(nnz,), int32",
        "values": "(nnz,)",
    }
    assert about["parameters"]["lanes"]["default"] == 0


def test_parts_that_are_formats_are_named():
    assert describe(formats.get("hyb"))["arrays"]["ell"] == "a part stored as Ell"


def test_unknown_format_is_one_line_with_the_nearest(command):
    result = command("formats", "csr-vektor")
    assert result.code == 2
    assert "did you mean csr-vector" in result.err
    assert len(result.err.splitlines()) == 1


def test_key_and_family_together_are_refused(command):
    result = command("formats", "ell", "--family", "CSR")
    assert result.code == 2
    assert "not several" in result.err


@pytest.mark.parametrize("key", formats.keys())
def test_every_format_documents_itself(key):
    about = describe(formats.get(key))
    assert about["doc"].splitlines()[0].endswith("."), "the first line says what is stored, as a sentence"
    for name, text in about["arrays"].items():
        assert text, f"the array {name} has no comment that gives its shape"
    for name, parameter in about["parameters"].items():
        assert parameter["doc"], f"the parameter {name} has no description"


def test_table_has_a_row_a_format_and_six_cells_each():
    head, rule, *rows = markdown_table().splitlines()
    assert len(rows) == len(formats.keys())
    for row in (head, rule, *rows):
        assert row.replace("\\|", "").count("|") == 7


def test_table_replaces_what_stands_between_the_markers(command, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nyesterday\n{END}\nafter\n")
    assert command("formats", "--update", page).code == 0
    once = page.read_text()
    assert once.startswith(f"before\n{BEGIN}\n\n| Family |")
    assert once.endswith(f"|\n\n{END}\nafter\n")
    assert "yesterday" not in once
    assert with_table(once) == once


@pytest.mark.parametrize("text", ["no markers", BEGIN, END, f"{END} {BEGIN}"])
def test_document_without_a_place_for_the_table_is_refused(text):
    with pytest.raises(UsageError, match="no place for the table"):
        with_table(text)
