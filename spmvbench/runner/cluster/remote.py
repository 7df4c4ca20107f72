"""What runs in a Dask worker: one job at a time, driven as a session drives its own device, its rows sent home.

A job's messages go into the queue of its session, each answered before the next is sent, so that at most one row is on
its way; measuring goes on meanwhile. Where nobody answers any more, or Dask has given the task up, the measuring
process is ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import IO, Any

from spmvbench import formats, paths
from spmvbench.devices import pseudonym
from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import Matrix
from spmvbench.measure import matrix_cache, protocol
from spmvbench.measure.cases import Group, Settings, device_kind
from spmvbench.measure.protocol import Malformed
from spmvbench.measure.worker import stay_tied
from spmvbench.rows.schema import blank_row, storable
from spmvbench.runner import prefetch
from spmvbench.runner.costs import entries
from spmvbench.runner.driver import LOOK, Abandoned, Driver
from spmvbench.runner.precompile import compile_ahead
from spmvbench.runner.session import package_hash

PACKAGE = package_hash()  # of the modules as they are loaded: they may be edited while a worker lives
RESOURCES = {"GPU": 1}
LOOPBACK = "127.0.0.1"
GONE = (OSError, RuntimeError, ValueError, KeyError)  # what asking a scheduler raises that has gone, or is another
SILENCE = 600.0  # seconds without an answer after which nobody waits: merging the rows of a large run takes long
READING_BYTES = 60  # of memory for an entry, while a matrix is generated: read ahead only where there is plenty
WORTH_AHEAD = 1_000_000  # entries; less is read before a process has started
LOG_BYTES = 100_000


@dataclass(frozen=True)
class Job:
    """A part of a group for one worker. number: among the jobs of its session, which `token` names.

    following: a matrix worth reading ahead. needed: which matrices are being measured or read ahead. kinds: a group for
    each type with every format of the session, to compile ahead. package: the hash of the modules that deal it out.
    sources: the hash of every format's, by key.
    """

    token: str
    number: int
    group: Group
    settings: Settings
    following: tuple[Matrix, int] | None
    needed: tuple[tuple[Matrix, int], ...]
    kinds: tuple[Group, ...]
    package: str
    sources: dict[str, str]


@dataclass
class Home:
    """The way to who deals out the jobs: one message at a time in its queue, answered in another.

    answer: the last; False ends the job.
    """

    job: Job
    given_up: Callable[[], bool]
    answer: bool = True
    owed: bool = False

    def __post_init__(self) -> None:
        from distributed import Queue, get_client

        client = get_client()
        self.messages = Queue(messages(self.job.token), client=client)
        self.answers = Queue(answers(self.job.token, self.job.number), client=client)

    def tell(self, kind: str, content: Any) -> bool:
        """Send a message once the last was answered. Returns that answer. Raises Abandoned."""
        self.settle()
        try:
            self.messages.put([self.job.number, kind, content])
        except GONE as error:
            raise Abandoned from error
        self.owed = True
        return self.answer

    def settle(self) -> None:
        """Wait for the answer that is still owed. Raises Abandoned."""
        waited = time.monotonic() + SILENCE
        while self.owed:
            try:
                self.answer = self.answers.get(timeout=LOOK)
                self.owed = False
            except TimeoutError:
                if self.given_up() or time.monotonic() > waited:
                    raise Abandoned from None
            except GONE as error:
                raise Abandoned from error


@dataclass
class Seat:
    """What a worker keeps between the jobs of one session: the driver with its measuring process, the log."""

    token: str
    log: IO[bytes]
    stack: ExitStack
    driver: Driver | None = None
    sent: int = 0  # bytes of the log
    told: set[str] = field(default_factory=set)  # matrices that were described
    ahead: dict[Any, Any] = field(default_factory=dict)  # processes that read, by what

    def leave(self) -> None:
        """End what the session has left running here."""
        if self.driver is not None:
            self.driver.close()
        for process in self.ahead.values():
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self.stack.close()


_seats: list[Seat] = []  # one at most: another session's job ends it


def messages(token: str) -> str:
    """The name of the queue in which a session's rows come."""
    return f"spmvbench-{token}"


