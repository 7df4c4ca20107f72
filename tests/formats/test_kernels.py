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
from spmvbench.formats.kernels import code, constant, constants, headers, kernel_path, read

FILES = sorted(path for path in paths.kernels().rglob("*.cu*"))
MODULES = sorted(module.name for module in pkgutil.walk_packages(formats.__path__, "spmvbench.formats."))
MOST_ARGUMENTS = 16


def between(text: str, start: int) -> str:
    """What is between the parenthesis after `start` and the one that closes it."""
    begin = text.index("(", start) + 1
    depth, end = 1, begin
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[begin : end - 1]


def arguments(text: str) -> dict[str, int]:
    """The number of arguments of each kernel that a C++ text defines, by its name."""
    found = {}
    bare = code(text)
    for match in re.finditer(r"\b__global__ void ?", bare):
        at = match.end()
        if bare.startswith("__launch_bounds__", at):
            at += len("__launch_bounds__") + len(between(bare, at)) + 2
        name = re.compile(r"\s*(\w+)").match(bare, at)
        listed = between(bare, at)
        while listed != (listed := re.sub(r"<[^<>]*>", "", listed)):
            pass
        found[name[1]] = listed.count(",") + bool(listed)
    return found


def test_arguments_are_counted():
    text = """template <typename V, int N>  // (a comment,
    __global__ void __launch_bounds__(32 * (N ? 1 : 2), 4) two(const Pair<V, int> a, V* y) { f(a, y, 1); }
    __global__ void none() {}"""
    assert arguments(text) == {"two": 2, "none": 0}


def test_no_kernel_takes_many_arguments():
    counts = {f"{path.name} {name}": n for path in FILES for name, n in arguments(read(path)).items()}
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


@pytest.mark.parametrize(
    "path", [*FILES, *(paths.Path(formats.__file__).parent).rglob("*.py")], ids=lambda path: path.name
)
def test_no_comment_says_that_a_number_is_written_elsewhere(path):
    assert re.findall(r"as in [\w/]*\.(?:py|cuh?|hpp)\b", read(path)) == []
