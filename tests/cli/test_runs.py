"""`spmvbench runs` and what the shell completes, on run folders written by the store; no kernel runs."""

import errno
import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from click.shell_completion import ShellComplete

import spmvbench
from spmvbench.analysis.cases import latest_cases
from spmvbench.cli import cli
from spmvbench.rows import files, store
from spmvbench.rows.schema import MATRIX_COLUMNS, blank_row
from tests.made import row


def write_run(folder, cases, started, **columns):
    """A run with a verified case for each name, and the description of a matrix that all runs share."""
    folder.mkdir(parents=True)
    store.append_session(folder, {"started": started, "host": "h", "command": ["/bin/spmvbench", "run", "pde:8"]})
    hashed = "".join(columns.get(name, "") for name in ("timing_rule", "file_sha256", "order", "device"))
    for place, name in enumerate(cases):
        known = {"run_id": folder.name, "case_id": name + hashed, "sequence": place + 1, "started_at": started}
        known |= {"samples": [1e-5], "repeats": 1}
        store.append(folder, row(name, "ell", 1e-5) | known | columns)
    store.describe(folder, blank_row(MATRIX_COLUMNS) | {"matrix_sha256": "ab"})


@pytest.fixture
def runs(command, tmp_path):
    write_run(tmp_path / "old", "ab", "2026-01-01T10:00:00")
    write_run(tmp_path / "new", "cd", "2026-02-01T10:00:00")
    return lambda *args: command("runs", "--results", tmp_path, *args)


def test_a_line_a_run_the_last_first(runs, tmp_path):
    assert runs("list").out == runs().out
    lines = [line.split() for line in runs().out.splitlines()]
    assert [line[0] for line in lines] == ["run", "new", "old"]
    assert lines[1][:5] == ["new", "2", "2", "2", "1"] and "2026-02-01" in lines[1]
    write_run(tmp_path / "several", "ab", "2026-03-01T10:00:00", op="spmm@8")
    assert "  f64 hot spmm@8  " in runs().out.splitlines()[1]


def test_show_tells_the_commands_and_the_table(runs, command, tmp_path):
    out = runs("show", "old").out
    assert "invocation  2026-01-01 10:00, h: spmvbench run pde:8" in out and "cases       2" in out
    assert "cuda:0, f64 hot" in out and "2/2" in out
    assert command("runs", "show", "old", "--results", tmp_path).out == out


@pytest.mark.parametrize(
    "words",
    [
        ["report", "old", "--figures", "bytes", "--out", "out"],
        ["report", "old", "--figures", "bytes", "--site", "results/published", "--no-index"],
        ["export", "old", "--to", "csv"],
        ["bundle", "old"],
        ["check", "old", "--seconds", "0"],
        ["compare", "old", "new"],
        ["runs", "show", "old"],
    ],
    ids=" ".join,
)
def test_every_command_finds_a_run_by_its_name_also_among_the_published(command, tmp_path, monkeypatch, words):
    for name, cases in (("old", "ab"), ("new", "ab")):
        write_run(tmp_path / "results" / "published" / name, cases, "2026-01-01T10:00:00")
    monkeypatch.chdir(tmp_path)
    assert "there is no run" not in command(*words).err
    assert command("runs", "rm", "old", "--yes").code == 2 and len(spmvbench.load_run("old")) == 2
    none = command(*[word.replace("old", "odl") for word in words])
    said = none.err.replace("results/published", "results")
    assert none.code == 2 and "there is no run 'odl' in results; did you mean old" in said
    assert "there is no run 'xyz' in results; start one with" in command("runs", "show", "xyz").err
    write_run(tmp_path / "results" / "new", "ab", "2026-01-01T10:00:00")
    assert "there is no run 'xyz' in results; spmvbench runs lists them" in command("runs", "show", "xyz").err


def test_remove_asks(runs, tmp_path, monkeypatch):
    for answer, kept in (("n", True), ("y", False)):
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_, answer=answer: answer)
        assert runs("rm", "old").code == 0
        assert (tmp_path / "old").exists() == kept
    assert runs("rm", "new", "--yes").out.startswith(f"Removed {tmp_path / 'new'}: 2 cases")
    assert list(tmp_path.iterdir()) == []


def everything(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("", "is no run"),
        (".", "is no run"),
        ("..", "is no run"),
        ("old/..", "is no run"),
        ("rows-only", "has no run.json"),
        ("notes", "has no run.json"),
        ("link", "is a symbolic link"),
        ("around", "holds other runs"),
        ("a-file", "there is no run"),
        ("other-json", "is damaged"),
        ("json-link", "has no run.json"),
        ("empty", "has no run.json"),
    ],
)
def test_what_is_no_run_is_not_removed(runs, tmp_path, run, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("rows-only", "empty", "notes", "around/run", "other-json", "json-link"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "rows-only" / "rows.jsonl").write_text("a user's")
    (tmp_path / "notes" / "a.txt").write_text("a user's")
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "around" / "run" / "run.json").write_text("{}")
    (tmp_path / "around" / "run.json").write_text('{"sessions": [{"started": "1"}]}')
    (tmp_path / "a-file").write_text("a user's")
    (tmp_path / "other-json" / "run.json").write_text('{"scripts": {}}')
    (tmp_path / "json-link" / "run.json").symlink_to(tmp_path / "old" / "run.json")
    (tmp_path / "json-link" / "rows.jsonl").write_text("a user's")
    before = everything(tmp_path)
    result = runs("rm", "new", run, "--yes")  # one that is none stops all
    assert result.code and said in result.err and len(result.err.splitlines()) == 1
    assert everything(tmp_path) == before


