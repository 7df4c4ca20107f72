"""Bundles: what is packed, what is left out, and what a check finds."""

import json
import math
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spmvbench import formats, store
from spmvbench.bench.record import arrow_schema
from spmvbench.bundle import check, pack, sources
from spmvbench.errors import SpmvbenchError, UsageError

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results/published"


@pytest.fixture
def run(tmp_path):
    """A copy of a published run, to be altered."""
    folder = tmp_path / "run"
    shutil.copytree(PUBLISHED / "h200-survey", folder, ignore=shutil.ignore_patterns("report"))
    return folder


def altered(folder, change, record=None):
    """Write the rows of a run anew after a change."""
    rows = store.load(folder)
    change(rows)
    table = pa.Table.from_pandas(rows, arrow_schema(), preserve_index=False)
    pq.write_table(table, folder / store.ROWS)
    if record:
        sessions = json.loads((folder / store.ENVIRONMENT).read_text())
        record(sessions["sessions"][0])
        (folder / store.ENVIRONMENT).write_text(json.dumps(sessions))
    return folder


def verdicts(path, tmp_path, seconds=0.0, run_sources=False):
    """The findings by check; no matrix is made again."""
    with check.opened(path, tmp_path / "home") as content:
        found = [f for one in check.checks(seconds, run_sources, lambda text: None) for f in one(content)]
    return {name: [f for f in found if f.check == name] for name in dict.fromkeys(f.check for f in found)}


def failed(found):
    return [name for name, findings in found.items() if any(f.verdict == check.FAILED for f in findings)]


@pytest.fixture
def invoke(command):
    def run(*args, code=0):
        result = command(*args)
        assert result.code == code, result.out + result.err
        return result.out

    return run


def test_a_run_is_packed_and_passes(run, tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    assert "113 cases" in invoke("bundle", run)
    shown = invoke("check", "run.spmvbench.zip")
    assert "run.spmvbench.zip passes." in shown
    assert "8 of 8 matrices made again" in shown
    with check.opened(tmp_path / "run.spmvbench.zip", tmp_path) as content:
        pd.testing.assert_frame_equal(content.rows, store.load(run))
        assert content.manifest["division"] == "closed"


RUNS = sorted(path.parent.name for path in PUBLISHED.glob("*/run.json"))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_what_is_published_passes(name, tmp_path):
    found = verdicts(PUBLISHED / name, tmp_path)
    assert failed(found) == []
    assert {name for name, findings in found.items() if any(f.verdict == check.OPEN for f in findings)} <= {"matrices"}
    assert {"schema", "record", "samples", "rates", "floor", "bounds", "formats"} <= found.keys()


@pytest.mark.slow
def test_matrices_of_published_runs_are_made_again():
    """Of every generator the smallest, and whatever is small: those beyond take minutes by the same code."""
    rows = pd.concat([store.load(PUBLISHED / name) for name in RUNS])
    rows = rows[rows["group"] == "synthetic"].drop_duplicates("matrix_sha256").sort_values("nnz")
    generator = rows["name"].str.partition(":")[0]
    chosen = rows[(rows["nnz"] <= 2_500_000) | ~generator.duplicated()]
    found = list(check.matrices(check.Bundle(PUBLISHED, None, chosen, []), math.inf, lambda text: None))
    total = len(chosen)
    assert total > generator.nunique() > 20
    assert [(f.verdict, f.text) for f in found] == [
        (check.PASSED, f"{total} of {total} matrices made again: the same hashes")
    ]


def test_no_names_and_paths_leave_unless_asked(run, tmp_path):
    def private(rows):
        rows.loc[0, ["status", "reason"]] = "error", "cannot read /home/ann/secret/own.cu (line 3)"
        rows["host"] = ["anns-box", *["0123456789abcdef"] * (len(rows) - 1)]

    altered(run, private, lambda session: session.update(host="anns-box", command=["/home/ann/bin/spmvbench", "run"]))
    for identify in (False, True):
        pack.pack(run, tmp_path / "b.zip", identify=identify)
        with check.opened(tmp_path / "b.zip", tmp_path) as content:
            text = json.dumps(content.sessions) + " ".join([*content.rows["reason"], *content.rows["host"]])
            assert "0123456789abcdef" in text
            assert [word in text for word in ("anns-box", "/home/ann")] == [identify] * 2
            assert "own.cu (line 3)" in text
            assert content.sessions[0]["command"][1] == "run"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/ann/a.mtx", "a.mtx"),
        ("--results=/tmp/x/res", "--results=res"),
        ("~/runs/one", "one"),
        ("https://sparse.tamu.edu/files", "https://sparse.tamu.edu/files"),
        ("12.5 GB/s and 1/2", "12.5 GB/s and 1/2"),
        ("HB/1138_bus", "HB/1138_bus"),
    ],
)
def test_paths_are_cut_to_their_last_part(text, kept):
    assert pack.redacted({"a": [text]}) == {"a": [kept]}


