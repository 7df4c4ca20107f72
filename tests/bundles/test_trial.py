"""Trial of a submitted format in a separate process: only correct results for random products pass."""

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
from spmvbench.formats import dependencies
from spmvbench.paths import configs

pytestmark = pytest.mark.slow

EXAMPLE = configs().parent / "docs/example"
MORE = pytest.mark.slow
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os; print('0123456789abcdef', flush=True); os._exit(0)", "it prints"),
        ("import os; os._exit(0)", "ended early"),
        pytest.param("import sys; sys.exit(0)", "ended with 1", marks=MORE),
        pytest.param("import ctypes; ctypes.string_at(0)", "ended with -11", marks=pytest.mark.slow),
        ("import atexit, os; atexit.register(os._exit, 3)", "ended with 3"),
        pytest.param("import atexit; atexit.register(print, 'all is right')", "it prints", marks=MORE),
        (
            "import json, os\nfiles = {'python': [__file__], 'kernels': [KERNEL]}\n"
            "open('sources', 'w').write(json.dumps(files)); os._exit(0)",
            "no result for stencil",
        ),
        (
            "import json, os\nfiles = {'python': ['/etc/hostname'], 'kernels': []}\n"
            "open('sources', 'w').write(json.dumps(files)); os._exit(0)",
            "outside of the bundle",
        ),
        pytest.param(
            "import os; open('sources', 'w').write('[' * 100000); os._exit(0)", "ended early", marks=pytest.mark.slow
        ),
        pytest.param(
            "import os; os.symlink('/dev/zero', 'sources'); os._exit(0)", "ended early", marks=pytest.mark.slow
        ),
        ("import os; os.mkfifo('sources'); os._exit(0)", "ended early"),
        ("CsrPadded.y_order = property(lambda self: self.row_ptr[:-1])", "an order must hold each of"),
        pytest.param(
            "CsrPadded.launches = lambda self, x, y: []", "wrong on the emulated device", marks=pytest.mark.slow
        ),
    ],
)
def test_claims_of_the_child_are_not_trusted(module, hash_of, text, words):
    add(module, text)
    measured = hash_of(module)
    if "json" in text:  # it lists only two files
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