def test_a_damaged_run_is_removed_by_name_or_path_and_links_in_it_are_not_followed(runs, tmp_path):
    (tmp_path / "precious").write_text("a user's")
    (tmp_path / "old" / ".lock").symlink_to(tmp_path / "precious")
    (tmp_path / "new" / "rows.parquet").write_text("no table")
    (tmp_path / "new" / "report").symlink_to(tmp_path)
    out = runs("rm", "old", tmp_path / "new", f"{tmp_path}/./new", "--yes").out.splitlines()
    assert [line.partition(": ")[2].rpartition(",")[0] for line in out] == ["2 cases", "damaged, cases unknown"]
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious").read_text() == "a user's"


def test_remove_leaves_a_run_in_progress(runs, tmp_path):
    with store.lock(tmp_path / "old"):
        result = runs("rm", "old", "--yes")
    assert result.code == 1 and "is working on" in result.err and len(store.load(tmp_path / "old")) == 2


def test_merge_holds_every_row_once(runs, tmp_path):
    write_run(tmp_path / "copy", "b", "2026-01-01T10:00:00")
    assert runs("merge", "old", "new", "copy", "--into", "all").out.endswith("all: 4 cases of 3 runs\n")
    merged = store.load(tmp_path / "all")
    assert list(merged["name"]) == list("abcd") and list(merged["sequence"]) == [1, 2, 3, 4]
    assert set(merged["run_id"]) == {"all"} and len(store.matrices(tmp_path / "all")) == 1
    starts = [session["started"] for session in store.environment(tmp_path / "all")["sessions"]]
    assert starts == ["2026-01-01T10:00:00", "2026-02-01T10:00:00"]
    assert store.next_sequence(tmp_path / "all") == 5
    assert len(store.load(tmp_path / "old")) == 2
    write_run(tmp_path / "again", "ab", "2026-03-01T10:00:00", name="x")  # two rows of one case, in one second
    assert runs("merge", "again", "--into", "last").code == 0
    assert list(store.load(tmp_path / "last")["case_id"]) == ["b"]


@pytest.mark.parametrize(
    ("columns", "kept", "counted"),
    [
        ({}, "bx", "2 0 0 0"),
        ({"timing_rule": "r"}, "bx", "2 0 0 0"),
        ({"started_at": "2025-01-01T10:00:00"}, "x", "1 1 0 0"),
        *(({"status": status}, "x", "1 0 1 0") for status in ("skipped", "timeout", "error")),  # all that is known of x
        *(({"status": status}, "bx", "2 0 0 0") for status in ("wrong", "implausible")),
        ({"matrix_sha256": "another"}, "x", "1 0 0 1"),
        ({"file_sha256": "another"}, "bx", "2 0 0 0"),
        ({"order": "rcm", "matrix_sha256": "permuted"}, "bx", "2 0 0 0"),
        ({"device": "imported", "matrix_sha256": "imported:1"}, "bx", "2 0 0 0"),
    ],
)
def test_merge_and_tables_take_the_newest_measured_row_of_each_case(runs, tmp_path, columns, kept, counted):
    write_run(tmp_path / "other", "bx", "2026-03-01T10:00:00", **{"samples": [2.5e-5], "repeats": 3} | columns)
    store.compact(tmp_path / "other")
    out = runs("merge", "old", "new", "other", "--into", "all").out
    assert counted in " ".join(out.split()), out
    merged = store.load(tmp_path / "all")
    ours = merged[merged["t_median"] > 2e-5]
    assert "".join(sorted(ours["name"])) == kept
    if columns.get("matrix_sha256") != "another":  # which tables show
        shown = latest_cases(store.load_all([tmp_path / name for name in ("other", "old", "new")]))
        assert "".join(sorted(shown.loc[shown["t_median"] > 2e-5, "name"])) == kept
    alike = store.load(tmp_path / "other").set_index("name").drop(columns=["run_id", "sequence"])
    pd.testing.assert_frame_equal(alike.loc[[*kept]], ours.set_index("name")[alike.columns].loc[[*kept]])