def answers(token: str, number: int) -> str:
    """The name of the queue in which a job's messages are answered, and the key of its task."""
    return f"spmvbench-{token}-{number}"


def understood(kind: Any, content: Any, missing: Container[str]) -> dict[str, Any]:
    """What a job's message brings, as `Home.tell` has sent it. missing: ids of the job's cases without a row.

    Raises Malformed where who deals out the jobs could not act on it.
    """
    match kind, content:
        case "row", {"case_id": str(case_id), "status": str()}:
            known = protocol.row_of(case_id, content, missing)
            return storable(blank_row() | known)
        case "description", dict():
            return protocol.description_of(content)
        case "facts", {"host_id": str(), "device": str(), "properties": dict()}:
            return dict(content)
        case "end", {"log": str(), **rest}:
            match {"refused": "", "seconds": {}, "t_job": 0.0, "reading": []} | rest:
                case {"refused": str(), "seconds": dict(seconds), "t_job": float(), "reading": list() | tuple()}:
                    if all(isinstance(spent, float | int) for spent in seconds.values()):
                        return dict(content)
    raise Malformed("what is no message")


def measure(job: Job) -> None:
    """The task: measure a job's group and send everything home, how it ended last. Raises nothing."""
    given_up = _given_up(answers(job.token, job.number))
    with suppress(Abandoned):
        home = Home(job, given_up)
        try:
            end = _measured(job, home, given_up)
        except Abandoned:
            leave(job.token)
            raise
        except SpmvbenchError as error:
            end = {"refused": str(error)}
        except Exception as error:
            logging.getLogger(__name__).exception("a job failed")
            end = {"refused": f"{type(error).__name__}: {error}"}
        home.tell("end", end | {"log": _logged()})
        home.settle()


def _given_up(key: str) -> Callable[[], bool]:
    """Whether Dask wants a task no more: it lets go of those whose client or scheduler is gone."""
    from distributed import Status, get_worker

    worker = get_worker()

    def ask() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status not in (Status.running, Status.paused) or task is None or task.state == "cancelled"

    return ask


def _measured(job: Job, home: Home, given_up: Callable[[], bool]) -> dict[str, Any]:
    began = time.monotonic()
    if job.package != PACKAGE:
        raise SpmvbenchError(f"{platform.node()} has another spmvbench: install the same on all hosts")
    known, here = formats.keys(), platform.node()
    for key, digest in job.sources.items():
        if key not in known or formats.source_hash(formats.get(key)) != digest:
            raise SpmvbenchError(f"{here} has no format {key}, or another: set SPMVBENCH_FORMATS alike on all hosts")
    seat = _seat(job)
    driver = seat.driver
    assert driver is not None
    driver.stopped = False
    driver.write = lambda row: home.tell("row", row)
    driver.describe = lambda about: _describe(seat, home, about)
    driver.on_facts = lambda facts: home.tell("facts", plain(facts) | {"host_id": pseudonym(platform.node())})
    driver.abandoned = given_up
    folder, real_part = matrix_cache.per_host(job.token), job.settings.real_part
    matrix_cache.forget(folder, [matrix_cache.place(folder, matrix, seed, real_part) for matrix, seed in job.needed])
    _read_ahead(seat, folder, (job.group.matrix, job.group.seed), real_part)
    before = dict(driver.seconds)
    if device_kind(job.settings.device) == "cuda":
        since = time.monotonic()
        compile_ahead(job.kinds, job.settings.device, seat.log, given_up)
        driver.seconds["compiling ahead"] += time.monotonic() - since
    if job.following:
        _read_ahead(seat, folder, job.following, real_part)
    left = driver.drive([job.group])
    home.settle()
    seconds = {stage: spent - before.get(stage, 0.0) for stage, spent in driver.seconds.items()}
    reading = [named(what) for what, process in seat.ahead.items() if process.poll() is None]
    return {"stopped": bool(left), "seconds": seconds, "t_job": time.monotonic() - began, "reading": reading}


