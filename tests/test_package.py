"""A wheel holds everything, and runs where no checkout is near."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import click
import pytest

import spmvbench
from spmvbench import formats
from spmvbench.__main__ import let_children_import
from spmvbench.cli import cli

ROOT = Path(spmvbench.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="needs a checkout (git clone)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
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
    package, about = sorted({name.split("/")[0] for name in held})
    assert package == "spmvbench" and re.fullmatch(r"spmvbench-[\w.+]+\.dist-info", about)
    assert "spmvbench/py.typed" in held
    assert not [name for name in held if name.endswith((".pyc", ".so", ".mtx", ".tar.gz"))]


@pytest.mark.slow
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
        assert all(source in kernels for source in formats.sources(cls))
    shown = run("-m", "spmvbench", "formats")
    for key in formats.keys():  # noqa: SIM118 - a function of the module
        assert f"  {key}" in shown


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python with everything that is installed here except this package, and an environment for it."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Files *.pth in these folders do not count there: one of them names the checkout.
    named = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "others.pth").write_text("\n".join(sorted(named)))
    python = folder / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    probe = [python, "-P", "-c", "import spmvbench.cli"]
    if not subprocess.run(probe, env=environment, capture_output=True, check=False).returncode:
        pytest.skip("needs an editable installation (pip install -e .)")
    return python, environment


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "scheduler"), [("spmvbench", []), ("spmvbench.publishing", ["--scheduler", "local"])]
)
def test_a_checkout_that_is_not_installed_runs(bare_python, tmp_path, module, scheduler):
    """The processes that measure are started with -P: they would not find the package in the current folder."""
    pytest.importorskip("distributed")
    options = ["--results", tmp_path, "--device", "emulated"]
    if module == "spmvbench":
        words = ["run", "tridiag:9", "--formats", "ell", "--run", "emulated-one", *options, *scheduler]
    else:
        (tmp_path / "one.toml").write_text('matrices = ["tridiag:9"]\nformats = ["ell"]\n', encoding="utf-8")
        (tmp_path / "steps.toml").write_text('[[step]]\nconfig = "one"\n', encoding="utf-8")
        words = ["measure", "emulated", "--steps", tmp_path / "steps.toml", *options, "--", *scheduler]
    python, environment = bare_python
    command = [python, "-m", module, *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "emulated-one").glob("rows.parquet"))


def hatch(folder, *args):
    command = [sys.executable, "-m", "hatchling", *args]
    # Where no repository is above the folder, as in an unpacked archive.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


@pytest.mark.slow
def test_version_comes_from_tags_or_does_without(tmp_path):
    """In a clone with a tag, behind it, without any; from an archive, an sdist, and files without a history."""

    def git(*args):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *args], cwd=tmp_path / "clone", check=True, capture_output=True)

    files = ("pyproject.toml", "README.md", "LICENSE", "spmvbench/__init__.py", ".gitattributes", ".git_archival.txt")
    for file in files:
        (tmp_path / "clone" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / "clone" / file)
    clone = tmp_path / "clone"
    assert hatch(clone, "version") == "1.0.0.dev0"
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=one")
    assert re.fullmatch(r"1\.0\.0\.dev1\+g\w+", hatch(clone, "version"))
    git("tag", "v1.2.3")
    assert hatch(clone, "version") == "1.2.3"
    git("archive", "--output", tmp_path / "archive.tar", "HEAD")
    with tarfile.open(tmp_path / "archive.tar") as tar:
        tar.extractall(tmp_path / "archive", filter="data")
    assert hatch(tmp_path / "archive", "version") == "1.2.3"
    hatch(clone, "build", "--target", "sdist")
    (sdist,) = (clone / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    assert hatch(tmp_path / "unpacked" / "spmvbench-1.2.3", "version") == "1.2.3"
    git("commit", "--quiet", "--allow-empty", "--message=two")
    assert hatch(clone, "version").startswith("1.2.4.dev1+g")


@pytest.mark.slow
def test_sdist_and_wheel_of_it_are_built_and_checked(tmp_path):
    """As the workflow of a release does: the wheel is built from the sdist, so that the sdist is complete."""
    hatch(ROOT, "build", "--target", "sdist", "--directory", tmp_path)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        tar.extractall(tmp_path, filter="data")
    hatch(tmp_path / sdist.name.removesuffix(".tar.gz"), "build", "--target", "wheel", "--directory", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    tracked = {
        f"{folder}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder in ("spmvbench", "kernels", "configs", "docs", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"README.md", "LICENSE", "CITATION.cff", "mkdocs.yml", *tracked} <= names
    assert not [name for name in names if name.startswith(("results/", ".ci/", ".venv/"))]
    held = zipfile.ZipFile(wheel).namelist()
    assert "spmvbench/configs/measure.toml" in held
    assert not [name for name in held if name.split("/")[0] in ("tests", "docs", "results")]
    if importlib.util.find_spec("twine") is not None:
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel], check=True)


def test_the_release_workflow_runs_commands_that_exist():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert 'tags: ["v*"]' in text
    for words in ("python -m build\n", "twine check --strict dist/*", "make test"):
        assert words in text
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^test:", makefile, re.MULTILINE)
    lines = re.findall(r'^ +(?:"\S+/bin/)?spmvbench"? (.*)', text, re.MULTILINE)
    named = {line.split()[0] for line in lines}
    assert named >= {"--help", "env", "formats", "advise", "run", "report", "bundle", "check"}
    for line in lines:
        words = shlex.split(line.partition("||")[0])
        if words[0] != "--help":
            command = cli.get_command(None, words[0])
            command.make_context(
                words[0], words[1:], click.Context(cli, **cli.context_settings), resilient_parsing=True
            )
            known = {option for parameter in command.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= known, line


def test_package_knows_its_version():
    assert re.match(r"\d+[.+]", spmvbench.__version__)


@pytest.mark.parametrize("named", [None, "/elsewhere"])
@pytest.mark.parametrize("other", ["nothing", "another package", "a folder without modules"])
def test_children_find_the_package_of_the_working_directory(tmp_path, monkeypatch, named, other):
    if other != "nothing":
        (tmp_path / "spmvbench").mkdir()
    if other == "another package":
        (tmp_path / "spmvbench" / "__init__.py").touch()
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if named:
        monkeypatch.setenv("PYTHONPATH", named)

    def searched(first, then):
        """The working directory comes first, unless this process runs with python -P."""
        monkeypatch.setattr(sys, "path", [str(then)] if sys.flags.safe_path else [str(first), str(then)])

    searched(tmp_path, ROOT)
    let_children_import()
    assert os.environ.get("PYTHONPATH") == named
    searched(ROOT, tmp_path)
    let_children_import()
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(ROOT), *([named] if named else [])])
