"""What tests keep beside compiled kernels: made once for all processes and sessions, known by what it depends on."""

import hashlib
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import platformdirs

import spmvbench
from spmvbench import paths


def compiled():
    """The folder of compiled kernels that all sessions of this user share; the cache knows them by their contents."""
    chosen = os.environ.get("SPMVBENCH_COMPILED")
    return Path(chosen) if chosen else platformdirs.user_cache_path("spmvbench-tests", appauthor=False)


def keep(kind, texts, make):
    """What `make` gives, as JSON: made once for the same kind and texts, which describe all that it depends on."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
    path = compiled() / kind / f"{digest}.json"
    if not path.is_file():
        with paths.locked(path.with_suffix(".lock")):
            if not path.is_file():
                with paths.written_whole(path) as file:
                    file.write(json.dumps(make()).encode())
    return json.loads(path.read_bytes())


def contents(files):
    """A digest of files, by their names and contents."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(b"\0" + path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


@cache
def formats_text():
    """A digest of all that decides what a format stores and launches: Python, and the constants of kernels."""
    package = Path(spmvbench.__file__).parent
    lines = [
        line
        for path in sorted(paths.kernels().rglob("*.cu*"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "constexpr" in line
    ]
    constants = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    python = contents([*package.glob("*.py"), *(package / "formats").rglob("*.py")])
    return f"{np.__version__} {constants} {python}"
