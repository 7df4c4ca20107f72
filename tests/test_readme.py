"""README.md and the pages of docs/ say what is true today."""

import re
from pathlib import Path

import numpy as np
import pytest

import spmvbench
from spmvbench import formats
from spmvbench.cli import COMMANDS, cli
from spmvbench.formats import recent, survey
from spmvbench.matrices import synthetic
from spmvbench.measure.operations import OPERATIONS
from spmvbench.publishing.format_pages import pages
from spmvbench.rows.schema import STATUSES

ROOT = Path(spmvbench.__file__).parents[1]
PUBLISHED = (ROOT / "results" / "published").is_dir()
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="needs a checkout (git clone)")


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")),
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("results/published/*/README.md")),
]


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(text):
    """The anchors of a page's headings, as Git hosts and MkDocs make them."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", outside, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_readme_is_two_screens():
    text = read("README.md")
    assert len(text.splitlines()) <= 150
    assert re.findall(r"!\[.*?\]\((.*?)\)", text) == ["docs/figures/h200-ratios.svg"]
    said = " ".join(text.split())
    assert f"It has {len(formats.shipped())} formats" in said
    assert "{} of {} names in Table 2".format(*survey.count()) in said
    assert "{} of {} exact storages and kernels for GPUs published since".format(*recent.count()) in said


def test_pages_of_formats_are_current():
    there = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "formats").iterdir()}
    assert there == pages(), "the pages of formats are out of date: run make docs"


def test_pages_of_formats_are_the_same_whatever_else_is_registered(monkeypatch):
    """Formats of SPMVBENCH_FORMATS and of tests are in no page: what `make docs` writes depends on the code alone."""

    class CsrOfATest(formats.get("csr-scalar")):
        """CSR of a test."""

    monkeypatch.setitem(formats.registry.REGISTRY, "csr-of-a-test", CsrOfATest)
    assert "csr-of-a-test" not in formats.shipped()
    assert "auto" in formats.shipped(), "of this package, although its module is in another room"
    test_pages_of_formats_are_current()


@pytest.mark.slow
def test_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", read("docs/python.md"), re.DOTALL)
    names = {}
    exec(compile(code, "docs/python.md", "exec"), names)
    a = names["a"]
    np.testing.assert_allclose(names["y"], a @ np.ones(a.shape[1]))
    assert len(names["values"]) == a.nnz
    assert list(names["measured"]["label"]) == ["ell", "csr-vector"]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Files that exist, and headings that are there, on a plain Git host: no page needs the site."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", read(page))):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        goal = (ROOT / page).parent / path if path else ROOT / page
        if (ROOT / "results" / "published") in (goal.resolve(), *goal.resolve().parents) and not PUBLISHED:
            continue  # a source distribution is without rows
        assert goal.exists(), target
        if anchor:
            assert anchor in anchors(goal.read_text(encoding="utf-8")), target


def test_no_change_is_told_twice():
    entries = [" ".join(entry.split()) for entry in re.split(r"^(?:- |#)", read("CHANGELOG.md"), flags=re.MULTILINE)]
    assert [entry for entry in entries if entry and entries.count(entry) > 1] == []


def test_no_page_needs_the_site_to_be_read():
    assert [page for page in PAGES if re.search(r"<!-- (README|operations)", read(page))] == []


def test_commands_named_are_the_commands():
    assert set(re.findall(r"^\| `spmvbench (\w+)", read("docs/commands.md"), re.MULTILINE)) == set(COMMANDS)
    for page in PAGES:
        for block in re.findall(r"```sh.*?\n(.*?)```", read(page), re.DOTALL):
            assert set(re.findall(r"^spmvbench (\w+)", block, re.MULTILINE)) <= set(COMMANDS), page


@pytest.mark.parametrize("page", PAGES)
def test_options_named_exist(page):
    text = read(page).replace("\\\n", "")
    for name in COMMANDS:
        command = cli.get_command(None, name)
        every = [command, *getattr(command, "commands", {}).values()]
        known = {option for part in every for parameter in part.params for option in parameter.opts} | {"--help"}
        lines = re.findall(rf"^(?:srun )?spmvbench {name}\b(.*)", text, re.MULTILINE)
        if page == "docs/commands.md":
            lines += re.findall(rf"^\| `spmvbench {name}\b(.*)", text, re.MULTILINE)
        for line in lines:
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line.partition("#")[0])) <= known, line


def test_every_environment_variable_is_explained():
    read_by_code = set()
    for path in (ROOT / "spmvbench").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r'(?:environ\.get\(|environ\[|envvar=)"(\w+)"', text)
        read_by_code |= set(found) - {"HOME", "SHELL", "PYTHONPATH", "MPLBACKEND", "TMPDIR"}
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", read("docs/matrices.md"), re.MULTILINE)) == read_by_code


def test_every_generator_is_named():
    text = read("docs/matrices.md")
    assert [kind for kind in synthetic.KINDS if f"`{synthetic.form(kind)}`" not in text] == []


def test_every_operation_is_named():
    table = re.search(r"^\| Operation (?:\|.*\n)+", read("docs/operations.md"), re.MULTILINE)[0]
    named = re.findall(r"^\| `([\w-]+)(?:@\w+)?` \|", table, re.MULTILINE)
    assert list(dict.fromkeys(named)) == list(OPERATIONS)


def test_every_status_is_named():
    (sentence,) = re.findall(r"Every case has a row.*?reason\.", read("docs/results.md"), re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(STATUSES)


def test_make_targets_named_exist():
    makefile, readme = read("Makefile"), read("README.md")
    targets = set(re.findall(r"(?:^|`)make (\w+)", readme, re.MULTILINE))
    assert targets >= {"demo", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


class TestGlossary:
    """docs/glossary.md: a heading a term, one sentence each."""

    entries = re.findall(r"^### (.+)\n\n(.+)\n", read("docs/glossary.md"), re.MULTILINE)

    def test_terms_are_in_alphabetical_order_and_none_is_there_twice(self):
        terms = [term.lower() for term, _ in self.entries]
        assert terms == sorted(set(terms))
        assert len(terms) == read("docs/glossary.md").count("### ")

    @pytest.mark.parametrize(("term", "text"), entries)
    def test_a_term_is_explained_in_one_sentence(self, term, text):
        # The survey's entry is a citation.
        assert text.endswith(".") and (term == "survey" or not re.search(r"[.?!] [A-Z]", text))
        assert len(text.split()) <= 25
