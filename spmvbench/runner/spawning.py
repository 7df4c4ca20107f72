"""Starts measuring processes: also ahead of a run, to import and to open the device while the run is planned."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from typing import IO, Any

from spmvbench.runner.supervisor import Supervised

MEASURING = ("-m", "spmvbench.measure.worker")
# Without it JAX takes three quarters of the device's memory for itself, and the other formats of a process fail.
SHARED_MEMORY = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class Spawned:
    """A process at the other end of a pipe, which opens a device and waits for a log and for what it is to do.

    printed: the file that its output goes to, its standard error until it has a log.
    """

    def __init__(self, device: str, program: tuple[str, ...] = MEASURING, environment: Mapping[str, str] | None = None):
        self.connection: Connection
        self.connection, theirs = Pipe()
        self.printed = _printed_file()
        weakref.finalize(self, os.close, self.printed)
        command = [sys.executable, "-P", *program, device, str(theirs.fileno())]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": self.printed, "stderr": self.printed}
        environment = SHARED_MEMORY | dict(os.environ if environment is None else environment)
        self.process = Supervised(command, pass_fds=[theirs.fileno()], env=environment, **streams)
        theirs.close()

    def begin(self, settings: Any, log: IO[bytes]) -> None:
        """Give it its log and what it is to do. Raises OSError if it has died."""
        send_handle(self.connection, log.fileno(), self.process.pid)
        self.connection.send(settings)

    def kill(self) -> None:
        """Kill it and all processes that it has started (compilers, processes of a format)."""
        self.process.end()
        self.connection.close()


def _printed_file() -> int:
    """A file without a name for the output of a measuring process, which `process_state.take_printed` reads."""
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    return descriptor


_ahead: list[Spawned] = []  # at most one


def start_ahead(device: str) -> None:
    """Start a measuring process for the first `Driver` of this process. device: as `open_device` takes it."""
    _ahead.append(Spawned(device))


@contextmanager
def started_ahead(device: str) -> Iterator[None]:
    """As `start_ahead`, unless there is one, for a block: the process ends with it if no `Driver` has taken it."""
    if not _ahead:
        start_ahead(device)
    try:
        yield
    finally:
        while _ahead:
            _ahead.pop().kill()


def measuring(device: str) -> Spawned:
    """A measuring process for a device, which was started ahead or is started now."""
    return _ahead.pop() if _ahead else Spawned(device)
