"""Tables of README.md and docs/ are what their commands write from published rows."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

import spmvbench
from spmvbench.publishing import in_page

ROOT = Path(spmvbench.__file__).parents[1]
PAGES = [path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
COMMAND = re.compile(r"^\t?(?:\$\(BIN\)/)?python -m (spmvbench\.publishing\.\w+) (.*?) ?--page (\S+)$", re.MULTILINE)
# Of what was measured here, and of imported runs that are in no clone.
ELSEWHERE = {"spmvbench.publishing.testing", "spmvbench.publishing.stand_ins"}
pytestmark = [
    pytest.mark.skipif(not (ROOT / "results" / "published").is_dir(), reason="needs a checkout (git clone)"),
    pytest.mark.slow,
]


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def commands():
    """(module, arguments, page) of every command that writes a table: those of pages, and of `make tables`."""
    makefile = read("Makefile").replace("\\\n\t  ", "").replace("$(PUBLISHED)", "results/published")
    return [found for text in (*map(read, PAGES), makefile) for found in COMMAND.findall(text)]


@pytest.mark.parametrize(("module", "words", "page"), commands(), ids=lambda value: value.rpartition(".")[2])
def test_a_table_is_what_its_command_writes(module, words, page, monkeypatch):
    monkeypatch.chdir(ROOT)
    written = {}
    monkeypatch.setattr(in_page, "put", lambda to, table, name: written.update({name: table}))
    importlib.import_module(module).main([*shlex.split(words), "--page", page])
    assert written
    for name, table in written.items():
        assert in_page.updated(read(page), table, name) == read(page), f"{name}: make tables"


def test_every_place_of_a_table_has_its_command():
    by_page = {}
    for module, _, page in commands():
        by_page.setdefault(page, set()).add(module)
    for page in PAGES:
        places = set(re.findall(r"^<!-- table: written by ([\w.]+)", read(page), re.MULTILINE))
        assert places - ELSEWHERE == by_page.get(page, set()), page
