"""A session over many GPUs: this process deals out groups, writes every row that comes back, and answers it."""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from spmvbench import formats
from spmvbench.errors import SpmvbenchError
from spmvbench.measure.cases import Case, Group, Settings
from spmvbench.measure.protocol import Malformed
from spmvbench.rows import store
from spmvbench.rows.schema import blank_row, storable
from spmvbench.rows.store import now
from spmvbench.runner.cluster import remote
from spmvbench.runner.cluster.scheduling import Deal, matrix, subject
from spmvbench.runner.cluster.workers import Workers
from spmvbench.runner.costs import Costs
from spmvbench.runner.session import Record, Watcher, Writer

LOOK = 0.5  # seconds between looks at who is there
REFUSALS = 2  # jobs that a worker may refuse before it is given no more


@dataclass
class Flight:
    """A job that a worker has. missing: its cases without a row."""

    group: Group
    worker: str
    future: Any
    answers: Any
    missing: dict[str, Case]
    began: str = field(default_factory=now)


@dataclass
class Member:
    """A worker that has measured.

    had: what it has read. ahead: what it was told to read ahead and may still be reading. ready: seconds from the
    session's begin until its device was first open. busy: seconds with jobs. seconds: by stage.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    host: str = ""
    had: Any = None
    ahead: set[Any] = field(default_factory=set)
    rows: int = 0
    ready: float | None = None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    busy: float = 0.0


@dataclass
class Session:
    """What the loop of a session works on."""

    workers: Workers
    deal: Deal
    settings: Settings
    writer: Writer
    record: Record
    watcher: Watcher
    log: IO[bytes]
    kinds: tuple[Group, ...]
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    flights: dict[int, Flight] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=lambda: defaultdict(Member))
    refusals: Counter[str] = field(default_factory=Counter)
    written: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    number: int = 0
    going: bool = True

    def __post_init__(self) -> None:
        cases = [modes[0] for group in self.kinds for modes in group.formats]
        self.sources = {case.format: formats.source_hash(formats.get(case.format)) for case in cases}
        self.messages = self.workers.queue(remote.messages(self.token))

    def run(self) -> bool:
        """Until every case has its row or the watcher stops it. Returns whether all is done. Raises SpmvbenchError."""
        looked = 0.0
        while self.flights or (self.deal and self.going):
            self.going = self.going and not self.watcher.stopping()
            if time.monotonic() > looked + LOOK:
                present = self.workers.present()
                self.mourn(present)
                looked = time.monotonic()
            if self.going:
                self.deal_out(present)
            for message in self.workers.received(self.messages, LOOK):
                self.take(message)
        return not self.deal

    def deal_out(self, present: Iterable[str]) -> None:
        """Give every worker that has nothing something to do."""
        willing = [name for name in present if self.refusals[name] < REFUSALS]
        if not willing and present and not self.flights:
            raise SpmvbenchError(f"no worker can measure: {self.reasons[-1]}")
        count = max(len(willing), self.workers.expected)
        busy = {flight.worker for flight in self.flights.values()}
        for name in willing:
            if name in busy or (group := self.deal.take(count, self.members[name].had)) is None:
                continue
            self.send(name, group, self.deal.following(count))

    def send(self, name: str, group: Group, following: Any) -> None:
        """Give a worker a group, and a matrix to read ahead."""
        self.number += 1
        needed = {matrix(flight.group) for flight in self.flights.values()} | {matrix(group)}
        needed |= {matrix(left) for left in self.deal.left} & self.deal.ahead
        job = remote.Job(
            self.token,
            self.number,
            group,
            self.settings,
            following,
            tuple(needed),
            self.kinds if self.members[name].had is None else (),
            remote.PACKAGE,
            self.sources,
        )
        key = remote.answers(self.token, self.number)
        answers = self.workers.queue(key)
        future = self.workers.submit(remote.measure, job, worker=name, key=key)
        missing = {case.case_id: case for case in group.cases}
        self.flights[self.number] = Flight(group, name, future, answers, missing)
        self.members[name].ahead |= {following} - {None}
        self.members[name].had = subject(group)
        count = len(self.flights)
        self.watcher.on_begin(group, None, f"on {count} worker{'s' * (count != 1)}")

    def take(self, message: Any) -> None:
        """One message of a job: put on disk what it brings, then answer it. What fits no case is its worker's fault."""
        number, kind, content = message if isinstance(message, list | tuple) and len(message) == 3 else (None, "", None)
        flight = self.flights.get(number) if isinstance(number, int) else None
        if flight is None:
            return  # its worker was lost, and what it had was dealt again; or nobody knows who has sent it
        try:
            content = remote.understood(kind, content, flight.missing)
        except Malformed as malformed:
            self.fault(number, flight, f"the worker sent {malformed}")
            return
        member = self.members[flight.worker]
        if kind == "row":
            self.write(content | flight.missing.pop(content["case_id"]).columns())
            member.rows += 1
        elif kind == "description":
            of = flight.group.matrix
            self.writer.description(content | {"group": of.group, "name": of.name})
        elif kind == "facts":
            member.host = content.pop("host_id")
            if not any(known.facts for known in self.members.values()):
                self.record.add_device(content, self.settings)
            member.facts = content
            if member.ready is None:
                member.ready = time.monotonic() - self.began
        self.workers.put(flight.answers, self.going)
        if kind == "end":
            self.end(number, flight, content)

    def write(self, row: dict[str, Any]) -> None:
        """Put a row on disk, unless its case has one of this session."""
        if row["case_id"] not in self.written:
            self.written.add(row["case_id"])
            if 0 < row["t_case"] < math.inf and row["nnz"] >= 0:
                self.deal.costs.learn(row["label"], row["nnz"], row["t_case"])
            self.going = self.writer.row(row) and self.going

    def refused(self, name: str, reason: str) -> None:
        """A worker has not measured what it was given."""
        self.refusals[name] += 1
        self.reasons.append(reason)
        self.log.write(f"{name}: {reason}\n".encode(errors="backslashreplace"))
        self.log.flush()
        if self.refusals[name] == REFUSALS:
            self.watcher.on_notice(f"{name} gets no more work: {reason}")

    def fault(self, number: int, flight: Flight, reason: str) -> None:
        """A job's worker cannot be believed: what the job had is dealt again, and with it a new measuring process."""
        self.refused(flight.worker, reason)
        self.lose(number, reason)

    def end(self, number: int, flight: Flight, end: dict[str, Any]) -> None:
        """A job's last message: what it did not do is dealt again."""
        del self.flights[number]
        flight.answers.close()
        member = self.members[flight.worker]
        for stage, seconds in end.get("seconds", {}).items():
            member.seconds[stage] += seconds
        member.busy += end.get("t_job", 0.0)
        self.reads_no_more(member, end.get("reading", ()))
        if end["log"]:
            self.log.write(f"-- {flight.worker}\n{end['log']}".encode(errors="backslashreplace"))
            self.log.flush()
        if "refused" in end:
            self.refused(flight.worker, end["refused"])
        left = flight.group.only(flight.missing)
        if left.formats:
            self.deal.back(left)

    def reads_no_more(self, member: Member, reading: Sequence[Any] = ()) -> None:
        """What a worker was told to read ahead is there or for another to read, but for what it is still reading."""
        there = {what for what in member.ahead if remote.named(what) not in reading}
        member.ahead -= there
        self.deal.reading -= there

    def mourn(self, present: Iterable[str]) -> None:
        """Deal again what lost workers had; what they have sent before counts."""
        lost = [n for n, flight in self.flights.items() if flight.worker not in present or flight.future.done()]
        if not lost:
            return
        for message in self.workers.received(self.messages, 0):
            self.take(message)
        for number in filter(self.flights.__contains__, lost):  # the end of others had come
            flight = self.flights[number]
            self.log.write(f"{flight.worker} was lost with {len(flight.missing)} cases\n".encode())
            self.lose(number, "its worker was lost with it again and again, with nothing else in flight there")

    def lose(self, number: int, reason: str) -> None:
        """Give up a job, and deal its cases again; reason: of the rows of those that have cost too many workers."""
        flight = self.flights.pop(number)
        with suppress(OSError):
            flight.future.cancel()
        flight.answers.close()
        self.members[flight.worker].had = None
        self.reads_no_more(self.members[flight.worker])
        left = flight.group.only(flight.missing)
        for case in self.deal.lost(left) if left.formats else ():
            facts = self.members[flight.worker].facts
            row = blank_row() | case.columns() | {"device": self.settings.device}
            row |= {"device_name": str(facts.get("properties", {}).get("device_name", ""))}
            row |= {"status": "crashed", "reason": reason, "started_at": flight.began}
            self.write(storable(row))

    def summary(self) -> list[dict[str, Any]]:
        """What each worker did, for run.json."""
        return [
            {
                "host": member.host,
                "rows": member.rows,
                "ready": member.ready,
                "busy": member.busy,
                "seconds": dict(member.seconds),
            }
            | {key: member.facts.get("properties", {}).get(key) for key in ("device_name", "gpu", "numa_node")}
            | {"launch_overhead": member.facts.get("launch_overhead")}
            for member in self.members.values()
            if member.facts
        ]


