"""The table of docs/testing.md: CPU seconds of each part of `make test` and `make test-all`, in a fresh clone.

The clone of this checkout's revision is in a temporary folder. Its tests that need no GPU run one at a time, with empty
caches.
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

ROOT = Path(__file__).resolve().parents[2]


def markdown(steps: Mapping[str, float], tests: Mapping[str, Sequence[float]]) -> str:
    """The table. steps: seconds of what comes before the tests. tests: those of `make test` and of all, by folder."""
    rows = [(name, seconds, seconds) for name, seconds in steps.items()]
    rows += [(name, few, every) for name, (few, every) in sorted(tests.items(), key=lambda of: -of[1][1])]
    rows.append(("together", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    table = pd.DataFrame(rows, columns=["Part", "make test", "make test-all"]).set_index("Part")
    return f"**CPU seconds**\n\n{in_page.frame(table, 0)}"


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


main = in_page.command(lambda _: markdown(*measured()))
