"""The driver of one device: a worker process measures groups of cases; this process supervises it and has rows written.

A case that exceeds its time limit gets the status `timeout`, and a new worker continues with the rest. If a worker
dies, the case that was running is tried once more, alone in a new worker, before it is marked `crashed`: the cause may
lie in an earlier case.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from spmvbench.devices import DeviceUnavailable, pseudonym
from spmvbench.errors import SpmvbenchError
from spmvbench.measure import energy
from spmvbench.measure.cases import Case, Group, Settings, device_kind
from spmvbench.measure.device_limits import MEASURED_LIMITS
from spmvbench.measure.failures import Failure
from spmvbench.measure.process_state import take_printed
from spmvbench.measure.protocol import WAITING, Inbox, Malformed, validated
from spmvbench.measure.row import case_columns, device_columns, failure_columns, known_columns
from spmvbench.rows.fitting import storable
from spmvbench.rows.schema import blank_row
from spmvbench.rows.store import now
from spmvbench.runner.spawning import Spawned, measuring
from spmvbench.runner.supervisor import how_ended

TIMEOUTS = {"cuda": 60.0, "emulated": 120.0}
# Limits of stages without a format: opening a device (drivers, compilers), reading a huge matrix.
START_LIMIT, READ_LIMIT = 600.0, 3600.0
POLL_SECONDS = 1.0  # between checks whether the work was cancelled
EXIT_LIMIT = 60.0  # seconds for a worker to end after it has closed its pipe: a GPU's context is slow to go
# Workers that may die while a case runs, before it is marked. SIGKILL may come from another process: one more try.
MAX_TRIES, MAX_TRIES_IF_KILLED = 2, 3


def timeout(settings: Settings, cases: Sequence[Case] = ()) -> float:
    """Limit in seconds on one uninterrupted period of work on cases of a format; energy has its own time."""
    hot = sum(case.mode == "hot" for case in cases)
    return (settings.timeout or TIMEOUTS[device_kind(settings.device)]) + hot * energy.longest(settings.energy)


class Disconnected(Exception):
    """Raised when the client has disconnected."""


class WorkerDied(Exception):
    """The worker ended unasked, or had to be killed: status and reason of the row.

    tries: how many workers may die in this way before the running case is marked with it.
    """

    def __init__(self, status: str, reason: str, tries: int = 1):
        super().__init__(reason)
        self.status, self.reason, self.tries = status, reason, tries


class Worker:
    """The measuring process and the parent's end of its pipe, from its start on. Its output goes to the log.

    is_cancelled: called while waiting for the worker; True ends it. is_ready: it has opened its device, and `facts` are
    that one's.
    """

    def __init__(
        self, settings: Any, log: IO[bytes], spawned: Spawned, is_cancelled: Callable[[], bool] = lambda: False
    ):
        self.log, self.is_cancelled, self.is_ready = log, is_cancelled, False
        self.facts: dict[str, Any] = {}
        self.logged = os.fstat(log.fileno()).st_size  # later output belongs to the present stage
        self.oom_kills = _oom_kills()
        self.spawned = spawned
        self.process, self.connection = spawned.process, spawned.connection
        self.inbox = Inbox(self.connection)
        with suppress(OSError):  # it has died: `wait` says how
            spawned.begin(settings, log)

    def wait(self) -> None:
        """Wait until it is ready. Raises DeviceUnavailable, SpmvbenchError, Disconnected."""
        try:
            answer = self.receive(time.monotonic() + START_LIMIT, START_LIMIT, "starting")
        except WorkerDied as died:
            self.kill()
            raise SpmvbenchError(f"the measuring process did not start ({died.reason}): see {self.log.name}") from None
        match answer:
            case ("ready", dict(facts)):
                self.facts, self.is_ready = facts, True
            case ("refused", str(reason), int(exit_code)):
                self.kill()
                error = DeviceUnavailable(reason)
                error.exit_code = exit_code
                raise error
            case _:
                self.kill()
                raise SpmvbenchError(
                    f"the measuring process did not start (it sent an unknown answer): see {self.log.name}"
                )

    def receive(self, deadline: float, limit: float, stage: str) -> tuple[Any, ...]:
        """The next message. Raises WorkerDied if none arrives before the deadline or it is invalid; Disconnected."""
        try:
            while (message := self.inbox.next_message()) is None:
                left = deadline - time.monotonic()
                if self.connection.poll(min(max(left, 0), POLL_SECONDS)):
                    self.inbox.receive()
                elif self.is_cancelled():
                    self.kill()
                    raise Disconnected
                elif left <= 0:
                    break
            else:
                return message
        except Malformed as malformed:
            raise self.fault(malformed, stage) from None
        except (EOFError, OSError):
            raise self.death(stage) from None
        self.kill()
        raise WorkerDied("timeout", f"no end after {limit:g} s, while {stage}")

    def has_sent(self) -> bool:
        """Whether a message is there, without waiting for one."""
        with suppress(EOFError, OSError):
            while not self.inbox.has_message() and self.connection.poll():
                self.inbox.receive()
        return self.inbox.has_message()

    def fault(self, malformed: Malformed, stage: str) -> WorkerDied:
        """Kill the worker after an invalid message; returns the WorkerDied to raise."""
        self.kill()
        return WorkerDied("crashed", f"the worker sent {malformed}, while {stage}", MAX_TRIES)

    def death(self, stage: str) -> WorkerDied:
        """The WorkerDied for a worker that has ended by itself."""
        code = self.ended()
        if code is None:
            return WorkerDied(
                "crashed", f"the worker closed its pipe while {stage}, and did not end in {EXIT_LIMIT:g} s", MAX_TRIES
            )
        if code == -signal.SIGKILL and _oom_kills() > self.oom_kills:
            return WorkerDied("oom", f"the system ran out of memory and killed the worker while {stage}", MAX_TRIES)
        with open(self.log.name, "rb") as log:
            log.seek(self.logged)
            words = log.readline().decode(errors="replace").strip()
        words = words or take_printed(self.spawned.printed, self.log.fileno()).partition("\n")[0]
        # A C++ runtime prints a message; Python's own first line only repeats the signal.
        more = f": {words}" if words and not words.startswith("Fatal Python error") else ""
        tries = MAX_TRIES_IF_KILLED if code == -signal.SIGKILL else MAX_TRIES
        return WorkerDied("crashed", f"the worker {how_ended(code)} while {stage}{more}", tries)

    def ended(self) -> int | None:
        """The exit code, once the worker has ended. None if it did not end in time and was killed."""
        try:
            return self.process.wait(timeout=EXIT_LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        """Kill it and all processes that it has started (compilers, processes of a format)."""
        self.spawned.kill()

    def end(self) -> None:
        """Let it end by itself, within a limit."""
        with suppress(OSError, subprocess.TimeoutExpired):
            self.connection.send(None)
            self.process.wait(timeout=10)


def _oom_kills() -> int:
    """Number of processes that the kernel has killed for lack of memory; 0 if it is unknown."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


