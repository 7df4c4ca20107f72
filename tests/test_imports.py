"""Imports point one way: formats know nothing of timing, timing nothing of formats, reports nothing but rows."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import spmvbench

PACKAGE = Path(spmvbench.__file__).parent
EVERYWHERE = {"errors", "paths", "untrusted"}
# What each room may import besides itself, EVERYWHERE and the package's version.
MAY_IMPORT = {
    "errors": set(),
    "paths": set(),
    "untrusted": set(),
    "__init__": {
        "formats",
        "collection",
        "devices",
        "bench.direct",
        "store",
        "report.direct",
    },  # lazily: what users reach as spmvbench.load and the like
    "__main__": {"cli"},
    "formats": {"multiply"},  # what users reach as spmvbench.multiply: `fmt @ x`, once it is asked for
    "collection": {"formats.arrays", "formats.dependencies"},
    "devices": {"formats"},
    "bench": {"formats", "devices", "collection", "store"},
    "store": {"bench.record"},
    "analysis": set(),
    "report": {"store", "analysis", "bench.record", "collection.sets", "formats.survey"},
    "advice": {"store", "analysis", "formats", "collection", "bench.roofs", "report.style"},
    "testing": {"formats", "devices", "bench.operations", "bench.verify"},
    "bundle": {"store", "bench", "formats", "collection", "devices", "testing"},
    "cli": {"formats", "collection", "devices", "bench", "store", "analysis", "report", "bundle", "advice"},
}


def room_of(module):
    """The top-level part of the package that a dotted name inside it belongs to."""
    return module.split(".")[0]


def imported(source, name):
    """Dotted names inside the package that a module's text imports anywhere, type-checking blocks left out."""
    tree = ast.parse(source)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively: write the whole name"
            # `from spmvbench import formats` imports the module spmvbench.formats.
            names = [f"spmvbench.{alias.name}" for alias in node.names] if node.module == "spmvbench" else [node.module]
        else:
            continue
        yield from (n.removeprefix("spmvbench.") for n in names if n.startswith("spmvbench."))


def violations(source, name):
    """Imports of a module (its dotted name inside the package) that its room does not allow."""
    room = room_of(name)
    allowed = MAY_IMPORT[room] | EVERYWHERE | {room}
    if room in EVERYWHERE:
        allowed = {"errors"} & MAY_IMPORT[room]
    return [
        target
        for target in imported(source, name)
        if target != "__version__" and not any(target == part or target.startswith(f"{part}.") for part in allowed)
    ]


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts), path


@pytest.mark.parametrize(("name", "path"), [pytest.param(*module, id=module[0]) for module in modules()])
def test_module_imports_only_what_its_room_may(name, path):
    assert room_of(name) in MAY_IMPORT, f"{name} lies in no known room: say here what it may import"
    assert violations(path.read_text(encoding="utf-8"), name) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("formats.ellpack", "from spmvbench.devices import open_device"),
        ("formats.ellpack", "def f():\n    import spmvbench.bench.timing"),
        ("analysis.profiles", "from spmvbench import store"),
        ("devices.cuda", "from spmvbench.bench.record import COLUMNS"),
        ("report.page", "from spmvbench.formats import get"),
        ("collection.files", "from spmvbench.formats.base import Format"),
        ("store", "from spmvbench.bench.plan import cases"),
    ],
)
def test_import_against_the_direction_is_found(name, source):
    assert len(violations(source, name)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("formats.hyb", "from spmvbench.formats.ellpack.ellpack import Ell\nfrom spmvbench import paths"),
        ("collection.files", "from spmvbench.formats.arrays import Csr"),
        ("cli.run", "import numpy\nfrom spmvbench import __version__, formats"),
        ("report.page", "if TYPE_CHECKING:\n    from spmvbench.formats import Format"),
    ],
)
def test_import_along_the_direction_is_allowed(name, source):
    assert violations(source, name) == []


HEAVY = ("cupy", "matplotlib", "pandas", "scipy", "pyarrow", "requests", "numpy")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from spmvbench.cli import cli, main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print('heavy:', *[name for name in {HEAVY} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "heavy:"