def faster(rows):
    rows.loc[rows["status"] == "ok", "t_median"] *= 0.99


def consistently_faster(share):
    def change(rows):
        for name in ("t_median", "t_q1", "t_q3"):
            rows[name] *= share
        rows["samples"] = [[s * share for s in taken] for taken in rows["samples"]]
        for name in ("gflops", "gbps"):
            rows[name] /= share

    return change


def constant(rows):
    rows["samples"] = [[median] * len(taken) for taken, median in zip(rows["samples"], rows["t_median"], strict=True)]
    rows["t_q1"] = rows["t_q3"] = rows["t_median"]


def boast(rows):
    rows["gflops"] *= 2


def invent(rows):
    rows.loc[3, "status"] = "splendid"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (faster, {"samples", "rates"}),
        (constant, {"samples"}),
        (boast, {"rates"}),
        (consistently_faster(0.01), {"floor", "bounds"}),
        (invent, {"schema"}),
    ],
)
def test_rows_that_cannot_be_are_found(run, tmp_path, change, found):
    def roofs(session):
        session["roofs"] = store.environment(PUBLISHED / "h200-all")["sessions"][0]["roofs"]

    assert set(failed(verdicts(altered(run, change, roofs), tmp_path))) == found


def test_another_matrix_under_a_name_is_found(run, tmp_path):
    def swap(rows):
        least = rows.loc[rows["nnz"].idxmin(), "name"]
        rows.loc[rows["name"] == least, "matrix_sha256"] = "0" * 64

    found = verdicts(altered(run, swap), tmp_path, seconds=1)
    assert failed(found) == ["matrices"]


def test_matrices_that_time_did_not_suffice_for_are_open(run, tmp_path, invoke):
    (finding,) = verdicts(run, tmp_path)["matrices"]
    assert finding.verdict == check.OPEN
    assert "8" in finding.text or "pde" in finding.text
    assert "not verified" in invoke("check", run, "--seconds", "0", code=4)


def test_a_record_without_its_device_fails(run, tmp_path):
    altered(run, lambda rows: None, lambda session: session["properties"].pop("driver"))
    assert failed(verdicts(run, tmp_path)) == ["record"]


def test_sources_of_no_release_are_open(run, tmp_path):
    def own(rows):
        rows.loc[rows["format"] == "csr5", "source_hash"] = "f" * 16

    found = verdicts(altered(run, own), tmp_path)
    assert check.OPEN in [finding.verdict for finding in found["formats"]]
    with pytest.raises(UsageError, match="csr5"):
        pack.pack(run, tmp_path / "b.zip")