@dataclass
class Driver:
    """State that is kept, or accumulated, over several workers.

    write: stores a row, and returns whether to continue. describe: stores the description of a matrix. on_begin: is
    called when a case, or reading (None), begins, with the group and the stage. on_facts: is called once with the
    device's facts. is_cancelled: called every second; True makes `drive` raise Disconnected. seconds: by stage.
    """

    settings: Settings
    log: IO[bytes]
    write: Callable[[dict[str, Any]], bool]
    describe: Callable[[dict[str, Any]], object] = lambda about: None
    on_begin: Callable[[Group, Case | None, str], None] = lambda group, case, stage: None
    on_facts: Callable[[dict[str, Any]], object] = lambda facts: None
    is_cancelled: Callable[[], bool] = lambda: False
    worker: Worker | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    deaths: Counter[frozenset[str]] = field(default_factory=Counter)  # by the ids of the cases that were running
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stopped: bool = False

    def drive(self, groups: Iterable[Group]) -> list[Group]:
        """Measure the groups. Returns what is left of them: nothing, unless `write` has returned False.

        Raises DeviceUnavailable if there is no such device, SpmvbenchError if no worker can be started.
        """
        left = deque(groups)
        while left and not self.stopped:
            worker = self.ready_worker()
            left.extendleft(reversed(self.measure_group(worker, left.popleft())))
        return list(left)

    def begin(self) -> Worker:
        """The present worker, or a new one, which may still be starting."""
        if self.worker is not None and self.worker.is_ready and self.worker.process.poll() is not None:
            self.close()
        if self.worker is None:
            # Looked up at each call: the worker outlives the job that it was started for.
            self.worker = Worker(self.settings, self.log, measuring(self.settings.device), lambda: self.is_cancelled())
        return self.worker

    def ready_worker(self) -> Worker:
        """A worker that accepts work: the present one, or a new one."""
        worker = self.begin()
        if not worker.is_ready:
            began = time.monotonic()
            try:
                worker.wait()
            except BaseException:
                self.worker = None
                raise
            self.seconds["starting"] += time.monotonic() - began
        if not self.facts:
            self.facts = worker.facts
            measured = {name: self.facts[name] for name in MEASURED_LIMITS if name in self.facts}
            self.settings = replace(self.settings, measured=measured)
            self.on_facts(self.facts)
        return worker

    def close(self, *, graceful: bool = False) -> None:
        """End the worker, if there is one; graceful: let it end by itself first."""
        if self.worker is not None:
            if graceful:
                self.worker.end()
            self.worker.kill()
            self.worker = None

    def row(self, case: Case, *columns: dict[str, Any]) -> None:
        """Write one row."""
        row = blank_row()
        for part in columns:
            row |= part
        known = known_columns(case)
        known["experiment"] = known["experiment"] or bool(row["experiment"])  # what the host drives is one, too
        row |= known | device_columns(self.facts, pseudonym(platform.node()))
        self.stopped = not self.write(storable(row)) or self.stopped

    def measure_group(self, worker: Worker, group: Group) -> list[Group]:
        """Measure a group. Returns what is left of it: nothing, unless the worker died or was stopped."""
        return _Measurement(self, worker, group).run()


