"""Dask workers: those of a given scheduler, or local processes, one per GPU of this host."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.runner.cluster import remote

CONNECT_LIMIT = 60.0  # seconds for the scheduler to answer: docs/cluster.md starts it at the same time
FIRST_WORKER_LIMIT = 600.0  # seconds for the first worker to connect


def require() -> None:
    """Raise SpmvbenchError if dask.distributed is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise SpmvbenchError("--scheduler needs dask.distributed: pip install 'spmvbench[cluster]'") from None


@dataclass
class Workers:
    """A scheduler's workers.

    expected: the minimum number that will connect. notice: a line on who may connect; empty if nobody else can.
    """

    client: Any
    address: str
    expected: int = 1
    notice: str = ""

    def present(self) -> list[str]:
        """Addresses of the workers with a GPU resource. Raises SpmvbenchError if the scheduler is gone."""
        # Not client.scheduler_info(): what it returns may be replaced, by an answer without workers that Dask asks for
        # every two seconds, before it returns.
        known = self._request(lambda: self.client.sync(self.client.scheduler.identity, n_workers=-1))["workers"]
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
        return self.client.submit(function, job, workers=[worker], resources={"GPU": 1}, retries=0, pure=False, key=key)

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
            _closed(client)


@contextmanager
def local(visible: Sequence[str | None]) -> Iterator[Workers]:
    """A scheduler in this process and workers on this host, one per GPU, or None for an emulated one.

    They listen on the loopback interface, and accept only connections with the invocation's key, which stays in their
    memory. Dask's nannies restart workers that end, and end them with this process. Raises SpmvbenchError if no key can
    be made, or a worker cannot start.
    """
    distributed = remote.dask_distributed()
    try:
        security = distributed.Security.temporary()
    except ImportError:
        raise SpmvbenchError("--scheduler local needs cryptography: pip install 'spmvbench[cluster]'") from None
    from spmvbench.runner.cluster import servers

    options = {"host": servers.LOOPBACK, "protocol": "tls", "security": security, "dashboard": False}
    with _quiet(), tempfile.TemporaryDirectory(prefix="spmvbench-dask-") as folder, ExitStack() as stack:
        # No limit on memory, which Dask would take from what the machine seems to have now.
        of_worker = options | {"nthreads": 1, "resources": servers.RESOURCES, "memory_limit": 0}
        of_worker |= {"local_directory": folder, "worker_class": servers.Worker, "silence_logs": logging.CRITICAL}
        of_worker |= {"config": {"distributed.worker.profile.enabled": False}}
        nannies = {
            f"gpu{number}": {
                "cls": distributed.Nanny,
                "options": of_worker
                | {"env": {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}}
                | {"device": "emulated" if gpu is None else "cuda:0"},
            }
            for number, gpu in enumerate(visible)
        }
        scheduler = {"cls": servers.Scheduler, "options": options | {"port": 0}}
        try:
            cluster = distributed.SpecCluster(nannies, scheduler, security=security, silence_logs=logging.CRITICAL)
        except Exception as error:  # of the process of a worker, any
            raise SpmvbenchError(f"no local worker can start: {type(error).__name__}: {error}") from None
        stack.callback(_closed, cluster)
        client = distributed.Client(cluster, set_as_default=False)
        stack.callback(_closed, client)
        _silence_closing(client)
        yield Workers(client, cluster.scheduler_address, len(visible))


def _closed(server: Any) -> None:
    with suppress(Exception):
        server.close(timeout=5)


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
