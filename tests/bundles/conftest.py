"""Runs for the checks: a published one, and one of this version on the emulated device."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from spmvbench.bundles import check
from spmvbench.bundles.pack import packed
from spmvbench.rows import files, store
from spmvbench.rows.metadata import ENVIRONMENT

PUBLISHED = Path(__file__).parents[2] / "results/published"
SEARCHED = Path(__file__).with_name("searched")  # wiki-Vote and fem:40:3 of a run of 2026-11-22 on an H200


def published(name, folder):
    """A copy of a published run without its pages."""
    return Path(shutil.copytree(PUBLISHED / name, folder, ignore=shutil.ignore_patterns("report")))


@pytest.fixture
def run(tmp_path):
    """A copy of a published run of an old version, for changes."""
    return published("h200-first", tmp_path / "run")


@pytest.fixture
def searched(tmp_path, altered):
    """Rows of y = A x, of a sparse x and of searches, on a GPU with measured bounds, for changes."""
    return altered(Path(shutil.copytree(SEARCHED, tmp_path / "run")))


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory):
    """A run of this version: y = A x, a sparse x, searches and solvers, and skipped cases, of two small matrices."""
    from spmvbench.cli import main

    folder = tmp_path_factory.mktemp("measured")
    words = "run poisson2d:8 rect:9:14:3 --formats csr-scalar,spmspv-bucket,bfs-push,cusparse-csr-alg1 --dtype f64"
    words += f" --op spmv,spmspv@0.1,bfs@0,bfs@1,cg@4,pagerank@4 --device emulated --run mine --results {folder}"
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 0
    return folder / "mine"


@pytest.fixture
def measured(measured_once, tmp_path):
    """A copy of that run, for changes."""
    return Path(shutil.copytree(measured_once, tmp_path / "mine"))


@pytest.fixture
def altered():
    """Rewrites the rows of a run after a change, made in place or returned, and its metadata."""

    def alter(folder, change=lambda rows: None, record=None):
        rows = store.load(folder)
        found = change(rows)
        rows = rows if found is None else found
        (folder / store.ROWS).write_bytes(packed(rows, files.CASES))
        if record:
            written = json.loads((folder / ENVIRONMENT).read_text())
            for session in written["sessions"]:
                record(session)
            (folder / ENVIRONMENT).write_text(json.dumps(written))
        return folder

    return alter


@pytest.fixture
def verdicts(tmp_path):
    """The findings on a run or a bundle by check; no matrix is made again without a time limit."""

    def found(path, seconds=0.0, run_sources=False):
        with check.opened(path, tmp_path / "home") as content:
            findings = [f for one in check.checks(seconds, run_sources, lambda text: None) for f in one(content)]
        return {name: [f for f in findings if f.check == name] for name in dict.fromkeys(f.check for f in findings)}

    return found


@pytest.fixture
def failed(verdicts):
    """The checks that a run or a bundle has failed."""

    def names(path, seconds=0.0):
        found = verdicts(path, seconds)
        return {name for name, findings in found.items() if any(f.verdict == check.FAILED for f in findings)}

    return names


@pytest.fixture
def invoke(command):
    """Runs a command line that must end with an exit code; returns its output."""

    def run(*args, code=0):
        result = command(*args)
        assert result.code == code, result.out + result.err
        return result.out

    return run


# In place of podman: it notes its words, and runs what a container would run as a process with the container's
# variables, in a folder of its own that has the same path each time, so that Python compiles the package once.
# STAND_IN: a command to run instead.
STAND_IN = f"""#!{sys.executable}
import json, os, shutil, subprocess, sys
words = sys.argv[1:]
with open(os.path.join(os.path.dirname(__file__), "words"), "a") as file:
    file.write(json.dumps(words) + "\\n")
if words[0] == "run":
    given = dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "--env")
    home, path = os.environ["CONTAINER"], os.path.dirname({sys.executable!r}) + ":/usr/bin:/bin"
    shutil.rmtree(home, ignore_errors=True)
    os.mkdir(home)
    variables = given | {{"HOME": home, "PATH": path, "SPMVBENCH_HOME": home + "/cache"}}
    variables |= {{"PYTHONPYCACHEPREFIX": home + "-compiled", "SPMVBENCH_COMPILED": os.environ["SPMVBENCH_COMPILED"]}}
    command = os.environ.get("STAND_IN", words[-1])
    code = subprocess.run(["sh", "-c", command], env=variables, cwd="/").returncode
    sys.exit(code if code >= 0 else 128 - code)
"""


@pytest.fixture
def container(tmp_path, monkeypatch, tmp_path_factory):
    """A stand-in for podman comes first; gives what it was called with."""
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "podman").write_text(STAND_IN)
    (folder / "podman").chmod(0o755)
    monkeypatch.setenv("CONTAINER", str(tmp_path_factory.getbasetemp() / "container"))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return lambda: [json.loads(line) for line in (folder / "words").read_text().splitlines()]
