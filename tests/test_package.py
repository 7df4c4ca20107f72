"""A wheel holds everything, and runs where no checkout is near."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import spmvbench
from spmvbench import formats

ROOT = Path(spmvbench.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not run from a checkout")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_every_file_that_runs(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    sources = {"": ROOT / "spmvbench", "kernels/": ROOT / "kernels", "configs/": ROOT / "configs"}
    expected = {
        f"spmvbench/{prefix}{path.relative_to(folder).as_posix()}"
        for prefix, folder in sources.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected - held == set()
    for kind in (".cu", ".cuh", ".py"):
        assert any(name.endswith(kind) for name in held)


def test_wheel_holds_nothing_else(wheel):
    held = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in held} == {"spmvbench", f"spmvbench-{spmvbench.__version__}.dist-info"}
    assert not [name for name in held if name.endswith((".pyc", ".so", ".mtx", ".tar.gz"))]


def test_wheel_runs_outside_the_checkout(wheel, tmp_path):
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    subprocess.run([*pip, "--no-index", "--target", target, wheel], check=True)

    def run(*args):
        result = subprocess.run(
            [sys.executable, *args],
            cwd=elsewhere,
            env=os.environ | {"PYTHONPATH": str(target)},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    code = "from spmvbench import paths; k = paths.kernels(); print(*k.rglob('*.cu'), paths.configs())"
    kernels = run("-c", code)
    assert str(target) in kernels, "the wheel's own kernels and configs, not the checkout's"
    for cls in map(formats.get, formats.keys()):
        assert all(source in kernels for source in cls.sources)
    shown = run("-m", "spmvbench", "formats")
    for key in formats.keys():  # noqa: SIM118 - a function of the module
        assert f"  {key}" in shown


def test_version_is_one_number():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == spmvbench.__version__
