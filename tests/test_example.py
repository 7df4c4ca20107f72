"""The worked example of docs/new-format.md runs, and the page shows the files that run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spmvbench
from spmvbench.programs import making

ROOT = Path(spmvbench.__file__).parents[1]
EXAMPLE = ROOT / "docs" / "example"
PROGRAM = EXAMPLE / "program"
TEMPLATES = Path(making.__file__).parent / "templates"
pytestmark = pytest.mark.skipif(not EXAMPLE.is_dir(), reason="needs a checkout (git clone)")


@pytest.mark.parametrize(
    ("page", "files"),
    [
        ("new-format.md", [file for file in sorted(EXAMPLE.glob("*")) if file.is_file()]),
        (
            "programs.md",
            [*sorted(PROGRAM.glob("*.cpp")), *(TEMPLATES / f"csr{end}" for end in (".c", ".cpp", ".cu", "_triton.py"))],
        ),
    ],
)
def test_the_page_shows_the_example_word_for_word(page, files):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    shown = re.findall(r"```(?:python|cuda|cpp|c)\n(.*?)```", text, re.DOTALL)
    for file in files:
        assert file.read_text(encoding="utf-8") in shown, f"docs/{page} does not show {file.name} as it is"


@pytest.mark.slow
def test_example_passes_its_own_tests():
    """In a process of its own: a format joins the registry for good."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", EXAMPLE],
        cwd=ROOT,
        env=os.environ | {"SPMVBENCH_FORMATS": os.pathsep.join(map(str, sorted(EXAMPLE.glob("csr_*.py"))))},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    assert re.search(r"\b\d{3} passed\b", result.stdout)


def test_example_compiles_for_gpus():
    from spmvbench.devices import nvrtc

    for arch in ("sm_75", "sm_90"):
        for file, kernel in (
            ("csr_padded.cu", "csr_padded<double, int, 4>"),
            ("csr_search.cu", "csr_search<float, int>"),
        ):
            code, *_ = nvrtc.compile(EXAMPLE / file, [kernel], arch)
            assert code.startswith(b"\x7fELF")
