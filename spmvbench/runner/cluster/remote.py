"""Runs in a Dask worker: measures one job at a time with a driver of its own, and sends the rows to the client.

A job's messages go into the queue of its invocation. Each is answered before the next is sent, so at most one row is in
transit; measuring continues meanwhile. If no answer comes, or Dask has cancelled the task, the measuring process is
ended.
"""

from __future__ import annotations

import platform
import tempfile
import time
import traceback
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
from spmvbench.rows.fitting import storable
from spmvbench.rows.schema import blank_row
from spmvbench.runner import prefetch as prefetching
from spmvbench.runner.driver import POLL_SECONDS, Disconnected, Driver
from spmvbench.runner.precompile import open_and_compile
from spmvbench.runner.session import package_hash

PACKAGE = package_hash()  # computed at import: the files may be edited while a worker runs
# Errors of requests to a scheduler that has ended or was replaced.
DISCONNECTED = (OSError, RuntimeError, ValueError, KeyError)
ANSWER_LIMIT = 600.0  # seconds without an answer until the client counts as gone: merging a large run's rows is slow
MAX_LOG_BYTES = 100_000


@dataclass(frozen=True)
class Job:
    """Part of a group for one worker. number: among the jobs of its invocation, which `token` identifies.

    prefetch: a matrix to prefetch. needed: matrices that are being measured or prefetched. formats_by_type: a group per
    type with every format of the invocation, for precompilation. package: hash of the client's modules. sources: source
    hash of every format that is not of the package alone, by key.
    """

    token: str
    number: int
    group: Group
    settings: Settings
    prefetch: tuple[Matrix, int] | None
    needed: tuple[tuple[Matrix, int], ...]
    formats_by_type: tuple[Group, ...]
    package: str
    sources: dict[str, str]


@dataclass
class Reporter:
    """Connection to the client: one message at a time in one queue, answers in another.

    answer: the last one; False ends the job.
    """

    job: Job
    is_cancelled: Callable[[], bool]
    answer: bool = True
    is_waiting: bool = False

    def __post_init__(self) -> None:
        client = dask_distributed().get_client()
        self.messages = dask_distributed().Queue(message_queue(self.job.token), client=client)
        self.answers = dask_distributed().Queue(answer_queue(self.job.token, self.job.number), client=client)

    def send(self, kind: str, content: Any) -> bool:
        """Send a message after the previous one was answered. Returns that answer. Raises Disconnected."""
        self.wait_for_answer()
        try:
            self.messages.put([self.job.number, kind, content])
        except DISCONNECTED as error:
            raise Disconnected from error
        self.is_waiting = True
        return self.answer

    def wait_for_answer(self) -> None:
        """Wait for an outstanding answer. Raises Disconnected."""
        waited = time.monotonic() + ANSWER_LIMIT
        while self.is_waiting:
            try:
                self.answer = self.answers.get(timeout=POLL_SECONDS)
                self.is_waiting = False
            except TimeoutError:
                if self.is_cancelled() or time.monotonic() > waited:
                    raise Disconnected from None
            except DISCONNECTED as error:
                raise Disconnected from error


@dataclass
class WorkerState:
    """State that a worker keeps between the jobs of one invocation: the driver with its measuring process, the log."""

    token: str
    log: IO[bytes]
    stack: ExitStack
    driver: Driver | None = None
    sent: int = 0  # bytes of the log
    described: set[str] = field(default_factory=set)  # matrices whose description was sent
    prefetches: dict[Any, Any] = field(default_factory=dict)  # running processes, by matrix

    def close(self) -> None:
        """End what the invocation has left running here."""
        if self.driver is not None:
            self.driver.close()
        prefetching.end(self.prefetches.values())
        self.stack.close()


_states: list[WorkerState] = []  # at most one: a job of another invocation ends it


def dask_distributed() -> Any:
    """The module `distributed`, as Any: most of its functions have no types."""
    import distributed

    return distributed


def message_queue(token: str) -> str:
    """The name of the queue for the rows of an invocation."""
    return f"spmvbench-{token}"


def answer_queue(token: str, number: int) -> str:
    """The name of the queue for the answers to a job's messages, and the key of its task."""
    return f"spmvbench-{token}-{number}"


def validated(kind: Any, content: Any, missing: Container[str]) -> dict[str, Any]:
    """The content of a job's message, as `Reporter.send` has sent it. missing: ids of the job's cases without a row.

    Raises Malformed if it is invalid.
    """
    match kind, content:
        case "row", {"case_id": str(case_id), "status": str()}:
            known = protocol.validated_row(case_id, content, missing)
            return storable(blank_row() | known)
        case "description", dict():
            return protocol.validated_description(content)
        case "facts", {"host_id": str(), "device": str(), "properties": dict()}:
            return dict(content)
        case "end", {"log": str(), **rest}:
            match {"refused": "", "seconds": {}, "t_job": 0.0, "reading": []} | rest:
                case {"refused": str(), "seconds": dict(seconds), "t_job": float(), "reading": list() | tuple()}:
                    if all(isinstance(spent, float | int) for spent in seconds.values()):
                        return dict(content)
    raise Malformed("an unknown message")


