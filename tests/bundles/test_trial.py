"""Trial of a submitted format in a container: only correct results for random products pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spmvbench import testing
from spmvbench.bundles import trial
from spmvbench.bundles.findings import FAILED, OPEN, PASSED
from spmvbench.errors import UsageError
from spmvbench.formats import dependencies
from spmvbench.paths import configs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("container")]

EXAMPLE = configs().parent / "docs/example"
MATRICES = {name: testing.hard_matrices()[name] for name in ("stencil", "only a middle row")}


@pytest.fixture
def module(tmp_path):
    """The worked example's module, for changes; its kernel is in the same folder."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "own")) / "csr_padded.py"


def tried(module, measured, settings=({},)):
    return trial.run("csr-padded", measured, settings, ["spmv"], [module], MATRICES)


@pytest.fixture(scope="session")
def shared_sources():
    """Files that the example's hash includes in addition to its own two."""
    program = (
        "from spmvbench import formats; from spmvbench.formats import dependencies as d; c = formats.get('csr-padded');"
        "print(*d.python_files(c), '-', *d.kernel_files(c), sep='\\n')"
    )
    environment = os.environ | {"SPMVBENCH_FORMATS": str(EXAMPLE / "csr_padded.py")}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    python, _, kernels = told.stdout.partition("-\n")
    return [[path for path in map(Path, text.splitlines()) if path.parent != EXAMPLE] for text in (python, kernels)]


@pytest.fixture
def hash_of(shared_sources):
    """The hash of a module."""
    python, kernels = shared_sources
    return lambda module: dependencies.hash_of_files([module, *python], [module.with_suffix(".cu"), *kernels])


def add(module, text):
    module.write_text(f"{module.read_text()}\n{text}\n")


def test_correct_results_pass(module, hash_of):
    finding = tried(module, hash_of(module), [{}, {"step": 8}])
    assert (finding.verdict, finding.check) == (PASSED, "formats")
    text = r"the source of the bundle, verified on the emulated device in \d\d products"
    assert re.fullmatch(text, finding.text)


def test_the_hash_is_computed_from_the_files_here(module, hash_of):
    measured = hash_of(module)
    add(module, "formats_hash = '" + measured + "'")
    finding = tried(module, measured)
    assert finding.verdict == FAILED
    assert finding.text == f"it was measured from {measured}, the bundle holds {hash_of(module)}"


LISTED = """import json, os
files = {"python": [%s], "kernels": ["sources/csr_padded.cu"]}
os.write(1, json.dumps(files).encode() + b"\\n" + %s); os._exit(0)"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os; print('0123456789abcdef', flush=True); os._exit(0)", "it prints"),
        ("import os; os._exit(0)", "ended early"),
        ("import sys; sys.exit(0)", "ended with 1"),
        ("import ctypes; ctypes.string_at(0)", "ended with 139"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "took more than 600 s or 8 GiB"),
        ("import atexit, os; atexit.register(os._exit, 3)", "ended with 3"),
        ("import atexit; atexit.register(print, 'all is right')", "it prints"),
        (LISTED % ("'sources/csr_padded.py'", "b''"), "no result for stencil"),
        (LISTED % ("'sources/csr_padded.py'", "b'y' * 100"), "no result for stencil"),
        (LISTED % ("'sources/csr_padded.py'", "b'y' + bytes(1 << 22)"), "wrong on the emulated device"),
        (LISTED % ("'sources/csr_padded.py'", "bytes(1 << 26)"), "no result for stencil"),
        (LISTED % ("'/etc/hostname'", "b''"), "outside of the bundle"),
        (LISTED % ("'sources/../../secret.py'", "b''"), "outside of the bundle"),
        (LISTED % ("7", "b''"), "it prints"),
        (LISTED % ("", "b''"), "none of the bundle's sources"),
        ("import os; os.write(1, b'[' * 100000); os._exit(0)", "it prints"),
        ("CsrPadded.y_order = property(lambda self: self.row_ptr[:-1])", "an order must hold each of"),
        ("CsrPadded.launches = lambda self, x, y: []", "wrong on the emulated device"),
    ],
)
def test_claims_of_the_child_are_not_trusted(module, hash_of, text, words):
    add(module, text)
    measured = hash_of(module)
    if "json" in text:  # it lists its own two files
        measured = dependencies.hash_of_files([module], [module.with_suffix(".cu")])
    finding = tried(module, measured)
    assert finding.verdict == FAILED
    assert words in finding.text


def test_a_format_that_refuses_everything_is_open(module, hash_of):
    add(module, "def refuse(a, **params):\n    raise Skip('not today')\nCsrPadded.convert = refuse")
    module.write_text(
        module.read_text().replace("import numpy as np", "import numpy as np\nfrom spmvbench.formats import Skip")
    )
    finding = tried(module, hash_of(module))
    assert finding.verdict == OPEN
    assert "8 of 8 matrices refused" in finding.text


def test_the_child_gets_no_results():
    from spmvbench.devices import open_device

    wanted = trial.products(["spmv", "spmspv"], MATRICES, open_device("emulated"), 5)
    assert {product.op for product in wanted} == {"spmv", "spmspv@0.4", "spmspv@0.02"}
    for product in wanted:
        task = product.without_results()
        assert all(not r.y.size and not r.bound.size and r.rows is None for r in task.references)
        assert len(task.references) == len(product.references) >= 2


def test_the_container_has_no_network_and_no_folder_of_this_machine(module, hash_of, container):
    tried(module, hash_of(module))
    inspected, ran = container()
    assert inspected == ["image", "inspect", "spmvbench"]
    words = " ".join(ran)
    for limit in (
        "--network none",
        "--read-only",
        "--cap-drop all",
        "no-new-privileges",
        "--memory 8g",
        "--pull never",
    ):
        assert limit in words
    assert not {"-v", "--volume", "--mount", "--privileged", "--device"} & set(ran)
    assert "timeout -s KILL 600 python" in ran[-1]


def test_a_container_that_does_not_start_is_no_verdict(module, hash_of, container, monkeypatch):
    monkeypatch.setenv("STAND_IN", "echo no such runtime >&2; exit 125")
    finding = tried(module, hash_of(module))
    assert (finding.verdict, finding.text) == (OPEN, "not run: podman could not start it: no such runtime")


@pytest.mark.parametrize(
    ("engines", "words"),
    [
        ("", "install podman or docker, type `podman build --tag spmvbench"),
        ("docker", "docker has no image spmvbench: is the daemon running; type `docker build"),
    ],
)
def test_without_a_container_the_command_to_type_is_named(tmp_path, monkeypatch, engines, words):
    for name in engines.split():
        (tmp_path / name).write_text("#!/bin/sh\necho is the daemon running >&2; exit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=words):
        trial.engine()
