"""Supervised processes: when a command or its parent ends, all processes that the command has started are killed.

A supervisor process, which is this file run by its path, runs between parent and command. On Linux it adopts the
orphans among its descendants, also those in another POSIX session (`setsid`). When the command or the parent ends, or
the parent closes the pipe, it kills every descendant and exits with the command's status. On other systems it finds
orphans only in the command's process group. Their temporary files are in a folder that it removes.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
GONE = 60.0  # seconds in which a killed process is gone


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait until a killed process is gone.

    If a signal was raised while `poll` or `wait` took the process's lock, it is held for good: without a limit, this
    would wait for ever.
    """
    with suppress(subprocess.TimeoutExpired):
        process.wait(GONE)


class Supervised(subprocess.Popen[bytes]):
    """A command whose descendants end with it. Its last argument is the id of its parent, the supervisor.

    lifetime_pipe: a pipe without data. When it is closed, which includes any end of this process, the supervisor kills
    all.
    """

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int] = (), **options: Any):
        theirs, ours = os.pipe()
        self.lifetime_pipe = open(ours, "wb", buffering=0)  # noqa: SIM115
        kept = ",".join(map(str, (theirs, *pass_fds)))
        try:
            super().__init__(
                [sys.executable, "-P", __file__, kept, *command],
                pass_fds=(theirs, *pass_fds),
                start_new_session=True,  # Ctrl-C at the terminal reaches this process only
                **options,
            )
        except BaseException:
            self.lifetime_pipe.close()
            raise
        finally:
            os.close(theirs)

    def end(self) -> None:
        """Kill it and all that it has started, and wait until nothing is left."""
        self.lifetime_pipe.close()
        self.send_signal(signal.SIGCONT)  # it may have been stopped
        reap(self)


def how_ended(code: int) -> str:
    """The end of a process in words, from its exit code, negative for a signal."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def main(lifetime_pipe: int, theirs: Sequence[int], command: Sequence[str]) -> None:
    """Run a command and exit with its status. theirs: further files, which only the command keeps open."""
    parent = os.getppid()
    woken = _adopt_and_wake()
    os.environ["TMPDIR"] = temporary = tempfile.mkdtemp(prefix="spmvbench-")
    command_id = _started(lifetime_pipe, command)
    for descriptor in theirs:
        os.close(descriptor)
    import psutil  # imported while the command starts

    status = _reaped(command_id, os.WNOHANG)
    while status is None:
        ready, _, _ = select.select([lifetime_pipe, woken], [], [])
        if lifetime_pipe in ready or os.getppid() != parent or signal.SIGTERM in os.read(woken, 4096):
            break
        status = _reaped(command_id, os.WNOHANG)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(command_id, signal.SIGKILL)
    while _kill_all(psutil):
        status = _earlier(status, _reaped(command_id, 0))
    shutil.rmtree(temporary, ignore_errors=True)
    _exit_as(_earlier(status, _reaped(command_id, os.WNOHANG)))


def _adopt_and_wake() -> int:
    """Adopt orphans, and receive signals as bytes of the pipe that is returned."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # A process that outlives the parent may have inherited the other end of the pipe.
        prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return woken


def _started(lifetime_pipe: int, command: Sequence[str]) -> int:
    """The process id of the command, in a group of its own."""
    child = os.fork()
    if child == 0:
        try:
            os.close(lifetime_pipe)
            os.setpgid(0, 0)
            os.execv(command[0], [*command, str(os.getppid())])
        finally:
            os._exit(127)
    return child


def _reaped(command_id: int, flags: int) -> int | None:
    """Reap all that has ended; with flags 0 at least one. Returns the command's status if it was among them."""
    status = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, flags))[0]:
            if ended[0] == command_id:
                status = ended[1]
            flags = os.WNOHANG
    return status


def _earlier(first: int | None, later: int | None) -> int | None:
    return later if first is None else first


def _kill_all(psutil: Any) -> int:
    """Kill all descendants. Returns their number: those that were killed remain to be reaped."""
    count = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended, or belongs to another user
            process.kill()
            count += 1
    return count


def _exit_as(status: int | None) -> NoReturn:
    """End in the way that the command has ended; with 1 if it did not end."""
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has already written one
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    files = [int(number) for number in sys.argv[1].split(",")]
    main(files[0], files[1:], sys.argv[2:])
