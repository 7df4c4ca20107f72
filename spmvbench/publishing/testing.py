"""The table of docs/testing.md: CPU seconds of each part of `make test` and `make test-all`, in a fresh clone.

``python -m spmvbench.publishing.testing --page docs/testing.md`` clones this checkout's revision into a temporary
folder, installs it there, and runs all tests that need no GPU, one at a time and with empty caches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from spmvbench.publishing import in_page
from spmvbench.reports import export, tables

ROOT = Path(__file__).resolve().parents[2]


def markdown(steps: Mapping[str, float], tests: Mapping[str, Sequence[float]]) -> str:
    """The table. steps: seconds of what comes before the tests. tests: those of `make test` and of all, by folder."""
    rows = [(name, seconds, seconds) for name, seconds in steps.items()]
    rows += [(name, few, every) for name, (few, every) in sorted(tests.items(), key=lambda of: -of[1][1])]
    rows.append(("together", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    columns = [
        tables.Column("part", "Part"),
        tables.Column("few", "make test", lambda seconds: f"{seconds:.0f}"),
        tables.Column("every", "make test-all", lambda seconds: f"{seconds:.0f}"),
    ]
    table = pd.DataFrame(rows, columns=["part", "few", "every"])
    return export.written([tables.table("CPU seconds", table, columns)], "markdown").rstrip("\n")


def measured() -> tuple[dict[str, float], dict[str, list[float]]]:
    """`steps` and `tests` of `markdown`. Raises CalledProcessError if a step fails; a test may."""
    with tempfile.TemporaryDirectory() as place:
        clone, seconds = Path(place, "clone"), Path(place, "seconds.json")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        environment = os.environ | {"SPMVBENCH_COMPILED": f"{place}/compiled", "PIP_NO_CACHE_DIR": "1"}
        pytest = [".venv/bin/python", "-m", "pytest", "-m", "not gpu", "-n", "0", "-q", "--cpu-seconds", str(seconds)]
        steps = {}
        for name, command in (
            ("installation", ["make", "-s", ".venv/.dev", f"PYTHON={sys.executable}"]),
            ("style and types", ["make", "-s", "check"]),
            ("tests", pytest),
        ):
            before = os.times()
            done = subprocess.run(command, cwd=clone, env=environment, check=False)
            if done.returncode > (command is pytest):  # 1 of pytest: a test failed, and took its time
                raise subprocess.CalledProcessError(done.returncode, command)
            after = os.times()
            steps[name] = after.children_user + after.children_system - before.children_user - before.children_system
        tests: dict[str, list[float]] = json.loads(seconds.read_bytes())
    collecting = steps.pop("tests") - sum(every for _, every in tests.values())
    return steps | {"collection of the tests": max(collecting, 0.0)}, tests


main = in_page.command("testing", __doc__, lambda _: markdown(*measured()))

if __name__ == "__main__":
    main()