class _Done(Exception):
    """The worker has no more messages about its group."""


class _Measurement:
    """A group that a worker measures: what its messages have said so far.

    cases: those without a row, by id. matrix: columns of its rows. index: of the format that is measured; None while
    the matrix is read. began: when that began, in a row's words. since: when the last message was handled. period,
    limit: begin of the uninterrupted work, and its limit in seconds. first: groups to be measured before the others.
    """

    def __init__(self, driver: Driver, worker: Worker, group: Group):
        self.driver, self.worker, self.group = driver, worker, group
        self.cases = {case.case_id: case for case in group.cases}
        self.matrix: dict[str, Any] = {}
        self.index: int | None = None
        self.stage, self.began, self.since = "receiving its work", now(), time.monotonic()
        self.period, self.limit = self.since, READ_LIMIT
        self.first: list[Group] = []

    def run(self) -> list[Group]:
        """Handle all messages. Returns as `Driver.measure_group`."""
        try:
            self.worker.connection.send(self.group)
            while not self.driver.stopped or self.worker.has_sent():  # rows that it has sent meanwhile are written, too
                self._handle_next()
        except _Done:
            pass
        except (WorkerDied, ConnectionError) as error:
            self._died(error if isinstance(error, WorkerDied) else self.worker.death(self.stage))
        rest = self.group.only(self.cases)
        return [*self.first, rest] if rest.formats else self.first

    def _handle_next(self) -> None:
        patience = READ_LIMIT if self.stage == WAITING else self.limit
        message = self.worker.receive(self.period + patience, patience, self.stage)
        try:
            kind, *content = validated(message, self.group, self.cases)
        except Malformed as malformed:
            raise self.worker.fault(malformed, self.stage) from None
        spent = time.monotonic() - self.since
        self.driver.seconds[self.stage] += spent
        self.since += spent
        if self.stage == WAITING:
            self.period += spent
        getattr(self, f"_{kind}")(*content)  # `validated` knows the kinds

    def _begin(self, index: int | None, stage: str, logged: int) -> None:
        if index != self.index:
            working_on = () if index is None else self.group.formats[index]
            self.began, self.period, self.limit = now(), self.since, timeout(self.driver.settings, working_on)
        self.index, self.stage, self.worker.logged = index, stage, logged
        self.driver.on_begin(self.group, None if index is None else self.group.formats[index][0], stage)

    def _matrix(self, columns: dict[str, Any]) -> None:
        self.matrix = columns

    def _description(self, about: dict[str, Any]) -> None:
        self.driver.describe(about | {"group": self.group.matrix.group, "name": self.group.matrix.name})

    def _row(self, case_id: str, columns: dict[str, Any]) -> None:
        self.driver.row(self.cases.pop(case_id), self.matrix, columns)
        with suppress(ConnectionError):  # it has died in a later stage, which its last messages name
            self.worker.connection.send(not self.driver.stopped)
        self.driver.seconds["writing rows"] += time.monotonic() - self.since
        self.since = time.monotonic()

    def _done(self, left: str = "") -> None:
        if left:
            self.driver.close()
        raise _Done

    def _again(self, _reason: str) -> None:
        """All cases without a row, in another process."""
        self.worker.ended()
        self.group = replace(self.group, processes=self.group.processes - 1)
        raise _Done

    def _broken(self, reason: str) -> None:
        self.worker.ended()
        raise WorkerDied("crashed", reason, MAX_TRIES)

    def _refused(self, reason: str) -> None:
        self.worker.ended()
        raise DeviceUnavailable(reason)

    def _died(self, died: WorkerDied) -> None:
        """The case that was running is tried again before all others, or has a row."""
        group, index = self.group, self.index
        of_one = replace(group, formats=() if index is None else (group.formats[index],)).only(self.cases)
        in_flight = of_one if of_one.formats else group.only(self.cases)
        ids = frozenset(case.case_id for case in in_flight.cases)
        self.driver.deaths[ids] += 1
        if ids and self.driver.deaths[ids] < died.tries:
            self.first = [in_flight]
        else:
            failure = failure_columns(Failure(died.status, died.reason))
            for case in in_flight.cases:
                self.driver.row(case, self.matrix, failure, case_columns(self.began, time.monotonic() - self.period))
        self.cases = {case_id: case for case_id, case in self.cases.items() if case_id not in ids}