def measure(job: Job) -> None:
    """The task: measure a job's group, and send all results and at last how it ended to the client. Raises nothing."""
    is_cancelled = _cancellation(answer_queue(job.token, job.number))
    with suppress(Disconnected):
        reporter, failed = Reporter(job, is_cancelled), ""
        try:
            end = _measured(job, reporter, is_cancelled)
        except Disconnected:
            release(job.token)
            raise
        except SpmvbenchError as error:
            end = {"refused": str(error)}
        except Exception as error:
            end = {"refused": f"{type(error).__name__}: {error}"}
            failed = traceback.format_exc()
        reporter.send("end", end | {"log": _logged() + failed})
        reporter.wait_for_answer()


def _cancellation(key: str) -> Callable[[], bool]:
    """A function that returns whether Dask has cancelled a task: it drops tasks whose client or scheduler is gone."""
    from distributed import Status, get_worker

    worker = get_worker()

    def ask() -> bool:
        task = worker.state.tasks.get(key)
        return worker.status not in (Status.running, Status.paused) or task is None or task.state == "cancelled"

    return ask


def _measured(job: Job, reporter: Reporter, is_cancelled: Callable[[], bool]) -> dict[str, Any]:
    began = time.monotonic()
    if job.package != PACKAGE:
        raise SpmvbenchError(f"{platform.node()} has a different spmvbench: install the same on all hosts")
    host, known = platform.node(), formats.keys() if job.sources else ()
    for key, digest in job.sources.items():
        if key not in known or formats.source_hash(formats.get(key)) != digest:
            raise SpmvbenchError(
                f"{host} has no format {key}, or a different one: set SPMVBENCH_FORMATS alike on all hosts"
            )
    state = _state_for(job)
    driver = state.driver
    assert driver is not None
    driver.stopped = False
    driver.write = lambda row: reporter.send("row", row)
    driver.describe = lambda about: _describe(state, reporter, about)
    host_id = {"host_id": pseudonym(host)}
    driver.on_facts = lambda facts: reporter.send("facts", plain_values(facts) | host_id)
    driver.is_cancelled = is_cancelled
    folder, real_part = matrix_cache.per_host(job.token), job.settings.real_part
    needed = [matrix_cache.cache_path(folder, matrix, seed, real_part) for matrix, seed in job.needed]
    matrix_cache.remove_unneeded(folder, needed)
    _prefetch(state, folder, (job.group.matrix, job.group.seed), real_part)
    before = dict(driver.seconds)
    if device_kind(job.settings.device) == "cuda":
        open_and_compile(driver, job.formats_by_type, is_cancelled)
    if job.prefetch:
        _prefetch(state, folder, job.prefetch, real_part)
    left = driver.drive([job.group])
    reporter.wait_for_answer()
    seconds = {stage: spent - before.get(stage, 0.0) for stage, spent in driver.seconds.items()}
    reading = [id_and_seed(matrix) for matrix, process in state.prefetches.items() if process.poll() is None]
    return {"stopped": bool(left), "seconds": seconds, "t_job": time.monotonic() - began, "reading": reading}


def id_and_seed(matrix: tuple[Matrix, int]) -> tuple[str, int]:
    """A matrix and its seed in the form of messages, in which Dask turns lists into tuples."""
    return matrix[0].id, matrix[1]


def _describe(state: WorkerState, reporter: Reporter, about: dict[str, Any]) -> None:
    if about["matrix_sha256"] not in state.described:
        reporter.send("description", plain_values(about))
        state.described.add(about["matrix_sha256"])


def plain_values(content: Any) -> Any:
    """The content of a message, without NumPy types."""
    if isinstance(content, dict):
        return {name: plain_values(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain_values(value) for value in content]
    return content.tolist() if hasattr(content, "tolist") else content


def _state_for(job: Job) -> WorkerState:
    if _states and _states[0].token == job.token:
        return _states[0]
    release()
    stack = ExitStack()
    folder = matrix_cache.per_host(job.token)
    stack.enter_context(paths.shared_folder(folder))
    log = stack.enter_context(tempfile.NamedTemporaryFile(prefix="spmvbench-", suffix=".log"))  # noqa: SIM115
    state = WorkerState(job.token, log, stack)
    _states.append(state)
    settings = replace(job.settings, per_host=str(folder))
    state.driver = Driver(settings, log, lambda row: True)
    return state


def release(token: str | None = None) -> None:
    """End what an invocation, or any, has left on this worker."""
    while _states and token in (None, _states[0].token):
        _states.pop().close()


def _prefetch(state: WorkerState, folder: Any, matrix: tuple[Matrix, int], real_part: bool) -> None:
    """Start a process that prefetches a matrix, unless it is cached or too large for the free memory."""
    state.prefetches = {known: process for known, process in state.prefetches.items() if process.poll() is None}
    if prefetching.is_worthwhile([matrix]):
        process = prefetching.start(folder, {matrix: ()}, real_part)
        if process:
            state.prefetches[matrix] = process


def _logged() -> str:
    """New output of the log; its end if it is long."""
    if not _states:
        return ""
    state = _states[0]
    with open(state.log.name, "rb") as file:
        file.seek(state.sent)
        text = file.read()
    state.sent += len(text)
    return text[-MAX_LOG_BYTES:].decode(errors="replace")
