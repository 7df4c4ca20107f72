import json
import sys

import pytest

from spmvbench import __version__
from spmvbench.cli import env
from spmvbench.devices import cuda
from spmvbench.runner import requirements


def test_json_names_what_is_here(command, session_home, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_MIRROR", "https://me:secret@host:81/some/mirror")
    about = json.loads(command("env", "--json").out)
    assert about["spmvbench"] == __version__
    assert about["python"] == ".".join(map(str, sys.version_info[:3]))
    assert about["packages"]["numpy"] == sys.modules["numpy"].__version__
    assert about["mirror"] == "https://host:81/some/mirror"
    assert about["home"] == str(session_home)
    assert set(about["devices"]) == {"cuda:0", "emulated"}
    for device in about["devices"].values():
        assert device["available"] or device["reason"]


def test_fresh_machine(command, tmp_path, monkeypatch):
    home = tmp_path / "never made"
    monkeypatch.setenv("SPMVBENCH_HOME", str(home))
    monkeypatch.delenv("SPMVBENCH_MIRROR", raising=False)
    result = command("env")
    assert result.code == 0
    assert "(0 B, 0 matrices)" in " ".join(result.out.split())
    assert "SuiteSparse site" in result.out
    assert not home.exists(), "looking makes no folders"
    (home / "logs").mkdir(parents=True)
    for file in (home / "a", home / "logs" / "b"):
        file.write_bytes(b"123")
    assert "(6 B, 0 matrices)" in " ".join(command("env").out.split())


@pytest.mark.parametrize(
    ("shell", "expected"), [("/bin/bash", "bash_source"), ("/usr/bin/fish", "fish_source"), ("", "bash_source")]
)
def test_completion_hint_fits_the_shell(command, monkeypatch, shell, expected):
    monkeypatch.setenv("SHELL", shell)
    assert f"_SPMVBENCH_COMPLETE={expected}" in command("env").out


def test_what_is_not_installed_has_its_purpose_and_its_extra(command, monkeypatch):
    monkeypatch.setattr(requirements, "versions", lambda: {"numpy": "2"})
    monkeypatch.setattr(cuda, "why_unavailable", lambda ordinal=0: "CuPy is not here: pip install it")
    assert "ziglang" not in command("env").out, "a compiler answers here"
    monkeypatch.setenv("CXX", "no-compiler")
    assert set(requirements.by_extra()) == {"", "cuda12", *env.OPTIONAL}
    shown, _, missing = command("env").out.partition("Not installed\n")
    assert "not available: CuPy is not here: pip install it" in " ".join(shown.split())
    lines = missing.splitlines()
    assert [line.rpartition("[")[2].strip("']") for line in lines] == list(env.OPTIONAL)
    assert "scikit-learn: for training the model of advise --from: pip install 'spmvbench[advice]'" in lines
