"""Bundles: their content, what is left out, and findings of checks."""

import importlib
import json
import shutil
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from spmvbench import formats
from spmvbench.bundles import check, pack, sources
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.publishing import sources as publishing
from spmvbench.rows import store
from spmvbench.rows.metadata import ENVIRONMENT

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results/published"


@pytest.mark.slow
def test_a_run_is_packed_and_passes(measured, tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    assert "18 cases" in invoke("bundle", measured)
    shown = invoke("check", "mine.spmvbench.zip")
    assert "mine.spmvbench.zip passes." in shown
    assert "2 of 2 matrices made again" in shown
    with check.opened(tmp_path / "mine.spmvbench.zip", tmp_path) as content:
        pd.testing.assert_frame_equal(content.rows, store.load(measured), check_dtype=False)
        assert content.manifest["division"] == "closed"


def test_host_names_and_paths_are_removed_by_default(run, tmp_path, altered):
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
def test_paths_are_shortened_to_their_last_part(text, kept):
    assert pack.redacted({"a": [text]}) == {"a": [kept]}


def rewritten(change):
    """What writes a bundle again: `change` gives the content of each of its files, or None for one that goes."""

    def rewrite(path):
        with zipfile.ZipFile(path) as old:
            files = {name: change(name, old.read(name)) for name in old.namelist()}
        with zipfile.ZipFile(path, "w") as new:
            for name, content in files.items():
                if content is not None:
                    new.writestr(name, content)

    return rewrite


def manifest(change):
    """What changes a bundle's manifest alone."""
    return rewritten(lambda name, content: change(content) if name == pack.MANIFEST else content)


def one_more(path):
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr("more", b"")


def patched(at_file, at_directory, value):
    """What puts other bytes at an offset after each header of a ZIP archive."""

    def patch(path):
        content = path.read_bytes()
        for head, offset in ((b"PK\x03\x04", at_file), (b"PK\x01\x02", at_directory)):
            parts = content.split(head)
            content = head.join([parts[0], *(p[: offset - 4] + value + p[offset - 2 :] for p in parts[1:])])
        path.write_bytes(content)

    return patch


SHAPES = [
    {"formats": None}, {"formats": [1]}, {"formats": [{"format": 1, "source_hash": "", "from": ""}]}, {"files": None},
    {"files": [1]}, {"files": {"rows.parquet": 1}}, {"bundle": "1"}, {"bundle": None},
]  # fmt: skip
NONE = "neither a run's folder nor a bundle"
BROKEN = {
    "another run.json": (
        rewritten(lambda name, text: text[:-1] if name == ENVIRONMENT else text),
        "run.json is not what",
    ),
    "one more file": (one_more, "does not hold"),
    "no manifest": (manifest(lambda content: None), NONE),
    "text": (lambda path: path.write_text("no archive"), NONE),
    "encrypted": (patched(6, 8, b"\x01\x00"), "is encrypted"),
    "unknown compression": (patched(8, 10, b"\x63\x00"), "cannot be unpacked"),
}
BROKEN |= {
    f"manifest of {len(text)} bytes": (manifest(lambda _, text=text: text), "b.zip")
    for text in (b"[" * 100_000, b"[1]", b"null", b"\xff", b'"text"')
}
BROKEN |= {
    str(shape): (
        manifest(lambda text, shape=shape: json.dumps(json.loads(text) | shape)),
        r"its bundle\.json is not one",
    )
    for shape in SHAPES
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_bundle_is_one_sentence(run, tmp_path, command, name):
    path = tmp_path / "b.zip"
    pack.pack(run, path)
    change, words = BROKEN[name]
    change(path)
    with pytest.raises((SpmvbenchError, UsageError), match=words), check.opened(path, tmp_path / "home"):
        pass
    result = command("check", path)
    assert result.code in (1, 2) and result.err.count("\n") == 1


@pytest.mark.parametrize(
    "junk",
    [{"seed": "x"}, {"launch_overhead": 7}, {"bounds": {"read": "fast"}}, {"properties": [1], "workers": [1]}],
    ids=str,
)
def test_invalid_metadata_is_one_sentence(run, tmp_path, invoke, altered, junk):
    altered(run, lambda rows: None, lambda session: session.update(junk))
    for words in (["check", run], ["bundle", run, "--out", tmp_path / "b.zip"]):
        invoke(*words, code=1)
        with pytest.raises(SpmvbenchError, match=r"run\.json is damaged"):
            store.environment(run)
    assert not (tmp_path / "b.zip").exists()


@pytest.mark.parametrize("every", [False, True])
def test_invalid_rows_fail_the_check(run, altered, verdicts, every):
    altered(run, lambda rows: rows.assign(t_kernels=rows["t_kernels"].where((rows.index != 3) & (not every), "[1]")))
    failed = " ".join(finding.text for finding in verdicts(run)["schema"] if finding.verdict == check.FAILED)
    assert ("there are no rows" if every else f"left out 1 of {len(store.load(run)) + 1} rows") in failed


@pytest.mark.parametrize(("typed", "yes", "allowed"), [("y", False, True), ("n", False, False), ("", True, True)])
def test_an_untrusted_program_needs_confirmation(monkeypatch, capsys, container, typed, yes, allowed):
    from spmvbench.cli import check as command

    answers = iter(typed)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_: next(answers))
    assert command._allowed([Path("evil.py")], yes) is allowed
    assert "evil.py" in capsys.readouterr().out and list(answers) == []
    assert command._allowed([], True) is False


def test_released_sources_have_every_published_format():
    for path in PUBLISHED.glob("*/rows.parquet"):
        pairs = pd.read_parquet(path, columns=["format", "family", "source_hash"]).drop_duplicates()
        pairs = pairs[~pairs["family"].isin(["Libraries", "Programs"])]  # these hash what was installed there
        unknown = [key for key, _, digest in pairs.itertuples(index=False) if not sources.known(key, digest)]
        assert not unknown, path.parent.name


@pytest.mark.slow
def test_the_table_of_sources_keeps_its_rows():
    text = publishing.with_installed("abc")
    lines = text.splitlines()
    assert lines[1:] == sorted(lines[1:], key=lambda line: line.split(","))
    assert len(lines) > len(sources.released())
    assert all(f"{key},{digest},{revision}" in lines for (key, digest), revision in sources.released().items())
    assert f"csr5,{formats.source_hash(formats.get('csr5'))}," in text


def test_a_format_of_another_room_is_of_this_installation():
    digest = formats.source_hash(formats.get("auto"))
    origins, files = pack._origins([("auto", digest)], {})
    assert [origin["format"] for origin in origins] == ["auto"] and origins[0]["from"] != "bundle" and not files


def test_all_files_of_an_external_format_are_included(tmp_path, monkeypatch):
    module = """
from pathlib import Path
from spmvbench.formats.csr.csr import CsrScalar
from bundled_rules.widths import WIDTH
class Own(CsrScalar):
    key, kernel = "own", Path(__file__).with_name("own.cu")
"""
    texts = {
        "own_bundled.py": module,
        "bundled_rules/widths.py": "WIDTH = 4",
        "own.cu": '#include "parts/own.h"',
        "parts/own.h": "int own;",
        "unused.h": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("own_bundled").Own
    monkeypatch.setattr(formats, "keys", lambda: ["own"])
    monkeypatch.setattr(formats, "get", lambda key: cls)
    monkeypatch.setattr(sources, "known", lambda key, digest: "")
    digest = formats.source_hash(cls)
    origins, own = pack._origins([("own", digest)], {})
    assert origins == [{"format": "own", "source_hash": digest, "from": "bundle"}]
    assert {name: text.decode() for name, text in own.items()} == {
        f"sources/{k}": v for k, v in texts.items() if k != "unused.h"
    }


@pytest.mark.slow
def test_an_external_format_is_included_and_runs_if_allowed(tmp_path, monkeypatch, command, formats_of, container):
    here = tmp_path / "own"
    shutil.copytree(ROOT / "docs/example", here)

    def spmvbench(*args, code=0, own=()):
        formats_of(*own)
        ran = command(*args)
        assert ran.code == code, ran.out + ran.err
        return ran.out + ran.err

    own = [here / "csr_padded.py"]
    monkeypatch.chdir(tmp_path)
    spmvbench("run", "poisson2d:16", "--formats", "csr-padded,ell", "--device", "emulated", "--run", "mine", own=own)
    assert "open division" in spmvbench("bundle", "mine", own=own)
    assert "not run: csr_padded.py" in spmvbench("check", "mine.spmvbench.zip", code=4)
    shown = spmvbench("check", "mine.spmvbench.zip", "--run-sources", "--yes")
    assert "The bundle's sender wrote csr_padded.py" in shown
    assert "csr-padded: the source of the bundle, verified on the emulated device" in shown
    (here / "csr_padded.cu").write_text("#define CHANGED\n" + (here / "csr_padded.cu").read_text())
    assert "csr-padded" in spmvbench("bundle", "mine", code=2, own=own)
