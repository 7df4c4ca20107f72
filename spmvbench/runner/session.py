"""One invocation of `spmvbench run` on one device: measure, and write rows and metadata into the run's folder."""

from __future__ import annotations

import hashlib
import platform
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import __version__, paths
from spmvbench.devices import cuda
from spmvbench.formats import Csr
from spmvbench.formats.conversion import Limits, cuda_limits
from spmvbench.matrices import Matrix
from spmvbench.measure import matrix_cache
from spmvbench.measure.cases import Case, Group, Settings, device_kind
from spmvbench.measure.reading import digest
from spmvbench.measure.timing import RULES
from spmvbench.measure.timing import facts as timing_facts
from spmvbench.programs import using
from spmvbench.rows import store
from spmvbench.rows.fitting import fitted
from spmvbench.rows.schema import MATRIX_COLUMNS, blank_row
from spmvbench.runner import plan, requirements
from spmvbench.runner.driver import Disconnected, Driver, timeout
from spmvbench.runner.precompile import open_and_compile
from spmvbench.runner.prefetch import Prefetcher


@dataclass
class Watcher:
    """Callbacks of the caller.

    on_begin: a case, or reading (None), begins; with the group and the stage. on_row: a row is on disk. on_notice: a
    message for the user, one line. stopping: called after each row; True ends the invocation there.
    """

    on_begin: Callable[[Group, Case | None, str], None] = lambda group, case, stage: None
    on_row: Callable[[dict[str, Any]], object] = lambda row: None
    on_notice: Callable[[str], None] = lambda line: None
    stopping: Callable[[], bool] = lambda: False


class Writer:
    """Writes rows, descriptions of matrices and metadata of one invocation into a run's folder. rows: written so far.

    Each method raises SpmvbenchError if the folder is gone: what is written would go to a new one of the same name.
    """

    def __init__(self, folder: Path, groups: Sequence[Group], watcher: Watcher):
        self.folder, self.watcher, self.rows = folder, watcher, 0
        self._described, self._sequence = store.described(folder), store.next_sequence(folder)
        self._metadata: dict[str, Any] = {"run": folder.name, "invocation": secrets.token_hex(8)}
        self._metadata |= {"started": store.now(), "ended": None, "seed": groups[0].seed, **host()}
        if programs := using.descriptions(sorted({case.format for group in groups for case in group.cases})):
            self._metadata["programs"] = programs

    def row(self, row: dict[str, Any]) -> bool:
        """Write one row to disk and report it. Returns whether to continue."""
        row |= {"run_id": self.folder.name}
        self._keep(store.append, row)
        self.rows += 1
        self.watcher.on_row(row)
        return not self.watcher.stopping()

    def description(self, about: dict[str, Any]) -> None:
        """Write the description of a matrix to disk, once per run."""
        if about["matrix_sha256"] not in self._described:
            self._keep(store.describe, fitted(blank_row(MATRIX_COLUMNS) | about, MATRIX_COLUMNS)[0])
            self._described.add(about["matrix_sha256"])

    def metadata(self, **facts: Any) -> None:
        """Add facts to the metadata of the invocation, and write all to disk."""
        store.require_folder(self.folder)
        self._metadata |= facts
        store.append_session(self.folder, self._metadata)

    def device(self, facts: Mapping[str, Any], settings: Settings) -> None:
        """Add the facts of the device, and the settings in use, to the metadata."""
        rule = RULES[device_kind(settings.device)]
        used = {
            "max_bytes": settings.max_bytes,
            "budget": settings.budget or rule.budget,
            "timing": timing_facts(rule),
            "energy": settings.energy,
            "update": settings.update,
            "timeout": timeout(settings),
        }
        self.metadata(**facts, **used)

    def _keep(self, put: Callable[[Path, dict[str, Any]], None], row: dict[str, Any]) -> None:
        store.require_folder(self.folder)
        put(self.folder, row | {"sequence": self._sequence})
        self._sequence += 1


