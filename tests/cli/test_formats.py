import json
from pathlib import Path

import pytest

from spmvbench import formats, paths
from spmvbench.formats import recent
from spmvbench.formats.descriptions import describe
from spmvbench.formats.search import search
from spmvbench.publishing import format_pages
from spmvbench.publishing.format_pages import ABOUT, page_of, pages


def test_list_names_every_format_once_under_its_family(command):
    result = command("formats")
    assert result.code == 0
    *lines, blank, last = result.out.splitlines()
    assert sorted(" ".join(line for line in lines if line.startswith(" ")).split()) == formats.keys()
    headings = [line for line in lines if not line.startswith(" ")]
    assert [heading.partition(" (--op ")[0] for heading in headings] == formats.families()
    others = {cls.op for cls in map(formats.get, formats.keys())} - {"spmv"}
    assert {heading.partition(" (--op ")[2].rstrip(")") for heading in headings} - {""} == others
    assert (blank, last.split()[0]) == ("", str(len(formats.keys())))


def test_a_name_with_several_formats_shows_them_all(command):
    found = json.loads(command("formats", "csr optimization [13]", "--json").out)
    assert [about["key"] for about in found] == ["csr-scalar", "csr-vector"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("smat", "Error: SMAT is not built: chooses among formats; no storage of its own\n"),
        ("--search xyzzy", "no format's description contains"),
        ("--search --", "no format's description contains"),
        ("--recent --survey", "not several"),
        ("ell --family CSR", "not several"),
        ("--family elpack", "did you mean ELLPACK"),
    ],
)
def test_wrong_words_are_said(command, words, said):
    result = command("formats", *words.split())
    assert result.code == 2 and said in result.err and result.out == ""


def test_search_looks_into_descriptions_and_papers(command):
    found = [about["key"] for about in json.loads(command("formats", "--search", "liu & vinter", "--json").out)]
    assert {"csr5", "csr5-hub"} <= set(found)
    assert "ell" not in found


@pytest.mark.parametrize(
    ("words", "first"),
    [
        *((words, "merge-csr") for words in ("merge path", "Merge-Path", "path merge", "path Merrill", "mergecsr")),
        ("csrmerge", "csr-merge-tiles"), ("ell", "ell"), ("HYB", "hyb"), ("csr optimization [112]", "csr-yt"),
        ("bell garland vector", "csr-vector"), ("xyz", None),
    ],
)  # fmt: skip
def test_search_ranks_keys_before_names_papers_and_descriptions_in_any_order_of_words(words, first):
    found = search(map(formats.get, formats.keys()), words)
    assert (found[0].key if found else None) == first


def test_search_asks_for_every_word():
    keys = {cls.key for cls in search(map(formats.get, formats.keys()), "sliced ellpack")}
    assert {"sell", "sell-var"} <= keys and "csr-vector" not in keys


def test_a_family_s_name_says_that_it_is_one_and_which_keys_are_plain(command):
    result = command("formats", "csr")
    assert result.code == 0
    count = sum(formats.get(key).family == "CSR" for key in formats.keys())  # noqa: SIM118
    assert result.err == f"csr means the family CSR, {count} formats; plain CSR is csr-scalar or csr-vector\n"
    assert [command("formats", name).err for name in ("csr-vector", "dia", "csr-*")] == ["", "", ""]


def test_a_format_names_its_files(command, monkeypatch, formats_of, tmp_path):
    about = json.loads(command("formats", "csr5", "--json").out)
    assert about["file"].endswith("spmvbench/formats/csr/csr5.py")
    assert any(path.endswith("kernels/csr/csr5.cu") for path in about["kernel_files"])
    assert all(Path(path).is_file() for path in [about["file"], *about["kernel_files"]])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "30")  # less than a path
    assert f"\nFile       {about['file']}\n" in command("formats", "csr5").out
    monkeypatch.delenv("COLUMNS")
    monkeypatch.chdir(Path(about["file"]).parent)
    out = command("formats", "csr5").out
    assert "\nFile       csr5.py\n" in out and "\nKernels    csr/csr5_convert.cu, csr/csr5.cu, " in out
    own = Path(__file__).parents[2] / "docs" / "example"
    monkeypatch.chdir(own)
    formats_of(own / "csr_padded.py")
    shown = " ".join(command("formats", "csr-padded").out.split())
    assert f"Kernels csr_padded.cu; multivector.cu, vector.cu in {paths.kernels()} File csr_padded.py" in shown


