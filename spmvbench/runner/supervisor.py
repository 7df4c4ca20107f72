"""Processes that leave nothing behind: what a command has started ends with it, and it ends with who started it.

A process of its own, which is this file run by its path, stands between the two. On Linux the orphans among its
descendants become its children, those too that have left their session (`setsid`): when the command ends, or who
started it ends or wants no more, it kills every descendant and ends as the command did. Elsewhere orphans are found
only while they are in the command's process group.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


class Supervised(subprocess.Popen[bytes]):
    """A command that leaves nothing behind; the id of its parent, the supervisor, is added to it as last argument.

    leash: a pipe that nothing is written to. Closing it ends everything, as does this process's end, however it comes.
    """

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int] = (), **options: Any):
        theirs, ours = os.pipe()
        self.leash = open(ours, "wb", buffering=0)  # noqa: SIM115
        kept = ",".join(map(str, (theirs, *pass_fds)))
        try:
            super().__init__(
                [sys.executable, "-P", __file__, kept, *command],
                pass_fds=(theirs, *pass_fds),
                start_new_session=True,  # Ctrl-C at the terminal reaches this process only
                **options,
            )
        except BaseException:
            self.leash.close()
            raise
        finally:
            os.close(theirs)

    def end(self) -> None:
        """Kill it and all that it has started, and wait until nothing of that is left."""
        self.leash.close()
        self.send_signal(signal.SIGCONT)  # whoever has stopped it
        self.wait()


def main(leash: int, theirs: Sequence[int], command: Sequence[str]) -> None:
    """Run a command, and end like it. theirs: further files that are the command's alone."""
    parent = os.getppid()
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # The other end of the leash may have been inherited by who outlives the parent.
        prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        try:
            os.close(leash)
            os.setpgid(0, 0)
            os.execv(command[0], [*command, str(os.getppid())])
        finally:
            os._exit(127)
    for descriptor in theirs:
        os.close(descriptor)
    import psutil  # while the command starts

    status: int | None = None

    def reap(flags: int) -> None:
        nonlocal status
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, flags))[0]:
                if ended[0] == child:
                    status = ended[1]
                flags = os.WNOHANG

    def kill_all() -> int:
        """Kill whoever is there now. Returns how many: those that take it will be there to reap."""
        count = 0
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has gone, or is a program of another user's
                process.kill()
                count += 1
        return count

    reap(os.WNOHANG)
    while status is None:
        ready, _, _ = select.select([leash, woken], [], [])
        if leash in ready or os.getppid() != parent or signal.SIGTERM in os.read(woken, 4096):
            break
        reap(os.WNOHANG)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while kill_all():
        reap(0)
    reap(os.WNOHANG)
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left one
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    files = [int(number) for number in sys.argv[1].split(",")]
    main(files[0], files[1:], sys.argv[2:])
