"""Dask workers: those of a given scheduler, or local processes, one per GPU of this host."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.runner.cluster import remote
from spmvbench.runner.supervisor import Supervised, how_ended

CONNECT_LIMIT = 10.0  # seconds for the scheduler to answer
FIRST_WORKER_LIMIT = 600.0  # seconds for the first worker to connect
RESTART_INTERVAL = 1.0  # seconds between two starts of a local worker
MAX_STARTS = 5  # of each local worker before it connects; then the run ends


def require() -> None:
    """Raise SpmvbenchError if dask.distributed is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise SpmvbenchError("--scheduler needs dask.distributed: pip install 'spmvbench[cluster]'") from None


@dataclass
class Workers:
    """A scheduler's workers.

    maintain: is called regularly, with the names of those that are connected and the run's log, and restarts local
    workers. expected: the minimum number that will connect. notice: a line on who may connect; empty if nobody else
    can.
    """

    client: Any
    address: str
    maintain: Callable[[Container[str], IO[bytes] | None], None] = lambda connected, log: None
    expected: int = 1
    notice: str = ""

    def present(self, log: IO[bytes] | None = None) -> list[str]:
        """Addresses of the workers with a GPU resource. log: of the run; it gets the output of local workers that end.

        Raises SpmvbenchError if the scheduler is gone or local workers cannot start.
        """
        # Not client.scheduler_info(): what it returns may be replaced, by an answer without workers that Dask asks for
        # every two seconds, before it returns.
        known = self._request(lambda: self.client.sync(self.client.scheduler.identity, n_workers=-1))["workers"]
        self.maintain({about.get("name") for about in known.values()}, log)
        return [address for address, about in known.items() if about.get("resources", {}).get("GPU")]

    def kind(self) -> str:
        """``cuda`` or ``emulated``, from the first worker. Raises SpmvbenchError if none connects."""
        deadline = time.monotonic() + FIRST_WORKER_LIMIT
        while not (present := self.present()):
            if time.monotonic() > deadline:
                raise SpmvbenchError(
                    f"no worker with resources GPU=1 came to {self.address} in {FIRST_WORKER_LIMIT:g} s"
                )
            time.sleep(0.2)
        reasons = self._request(lambda: self.client.run(_why_no_gpu, workers=present[:1]))
        return "emulated" if next(iter(reasons.values())) else "cuda"

    def queue(self, name: str) -> Any:
        """The scheduler's queue of this name."""
        return self._request(lambda: remote.dask_distributed().Queue(name, client=self.client))

    def submit(self, function: Callable[..., Any], job: Any, *, worker: str, key: str) -> Any:
        """Run a job on a worker. Dask never repeats it: lost jobs are rescheduled here."""
        return self.client.submit(
            function, job, workers=[worker], resources=remote.RESOURCES, retries=0, pure=False, key=key
        )

    def put(self, queue: Any, value: Any) -> None:
        """Put a value into a queue. Raises SpmvbenchError if the scheduler is gone."""
        self._request(lambda: queue.put(value))

    def received(self, queue: Any, seconds: float) -> Iterator[Any]:
        """New values of a queue, after at most `seconds`."""
        if seconds:
            with suppress(TimeoutError):
                yield self._request(lambda: queue.get(timeout=seconds))
        yield from self._request(lambda: queue.get(batch=True))

    def release(self, token: str) -> None:
        """End what an invocation has left running on the workers that can be reached."""
        with suppress(Exception):
            self.client.run(remote.release, token, on_error="ignore")

    def _request(self, request: Callable[[], Any]) -> Any:
        """The scheduler's answer. Raises SpmvbenchError if it is gone."""
        try:
            return request()
        except TimeoutError:
            raise
        except remote.DISCONNECTED as error:
            raise SpmvbenchError(
                f"the scheduler {self.address} is gone ({type(error).__name__}): every row that came is on disk, and "
                "the same command continues once there is a scheduler again"
            ) from error


def _why_no_gpu() -> str | None:
    from spmvbench.devices import cuda

    return cuda.why_unavailable()


@contextmanager
def connected(address: str) -> Iterator[Workers]:
    """The workers of the scheduler at an address. Raises SpmvbenchError if there is none."""
    with _quiet():
        try:
            client = remote.dask_distributed().Client(address, timeout=CONNECT_LIMIT, set_as_default=False)
        except (OSError, ValueError, TypeError, TimeoutError) as error:
            raise SpmvbenchError(f"no scheduler answers at {address} ({type(error).__name__})") from None
        _silence_closing(client)
        used = client.scheduler.address
        is_secured = used.partition("://")[0] in ("tls", "wss")
        notice = f"{used} has no TLS: anybody who can reach it can run programs there and here, see docs/cluster.md"
        try:
            yield Workers(client, address, notice="" if is_secured else notice)
        finally:
            with suppress(Exception):
                client.close(timeout=5)


