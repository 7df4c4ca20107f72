"""Bundles: what is packed, what is left out, and what a check finds."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from spmvbench import formats, store
from spmvbench.bundle import check, pack, sources
from spmvbench.errors import SpmvbenchError, UsageError

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results/published"


def test_a_run_is_packed_and_passes(measured, tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    assert "10 cases" in invoke("bundle", measured)
    shown = invoke("check", "mine.spmvbench.zip")
    assert "mine.spmvbench.zip passes." in shown
    assert "2 of 2 matrices made again" in shown
    with check.opened(tmp_path / "mine.spmvbench.zip", tmp_path) as content:
        pd.testing.assert_frame_equal(content.rows, store.load(measured))
        assert content.manifest["division"] == "closed"


def test_no_names_and_paths_leave_unless_asked(run, tmp_path, altered):
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
    shown = spmvbench("check", "mine.spmvbench.zip", "--run-sources")
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
