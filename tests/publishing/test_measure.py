"""`make measure`: the published runs in order, in pieces, with an exit code that says whether all is measured."""

import io
import os
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import spmvbench
from spmvbench import paths
from spmvbench.analysis.cases import latest_cases
from spmvbench.cli import main
from spmvbench.errors import UsageError
from spmvbench.publishing import measure as published
from spmvbench.publishing.run_tables import libraries
from spmvbench.rows import store

pytestmark = pytest.mark.slow

ROOT = Path(spmvbench.__file__).parents[1]
EMULATED = ["--device", "emulated"]
FIRST = 'matrices = ["pde:4"]\nformats = ["csr-scalar", "ell"]\ndtype = ["f64", "f32"]\nmode = ["hot"]\n'
SECOND = 'matrices = ["uniform:50:3"]\nformats = ["coo-atomic"]\nmode = ["hot"]\nenergy = 0.01\n'
LIST = """
[[step]]
config = "first"
dtype = "f64"
[[step]]
config = "second"
programs = ["cpp"]
[[step]]
config = "first"
"""


@pytest.fixture
def listed(tmp_path):
    folder = tmp_path / "list"
    folder.mkdir()
    for name, text in (("first", FIRST), ("second", SECOND), ("measure", LIST)):
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder / "measure.toml"


@pytest.fixture
def run_here(monkeypatch, registry):
    """Runs are this process's: those that end by themselves need none of their own. It forgets their programs."""
    monkeypatch.setenv("SPMVBENCH_FORMATS", "")
    run = published.run_until

    def here(words, ask_at, kill_at, log):
        if time.monotonic() >= ask_at:
            return run(words, ask_at, kill_at, log)
        silent = io.StringIO()
        with redirect_stdout(silent), redirect_stderr(silent), pytest.raises(SystemExit) as stopped:
            main(["run", *words])
        return stopped.value.code

    monkeypatch.setattr(published, "run_until", here)


def test_every_step_of_the_published_list_is_a_configuration():
    found = published.steps(paths.configs() / "measure.toml")
    assert (found[0].name, found[0].options) == ("headline", ("--dtype", "f64", "--mode", "hot"))
    assert {"headline", "applications", "irregular", "values", "transposed", "orders", "solvers", "suitesparse"} <= {
        step.name for step in found
    }
    last = {step.name: step for step in found}
    narrowed = {step.name for step in last.values() if step.options}
    # Their other precision or largest matrices are left out.
    cut = {"applications-f32", "ehyb", "fastload", "pdhg", "survey", "tilespmspv"}
    assert narrowed == cut, "a narrowed run is completed by a later step"


REAL = {"orders", "suitesparse", "ehyb", "tilespmv", "tilespmspv", "fastload", "survey", "stand-ins", "vectors-real"}


def test_each_configuration_of_the_published_list_makes_cases(command, tmp_path, request):
    """Only those that need no real matrix."""
    for name in {step.name for step in published.steps(paths.configs() / "measure.toml")}:
        if name in REAL:
            continue
        result = command("run", "--config", name, "--dry-run", "--results", tmp_path)
        assert result.code == 0 and f"{tmp_path / name}: " in result.out, (name, result.err)


def test_steps_are_measured_in_order_and_once(listed, tmp_path, run_here, capsys):
    todo = published.steps(listed)
    assert [str(step) for step in todo] == ["first f64", "second", "first"]
    assert published.measure("toy", todo[:1], tmp_path, EMULATED, 600) == published.MEASURED
    assert set(store.load(tmp_path / "toy-first")["dtype"]) == {"f64"}
    assert published.measure("toy", todo, tmp_path, EMULATED, 600) == published.MEASURED
    rows = store.load(tmp_path / "toy-first")
    assert len(rows) == 4 and rows["case_id"].is_unique and (rows["status"] == "ok").all()
    of_programs = libraries(latest_cases(store.load(tmp_path / "toy-second")))
    assert "| `example-cpp` |" in of_programs and "| host |" in of_programs
    assert "second: measured" in capsys.readouterr().out
    # No time left: nothing is begun, and it says so.
    assert published.measure("toy", todo, tmp_path, EMULATED, 0) == published.UNFINISHED
    assert "first f64: stopped after 0 s; 3 of 3 steps are left" in capsys.readouterr().out


def test_a_step_that_cannot_be_measured_does_not_end_the_others(listed, tmp_path, run_here, capsys):
    (listed.parent / "first.toml").write_text('matrices = ["pde:nothing"]\nmode = ["hot"]\n', encoding="utf-8")
    assert published.measure("toy", published.steps(listed)[1:], tmp_path, EMULATED, 600) == published.FAILED
    out = capsys.readouterr().out
    assert "second: measured" in out and "first: not measured" in out and "1 of 2 steps failed" in out


