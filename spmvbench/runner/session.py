"""One session of a run: a device's driver measures, this process writes the rows into the run's folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import __version__, paths
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr
from spmvbench.matrices import Matrix
from spmvbench.measure.cases import Case, Group, Settings, device_kind
from spmvbench.measure.reading import digest
from spmvbench.measure.timing import RULES
from spmvbench.rows import store
from spmvbench.rows.schema import MATRIX_COLUMNS, blank_row, fitted
from spmvbench.runner import plan
from spmvbench.runner.driver import Driver, timeout
from spmvbench.runner.precompile import compile_ahead

PARTS_BEFORE_COMPACTION = 1000


@dataclass
class Watcher:
    """What the caller wants to hear, and whether it wants to stop.

    on_begin: a case's turn, or reading (None), with the matrix and the stage. on_row: a row that is on disk.
    on_notice: what a person should know of the session, in a line. stopping: asked after every row; True ends the
    session there.
    """

    on_begin: Callable[[Group, Case | None, str], None] = lambda group, case, stage: None
    on_row: Callable[[dict[str, Any]], None] = lambda row: None
    on_notice: Callable[[str], None] = lambda line: None
    stopping: Callable[[], bool] = lambda: False


@dataclass
class Writer:
    """Puts rows and descriptions into a run's folder, one behind the other.

    standing: raises where the folder is gone. sequence: place of the next. described: matrices, by their hashes.
    """

    folder: Path
    watcher: Watcher
    standing: Callable[[], None]
    sequence: int = field(init=False)
    described: set[str] = field(init=False)
    rows: int = 0
    parts: int = 0

    def __post_init__(self) -> None:
        self.described, self.sequence = store.described(self.folder), store.next_sequence(self.folder)

    def row(self, row: dict[str, Any]) -> bool:
        """Put one row on disk, then tell of it. Returns whether to go on."""
        row |= {"run_id": self.folder.name}
        self._keep(store.append, row)
        self.rows += 1
        self.parts += 1
        if self.parts >= PARTS_BEFORE_COMPACTION:
            store.compact(self.folder)
            self.parts = 0
        self.watcher.on_row(row)
        return not self.watcher.stopping()

    def description(self, about: dict[str, Any]) -> None:
        """Put what a matrix looks like on disk, once a run."""
        if about["matrix_sha256"] not in self.described:
            self._keep(store.describe, fitted(blank_row(MATRIX_COLUMNS) | about, MATRIX_COLUMNS)[0])
            self.described.add(about["matrix_sha256"])

    def _keep(self, put: Callable[[Path, dict[str, Any]], None], row: dict[str, Any]) -> None:
        self.standing()
        put(self.folder, row | {"sequence": self.sequence})
        self.sequence += 1


@dataclass
class Record:
    """The session's entry in run.json: what is known of it so far."""

    folder: Path
    entry: dict[str, Any]

    @classmethod
    def begin(cls, folder: Path, groups: Sequence[Group]) -> Record:
        """The record of a session that starts now, with what the host says of itself."""
        entry = {"run": folder.name, "started": store.now(), "ended": None, "seed": groups[0].seed}
        return cls(folder, entry | host())

    def add(self, **facts: Any) -> None:
        """Write it with these facts, too."""
        self.entry |= facts
        store.append_session(self.folder, self.entry)

    def add_device(self, facts: Mapping[str, Any], settings: Settings) -> None:
        """What the device told, and what it is measured with."""
        rule = RULES[device_kind(settings.device)]
        settled = {
            "max_bytes": settings.max_bytes,
            "budget": settings.budget or rule.budget,
            "timeout": timeout(settings),
        }
        self.add(**facts, **settled)


def pending(folder: Path, cases: Sequence[Case], settings: Settings, *, settled: bool = False) -> list[Case]:
    """The cases that the run's folder lacks a row of, or holds one that no longer holds: from other sources, or of an
    archive of the collection that was replaced.

    settled: those that failed, too. An archive is read only where it was written after a row of its matrix.
    """
    measured = store.measured(folder, settled=settled, max_bytes=settings.max_bytes)
    kept = [case for case in cases if case.matrix.source == "suitesparse" and case.case_id in measured]
    rows = store.read_matrices(folder) if kept else {}

    @cache
    def found(matrix: Matrix, seed: int) -> str:
        try:
            return digest(Csr.of(matrix.read(seed, "real" if settings.real_part else "refuse")).astype(np.float64))
        except SpmvbenchError:
            return ""

    for case in kept:
        sha256, started = rows[case.case_id]
        if started < _written(case.matrix) and sha256 != found(case.matrix, case.seed):
            del measured[case.case_id]
    return plan.pending(cases, measured)


def _written(matrix: Matrix) -> str:
    """When the file of a matrix was last written or put where it is, as rows tell time; empty where it is not here."""
    assert matrix.path is not None
    try:
        status = matrix.path.stat()
    except OSError:
        return ""
    return store.timestamp(max(status.st_mtime, status.st_ctime))


def measure(folder: Path, groups: Sequence[Group], settings: Settings, watcher: Watcher) -> bool:
    """Measure every case of the groups and write the rows; the caller holds the folder's lock.

    Returns False where the watcher stopped it before the end. Raises DeviceUnavailable where there is no such device,
    SpmvbenchError where no worker can be started, or the folder was removed meanwhile.
    """
    if not groups:
        store.compact(folder)  # a run killed at its end has left this undone
        return True
    record = Record.begin(folder, groups)
    with store.opened_log(folder) as log, store.unmoved(folder) as standing:
        writer = Writer(folder, watcher, standing)
        driver = Driver(settings, log, writer.row, writer.description, watcher.on_begin)
        driver.on_facts = lambda facts: record.add_device(facts, settings)
        if device_kind(settings.device) == "cuda":
            watcher.on_begin(groups[0], None, "compiling on all cores")
            began = time.monotonic()
            compile_ahead(groups, settings.device, log, watcher.stopping)
            driver.seconds["compiling ahead"] = time.monotonic() - began
            driver.stopped = watcher.stopping()
        try:
            left = driver.drive(groups)
            driver.close(gently=True)
        finally:
            driver.close()
            standing()
            if driver.facts:
                record.add(ended=store.now(), rows=writer.rows, seconds=dict(driver.seconds))
    store.compact(folder)
    return not left


def host() -> dict[str, Any]:
    """The host's part of the environment record: versions, processor, memory, command line."""
    import psutil

    packages = {}
    for name in ("numpy", "scipy", "pandas", "pyarrow", "cupy-cuda12x", "cupy-cuda13x"):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "spmvbench": __version__,
        "git": _git_revision(),
        "package": package_hash(),
        "python": platform.python_version(),
        "os": platform.platform(),
        "host": platform.node(),
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "packages": packages,
    }


def package_hash() -> str:
    """SHA-256 (16 hex digits) of this package's modules and kernels: what ran, where no revision tells it."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder, pattern in ((package, "*.py"), (paths.kernels(), "*.cu*")):
        for path in sorted(folder.rglob(pattern)):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


def _git_revision() -> str | None:
    """The checkout's commit, with ``-dirty`` where files differ from it; None outside a checkout."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None
