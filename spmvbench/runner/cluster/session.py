"""One invocation on many GPUs: this process assigns groups to workers, writes every row and answers every message."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from spmvbench import formats
from spmvbench.errors import SpmvbenchError, counted
from spmvbench.formats.two_copies import PLUS
from spmvbench.measure.cases import Case, Group, Settings
from spmvbench.measure.failures import Failure
from spmvbench.measure.protocol import Malformed
from spmvbench.measure.row import case_columns, device_columns, failure_columns, known_columns
from spmvbench.rows import store
from spmvbench.rows.fitting import storable
from spmvbench.rows.schema import blank_row
from spmvbench.rows.store import now
from spmvbench.runner.cluster import remote
from spmvbench.runner.cluster.scheduling import MAX_LOSSES, Schedule, matrix_and_seed, matrix_and_type
from spmvbench.runner.cluster.workers import Workers
from spmvbench.runner.costs import Costs
from spmvbench.runner.session import Watcher, Writer

POLL_SECONDS = 0.5  # between checks which workers are connected
MAX_REFUSALS = 2  # jobs that a worker may refuse before it gets no more


@dataclass
class Assignment:
    """A job that is assigned to a worker. missing: its cases without a row."""

    group: Group
    worker: str
    future: Any
    answers: Any
    missing: dict[str, Case]
    began: str = field(default_factory=now)


@dataclass
class WorkerRecord:
    """What is known of a worker that has measured.

    last_read: the matrix and type in its memory. prefetching: matrices that it is to prefetch and may still be reading.
    ready: seconds from the beginning until its device was first open. busy: seconds with jobs. seconds: by
    stage.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    host: str = ""
    last_read: Any = None
    prefetching: set[Any] = field(default_factory=set)
    rows: int = 0
    ready: float | None = None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    busy: float = 0.0