def test_a_step_whose_workers_cannot_start_is_not_measured(listed, tmp_path, run_here, monkeypatch, capsys):
    pytest.importorskip("distributed")
    (tmp_path / "spmvbench.py").write_text("raise ImportError('not today')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    options = [*EMULATED, "--scheduler", "local", "--workers", "1"]
    assert published.measure("toy", published.steps(listed)[:1], tmp_path, options, 600) == published.FAILED
    out = capsys.readouterr().out
    assert "first f64: not measured" in out and "stopped" not in out


def test_a_run_that_was_stopped_goes_on_with_whole_rows(tmp_path):
    """Wherever the signal meets it: before the first row, between two, or after the last."""
    formats = ["csr-scalar", "ell", "coo-atomic", "csr-vector", "sell", "hyb"]
    text = f"matrices = ['pde:6', 'pde:4']\nformats = {formats}\nmode = ['hot']\n"
    (tmp_path / "many.toml").write_text(text, encoding="utf-8")
    step = published.Step(str(tmp_path / "many.toml"), "many")
    assert published.measure("toy", [step], tmp_path, EMULATED, 3, grace=1.5) in (
        published.UNFINISHED,
        published.MEASURED,
    )
    assert published.measure("toy", [step], tmp_path, EMULATED, 600) == published.MEASURED
    rows = store.load(tmp_path / "toy-many")
    assert len(rows) == 12 and rows["case_id"].is_unique and (rows["status"] == "ok").all()


def test_a_run_that_is_asked_while_it_starts_was_stopped(tmp_path, monkeypatch):
    """Before it handles signals it ends with another code than that of a run that was stopped."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\ntrap 'exit 1' INT\nwhile :; do sleep 0.05; done\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setattr(published.sys, "executable", str(program))
    now = time.monotonic()
    with open(tmp_path / "log", "wb") as log:
        assert published.run_until([], now + 0.3, now + 600, log) == published.STOPPED
        # One that a terminated piece waits for in vain is killed.
        program.write_text(
            f"#!/bin/sh\ntrap '' INT TERM\nsleep 0.3\nkill -INT {os.getpid()}\nexec sleep 60\n", encoding="ascii"
        )
        monkeypatch.setattr(published, "GRACE", 0.1)
        with pytest.raises(KeyboardInterrupt):
            published.run_until([], now + 600, now + 600, log)


def test_a_piece_that_is_terminated_leaves_no_run_behind(tmp_path):
    """As `timeout` and job systems end it: a run that went on would share the GPU with what is measured next."""
    text = f"matrices = {[f'pde:{n}' for n in range(2, 40)]}\nformats = ['csr-scalar', 'ell']\nmode = ['hot']\n"
    (tmp_path / "many.toml").write_text(text, encoding="utf-8")
    (tmp_path / "list.toml").write_text('[[step]]\nconfig = "many"\n', encoding="utf-8")
    words = [sys.executable, "-m", "spmvbench.publishing", "measure", "emulated", "--steps", tmp_path / "list.toml"]
    piece = subprocess.Popen([*words, "--results", tmp_path, *EMULATED], stdout=subprocess.PIPE, text=True)
    lock, rows = tmp_path / "emulated-many" / ".lock", tmp_path / "emulated-many" / "rows.jsonl"
    while piece.poll() is None and not (rows.is_file() and rows.stat().st_size):
        time.sleep(0.05)
    run = int(lock.read_text())
    os.kill(run, 0)
    piece.terminate()
    assert "the same command continues" in piece.communicate()[0] and piece.returncode == published.UNFINISHED
    with pytest.raises(ProcessLookupError):
        os.kill(run, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no step"),
        ('[[step]]\nconfig = "nothing"', "'nothing', which does not exist"),
        ('[[step]]\nconfig = "demo"\nbudget = 1', "unknown key budget"),
        ('[[step]]\nconfig = "demo"\nprograms = ["ada"]', "the language 'ada'"),
        ("[[step", "cannot read"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path, text, said):
    (tmp_path / "list.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        published.steps(tmp_path / "list.toml")


def test_the_card_must_be_the_device(listed, tmp_path, capsys):
    words = ["--steps", str(listed), "--results", str(tmp_path), "--device", "emulated"]
    assert published.main(["h200", *words]) == published.WRONG
    assert "not h200: name it as CARD" in capsys.readouterr().err
    assert published.main(["../h200", *words]) == published.WRONG


@pytest.mark.skipif(not (ROOT / "Makefile").is_file(), reason="needs a checkout (git clone)")
def test_make_measures_and_goes_on(listed, tmp_path):
    """One step of one case, in an environment of its own name: what is installed here is not installed again."""
    listed.write_text('[[step]]\nconfig = "second"\n', encoding="utf-8")
    make = ["make", "--silent", "measure", f"MEASURE={sys.executable} -m spmvbench.publishing measure"]
    make += [f"VENV={tmp_path / 'none'}"]
    make += [f"STEPS={listed}", f"RESULTS={tmp_path}", "DEVICE=emulated"]
    refused = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "name the card" in refused.stderr
    for _ in range(2):
        done = subprocess.run([*make, "CARD=emulated"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert len(store.load(tmp_path / "emulated-second")) == 1


def test_options_after_two_hyphens_are_those_of_every_run(monkeypatch):
    monkeypatch.setattr(published, "require_card", lambda card, device: None)
    given = []
    monkeypatch.setattr(published, "measure", lambda card, todo, results, options, *more: given.append(options) or 0)
    assert published.main(["h200", "--seconds", "9", "--", "--timeout", "20"]) == published.main(["h200"]) == 0
    assert given == [["--device", "cuda:0", "--timeout", "20"], ["--device", "cuda:0"]]