def named(what: tuple[Matrix, int]) -> tuple[str, int]:
    """A matrix and its seed, as a message has them: Dask makes lists tuples."""
    return what[0].id, what[1]


def _describe(seat: Seat, home: Home, about: dict[str, Any]) -> None:
    if about["matrix_sha256"] not in seat.told:
        home.tell("description", plain(about))
        seat.told.add(about["matrix_sha256"])


def plain(content: Any) -> Any:
    """What a message may hold: no NumPy."""
    if isinstance(content, dict):
        return {name: plain(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return content.tolist() if hasattr(content, "tolist") else content


def _seat(job: Job) -> Seat:
    """The session's seat on this worker, taken now or before."""
    if _seats and _seats[0].token == job.token:
        return _seats[0]
    leave()
    stack = ExitStack()
    folder = matrix_cache.per_host(job.token)
    stack.enter_context(paths.common(folder))
    log = stack.enter_context(tempfile.NamedTemporaryFile(prefix="spmvbench-", suffix=".log"))  # noqa: SIM115
    seat = Seat(job.token, log, stack)
    _seats.append(seat)
    settings = replace(job.settings, per_host=str(folder))
    seat.driver = Driver(settings, log, lambda row: True)
    return seat


def leave(token: str | None = None) -> None:
    """End what a session, or any, has left on this worker."""
    while _seats and token in (None, _seats[0].token):
        _seats.pop().leave()


def _read_ahead(seat: Seat, folder: Any, what: tuple[Matrix, int], real_part: bool) -> None:
    """Have a matrix read by a process of its own, unless it is there, or too large to be held beside others."""
    import psutil

    seat.ahead = {known: process for known, process in seat.ahead.items() if process.poll() is None}
    count = entries(*what)
    if count > WORTH_AHEAD and count * READING_BYTES < psutil.virtual_memory().available / 4:
        process = prefetch.start(folder, *what, real_part)
        if process:
            seat.ahead[what] = process


def _logged() -> str:
    """What was written to the log since the last time, its end where it is long."""
    if not _seats:
        return ""
    seat = _seats[0]
    with open(seat.log.name, "rb") as file:
        file.seek(seat.sent)
        text = file.read()
    seat.sent += len(text)
    return text[-LOG_BYTES:].decode(errors="replace")


def without_http(server: type) -> type:
    """A class of Dask's, Scheduler or Worker, that serves no HTTP. Theirs do, with a dashboard and without."""
    return type(server.__name__, (server,), {"start_http_server": lambda self, *args, **options: None})


async def serve(address: str, name: str, security: Any) -> None:
    """A Dask worker with one thread and one GPU, until the scheduler goes."""
    import dask
    from distributed import Worker

    dask.config.set({"distributed.worker.profile.enabled": False})
    with tempfile.TemporaryDirectory(prefix="spmvbench-dask-") as folder:
        # No limit on memory, which Dask would take from what the machine seems to have now.
        options = {"nthreads": 1, "resources": RESOURCES, "memory_limit": 0, "local_directory": folder}
        safe = {"host": LOOPBACK, "protocol": "tls", "security": security, "dashboard": False}
        async with without_http(Worker)(address, name=name, **safe, **options) as worker:
            await worker.finished()


def main() -> None:
    """`python -m spmvbench.runner.cluster.remote ADDRESS NAME FD PARENT`: a worker that ends with its parent.

    FD: a pipe with the pickled `distributed.Security` of the session.
    """
    address, name, descriptor, parent = sys.argv[1:]
    stay_tied(int(parent), expendable=False)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.disable(logging.CRITICAL)
    with open(int(descriptor), "rb") as pipe:
        security = pickle.load(pipe)
    asyncio.run(serve(address, name, security))
    os._exit(0)


if __name__ == "__main__":
    main()