def measure(
    folder: Path, groups: Sequence[Group], settings: Settings, watcher: Watcher, workers: Workers, costs: Costs
) -> bool:
    """As `bench.session.measure`, on the workers of a Dask scheduler.

    Raises SpmvbenchError also where the scheduler goes away, or every worker refuses to measure; what is on disk stays.
    """
    if not groups:
        store.compact(folder)
        return True
    record = Record.begin(folder, groups)
    began = time.monotonic()
    with store.opened_log(folder) as log, store.unmoved(folder) as standing:
        writer = Writer(folder, watcher, standing)
        session = Session(workers, Deal(groups, costs), settings, writer, record, watcher, log, kinds(groups))
        try:
            done = session.run()
        finally:
            workers.dismiss(session.token)
            standing()
            if members := session.summary():
                seconds: dict[str, float] = defaultdict(float)
                for member in members:
                    for stage, spent in member["seconds"].items():
                        seconds[stage] += spent
                wall = time.monotonic() - began
                record.add(ended=now(), rows=writer.rows, seconds=dict(seconds), wall=wall, workers=members)
    store.compact(folder)
    return done


def kinds(groups: Sequence[Group]) -> tuple[Group, ...]:
    """A group for each type, with every format that any group has in it once."""
    found: dict[str, dict[str, Group]] = {}
    for group in groups:
        for modes in group.formats:
            found.setdefault(group.dtype, {}).setdefault(modes[0].label, replace(group, formats=(modes[:1],)))
    return tuple(
        replace(next(iter(labels.values())), formats=tuple(one.formats[0] for one in labels.values()))
        for labels in found.values()
    )