@dataclass
class ClusterRun:
    """State of the invocation, and the loop over the workers' messages."""

    workers: Workers
    schedule: Schedule
    settings: Settings
    writer: Writer
    watcher: Watcher
    log: IO[bytes]
    formats_by_type: tuple[Group, ...]
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    assignments: dict[int, Assignment] = field(default_factory=dict)
    worker_records: dict[str, WorkerRecord] = field(default_factory=lambda: defaultdict(WorkerRecord))
    refusals: Counter[str] = field(default_factory=Counter)
    written: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    number: int = 0
    is_running: bool = True

    def __post_init__(self) -> None:
        cases = [modes[0] for group in self.formats_by_type for modes in group.formats]
        shipped, classes = set(formats.shipped()), {case.format: formats.get(case.format) for case in cases}
        self.sources = {  # of modules and kernels of the package its hash tells, and not of data
            key: formats.source_hash(cls)
            for key, cls in classes.items()
            if not shipped.issuperset(key.split(PLUS)) or hasattr(cls, "data_digest")
        }
        self.messages = self.workers.queue(remote.message_queue(self.token))

    def run(self) -> bool:
        """Run until every case has a row or the watcher stops. Returns whether all is done. Raises SpmvbenchError."""
        looked, present = 0.0, list[str]()
        while self.assignments or (self.schedule and self.is_running):
            self.is_running = self.is_running and not self.watcher.stopping()
            if time.monotonic() > looked + POLL_SECONDS:
                present = self.workers.present()
                self.reschedule_lost(present)
                looked = time.monotonic()
            if self.is_running:
                self.assign_work(present)
            for message in self.workers.received(self.messages, POLL_SECONDS):
                self.receive(message)
        return not self.schedule

    def assign_work(self, present: Iterable[str]) -> None:
        """Assign work to every idle worker."""
        willing = [name for name in present if self.refusals[name] < MAX_REFUSALS]
        if not willing and present and not self.assignments:
            raise SpmvbenchError(f"no worker can measure: {self.reasons[-1]}")
        count = max(len(willing), self.workers.expected)
        busy = {assignment.worker for assignment in self.assignments.values()}
        sent: list[Group] = []
        for name in willing:
            if name in busy or (group := self.schedule.assign(count, self.worker_records[name].last_read)) is None:
                continue
            self.send(name, group, self.schedule.next_to_prefetch(count))
            sent.append(group)
        # Rows name it, and hashing takes seconds: while workers begin, not while they wait for answers to their rows.
        deque((case.source_hash for group in sent for case in group.cases), maxlen=0)

    def send(self, name: str, group: Group, prefetch: Any) -> None:
        """Send a group to a worker, and a matrix to prefetch."""
        self.number += 1
        groups = [group, *(assignment.group for assignment in self.assignments.values())]
        needed = set(map(matrix_and_seed, groups))
        needed |= {matrix_and_seed(left) for left in self.schedule.left} & self.schedule.known
        job = remote.Job(
            self.token,
            self.number,
            group,
            self.settings,
            prefetch,
            tuple(needed),
            self.formats_by_type if self.worker_records[name].last_read is None else (),
            remote.PACKAGE,
            self.sources,
        )
        key = remote.answer_queue(self.token, self.number)
        answers = self.workers.queue(key)
        future = self.workers.submit(remote.measure, job, worker=name, key=key)
        missing = {case.case_id: case for case in group.cases}
        self.assignments[self.number] = Assignment(group, name, future, answers, missing)
        self.worker_records[name].prefetching |= {prefetch} - {None}
        self.worker_records[name].last_read = matrix_and_type(group)
        count = len(self.assignments)
        self.watcher.on_begin(group, None, f"on {count} worker{'s' * (count != 1)}")

    def receive(self, message: Any) -> None:
        """Process one message of a job: write its content to disk, then answer it. After an invalid one the job is
        rejected.
        """
        number, kind, content = message if isinstance(message, list | tuple) and len(message) == 3 else (None, "", None)
        if not isinstance(number, int) or (assignment := self.assignments.get(number)) is None:
            return  # its worker was lost and the job was rescheduled, or the sender is unknown
        try:
            content = remote.validated(kind, content, assignment.missing)
        except Malformed as malformed:
            self.reject(number, assignment, f"the worker sent {malformed}")
            return
        worker = self.worker_records[assignment.worker]
        if kind == "row":
            self.write(content | known_columns(assignment.missing.pop(content["case_id"])))
            worker.rows += 1
        elif kind == "description":
            of = assignment.group.matrix
            self.writer.description(content | {"group": of.group, "name": of.name})
        elif kind == "facts":
            worker.host = content.pop("host_id")
            if not any(known.facts for known in self.worker_records.values()):
                self.writer.device(content, self.settings)
            worker.facts = content
            if worker.ready is None:
                worker.ready = time.monotonic() - self.began
        self.workers.put(assignment.answers, self.is_running)
        if kind == "end":
            self.end(number, assignment, content)

    def write(self, row: dict[str, Any]) -> None:
        """Write a row to disk, unless its case already has one of this invocation."""
        if row["case_id"] not in self.written:
            self.written.add(row["case_id"])
            if 0 < row["t_case"] < math.inf and row["nnz"] >= 0:
                self.schedule.costs.learn(row["label"], row["nnz"], row["t_case"])
            self.is_running = self.writer.row(row) and self.is_running

    def count_refusal(self, name: str, reason: str) -> None:
        """Count that a worker has not measured its job."""
        self.refusals[name] += 1
        self.reasons.append(reason)
        self.log.write(f"{name}: {reason}\n".encode(errors="backslashreplace"))
        self.log.flush()
        if self.refusals[name] == MAX_REFUSALS:
            self.watcher.on_notice(f"{name} gets no more work: {reason}")

    def reject(self, number: int, assignment: Assignment, reason: str) -> None:
        """Reschedule a job after an invalid message; the worker gets a new measuring process."""
        self.count_refusal(assignment.worker, reason)
        self.reschedule(number, reason)

    def end(self, number: int, assignment: Assignment, end: dict[str, Any]) -> None:
        """Process a job's last message, and reschedule what it has not done."""
        del self.assignments[number]
        assignment.answers.close()
        worker = self.worker_records[assignment.worker]
        for stage, seconds in end.get("seconds", {}).items():
            worker.seconds[stage] += seconds
        worker.busy += end.get("t_job", 0.0)
        self.finish_prefetches(worker, end.get("reading", ()))
        if end["log"]:
            self.log.write(f"-- {assignment.worker}\n{end['log']}".encode(errors="backslashreplace"))
            self.log.flush()
        if "refused" in end:
            self.count_refusal(assignment.worker, end["refused"])
        left = assignment.group.only(assignment.missing)
        if left.formats:
            self.schedule.put_back(left)

    def finish_prefetches(self, worker: WorkerRecord, reading: Sequence[Any] = ()) -> None:
        """Mark a worker's prefetched matrices as read, except for those that it is still reading."""
        read = {what for what in worker.prefetching if remote.id_and_seed(what) not in reading}
        worker.prefetching -= read
        self.schedule.reading -= read

    def reschedule_lost(self, present: Iterable[str]) -> None:
        """Reschedule the jobs of lost workers; rows that they have sent before count."""
        lost = [n for n, job in self.assignments.items() if job.worker not in present or job.future.done()]
        if not lost:
            return
        for message in self.workers.received(self.messages, 0):
            self.receive(message)
        for number in filter(self.assignments.__contains__, lost):  # the last message of the others had arrived
            assignment = self.assignments[number]
            how = (
                f"its job has the status {assignment.future.status}"
                if assignment.worker in present
                else "it is not connected"
            )
            self.log.write(
                f"{assignment.worker} was lost with {counted(len(assignment.missing), 'case')}: {how}\n".encode()
            )
            self.reschedule(number, f"{MAX_LOSSES} workers died while they ran it alone")

    def reschedule(self, number: int, reason: str) -> None:
        """Cancel a job and reschedule its cases; reason: for the rows of cases that have lost too many workers."""
        assignment = self.assignments.pop(number)
        with suppress(OSError):
            assignment.future.cancel()
        assignment.answers.close()
        self.worker_records[assignment.worker].last_read = None
        self.finish_prefetches(self.worker_records[assignment.worker])
        left = assignment.group.only(assignment.missing)
        for case in self.schedule.lost(left) if left.formats else ():
            facts = {"device": self.settings.device} | self.worker_records[assignment.worker].facts
            row = blank_row() | known_columns(case) | device_columns(facts)
            row |= case_columns(assignment.began) | failure_columns(Failure("crashed", reason))
            self.write(storable(row))

    def summary(self) -> list[dict[str, Any]]:
        """What each worker did, for run.json."""
        return [
            {
                "host": worker.host,
                "rows": worker.rows,
                "ready": worker.ready,
                "busy": worker.busy,
                "seconds": dict(worker.seconds),
            }
            | {key: worker.facts.get("properties", {}).get(key) for key in ("device_name", "gpu", "numa_node")}
            | {"launch_overhead": worker.facts.get("launch_overhead")}
            for worker in self.worker_records.values()
            if worker.facts
        ]


