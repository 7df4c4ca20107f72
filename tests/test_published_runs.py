"""results/published: every run has a page of its rows, and the commands of its README are commands."""

import re
import shlex
from pathlib import Path

import click
import pytest

import spmvbench
from spmvbench.analysis.cases import latest_cases
from spmvbench.cli import cli
from spmvbench.cli.report import command as report
from spmvbench.rows import store

ROOT = Path(spmvbench.__file__).parents[1]
RUNS = sorted(path.parent for path in (ROOT / "results" / "published").glob("*/README.md"))
pytestmark = pytest.mark.skipif(not RUNS, reason="not run from a checkout")


def commands(run, name):
    """The words of the commands of this name in a run's README."""
    text = (run / "README.md").read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.findall(rf"^spmvbench {name} (.*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_page_is_there_and_shows_the_rows_of_today(run):
    from spmvbench.reports.page import fingerprint

    (words,) = commands(run, "report")
    options = report.make_context("report", list(words), click.Context(cli, **cli.context_settings)).params
    assert [ROOT / folder for folder in options["runs"]] == [run]
    rows = store.load(run)
    if options["dtype"]:
        rows = rows[rows["dtype"].isin(options["dtype"].split(","))]
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert f'<meta name="rows" content="{fingerprint(latest_cases(rows))}">' in page, "stale: run make published"
    links = re.findall(r'(?:href|src)="((?:figures/|\.\./)[^"]*)"', page)
    assert "../../shared/page.js" in links, "its command says --site"
    for link in links:
        assert (run / "report" / link).is_file()


def test_pages_share_the_library_of_today_and_are_in_the_index():
    from spmvbench.reports.page import sources

    site = RUNS[0].parent
    for name, text in sources().items():
        assert (site / "shared" / name).read_text(encoding="utf-8") == text, "stale: run make published"
    index = (site / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r'<h2><a href="([^"]*)">', index)) == {f"{run.name}/report/index.html" for run in RUNS}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_command_that_measured_it_works_from_a_clone(run, command, monkeypatch, request):
    monkeypatch.chdir(ROOT)
    (words,) = commands(run, "run")
    if run.name.endswith(("suitesparse", "applications", "irregular", "tilespmspv")):
        request.getfixturevalue("mirror")
    result = command("run", *words, "--results", "/nowhere", "--dry-run")
    assert result.code == 0, result.err
    assert f"/nowhere/{run.name}: " in result.out
