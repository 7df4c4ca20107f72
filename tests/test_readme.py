"""The README says what is true today."""

import re
from pathlib import Path

import numpy as np
import pytest

import spmvbench
from spmvbench.bench.record import STATUSES
from spmvbench.cli import COMMANDS
from spmvbench.cli.formats import with_table
from spmvbench.collection import synthetic

ROOT = Path(spmvbench.__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="not run from a checkout")


@pytest.fixture(scope="module")
def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_table_of_formats_is_current(readme):
    assert readme == with_table(readme), "the table of formats is out of date: run make docs"


def test_python_example_runs(readme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    a = names["a"]
    np.testing.assert_allclose(names["y"], a @ np.ones(a.shape[1]))
    assert len(names["values"]) == a.nnz
    assert list(names["measured"]["label"]) == ["ell", "csr-vector"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert links
    assert missing == []


def test_commands_named_are_the_commands(readme):
    assert set(re.findall(r"^\| `spmvbench (\w+)", readme, re.MULTILINE)) == set(COMMANDS)
    for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL):
        assert set(re.findall(r"^spmvbench (\w+)", block, re.MULTILINE)) <= set(COMMANDS)


def test_options_named_exist(readme):
    from spmvbench.cli import cli

    for name in COMMANDS:
        command = cli.get_command(None, name)
        every = [command, *getattr(command, "commands", {}).values()]
        known = {option for part in every for parameter in part.params for option in parameter.opts}
        for line in re.findall(rf"spmvbench {name}\b(.*)", readme):
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line.partition("#")[0])) <= known, line


def test_every_environment_variable_is_explained(readme):
    read = set()
    for path in (ROOT / "spmvbench").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        read |= set(re.findall(r'(?:environ\.get\(|environ\[|envvar=)"(\w+)"', text)) - {"SHELL", "PYTHONPATH"}
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", readme, re.MULTILINE)) == read


def test_every_generator_is_named(readme):
    assert [kind for kind in synthetic.KINDS if f"`{synthetic.form(kind)}`" not in readme] == []


def test_every_status_is_named(readme):
    (sentence,) = re.findall(r"Every case has a row.*?reason\.", readme, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(STATUSES)


def test_make_targets_named_exist(readme):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:^|`)make (\w+)", readme, re.MULTILINE))
    assert targets >= {"demo", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
