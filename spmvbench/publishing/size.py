"""Counts what a maintainer has to carry: lines, findings on complexity and bytes of results, of tracked files.

``python -m spmvbench.publishing size`` prints them for the checkout. Lines are those of `ruff format`, which CI checks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from spmvbench.publishing.in_page import parser

ROOT = Path(__file__).resolve().parents[2]
TEXTS = (".py", ".html", ".js", ".css", ".hpp", ".cpp")
COMPLEXITY = "C901,PLR0915,PLR0912"  # ruff's rules on branches and statements, at their usual limits


def tracked(folder: str) -> list[Path]:
    """The files of a folder that git has and that are there."""
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def lines(folder: str, counts: Callable[[Path], bool] = lambda _: True) -> int:
    """Lines of the tracked source files of a folder for which `counts` is true of the path inside of it."""
    inside = {path: path.relative_to(ROOT / folder) for path in tracked(folder) if path.suffix in TEXTS}
    return sum(path.read_bytes().count(b"\n") for path, part in inside.items() if counts(part))


def findings() -> int:
    """Findings of ruff's rules COMPLEXITY in the package."""
    words = f"-m ruff check --quiet --isolated --select {COMPLEXITY} --output-format concise spmvbench"
    command = [sys.executable, *words.split()]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return len(found.stdout.splitlines())


def main() -> None:
    """Print the counts."""
    parser(__name__).parse_args()
    others = lines("spmvbench", lambda part: part.parts[0] != "formats" and "library" not in part.parts)
    for what, count in {
        "lines of spmvbench outside of formats, with templates": others,
        "lines of spmvbench/formats": lines("spmvbench/formats"),
        "lines of tests": lines("tests", lambda part: part.suffix == ".py"),
        f"findings of {COMPLEXITY}": findings(),
        "bytes of results": sum(path.stat().st_size for path in tracked("results")),
        "bytes of pages": sum(path.stat().st_size for path in tracked("docs") if path.suffix == ".md"),
    }.items():
        print(f"{count:12,}  {what}")
