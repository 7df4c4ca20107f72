"""The container's recipe: a base that is named exactly, no root, and the demo at its end."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "Containerfile"
pytestmark = pytest.mark.skipif(not RECIPE.is_file(), reason="needs a checkout (git clone)")


def instructions():
    text = re.sub(r"^#.*\n", "", RECIPE.read_text(encoding="ascii"), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def test_base_is_named_by_a_tag():
    name, argument = instructions()[0]
    assert name == "FROM"
    assert re.fullmatch(r"docker\.io/nvidia/cuda:\d+\.\d+\.\d+-base-\w+\.?\d*", argument.strip())


def test_ends_in_the_demo_without_root():
    steps = instructions()
    assert json.loads(dict(steps)["CMD"]) == ["make", "demo"]
    user = max(i for i, step in enumerate(steps) if step[0] == "USER")
    assert steps[user][1].strip() not in ("root", "0")
    assert all("apt-get" not in argument for _, argument in steps[user:])


def test_cuda_of_the_base_is_that_of_the_extra():
    steps = dict(instructions())
    major = re.search(r"cuda:(\d+)", steps["FROM"])[1]
    (extras,) = re.findall(r"\.\[([\w,]+)\]", RECIPE.read_text())
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"cuda{major}" in extras.split(",")
    assert set(extras.split(",")) <= set(known)


def test_system_packages_are_those_that_ci_installs():
    apt = next(argument for _, argument in instructions() if "apt-get install" in argument)
    wanted = re.findall(r"missing\+=\((\S+)\)", (ROOT / ".ci/run").read_text())
    assert wanted
    assert set(wanted) <= set(apt.split())
