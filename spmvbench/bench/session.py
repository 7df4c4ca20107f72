"""One session of a run: a worker process measures, this process watches it and writes the rows.

A case that outlives its time becomes a row that says so; a new worker goes on with the rest. A case that takes its
worker down is tried once more, alone in a new worker, before it is charged: what it died of may be another's doing.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import signal
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from pathlib import Path
from typing import IO, Any

from spmvbench import __version__, paths, store
from spmvbench.bench.ahead import compile_ahead
from spmvbench.bench.plan import Case, Group, Settings, device_kind
from spmvbench.bench.probe import SESSION
from spmvbench.bench.record import MATRIX_COLUMNS, blank_row, fitted, storable
from spmvbench.bench.timing import RULES
from spmvbench.devices import DeviceUnavailable
from spmvbench.errors import SpmvbenchError

TIMEOUTS = {"cuda": 60.0, "emulated": 120.0}
# What no format is to blame for has a limit of its own: opening a device (drivers, compilers), reading a huge matrix.
START_LIMIT, READ_LIMIT = 600.0, 3600.0
PARTS_BEFORE_COMPACTION = 1000


@dataclass
class Watcher:
    """What the caller wants to hear, and whether it wants to stop.

    on_begin: a case's turn, or reading (None), with the matrix and the stage. on_row: a row that is on disk.
    stopping: asked after every row; True ends the session there.
    """

    on_begin: Callable[[Group, Case | None, str], None] = lambda group, case, stage: None
    on_row: Callable[[dict[str, Any]], None] = lambda row: None
    stopping: Callable[[], bool] = lambda: False


class _Died(Exception):
    """The worker ended without being asked, or had to be killed: the status and reason of the row."""

    def __init__(self, status: str, reason: str):
        super().__init__(reason)
        self.status, self.reason = status, reason


class _Worker:
    """The measuring process and this end of its pipe. Its output goes to the log."""

    def __init__(self, settings: Settings, log: IO[bytes]):
        self.connection, theirs = Pipe()
        self.log = log
        self.logged = os.fstat(log.fileno()).st_size  # what comes after belongs to the present stage
        self.oom_kills = _oom_kills()
        command = [sys.executable, "-P", "-m", "spmvbench.bench.worker", str(theirs.fileno()), str(os.getpid())]
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C at the terminal reaches the parent only
        )
        theirs.close()
        self.connection.send(settings)
        try:
            answer = self.receive(time.monotonic() + START_LIMIT, START_LIMIT, "starting")
        except _Died as died:
            self.kill()
            raise SpmvbenchError(f"the measuring process did not start ({died.reason}): see {log.name}") from None
        if answer[0] == "refused":
            self.kill()
            error = DeviceUnavailable(answer[1])
            error.exit_code = answer[2]
            raise error
        self.facts: dict[str, Any] = answer[1]

    def receive(self, deadline: float, limit: float, stage: str) -> tuple:
        """The next message. Raises _Died where none comes any more, or none before the deadline."""
        try:
            if self.connection.poll(max(deadline - time.monotonic(), 0)):
                return self.connection.recv()
        except (EOFError, OSError):
            raise self.death(stage) from None
        self.kill()
        raise _Died("timeout", f"no end after {limit:g} s, while {stage}")

    def death(self, stage: str) -> _Died:
        """How it ended by itself."""
        code = self.process.wait()
        if code == -signal.SIGKILL and _oom_kills() > self.oom_kills:
            return _Died("oom", f"the system ran out of memory and killed the worker while {stage}")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        with open(self.log.name, "rb") as log:
            log.seek(self.logged)
            words = log.readline().decode(errors="replace").strip()
        # A C++ runtime says something here; Python's own first line only names the signal again.
        more = f": {words}" if words and not words.startswith("Fatal Python error") else ""
        return _Died("crashed", f"the worker {how} while {stage}{more}")

    def kill(self) -> None:
        """End it and what it started (compilers) at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.close()

    def end(self) -> None:
        """Let it end by itself, for a while."""
        with suppress(OSError, subprocess.TimeoutExpired):
            self.connection.send(None)
            self.process.wait(timeout=10)


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