@pytest.mark.parametrize(
    ("key", "said", "present"),
    [
        ("csr-lanes", "Origin     this project's kernel\n", True),
        ("csr-vector", "Origin", False),
        ("icsr", "Confidence survey's sentence alone\n", True),
        ("csr5", "Confidence authors' code\n", True),
        ("merge-csr", "Confidence", False),
        ("csr5", "Same bits  no; csr5[sum=fixed]: yes\nNew values in place\n", True),
        ("csr-lanes", "Same bits  yes\nNew values in place\n", True),
        ("csr-ans", "Same bits  no\nNew values by a new conversion\n", True),
    ],
)
def test_what_is_said_of_one_format(command, key, said, present):
    assert (f"\n{said}" in command("formats", key).out) == present


def test_survey_is_printed_in_its_order_with_what_runs_each_name(command):
    result = command("formats", "--survey")
    assert result.code == 0
    lines = result.out.splitlines()
    names = [
        line[9:].split("  ")[0].removesuffix(" *").strip("()") for line in lines[1:] if line and line[0].isdigit()
    ][:-1]
    assert names == [name.title.strip("()") for name in formats.survey.names()]
    said = " ".join(result.out.split())
    assert "4.2.1 CSR optimization [13] * csr-scalar, csr-vector [authors' code]" in said
    assert "CSR: coalesced access, thread mapping, data reuse" in lines
    assert any("hyb-third (= hyb)" in line for line in lines)
    count = "{} of the {} names in Table 2 run here: {}.".format(*formats.survey.count(), formats.survey.shares())
    assert count in said
    assert len(json.loads(command("formats", "--survey", "--json").out)) == len(names)


def test_recent_names_are_printed_with_what_runs_each_or_why_nothing_does(command):
    result = command("formats", "--recent")
    assert result.code == 0
    said = " ".join(result.out.split())
    assert "rocSPARSE csr_lrb (logarithmic radix binning): csr-lrb [authors' code]" in said
    assert "divides plain formats between GPUs" in said
    assert "{} of {} exact storages and kernels for GPUs run here.".format(*recent.count()) in said
    assert len(json.loads(command("formats", "--recent", "--json").out)) == len(recent.names())


def test_family_narrows_the_list_whatever_its_case(command):
    shown = json.loads(command("formats", "--family", "ellpack", "--json").out)
    assert {entry["family"] for entry in shown} == {"ELLPACK"}
    assert "[HLL in the survey, authors' code]" in command("formats", "--family", "ellpack").out


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
        cls.shared_implementation,
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
    assert about["parameters"]["lanes"]["default"] == 32


def test_parts_that_are_formats_are_named():
    hyb = describe(formats.get("hyb"))
    assert hyb["shared_implementation"] == "parts in other formats: ell, coo-flat"
    assert "parts by name" in hyb["arrays"]["parts"]


@pytest.mark.parametrize("key", formats.keys())
def test_every_format_documents_itself(key):
    about = describe(formats.get(key))
    assert about["doc"].splitlines()[0].endswith("."), "the first line says what is stored, as a sentence"
    for name, text in about["arrays"].items():
        assert text, f"the array {name} has no comment that gives its shape"
    for name, parameter in about["parameters"].items():
        assert parameter["doc"], f"the parameter {name} has no description"


@pytest.fixture(scope="module")
def written():
    return pages()


def test_pages_have_a_row_a_format_and_five_cells_each(written):
    assert set(written) == {"index.md", "grades.md"} | {page_of(family) for family in formats.families()}
    for family in formats.families():
        head, rule, *rows = [line for line in written[page_of(family)].splitlines() if line.startswith("|")]
        keys = [key for key in formats.keys() if formats.get(key).family == family]  # noqa: SIM118 - a function
        assert [row.split("`")[1] for row in rows] == sorted(keys)
        for row in (head, rule, *rows):
            assert row.replace("\\|", "").count("|") == 6
        assert f"| [{family}]({page_of(family)}) | {len(keys)} | `{rows[0].split('`')[1]}`" in written["index.md"]
    runs = f"{formats.survey.count()[0]} of them run here: {formats.survey.shares()}."
    assert runs in written["index.md"].replace("\n", " ")


def test_every_family_is_described_in_less_than_a_screen(written):
    assert sorted(ABOUT) == formats.families()
    for family, text in ABOUT.items():
        assert f"formats\n\n{text}\n\n|" in written[page_of(family)]
        assert len(text.splitlines()) < 20


def test_pages_are_written_and_other_files_left_alone(tmp_path, written):
    (tmp_path / "csr.md").write_text("yesterday")
    (tmp_path / "mine.md").write_text("mine")
    format_pages.main([str(tmp_path)])
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == written | {"mine.md": "mine"}
