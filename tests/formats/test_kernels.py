"""Kernel files: how many arguments kernels take, and constants that are written once for kernels and Python."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re

import pytest

from spmvbench import formats, paths
from spmvbench.devices.emulation import build
from spmvbench.formats.kernels import code, constant, constants, declaration, headers, kernel_path, read

FILES = sorted(paths.kernels().rglob("*.cu*"))
MODULES = sorted(module.name for module in pkgutil.walk_packages(formats.__path__, "spmvbench.formats."))
MOST_ARGUMENTS = 16


def test_no_kernel_takes_many_arguments():
    kernels = re.compile(r"__global__ void (?:__launch_bounds__ ?\(.*?\)\s*)?(\w+)\s?\((?! )")
    counts = {}
    for path in FILES:
        for name in kernels.findall(code(read(path))):
            counts[f"{path.name} {name}"] = len(declaration(str(path), name).parameters)
    assert len(counts) > 100
    assert {name: n for name, n in counts.items() if n > MOST_ARGUMENTS} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("constexpr int A = 128;  // B = 3", {"A": {128}}),
        ("constexpr unsigned A = 0x80000000u, B=-5;", {"A": {2**31}, "B": {-5}}),
        ("static constexpr int A = 1;\nvoid f() { constexpr int A = 2, B = 2 * A; }", {"A": {1, 2}}),
        ("int a = 3; constexpr bool f(int n) { return n == 4; }", {}),
    ],
)
def test_constants_of_a_text(text, found):
    assert constants(text) == found


def test_a_constant_has_one_value(tmp_path):
    file = tmp_path / "twice.cu"
    file.write_text("constexpr int ONCE = 1; struct S { static constexpr int TWICE = 1; }; constexpr int TWICE = 2;")
    assert constant(str(file), "ONCE") == 1
    with pytest.raises(ValueError, match="gives TWICE 2 values, not one"):
        constant(str(file), "TWICE")
    with pytest.raises(ValueError, match="gives NEVER 0 values, not one"):
        constant(str(file), "NEVER")


def numbers(module) -> set[str]:
    """The names that a module gives a whole number by itself: not by `constant`, nor imported."""
    found = set()
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Assign) and "constant(" not in ast.unparse(node.value):
            names = (name for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))
            found |= {name.id for name in names if isinstance(getattr(module, name.id), int)}
    return found


def kernels_of(module) -> set:
    """The kernel files of a module's room and those that it names, and all that they include."""
    room = paths.kernels() / module.__name__.split(".")[2]
    named = re.findall(r'"([\w/]+\.cuh?)"', inspect.getsource(module))
    files = {*room.glob("*.cu"), *map(kernel_path, named)}
    return files | {header for path in files for header in headers(path)}


@pytest.mark.parametrize("name", [*MODULES, "spmvbench.devices.emulated"])
def test_a_constant_of_a_kernel_is_not_written_again(name):
    module = importlib.import_module(name)
    files = build.FOLDER.glob("*.hpp") if name == "spmvbench.devices.emulated" else kernels_of(module)
    known = numbers(module)
    mirrors = {
        f"{path.name}: {number}"
        for path in files
        for number in known
        if getattr(module, number) in constants(read(path)).get(number.lstrip("_"), ())
    }
    assert mirrors == set()