@dataclass
class _Session:
    """What stays the same, or adds up, while workers come and go."""

    folder: Path
    watcher: Watcher
    timeout: float
    standing: Callable[[], None] = lambda: None  # raises where the folder is gone
    sequence: int = 1  # place of the next row
    facts: dict[str, Any] = field(default_factory=dict)
    described: set[str] = field(default_factory=set)
    suspects: set[frozenset[str]] = field(default_factory=set)  # ids of cases in flight together when a worker died
    rows: int = 0
    parts: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stopped: bool = False

    def write(self, case: Case, *columns: dict[str, Any]) -> None:
        """Put one row on disk, then tell of it."""
        row = blank_row() | case.columns()
        row |= {
            "run_id": self.folder.name,
            "device": self.facts["device"],
            "device_name": str(self.facts["properties"]["device_name"]),
        }
        for part in columns:
            row |= part
        row = storable(row)
        self.keep(store.append, row)
        self.rows += 1
        self.parts += 1
        if self.parts >= PARTS_BEFORE_COMPACTION:
            store.compact(self.folder)
            self.parts = 0
        self.watcher.on_row(row)

    def describe(self, about: dict[str, Any]) -> None:
        """Put what a matrix looks like on disk, once a run."""
        if about["matrix_sha256"] not in self.described:
            self.keep(store.describe, fitted(blank_row(MATRIX_COLUMNS) | about, MATRIX_COLUMNS)[0])
            self.described.add(about["matrix_sha256"])

    def keep(self, put: Callable[[Path, dict[str, Any]], None], row: dict[str, Any]) -> None:
        """Put a row into a table of the folder, behind all before it."""
        self.standing()
        put(self.folder, row | {"sequence": self.sequence})
        self.sequence += 1

    def follow(self, worker: _Worker, group: Group) -> list[Group]:
        """Have a group measured. Returns what is left of it: nothing, unless the worker died or was told to stop."""
        cases = {case.case_id: case for case in group.cases}
        matrix: dict[str, Any] = {}
        index, stage, began, since = None, "taking up its work", store.now(), time.monotonic()
        turn, limit = since, READ_LIMIT
        again: list[Group] = []
        try:
            worker.connection.send(group)
            while not self.stopped:
                kind, *content = worker.receive(turn + limit, limit, stage)
                self.seconds[stage] += time.monotonic() - since
                since = time.monotonic()
                if kind == "begin":
                    if content[0] != index:
                        began, turn, limit = store.now(), since, self.timeout
                    index, stage, worker.logged = content
                    self.watcher.on_begin(group, None if index is None else group.formats[index][0], stage)
                elif kind == "matrix":
                    (matrix,) = content
                elif kind == "description":
                    self.describe(*content)
                elif kind == "row":
                    case_id, columns = content
                    self.write(cases.pop(case_id), matrix, columns)
                    self.stopped = self.watcher.stopping()
                    worker.connection.send(not self.stopped)
                    self.seconds["writing rows"] += time.monotonic() - since
                    since = time.monotonic()
                elif kind == "broken":
                    worker.process.wait()
                    raise _Died("crashed", *content)
                elif kind == "done":
                    break
        except (_Died, ConnectionError) as error:
            died = error if isinstance(error, _Died) else worker.death(stage)
            in_flight = (group if index is None else replace(group, formats=(group.formats[index],))).only(cases)
            ids = frozenset(case.case_id for case in in_flight.cases)
            if died.status == "crashed" and ids not in self.suspects:
                self.suspects.add(ids)
                again = [in_flight]
            else:
                failure = {"status": died.status, "reason": died.reason, "started_at": began}
                for case in in_flight.cases:
                    self.write(case, matrix, failure | {"t_case": time.monotonic() - turn})
            cases = {case_id: case for case_id, case in cases.items() if case_id not in ids}
            self.stopped = self.watcher.stopping()
        rest = group.only(cases)
        return [*again, rest] if rest.formats else again


def measure(folder: Path, groups: Sequence[Group], settings: Settings, watcher: Watcher) -> bool:
    """Measure every case of the groups and write the rows; the caller holds the folder's lock.

    Returns False where the watcher stopped it before the end. Raises DeviceUnavailable where there is no such device,
    SpmvbenchError where no worker can be started, or the folder was removed meanwhile.
    """
    left = deque(groups)
    if not left:
        store.compact(folder)  # a run killed at its end has left this undone
        return True
    kind = device_kind(settings.device)
    timeout = settings.timeout or TIMEOUTS[kind]
    record = {"run": folder.name, "started": store.now(), "ended": None, "seed": left[0].seed} | host()
    worker: _Worker | None = None
    with open(folder / store.LOG, "ab") as log, store.standing(folder) as standing:
        described, sequence = store.described(folder), store.next_sequence(folder)
        session = _Session(folder, watcher, timeout, standing, sequence, described=described)
        if kind == "cuda":
            watcher.on_begin(left[0], None, "compiling on all cores")
            began = time.monotonic()
            try:
                compile_ahead(left, settings.device, log, watcher.stopping)
            except Exception as error:  # it only saves time: every case compiles what it lacks, or says why it cannot
                log.write(f"Nothing compiled ahead: {type(error).__name__}: {error}\n".encode())
                log.flush()
            session.seconds["compiling ahead"] = time.monotonic() - began
            session.stopped = watcher.stopping()
        try:
            while left and not session.stopped:
                if worker is not None and worker.process.poll() is not None:
                    worker.kill()
                    worker = None
                if worker is None:
                    began = time.monotonic()
                    worker = _Worker(settings, log)
                    session.seconds["starting"] += time.monotonic() - began
                if not session.facts:
                    session.facts = worker.facts
                    measured = {name: worker.facts[name] for name in SESSION if name in worker.facts}
                    settings = replace(settings, measured=measured)
                    record |= worker.facts | {
                        "max_bytes": settings.max_bytes,
                        "budget": settings.budget or RULES[kind].budget,
                        "timeout": timeout,
                    }
                    store.append_session(folder, record)
                left.extendleft(reversed(session.follow(worker, left.popleft())))
            if worker is not None:
                worker.end()
        finally:
            if worker is not None:
                worker.kill()
            standing()
            if session.facts:
                record |= {"ended": store.now(), "rows": session.rows, "seconds": dict(session.seconds)}
                store.append_session(folder, record)
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
        "command": sys.argv,
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
