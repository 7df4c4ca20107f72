"""Tables of README.md and docs/ are what their commands write from published rows."""

import importlib
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import spmvbench
from spmvbench.errors import UsageError
from spmvbench.publishing import __main__ as publishing
from spmvbench.publishing import in_page
from spmvbench.rows import store
from spmvbench.rows.schema import blank_row

ROOT = Path(spmvbench.__file__).parents[1]
PAGES = [path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
COMMAND = re.compile(r"^\t?(?:\$\(BIN\)/)?python -m spmvbench\.publishing (\w+) (.*?) ?--page (\S+)$", re.MULTILINE)
# Of what was measured here, and of imported runs that are in no clone.
ELSEWHERE = {"spmvbench.publishing.testing", "spmvbench.publishing.stand_ins"}
pytestmark = pytest.mark.skipif(not (ROOT / "results" / "published").is_dir(), reason="needs a checkout (git clone)")


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def commands():
    """(module, arguments, page) of every command that writes a table: those of pages, and of `make tables`."""
    makefile = read("Makefile").replace("\\\n\t  ", "").replace("$(PUBLISHED)", "results/published")
    found = [of for text in (*map(read, PAGES), makefile) for of in COMMAND.findall(text)]
    return [(f"spmvbench.publishing.{name}", *rest) for name, *rest in found]


@pytest.fixture(scope="module")
def rows_of():
    return cache(lambda places: in_page.rows_of([ROOT / place for place in places]))


@pytest.mark.parametrize(("module", "words", "page"), commands(), ids=lambda value: value.rpartition(".")[2])
def test_no_table_is_older_than_its_rows(module, words, page, rows_of):
    rows = rows_of(tuple(word for word in shlex.split(words) if word.startswith("results/")))
    places = read(page).split(f"<!-- table: written by {module}")[1:]
    assert places
    ends = [in_page.END.search(place)[0] for place in places]
    assert in_page.end(rows) in ends, f"the rows have changed: make tables ({module} {words} --page {page})"


def test_the_hash_of_rows_is_that_of_what_was_measured_when(tmp_path):
    for run, times in (("a", ["1", "2"]), ("b", ["1"])):
        for case, time in enumerate(times):
            store.append(tmp_path / run, blank_row() | {"case_id": str(case), "status": "skipped", "started_at": time})
        store.compact(tmp_path / run)
    both = in_page.rows_of([tmp_path])
    assert both == in_page.rows_of([tmp_path / "b", tmp_path / "a"]) != in_page.rows_of([tmp_path / "a"])
    store.append(tmp_path / "b", blank_row() | {"case_id": "0", "status": "skipped", "started_at": "3"})
    store.compact(tmp_path / "b")
    assert both != in_page.rows_of([tmp_path]) and not in_page.rows_of([])


@pytest.mark.slow
@pytest.mark.parametrize(("module", "words", "page"), commands(), ids=lambda value: value.rpartition(".")[2])
def test_a_table_is_what_its_command_writes(module, words, page, monkeypatch):
    monkeypatch.chdir(ROOT)
    written = {}
    monkeypatch.setattr(in_page, "put", lambda to, table, name, rows: written.update({name: (table, rows)}))
    importlib.import_module(module).main([*shlex.split(words), "--page", page])
    assert written
    for name, (table, rows) in written.items():
        assert in_page.updated(read(page), table, name, rows) == read(page), f"{name}: make tables"


def test_every_place_of_a_table_has_its_command():
    by_page = {}
    for module, _, page in commands():
        by_page.setdefault(page, set()).add(module)
    for page in PAGES:
        places = set(re.findall(r"^<!-- table: written by ([\w.]+)", read(page), re.MULTILINE))
        assert places - ELSEWHERE == by_page.get(page, set()), page


def test_help_names_what_each_module_writes(capsys):
    assert publishing.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == publishing.NAMES and all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no name is none of advice, "),
        (["speeed"], "speeed is none of .*; did you mean speed"),
        (["in_page"], "in_page is none of"),
        (["conversions", "h200-applications", "--page", "NONE"], "there is no page NONE"),
        (["conversions", "NONE"], "there is no run 'NONE'"),
        (["reproduce", "NONE"], "NONE holds no run"),
        (["crate", "NONE"], "NONE holds no run"),
    ],
)
def test_wrong_words_are_refused(words, said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["", *words])
    with pytest.raises(UsageError, match=said):
        publishing.run(words)


@pytest.mark.parametrize("name", publishing.NAMES)
def test_every_module_refuses_arguments_that_it_does_not_have(name, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [""])
    with pytest.raises(SystemExit) as stopped:
        publishing.run([name, "--no-such-option"])
    assert stopped.value.code == 2 and f"python -m spmvbench.publishing {name}" in capsys.readouterr().err