def test_merge_refuses_one_case_of_two_devices_and_leaves_nothing_where_it_fails(runs, tmp_path, monkeypatch):
    write_run(tmp_path / "other", "bx", "2026-03-01T10:00:00", device_name="another")
    result = runs("merge", "old", "new", "other", "--into", "all")
    assert result.code == 2 and "spmvbench compare" in result.err
    assert "old and other hold G/b ell f64 hot of several devices" in result.err.replace(f"{tmp_path}/", "")
    (tmp_path / "other/rows.jsonl").write_text('{"cut off')
    result = runs("merge", "other", "--into", "all")
    assert result.code == 2 and "there is nothing to merge" in result.err
    with monkeypatch.context() as full:
        full.setattr(Path, "rename", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        result = runs("merge", "old", "new", "--into", "all")
        assert result.code == 1 and "No space left on device" in result.err
    monkeypatch.setattr(files, "write", lambda *_, **__: json.loads("no JSON"))
    assert runs("merge", "old", "new", "--into", "all").code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old", "other"]


def test_merge_refuses_one_case_of_two_labels(runs, tmp_path):
    """The label of a setting changes with the parameter's default; the case's id does not."""
    write_run(tmp_path / "other", "b", "2026-03-01T10:00:00", label="ell[threads=1]")
    error = runs("merge", "old", "new", "other", "--into", "all").err.replace(f"{tmp_path}/", "")
    assert "old and other hold G/b ell and ell[threads=1] f64 hot as one case, whose label changed" in error
    write_run(tmp_path / "same", "x", "2026-04-01T10:00:00", name="b")  # the label now means another case
    assert runs("merge", "old", "other", "same", "--into", "all").code == 0
    merged = store.load(tmp_path / "all")
    assert dict(zip(merged["case_id"], merged["label"], strict=True)) == {"a": "ell", "b": "ell[threads=1]", "x": "ell"}


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["merge", "old", "new", "--into", "old"], 2, "is there already"),
        (["merge", "old", "new", "--into", "a/b"], 2, "no name for a run"),
        (["merge", "old", "nwe", "--into", "all"], 2, "did you mean new"),
        (["rm", "odl", "--yes"], 2, "did you mean old"),
        (["rm"], 2, "Missing argument 'RUN...'"),
        (["merge", "old", "new", "--into", "report"], 2, "no name for a run"),
        (["merge", "old", "new", "--into", ""], 2, "no name for a run"),
        (["show", ""], 2, "no name for a run"),
        (["shwo"], 2, "No such command 'shwo'"),
        (["--results", "none"], 1, "there is no run in none"),
    ],
)
def test_wrong_words_are_said(runs, tmp_path, args, code, said):
    result = runs(*args)
    assert result.code == code and said in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def complete(*words):
    done = ShellComplete(cli, {}, "spmvbench", "_SPMVBENCH_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in done]


def test_completion_of_runs_configs_and_devices(runs, tmp_path):
    place = ["--results", str(tmp_path)]
    assert complete("report", *place, "") == ["new", "old"]
    for words in (["compare", *place, "new"], ["export", *place], ["runs", *place, "show"], ["runs", "rm", *place]):
        assert complete(*words, "o") == ["old"], words
    assert complete("run", *place, "--run", "n") == ["new"]
    assert "h200" in complete("run", "--config", "h")
    assert complete("run", "--device", "e") == ["emulated", "emulated-check"]


def test_report_opens_the_page(command, runs, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or len(opened) < 2)
    args = ("report", "new", "--results", tmp_path, "--figures", "bytes", "--open")
    assert command(*args).code == 0
    assert opened == [(tmp_path / "new" / "report" / "index.html").as_uri()]
    again = command(*args)
    assert again.code == 1 and "no browser can be started here" in again.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">&-", 1, "standard output is closed"),
        ("<&-", 0, ""),
        ("2>&-", 0, ""),
        ("<&- 2>&-", 0, ""),
        (">/dev/full", 1, "No space left on device"),
        ("1</dev/null", 1, "Bad file descriptor"),
    ],
)
def test_closed_streams_are_at_most_one_line(tmp_path, monkeypatch, redirected, code, said):
    """A file that is opened later must not get the number of a closed stream."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    write_run(tmp_path / "a-run", "ab", "2026-01-01T10:00:00")
    command = f'exec "$0" -m spmvbench runs --results "$1" show a-run {redirected}'
    done = subprocess.run(["sh", "-c", command, sys.executable, tmp_path], capture_output=True, text=True)
    assert done.returncode == code and said in done.stderr and len(done.stderr.splitlines()) <= 1
    if not code:
        assert done.stdout.startswith("cases       2\n")


def test_a_question_without_standard_input_is_not_answered(tmp_path):
    write_run(tmp_path / "a-run", "ab", "2026-01-01T10:00:00")
    command = 'exec "$0" -m spmvbench runs --results "$1" rm a-run <&-'
    done = subprocess.run(["sh", "-c", command, sys.executable, tmp_path], capture_output=True, text=True)
    assert done.returncode == 130 and (tmp_path / "a-run" / "run.json").is_file()