@dataclass
class _LocalWorker:
    """One worker process of this host.

    visible: its CUDA_VISIBLE_DEVICES; None without a GPU. output: of the last process. failed_starts: processes that
    ended before one has connected. end_of_last: how the last one ended, in words.
    """

    name: str
    visible: str | None
    output: IO[bytes]
    process: Supervised | None = None
    started: float = field(default=-RESTART_INTERVAL)
    has_connected: bool = False
    failed_starts: int = 0
    end_of_last: str = ""

    def observe(self, connected: Container[str], log: IO[bytes] | None) -> None:
        """Note whether it is connected, and whether it has ended; its output is added to the log."""
        self.has_connected = self.has_connected or self.name in connected
        if self.process is None or (code := self.process.poll()) is None:
            return
        self.end()
        self.process = None
        self.output.seek(0)
        output = self.output.read()[-remote.MAX_LOG_BYTES :]
        lines = output.decode(errors="replace").split("\n")
        last_line = next((line.strip() for line in reversed(lines) if line.strip()), "")
        self.end_of_last = how_ended(code) + (f" ({last_line})" if last_line else "")
        self.failed_starts = 0 if self.has_connected else self.failed_starts + 1
        if log is not None and self.failed_starts <= MAX_STARTS:  # it may fail as long as others measure
            log.write(f"-- local worker {self.name} {how_ended(code)}\n".encode() + output)
            log.flush()

    def start(self, address: str, secret: bytes) -> None:
        """Start it if it is not running. secret: the invocation's certificate and key, as `remote.main` takes them."""
        if self.process is None and time.monotonic() > self.started + RESTART_INTERVAL:
            env = os.environ | ({} if self.visible is None else {"CUDA_VISIBLE_DEVICES": self.visible})
            self.output.seek(0)
            self.output.truncate()
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": self.output, "stderr": self.output}
            theirs, ours = os.pipe()  # the command line and files could be read by others
            with open(theirs, "rb"), open(ours, "wb") as pipe:
                pipe.write(secret)
                command = [sys.executable, "-P", "-m", "spmvbench.runner.cluster.remote", address, self.name]
                self.process = Supervised([*command, str(theirs)], pass_fds=[theirs], env=env, **streams)
            self.started = time.monotonic()

    def end(self) -> None:
        """End it and what it has started."""
        if self.process is not None:
            self.process.end()


@contextmanager
def local(visible: Sequence[str | None]) -> Iterator[Workers]:
    """A scheduler in this process and workers on this host, one per GPU, or None for an emulated one.

    They listen on the loopback interface, and accept only connections with the invocation's key, which stays in their
    memory. Raises SpmvbenchError if no key can be made.
    """
    distributed = remote.dask_distributed()
    try:
        security = distributed.Security.temporary()
    except ImportError:
        raise SpmvbenchError("--scheduler local needs cryptography: pip install 'spmvbench[cluster]'") from None
    with _quiet():
        options = {"host": remote.LOOPBACK, "port": 0, "protocol": "tls", "security": security, "dashboard": False}
        scheduler = {"cls": remote.without_http(distributed.Scheduler), "options": options}
        cluster = distributed.SpecCluster(
            workers={}, scheduler=scheduler, security=security, silence_logs=logging.CRITICAL
        )
        client = distributed.Client(cluster, set_as_default=False)
        _silence_closing(client)
        address = cluster.scheduler_address
        local_workers = [
            _LocalWorker(f"gpu{number}", of, tempfile.TemporaryFile())  # noqa: SIM115 - closed below
            for number, of in enumerate(visible)
        ]
        secret = pickle.dumps(security)

        def maintain(connected: Container[str], log: IO[bytes] | None) -> None:
            for worker in local_workers:
                worker.observe(connected, log)
            if all(worker.failed_starts >= MAX_STARTS for worker in local_workers):
                last, place = local_workers[-1], f": see {log.name}" if log else ""
                raise SpmvbenchError(
                    f"no local worker can start: after {MAX_STARTS} tries {last.name} {last.end_of_last}{place}"
                )
            for worker in local_workers:
                worker.start(address, secret)

        try:
            maintain((), None)  # they start while the caller plans
            yield Workers(client, address, maintain, len(local_workers))
        finally:
            for worker in local_workers:
                worker.end()
                worker.output.close()
            with suppress(Exception):
                client.close(timeout=5)
                cluster.close(timeout=5)


def gpus(count: int | None) -> list[str]:
    """CUDA_VISIBLE_DEVICES for each of this host's GPUs, the first `count`. Raises UsageError if there are fewer."""
    import cupy

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = cupy.cuda.runtime.getDeviceCount()
    known = [name.strip() for name in named.split(",")][:there] if named else [str(n) for n in range(there)]
    if count is not None and count > len(known):
        raise UsageError(f"--workers {count} is more than the {len(known)} GPU{'s' * (len(known) != 1)} of this host")
    return known[:count]


def _silence_closing(client: Any) -> None:
    """Let Dask's event loop not report requests that time out once the client is closed, as those of its queues do.

    They end up to POLL_SECONDS later, when its loggers are no longer silenced.
    """

    def handle(loop: Any, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), OSError):  # TimeoutError is one
            loop.default_exception_handler(context)

    client.loop.asyncio_loop.set_exception_handler(handle)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's messages about closed connections, which are reported here; and limit the time to connect."""
    import dask
    import distributed  # noqa: F401 - it sets up its loggers

    loggers = [*logging.root.manager.loggerDict, "distributed", "tornado", "asyncio"]
    names = [name for name in loggers if name.partition(".")[0] in ("distributed", "tornado", "asyncio")]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT_LIMIT}s"}):
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