def tampered(source, target, change):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            for kept, content in change(name, old.read(name)):
                new.writestr(kept, content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda name, content: [(name, content[:-1] if name == store.ENVIRONMENT else content)],
            "run.json is not what",
        ),
        (lambda name, content: [(name, content), *([("more", b"")] if name == store.ROWS else [])], "does not hold"),
        (
            lambda name, content: [] if name == pack.MANIFEST else [(name, content)],
            "neither a run's folder nor a bundle",
        ),
    ],
)
def test_damaged_bundles_are_one_line(run, tmp_path, change, words):
    pack.pack(run, tmp_path / "b.zip")
    tampered(tmp_path / "b.zip", tmp_path / "c.zip", change)
    with pytest.raises(SpmvbenchError, match=words), check.opened(tmp_path / "c.zip", tmp_path):
        pass


def test_what_is_no_bundle_is_said(tmp_path):
    (tmp_path / "text.zip").write_text("no archive")
    with (
        pytest.raises(UsageError, match="neither a run's folder nor a bundle"),
        check.opened(tmp_path / "text.zip", tmp_path),
    ):
        pass


def rewritten(source, target, **changes):
    """A bundle whose manifest has other values; one that is None goes."""

    def change(name, content):
        if name == pack.MANIFEST:
            content = json.dumps(json.loads(content) | changes).encode()
        return [(name, content)]

    tampered(source, target, change)


SHAPES = [
    {"formats": None}, {"formats": [1]}, {"formats": [{"format": 1, "source_hash": "", "from": ""}]}, {"files": None},
    {"files": [1]}, {"files": {"rows.parquet": 1}}, {"bundle": "1"}, {"bundle": None},
]  # fmt: skip


@pytest.mark.parametrize("changes", SHAPES, ids=map(str, SHAPES))
def test_a_manifest_of_another_shape_is_damaged(run, tmp_path, invoke, changes, capsys):
    pack.pack(run, tmp_path / "b.zip")
    rewritten(tmp_path / "b.zip", tmp_path / "c.zip", **changes)
    with (
        pytest.raises(SpmvbenchError, match=r"its bundle\.json is not one"),
        check.opened(tmp_path / "c.zip", tmp_path / "home"),
    ):
        pass
    invoke("check", tmp_path / "c.zip", code=1)


@pytest.mark.parametrize("manifest", [b"[" * 100_000, b"[1]", b"null", b"\xff", b'"text"'])
def test_a_manifest_that_is_none_is_one_sentence(run, tmp_path, manifest):
    pack.pack(run, tmp_path / "b.zip")
    tampered(
        tmp_path / "b.zip",
        tmp_path / "c.zip",
        lambda name, content: [(name, manifest if name == pack.MANIFEST else content)],
    )
    with pytest.raises(SpmvbenchError), check.opened(tmp_path / "c.zip", tmp_path / "home"):
        pass


def patched(path, find, offset, value):
    """Other bytes at an offset behind each header of a ZIP archive."""
    content = bytearray(path.read_bytes())
    place = content.find(find)
    while place >= 0:
        content[place + offset : place + offset + len(value)] = value
        place = content.find(find, place + 4)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("at_file", "at_directory", "value", "words"),
    [(6, 8, b"\x01\x00", "is encrypted"), (8, 10, b"\x63\x00", "cannot be unpacked")],
    ids=["encrypted", "unknown compression"],
)
def test_a_bundle_that_cannot_be_unpacked_is_one_sentence(run, tmp_path, invoke, at_file, at_directory, value, words):
    path = tmp_path / "b.zip"
    pack.pack(run, path)
    patched(path, b"PK\x03\x04", at_file, value)
    patched(path, b"PK\x01\x02", at_directory, value)
    with pytest.raises(SpmvbenchError, match=words), check.opened(path, tmp_path / "home"):
        pass
    invoke("check", path, code=1)


@pytest.mark.parametrize(
    "junk", [{"seed": "x"}, {"launch_floor": {"hot": "x"}}, {"roofs": {"read": [1]}}, {"properties": [1]}], ids=str
)
def test_junk_in_a_record_is_one_sentence(run, tmp_path, invoke, junk):
    altered(run, lambda rows: None, lambda session: session.update(junk))
    for words in (["check", run], ["bundle", run, "--out", tmp_path / "b.zip"]):
        invoke(*words, code=1)
        with pytest.raises(SpmvbenchError, match=r"run\.json is damaged"):
            store.environment(run)
    assert not (tmp_path / "b.zip").exists()


