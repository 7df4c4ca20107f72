"""Imports point one way: downwards in the table of docs/architecture.md, which is drawn from them."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import spmvbench

PACKAGE = Path(spmvbench.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
EVERYWHERE = {"errors", "paths", "untrusted"}
# spmvbench, `python -m spmvbench` and spmvbench.solve pass on what the rooms have.
FACADES = {"", "__main__", "solve"}
# The site describes formats, which a report does not know.
WIDE = "reports.site."
# Where a room needs a part of another alone.
NARROW = {
    ("matrices", "formats"): {"formats.arrays", "formats.imports"},
    ("reports", "formats"): {"formats.survey"},
    ("reports", "matrices"): {"matrices.sets"},
    ("advice", "measure"): {"measure.bounds", "measure.reading"},
    ("testing", "measure"): {"measure.operations", "measure.verify"},
}


def modules():
    """The path of every module by its dotted name inside the package; the package itself is \"\"."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def room_of(module):
    """The top-level part of the package that a dotted name inside it belongs to."""
    return module.split(".")[0]


def imported(source, name):
    """Dotted names inside the package that a module's text imports anywhere, for type checkers too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("spmvbench.") for alias in node.names if "spmvbench." in alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively: write the whole name"
            package, _, inside = node.module.partition(".")
            if package == "spmvbench":
                for alias in node.names:
                    whole = f"{inside}.{alias.name}".lstrip(".")
                    yield whole if whole in MODULES else inside


@cache
def graph():
    """What each module of the rooms imports of the package."""
    return {
        name: set(imported(path.read_text(encoding="utf-8"), name)) - {"", name}
        for name, path in MODULES.items()
        if name not in FACADES
    }


def drawn(imports):
    """The last column of the page's table: the other rooms that each room imports."""
    rooms = {}
    for name, targets in imports.items():
        rooms.setdefault(room_of(name), set()).update(map(room_of, targets))
    return {room: found - {room} - EVERYWHERE for room, found in rooms.items() if room not in EVERYWHERE}


def table():
    """The rooms of the page's table with its last column, from top to bottom."""
    rows = re.findall(r"^\| `spmvbench/(\w+)(?:/|\.py)` \|.*\|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", cells)) for room, cells in rows}


def circles(imports):
    """Modules that import themselves by way of others."""
    left = dict(imports)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    # What only leads to a circle is none itself.
    while loose := left.keys() - set().union(*left.values()):
        for name in loose:
            del left[name]
    return sorted(left)


def too_wide(imports):
    """Imports of more than the part that a room may know of another."""
    return [
        (name, target)
        for name, targets in imports.items()
        for target in sorted(targets)
        if target not in NARROW.get((room_of(name), room_of(target)), {target}) and not name.startswith(WIDE)
    ]


def upwards(rooms):
    """Rooms that import one that stands above them."""
    order = list(rooms)
    return [(room, other) for room in order for other in rooms[room] if order.index(other) <= order.index(room)]


def test_the_table_is_what_is_imported():
    assert drawn(graph()) == table()


def test_imports_point_downwards():
    assert upwards(table()) == []
    assert circles(graph()) == []
    assert too_wide(graph()) == []


@pytest.mark.parametrize("name", sorted(EVERYWHERE))
def test_what_all_use_stands_below_all(name):
    assert graph()[name] <= {"errors"}


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("formats.hyb", "from spmvbench.devices import open_device", "devices"),
        ("formats.hyb", "def f():\n    import spmvbench.measure.timing", "measure.timing"),
        ("formats.hyb", "from spmvbench.formats.ellpack.ellpack import Ell", "formats.ellpack.ellpack"),
        ("analysis.profiles", "from spmvbench.rows import store", "rows.store"),
        ("cli.run", "from spmvbench import formats", "formats"),
        ("cli.run", "import numpy\nfrom spmvbench import __version__", ""),
        ("reports.page", "if TYPE_CHECKING:\n    from spmvbench.formats import Format", "formats"),
    ],
)
def test_an_import_is_found(name, source, target):
    assert list(imported(source, name)) == [target]


def test_faults_of_the_graph_are_found():
    assert upwards({"cli": {"rows"}, "rows": {"cli"}}) == [("rows", "cli")]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c"]
    assert too_wide({"reports.page": {"formats.survey", "formats"}}) == [("reports.page", "formats")]


HEAVY = ("cupy", "matplotlib", "pandas", "scipy", "pyarrow", "requests", "numpy")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from spmvbench.cli import cli, main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print('heavy:', *[name for name in {HEAVY} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "heavy:"