def pending(folder: Path, cases: Sequence[Case], settings: Settings, *, settled: bool = False) -> list[Case]:
    """The cases that have no valid row in the run's folder. A row is invalid if it was measured from other sources, or
    from an archive of the collection that was replaced since.

    settled: include failed cases. An archive is read only if it was written after a row of its matrix.
    """
    measured = store.measured(folder, settled=settled, max_bytes=settings.max_bytes)
    kept = [case for case in cases if case.matrix.source == "suitesparse" and case.case_id in measured]
    rows = store.read_matrices(folder) if kept else {}

    @cache
    def found(matrix: Matrix, seed: int) -> str:
        try:
            return digest(Csr.of(matrix.read(seed, "real" if settings.real_part else "refuse")).astype(np.float64))
        except Exception:  # whatever a bad matrix raises: its measurement says what is wrong, and no other one waits
            return ""

    for case in kept:
        sha256, started = rows[case.case_id]
        if started < _written(case.matrix) and sha256 != found(case.matrix, case.seed):
            del measured[case.case_id]
    return plan.pending(cases, measured)


def _written(matrix: Matrix) -> str:
    """Time at which the file of a matrix was last written or moved, as rows store time; empty if it is missing."""
    assert matrix.path is not None
    try:
        status = matrix.path.stat()
    except OSError:
        return ""
    return store.timestamp(max(status.st_mtime, status.st_ctime))


def measure(folder: Path, groups: Sequence[Group], settings: Settings, watcher: Watcher) -> bool:
    """Measure every case of the groups and write the rows; the caller holds the folder's lock.

    Returns False if the watcher stopped it before the end. Raises DeviceUnavailable if there is no such device,
    SpmvbenchError if no worker can be started or the folder was removed meanwhile.
    """
    if not groups:
        store.compact(folder)  # a run that was killed at its end has not done this
        return True
    with store.opened_log(folder) as log:
        driver, on_gpu = Driver(settings, log, lambda row: True), device_kind(settings.device) == "cuda"
        # No case is lost while a process starts.
        driver.is_cancelled = lambda: not (driver.worker and driver.worker.is_ready) and watcher.stopping()
        try:
            if on_gpu:
                driver.settings = replace(settings, per_host=str(matrix_cache.per_host(secrets.token_hex(8))))
            driver.begin()  # what follows takes as long as its imports and opening its device
            writer = Writer(folder, groups, watcher)
            driver.write, driver.describe, driver.on_begin = writer.row, writer.description, watcher.on_begin
            driver.on_facts = lambda facts: writer.device(facts, settings)
            with ExitStack() as stack:
                if on_gpu:
                    ordinal = int(settings.device.partition(":")[2])
                    if not cuda.why_unavailable(ordinal):  # otherwise the worker reports the reason
                        stack.enter_context(_work_ahead(driver, groups, cuda_limits(ordinal)))
                    watcher.on_begin(groups[0], None, "compiling on all cores")
                    open_and_compile(driver, groups, watcher.stopping)
                    driver.stopped = watcher.stopping()
                left = driver.drive(groups)
                driver.close(graceful=True)
        except Disconnected:
            left = list(groups)
        finally:
            driver.close()
            if driver.facts:
                writer.metadata(ended=store.now(), rows=writer.rows, seconds=dict(driver.seconds))
        store.compact(folder)
    return not left


@contextmanager
def _work_ahead(driver: Driver, groups: Sequence[Group], limits: Limits) -> Iterator[None]:
    """Have other processes read the matrices of the next groups while a group is measured. limits: of the device."""
    assert driver.settings.per_host is not None
    on_begin = driver.on_begin

    def advance(group: Group, case: Case | None, stage: str) -> None:
        prefetcher.advance(group)
        on_begin(group, case, stage)

    with Prefetcher(Path(driver.settings.per_host), groups, driver.settings, limits) as prefetcher:
        driver.on_begin = advance
        prefetcher.advance(groups[0])
        yield


def host() -> dict[str, Any]:
    """Metadata of the host: versions, processor, memory, command line, and when the process began."""
    import psutil

    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "process_started": store.timestamp(psutil.Process().create_time()),
        "spmvbench": __version__,
        "git": _git_revision(),
        "package": package_hash(),
        "python": platform.python_version(),
        "os": platform.platform(),
        "host": platform.node(),
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "packages": requirements.versions(),
    }


def package_hash() -> str:
    """SHA-256 (16 hex digits) of this package's modules and kernels; it identifies them if there is no revision."""
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
    """The checkout's commit, with ``-dirty`` if files differ from it; None outside of a checkout."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None
