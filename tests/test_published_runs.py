"""results/published: the commands of each run's README are commands, and its rows give figures."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pandas as pd
import pytest

import spmvbench
from spmvbench.analysis.cases import latest_cases
from spmvbench.cli import cli
from spmvbench.cli.report import command as report
from spmvbench.publishing import in_page, readmes
from spmvbench.reports.site import runs
from spmvbench.rows import store

ROOT = Path(spmvbench.__file__).parents[1]
RUNS = sorted(path.parent for path in (ROOT / "results" / "published").glob("*/README.md"))
pytestmark = [pytest.mark.skipif(not RUNS, reason="needs a checkout (git clone)"), pytest.mark.slow]


def commands(run, name):
    """The words of the commands of this name in a run's README."""
    text = (run / "README.md").read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.findall(rf"^spmvbench {name} (.*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_command_that_reports_draws_its_rows(run, command, tmp_path, monkeypatch):
    """With fewer rows and figures, and into another folder."""
    monkeypatch.chdir(ROOT)
    (words,) = commands(run, "report")
    options = report.make_context("report", list(words), click.Context(cli, **cli.context_settings)).params
    assert [ROOT / folder for folder in options["runs"]] == [run]
    assert ROOT / options["site"] == run.parent
    at = words.index("--site")
    rows = store.load(run)
    ok = rows[rows["status"] == "ok"]
    ok = ok[(ok["group"] == ok["group"].iloc[0]) & (ok["name"] == ok["name"].iloc[0])]
    matrix, formats = "/".join(ok[["group", "name"]].iloc[0]), ok["format"].unique()[:4]
    few = ["--matrix", matrix, "--formats", ",".join(formats), "--figures", "bytes", "--out", str(tmp_path)]
    result = command("report", *words[:at], *words[at + 2 :], *few)
    assert result.code == 0, result.err
    drawn = (tmp_path / "figures" / "bytes.csv").read_text(encoding="utf-8")
    assert matrix in drawn and len(drawn.splitlines()) > 1
    assert (tmp_path / "figures" / "bytes.svg").stat().st_size > 3000


def test_no_page_is_kept_beside_the_rows():
    listed = subprocess.run(["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs a checkout (git clone)")
    assert [path for path in listed.stdout.splitlines() if path.endswith((".html", ".js", ".css"))] == []


def test_runs_with_labels_of_an_older_version_say_so():
    found = {run.name: runs.notices(latest_cases(store.load(run))) for run in RUNS}
    older = {"rgcsr here is hll today", "hec"}  # another program since
    said = {name: [word for text in texts for word in older if word in text] for name, texts in found.items() if texts}
    assert {name for name, words in said.items() if not words} == {"h200-first"}
    assert not any("no format" in text for texts in found.values() for text in texts)
    for words in ("csr-vector here is csr-lanes today", "merge-csr here is csr-merge-tiles today"):
        assert words in " ".join(found["h200-first"])


WITH_REAL_MATRICES = ("suitesparse", "real", "orders", "tilespmspv", "fastload", "stand-ins")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_command_that_measured_it_works_from_a_clone(run, command, monkeypatch, request):
    monkeypatch.chdir(ROOT)
    (words,) = commands(run, "run")
    if run.name.endswith(WITH_REAL_MATRICES):
        request.getfixturevalue("mirror")
    result = command("run", *words, "--results", "/nowhere", "--dry-run")
    assert result.code == 0, result.err
    assert f"/nowhere/{run.name}: " in result.out


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_readme_has_the_invocations_of_its_rows(run):
    text = (run / "README.md").read_text(encoding="utf-8")
    written = in_page.updated(text, readmes.table(store.load_run(run)), readmes.__name__, in_page.rows_of([run]))
    assert written == text, "the rows have changed: make tables"


def test_a_row_is_of_the_invocation_that_began_last_before_it():
    """Revisions of checkouts with changes have a +."""
    properties = {"device_name": "A", "driver": "1", "cusparse": 12603}
    sessions = [
        {"started": f"2026-11-0{day}T10:00:00.5+00:00", "git": git, "properties": properties}
        for day, git in ((2, "b" * 40), (1, "a" * 40 + "-dirty"))
    ]
    times = ["2026-11-01T10:00:01+00:00", "2026-11-02T10:00:00+00:00", "2026-11-02T10:00:00.75+00:00"]
    status, error = ["ok", "wrong", "ok"], [0.25, 7.0, 0.5]
    rows = pd.DataFrame({"started_at": times, "status": status, "error_ratio": error, "gpu": list("xxy")})
    rows = rows.assign(label="l", matrix_sha256="m")
    rows.attrs["environment"] = {"sessions": sessions}
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in readmes.table(rows).splitlines()[2:]]
    assert [(line[:2], line[-4:]) for line in lines] == [
        (["2026-11-01", "aaaaaaaa+"], ["1", "1", "0", "0.25"]),
        (["2026-11-02", "bbbbbbbb"], ["1", "0", "0", "0.50"]),
        (["all", ""], ["2", "1", "0", "0.50"]),
    ]