def measure(
    folder: Path, groups: Sequence[Group], settings: Settings, watcher: Watcher, workers: Workers, costs: Costs
) -> bool:
    """As `runner.session.measure`, on the workers of a Dask scheduler.

    Raises SpmvbenchError also if the scheduler ends or every worker refuses to measure; what is on disk stays.
    """
    if not groups:
        store.compact(folder)
        return True
    writer, began = Writer(folder, groups, watcher), time.monotonic()
    with store.opened_log(folder) as log:
        run = ClusterRun(workers, Schedule(groups, costs), settings, writer, watcher, log, formats_by_type(groups))
        try:
            done = run.run()
        finally:
            workers.release(run.token)
            if worker_records := run.summary():
                seconds: dict[str, float] = defaultdict(float)
                for worker in worker_records:
                    for stage, spent in worker["seconds"].items():
                        seconds[stage] += spent
                wall = time.monotonic() - began
                writer.metadata(ended=now(), rows=writer.rows, seconds=dict(seconds), wall=wall, workers=worker_records)
        store.compact(folder)
    return done


def formats_by_type(groups: Sequence[Group]) -> tuple[Group, ...]:
    """A group for each type, with every format of any group once."""
    found: dict[str, dict[str, Group]] = {}
    for group in groups:
        for modes in group.formats:
            found.setdefault(group.dtype, {}).setdefault(modes[0].label, replace(group, formats=(modes[:1],)))
    return tuple(
        replace(next(iter(labels.values())), formats=tuple(one.formats[0] for one in labels.values()))
        for labels in found.values()
    )
