"""Who drives a device: a worker process measures groups of cases, this process watches it and has the rows written.

A case that outlives its time becomes a row that says so; a new worker goes on with the rest. A case that takes its
worker down is tried once more, alone in a new worker, before it is charged: what it died of may be another's doing.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from pathlib import Path
from typing import IO, Any

from spmvbench.devices import DeviceUnavailable, pseudonym
from spmvbench.errors import SpmvbenchError
from spmvbench.measure.cases import Case, Group, Settings, device_kind
from spmvbench.measure.device_limits import SESSION
from spmvbench.measure.protocol import WAITING, Inbox, Malformed, understood
from spmvbench.rows.schema import blank_row, storable
from spmvbench.rows.store import now
from spmvbench.runner.supervisor import Supervised

TIMEOUTS = {"cuda": 60.0, "emulated": 120.0}
# What no format is to blame for has a limit of its own: opening a device (drivers, compilers), reading a huge matrix.
START_LIMIT, READ_LIMIT = 600.0, 3600.0
LOOK = 1.0  # seconds between questions whether to give up
ENDING = 60.0  # seconds that a worker whose end of the pipe is closed may take to end: a GPU's context is slow to go
# How often a case may take its worker down before it is charged. What SIGKILL ended, somebody else has ended.
TRIES, TRIES_IF_KILLED = 2, 3


def timeout(settings: Settings) -> float:
    """Seconds that a case may last in one turn."""
    return settings.timeout or TIMEOUTS[device_kind(settings.device)]


class Abandoned(Exception):
    """Nobody waits for the rows any more."""


class Died(Exception):
    """The worker ended without being asked, or had to be killed: the status and reason of the row.

    tries: how often a case is tried before this is charged to it.
    """

    def __init__(self, status: str, reason: str, tries: int = 1):
        super().__init__(reason)
        self.status, self.reason, self.tries = status, reason, tries


class Worker:
    """The measuring process and this end of its pipe. Its output goes to the log.

    abandoned: asked while waiting for it; True ends it. Class attributes: program, what Python is to run; environment,
    its variables, those of this process without.
    """

    program: tuple[str, ...] = ("-m", "spmvbench.measure.worker")
    environment: Mapping[str, str] | None = None

    def __init__(self, settings: Any, log: IO[bytes], abandoned: Callable[[], bool] = lambda: False):
        self.connection, theirs = Pipe()
        self.log, self.abandoned = log, abandoned
        self.logged = os.fstat(log.fileno()).st_size  # what comes after belongs to the present stage
        self.oom_kills = _oom_kills()
        self.inbox = Inbox(self.connection)
        command = [sys.executable, "-P", *self.program, str(theirs.fileno())]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        self.process = Supervised(command, pass_fds=[theirs.fileno()], env=self.environment, **streams)
        theirs.close()
        try:
            try:
                self.connection.send(settings)
            except ConnectionError:
                raise self.death("starting") from None
            answer = self.receive(time.monotonic() + START_LIMIT, START_LIMIT, "starting")
        except Died as died:
            self.kill()
            raise SpmvbenchError(f"the measuring process did not start ({died.reason}): see {log.name}") from None
        match answer:
            case ("ready", dict(facts)):
                self.facts: dict[str, Any] = facts
            case ("refused", str(reason), int(exit_code)):
                self.kill()
                error = DeviceUnavailable(reason)
                error.exit_code = exit_code
                raise error
            case _:
                self.kill()
                raise SpmvbenchError(f"the measuring process did not start (it sent what is no answer): see {log.name}")

    def receive(self, deadline: float, limit: float, stage: str) -> tuple:
        """The next message. Raises Died where none comes, or what is none, or none before the deadline; Abandoned."""
        try:
            while (message := self.inbox.take()) is None:
                left = deadline - time.monotonic()
                if self.connection.poll(min(max(left, 0), LOOK)):
                    self.inbox.more()
                elif self.abandoned():
                    self.kill()
                    raise Abandoned
                elif left <= 0:
                    break
            else:
                return message
        except Malformed as malformed:
            raise self.fault(malformed, stage) from None
        except (EOFError, OSError):
            raise self.death(stage) from None
        self.kill()
        raise Died("timeout", f"no end after {limit:g} s, while {stage}")

    def fault(self, malformed: Malformed, stage: str) -> Died:
        """What it is charged with for a message that it should not have sent. It is killed: what else has it done?"""
        self.kill()
        return Died("crashed", f"the worker sent {malformed}, while {stage}", TRIES)

    def death(self, stage: str) -> Died:
        """How it ended by itself."""
        code = self.ended()
        if code is None:
            return Died("crashed", f"the worker closed its pipe while {stage}, and did not end in {ENDING:g} s", TRIES)
        if code == -signal.SIGKILL and _oom_kills() > self.oom_kills:
            return Died("oom", f"the system ran out of memory and killed the worker while {stage}", TRIES)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        with open(self.log.name, "rb") as log:
            log.seek(self.logged)
            words = log.readline().decode(errors="replace").strip()
        # A C++ runtime says something here; Python's own first line only names the signal again.
        more = f": {words}" if words and not words.startswith("Fatal Python error") else ""
        tries = TRIES_IF_KILLED if code == -signal.SIGKILL else TRIES
        return Died("crashed", f"the worker {how} while {stage}{more}", tries)

    def ended(self) -> int | None:
        """Its exit code, once nothing more will come from it. None where it went on and had to be killed."""
        try:
            return self.process.wait(timeout=ENDING)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        """End it and whatever it started (compilers, a format's own processes) at once."""
        self.process.end()
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
class Driver:
    """What stays the same, or adds up, while workers come and go.

    write: puts a row where it belongs, and says whether to go on. describe: puts what a matrix looks like there.
    on_begin: hears of a case's turn, or of reading (None), with the matrix and the stage. on_facts: hears once of what
    the device told. abandoned: asked every second; True makes `drive` raise Abandoned. seconds: by stage.
    """

    settings: Settings
    log: IO[bytes]
    write: Callable[[dict[str, Any]], bool]
    describe: Callable[[dict[str, Any]], None] = lambda about: None
    on_begin: Callable[[Group, Case | None, str], None] = lambda group, case, stage: None
    on_facts: Callable[[dict[str, Any]], None] = lambda facts: None
    abandoned: Callable[[], bool] = lambda: False
    worker: Worker | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    deaths: Counter[frozenset[str]] = field(default_factory=Counter)  # by the ids of the cases then in flight together
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stopped: bool = False

    def drive(self, groups: Iterable[Group]) -> list[Group]:
        """Measure the groups. Returns what is left of them: nothing, unless a row was answered with a stop.

        Raises DeviceUnavailable where there is no such device, SpmvbenchError where no worker can be started.
        """
        left = deque(groups)
        while left and not self.stopped:
            worker = self.ready()
            left.extendleft(reversed(self.follow(worker, left.popleft())))
        return list(left)

    def ready(self) -> Worker:
        """A worker that takes work: the present one, or a new one."""
        if self.worker is not None and self.worker.process.poll() is not None:
            self.close()
        if self.worker is None:
            began = time.monotonic()
            # Asked of whoever waits then: it outlives the job that it was started for.
            self.worker = Worker(self.settings, self.log, lambda: self.abandoned())
            self.seconds["starting"] += time.monotonic() - began
        if not self.facts:
            self.facts = self.worker.facts
            measured = {name: self.facts[name] for name in SESSION if name in self.facts}
            self.settings = replace(self.settings, measured=measured)
            self.on_facts(self.facts)
        return self.worker

    def close(self, *, gently: bool = False) -> None:
        """End the worker, if there is one; gently: let it end by itself first."""
        if self.worker is not None:
            if gently:
                self.worker.end()
            self.worker.kill()
            self.worker = None

    def row(self, case: Case, *columns: dict[str, Any]) -> None:
        """Have one row written."""
        row = blank_row()
        for part in columns:
            row |= part
        properties = self.facts["properties"]
        row |= case.columns() | {"device": self.facts["device"], "host": pseudonym(platform.node())}
        row |= {name: str(properties.get(name, "")) for name in ("device_name", "gpu", "numa_node")}
        self.stopped = not self.write(storable(row))

    def follow(self, worker: Worker, group: Group) -> list[Group]:
        """Have a group measured. Returns what is left of it: nothing, unless the worker died or was told to stop."""
        cases = {case.case_id: case for case in group.cases}
        matrix: dict[str, Any] = {}
        index, stage, began, since = None, "taking up its work", now(), time.monotonic()
        turn, limit = since, READ_LIMIT
        again: list[Group] = []
        try:
            worker.connection.send(group)
            while not self.stopped:
                patience = READ_LIMIT if stage == WAITING else limit
                message = worker.receive(turn + patience, patience, stage)
                try:
                    kind, *content = understood(message, group, cases)
                except Malformed as malformed:
                    raise worker.fault(malformed, stage) from None
                spent = time.monotonic() - since
                self.seconds[stage] += spent
                since += spent
                if stage == WAITING:
                    turn += spent
                if kind == "begin":
                    if content[0] != index:
                        began, turn, limit = now(), since, timeout(self.settings)
                    index, stage, worker.logged = content
                    self.on_begin(group, None if index is None else group.formats[index][0], stage)
                elif kind == "matrix":
                    (matrix,) = content
                elif kind == "description":
                    self.describe(content[0] | {"group": group.matrix.group, "name": group.matrix.name})
                elif kind == "row":
                    case_id, columns = content
                    self.row(cases.pop(case_id), matrix, columns)
                    worker.connection.send(not self.stopped)
                    self.seconds["writing rows"] += time.monotonic() - since
                    since = time.monotonic()
                elif kind == "broken":
                    worker.ended()
                    raise Died("crashed", *content, TRIES)
                elif kind == "done":
                    break
        except (Died, ConnectionError) as error:
            died = error if isinstance(error, Died) else worker.death(stage)
            of_one = replace(group, formats=() if index is None else (group.formats[index],)).only(cases)
            in_flight = of_one if of_one.formats else group.only(cases)
            ids = frozenset(case.case_id for case in in_flight.cases)
            self.deaths[ids] += 1
            if ids and self.deaths[ids] < died.tries:
                again = [in_flight]
            else:
                failure = {"status": died.status, "reason": died.reason, "started_at": began}
                for case in in_flight.cases:
                    self.row(case, matrix, failure | {"t_case": time.monotonic() - turn})
            cases = {case_id: case for case_id, case in cases.items() if case_id not in ids}
        rest = group.only(cases)
        return [*again, rest] if rest.formats else again
