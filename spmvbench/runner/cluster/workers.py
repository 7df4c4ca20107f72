"""The Dask workers that a session deals its work out to: those of a scheduler, or processes of this host."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.runner.cluster import remote
from spmvbench.runner.supervisor import Supervised

CONNECT = 10.0  # seconds for the scheduler to answer
FIRST = 600.0  # seconds for the first worker to come
AGAIN = 1.0  # seconds between two starts of a local worker


def require() -> None:
    """Raises SpmvbenchError where dask.distributed is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise SpmvbenchError("--scheduler needs dask.distributed: pip install 'spmvbench[cluster]'") from None


@dataclass
class Workers:
    """A scheduler's workers. `tend` is called now and then, and sees to it that they are there.

    expected: how many will come at least. notice: a line on who may connect, empty where nobody else may.
    """

    client: Any
    address: str
    tend: Callable[[], None] = lambda: None
    expected: int = 1
    notice: str = ""

    def present(self) -> list[str]:
        """The addresses of the workers that have a GPU, or are said to."""
        self.tend()
        known = self._asked(lambda: self.client.scheduler_info(n_workers=-1))["workers"]
        return [address for address, about in known.items() if about.get("resources", {}).get("GPU")]

    def kind(self) -> str:
        """``cuda`` or ``emulated``, whatever the first of them can be. Raises SpmvbenchError where none comes."""
        deadline = time.monotonic() + FIRST
        while not (present := self.present()):
            if time.monotonic() > deadline:
                raise SpmvbenchError(f"no worker with resources GPU=1 came to {self.address} in {FIRST:g} s")
            time.sleep(0.2)
        reasons = self._asked(lambda: self.client.run(_why_no_gpu, workers=present[:1]))
        return "emulated" if next(iter(reasons.values())) else "cuda"

    def queue(self, name: str) -> Any:
        """The scheduler's queue of this name."""
        from distributed import Queue

        return self._asked(lambda: Queue(name, client=self.client))

    def submit(self, function: Callable[..., Any], job: Any, *, worker: str, key: str) -> Any:
        """Have a worker do a job. Dask never does it again: what became of it is known here."""
        return self.client.submit(
            function, job, workers=[worker], resources=remote.RESOURCES, retries=0, pure=False, key=key
        )

    def put(self, queue: Any, value: Any) -> None:
        """Put a value into a queue, as `_asked` asks the scheduler for it."""
        self._asked(lambda: queue.put(value))

    def received(self, queue: Any, seconds: float) -> Iterator[Any]:
        """What has come, after at most so many seconds."""
        if seconds:
            with suppress(TimeoutError):
                yield self._asked(lambda: queue.get(timeout=seconds))
        yield from self._asked(lambda: queue.get(batch=True))

    def dismiss(self, token: str) -> None:
        """End what a session has left on the workers, as far as they can be reached."""
        with suppress(Exception):
            self.client.run(remote.leave, token, on_error="ignore")

    def _asked(self, question: Callable[[], Any]) -> Any:
        """What the scheduler answers. Raises SpmvbenchError where it is gone."""
        try:
            return question()
        except TimeoutError:
            raise
        except remote.GONE as error:
            raise SpmvbenchError(
                f"the scheduler {self.address} is gone ({type(error).__name__}): every row that came is on disk, and "
                "the same command continues once there is a scheduler again"
            ) from error


def _why_no_gpu() -> str | None:
    from spmvbench.devices import cuda

    return cuda.why_unavailable()


@contextmanager
def connected(address: str) -> Iterator[Workers]:
    """The workers of the scheduler at an address. Raises SpmvbenchError where there is none."""
    from distributed import Client

    with _quiet():
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError, TypeError, TimeoutError) as error:
            raise SpmvbenchError(f"no scheduler answers at {address} ({type(error).__name__})") from None
        used = client.scheduler.address
        safe = used.partition("://")[0] in ("tls", "wss")
        notice = f"{used} has no TLS: whoever reaches it can run programs there and here, see docs/cluster.md"
        try:
            yield Workers(client, address, notice="" if safe else notice)
        finally:
            with suppress(Exception):
                client.close(timeout=5)


@dataclass
class _Seat:
    """One worker process of this host. visible: its CUDA_VISIBLE_DEVICES; None where it has no GPU."""

    name: str
    visible: str | None
    process: Supervised | None = None
    started: float = field(default=-AGAIN)

    def tend(self, address: str, secret: bytes) -> None:
        """Start it where it does not run. secret: the session's certificate and key, as `remote.main` takes them."""
        if (self.process is None or self.process.poll() is not None) and time.monotonic() > self.started + AGAIN:
            env = os.environ | ({} if self.visible is None else {"CUDA_VISIBLE_DEVICES": self.visible})
            self.end()
            theirs, ours = os.pipe()  # neither the command line nor a file: others read those
            with open(theirs, "rb"), open(ours, "wb") as pipe:
                pipe.write(secret)
                command = [sys.executable, "-P", "-m", "spmvbench.runner.cluster.remote", address, self.name]
                self.process = Supervised([*command, str(theirs)], pass_fds=[theirs], env=env, stdin=subprocess.DEVNULL)
            self.started = time.monotonic()

    def end(self) -> None:
        """End it and what it has started."""
        if self.process is not None:
            self.process.end()


@contextmanager
def local(visible: Sequence[str | None]) -> Iterator[Workers]:
    """A scheduler in this process and workers on this host, one for each GPU, or None for one that emulates.

    They listen on the loopback interface, for nobody but who has the session's key, which never leaves their memory.
    Raises SpmvbenchError where no key can be made.
    """
    from distributed import Client, Scheduler, Security, SpecCluster

    try:
        security = Security.temporary()
    except ImportError:
        raise SpmvbenchError("--scheduler local needs cryptography: pip install 'spmvbench[cluster]'") from None
    with _quiet():
        options = {"host": remote.LOOPBACK, "port": 0, "protocol": "tls", "security": security, "dashboard": False}
        scheduler = {"cls": remote.without_http(Scheduler), "options": options}
        cluster = SpecCluster(workers={}, scheduler=scheduler, security=security, silence_logs=logging.CRITICAL)
        client = Client(cluster, set_as_default=False)
        address = cluster.scheduler_address
        seats = [_Seat(f"gpu{number}", of) for number, of in enumerate(visible)]
        secret = pickle.dumps(security)

        def tend() -> None:
            for seat in seats:
                seat.tend(address, secret)

        try:
            tend()  # while the caller plans
            yield Workers(client, address, tend, len(seats))
        finally:
            for seat in seats:
                seat.end()
            with suppress(Exception):
                client.close(timeout=5)
                cluster.close(timeout=5)


def gpus(count: int | None) -> list[str]:
    """What CUDA_VISIBLE_DEVICES is for each of this host's GPUs, the first `count`. Raises UsageError for too many."""
    import cupy

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = cupy.cuda.runtime.getDeviceCount()
    known = [name.strip() for name in named.split(",")][:there] if named else [str(n) for n in range(there)]
    if count is not None and count > len(known):
        raise UsageError(f"--workers {count} is more than the {len(known)} GPU{'s' * (len(known) != 1)} of this host")
    return known[:count]


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask tells of every connection that breaks; what matters is said here. Nor is a scheduler waited for long."""
    import dask
    import distributed  # noqa: F401 - it has set its loggers up then

    known = [*logging.root.manager.loggerDict, "distributed", "tornado", "asyncio"]
    names = [name for name in known if name.partition(".")[0] in ("distributed", "tornado", "asyncio")]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": f"{CONNECT}s"}):
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