def test_rows_that_cannot_be_fail_the_check(run, tmp_path):
    def change(rows):
        rows.loc[3, "t_parts"] = "[1]"

    found = verdicts(altered(run, change), tmp_path)
    assert failed(found) == ["schema"] and "left out 1 of 113 rows" in found["schema"][0].text


def test_a_run_of_which_no_row_can_be_fails_the_check(run, tmp_path):
    def change(rows):
        rows["t_parts"] = "[1]"

    assert failed(verdicts(altered(run, change), tmp_path)) == ["schema"]


def test_a_bundle_names_no_file_outside_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    (tmp_path / "secret.tar.gz").write_bytes(b"")
    assert check._here("../../secret") is False and check._here("/tmp/secret") is False


@pytest.mark.parametrize(
    ("unconfined", "typed", "allowed", "asked"),
    [([], "y", True, 1), ([], "n", False, 1), (["write"], "yn", False, 2), (["write"], "yy", True, 2)],
)
def test_a_strangers_program_is_asked_about(monkeypatch, capsys, unconfined, typed, allowed, asked):
    from spmvbench.bundle import confined
    from spmvbench.cli import check as command

    answers = iter(typed)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_: next(answers))
    monkeypatch.setattr(confined, "unconfined", lambda: unconfined)
    assert command._allowed([Path("evil.py")], False) is allowed
    said = capsys.readouterr().out
    assert "evil.py" in said and ("cannot confine" in said) == bool(unconfined)
    assert list(answers) == [] and asked == len(typed)
    assert command._allowed([], True) is False


def test_released_sources_hold_every_published_format():
    for path in PUBLISHED.glob("*/rows.parquet"):
        pairs = pd.read_parquet(path, columns=["format", "source_hash"]).drop_duplicates()
        assert all(sources.known(key, digest) for key, digest in pairs.itertuples(index=False)), path.parent.name


def test_the_table_of_sources_keeps_what_it_holds():
    text = sources.with_installed("abc")
    lines = text.splitlines()
    assert lines[1:] == sorted(lines[1:])
    assert len(lines) > len(sources.released())
    assert all(f"{key},{digest},{revision}" in lines for (key, digest), revision in sources.released().items())
    assert f"csr5,{formats.source_hash(formats.get('csr5'))}," in text


@pytest.mark.slow
def test_a_format_of_ones_own_goes_along_and_runs_once_allowed(tmp_path):
    here = tmp_path / "own"
    shutil.copytree(ROOT / "docs/example", here)
    environment = os.environ | {"SPMVBENCH_FORMATS": str(here / "csr_padded.py")}

    def spmvbench(*args, code=0, **more):
        ran = subprocess.run(
            [sys.executable, "-m", "spmvbench", *args],
            cwd=tmp_path,
            env=more.get("env"),
            capture_output=True,
            text=True,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout

    spmvbench(
        "run", "poisson2d:16", "--formats", "csr-padded,ell", "--device", "emulated", "--run", "mine", env=environment
    )
    assert "open division" in spmvbench("bundle", "mine", env=environment)
    assert "not run: csr_padded.py" in spmvbench("check", "mine.spmvbench.zip", code=4)
    shown = spmvbench("check", "mine.spmvbench.zip", "--run-sources", "--yes")
    assert "The bundle's sender wrote csr_padded.py" in shown
    assert "csr-padded: the source of the bundle, right on the emulated device" in shown
    (here / "csr_padded.cu").write_text("// changed\n" + (here / "csr_padded.cu").read_text())
    ran = subprocess.run(
        [sys.executable, "-m", "spmvbench", "bundle", "mine"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2
    assert "csr-padded" in ran.stderr
