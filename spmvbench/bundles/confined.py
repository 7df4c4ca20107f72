"""Runs an untrusted program with limits: it can write in one folder, has no network, and limited time and memory.

`run` starts this module as a program, the supervisor. Its child gives up its rights and becomes the untrusted program.
When it ends or exceeds a limit, all processes that it has started are killed. It uses what Linux offers without root:

- Landlock (landlock(7), since 6.2 with truncation): no file is written, made, renamed or removed outside of the folder;
- a filter of system calls (seccomp(2)): no sockets, no change of owners, modes, times or attributes;
- name spaces of users and processes (user_namespaces(7)), if the system allows them: no rights of root, no signals to
  other processes, and no process outlives the first one;
- limits of resources (setrlimit(2)), and a check of total memory and processes several times per second.

The program can read what the user can read.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spmvbench.runner.supervisor import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG

MEMORY = 8 * 2**30  # bytes: of all processes together, and of each one's address space
PROCESSES = 64
TASKS = 4096  # threads and processes of the user; the system does not count those of root
FILE = 2**30  # bytes of a file
MAX_OUTPUT = 100_000  # characters of its output that are kept
POLL_SECONDS = 0.2  # between two checks of the limits
# Variables of the environment that a compiler and Python need; others may be secret.
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "CXX")
LIMIT_EXCEEDED = 125  # exit code of the supervisor if a limit was exceeded

_NO_NEW_PRIVILEGES, _BOUNDING_DROP, _SECCOMP = 38, 24, 22  # of prctl(2)
_NEW_USERS, _NEW_PROCESSES = 0x10000000, 0x20000000  # of unshare(2)

# Landlock: system calls (the same on every machine) and rights, linux/landlock.h.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_LANDLOCK = 3  # the version that knows truncation
_WRITE_FILE, _TRUNCATE, _DEVICE = 1 << 1, 1 << 14, 1 << 15
_WRITE = _WRITE_FILE | sum(1 << bit for bit in range(4, 14)) | _TRUNCATE  # includes rights to remove, make and rename

# By machine: AUDIT_ARCH; numbers of refused system calls; of system calls that do nothing and report success.
_CALLS = {
    "x86_64": (
        0xC000003E,
        (41, 425),  # socket, io_uring_setup
        # chmod, fchmod, chown, fchown, lchown, utime, setxattr and its kin, removexattr, utimes, fchownat, futimesat,
        # fchmodat, utimensat, fchmodat2, setxattrat, removexattrat
        (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466),
    ),
    "aarch64": (
        0xC00000B7,
        (198, 425),
        (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88, 452, 463, 466),
    ),
}


@dataclass(frozen=True)
class Outcome:
    """How a program ended. code: its exit code, negative for a signal; out and err: the first MAX_OUTPUT characters.

    limit: which limit it exceeded, as a sentence; empty if none.
    """

    code: int
    out: str
    err: str
    limit: str


def unconfined() -> list[str]:
    """What a program could do here in spite of the limits, in words; empty if everything is confined."""
    can = []
    if _version() < _LANDLOCK:
        can.append("write wherever you can")
    if platform.machine() not in _CALLS or _libc().prctl(21, 0, 0, 0, 0) < 0:  # PR_GET_SECCOMP
        can.append("use the network")
    return can


def run(
    arguments: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> Outcome:
    """Run a program in a folder that is made for it. Raises OSError if it cannot be started.

    Its environment is that of KEPT_VARIABLES and `environment`; its home and temporary folder are `folder`. The
    supervisor, which has the user's rights, does not have `environment`: PYTHONPATH there may name what strangers sent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    seen = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    seen |= {"HOME": str(folder), "TMPDIR": str(folder), "SPMVBENCH_HOME": str(folder / "spmvbench")}
    seen |= {"PYTHONDONTWRITEBYTECODE": "1"}
    own = json.dumps(dict(environment or {}))
    command = [sys.executable, "-P", "-m", __name__, str(seconds), str(folder), own, *arguments]
    logs = [folder / name for name in (".out", ".err")]
    with open(logs[0], "wb") as out, open(logs[1], "wb") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=seen, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
        try:
            code = process.wait()
        finally:
            if process.poll() is None:  # interrupted: the supervisor ends all processes
                process.terminate()
                process.wait()
    out_text, err_text = [_beginning(log) for log in logs]
    limit = err_text.rstrip("\n").rpartition("\n")[2] if code == LIMIT_EXCEEDED else ""
    return Outcome(code if code < 128 else 128 - code, out_text, err_text, limit)


def _beginning(log: Path) -> str:
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read(MAX_OUTPUT)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _version() -> int:
    """Landlock's version on this system; 0 without it."""
    return max(int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))), 0)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def restrict(folder: Path) -> None:
    """Restrict this process, and all that it starts, except for what `unconfined` lists. It cannot be undone."""
    libc = _libc()
    for capability in range(64):  # otherwise a program that root starts would regain them
        libc.prctl(_BOUNDING_DROP, capability, 0, 0, 0)
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if (version := _version()) >= _LANDLOCK:
        _landlock(libc, version, folder)
    if platform.machine() in _CALLS:
        _filter(libc, *_CALLS[platform.machine()])


def _landlock(libc: ctypes.CDLL, version: int, folder: Path) -> None:
    handled = _WRITE | (_DEVICE if version >= 5 else 0)
    network = 0b11 if version >= 4 else 0  # to bind and to connect with TCP
    scopes = 0b11 if version >= 6 else 0  # abstract sockets and signals
    words = [handled, network, scopes][: 1 + (version >= 4) + (version >= 6)]
    attributes = (ctypes.c_uint64 * len(words))(*words)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    rules = _checked(libc.syscall(_CREATE, ctypes.byref(attributes), size, ctypes.c_uint32(0)))
    for path, rights in ((folder, _WRITE), (Path(os.devnull), _WRITE_FILE | _TRUNCATE)):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)  # packed: no padding
        _checked(libc.syscall(_ADD, rules, 1, rule, ctypes.c_uint32(0)))
        os.close(place)
    _checked(libc.syscall(_RESTRICT, rules, ctypes.c_uint32(0)))
    os.close(rules)


def _filter(libc: ctypes.CDLL, machine: int, refused: Sequence[int], ignored: Sequence[int]) -> None:
    """A program of classic BPF over (number, machine, ...) of each system call, seccomp(2)."""
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, refuse, ignore = 0x7FFF0000, 0x00050000 | 1, 0x00050000  # ERRNO with EPERM, and with 0: reported as success
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, refuse), (load, 0, 0, 0)]
    steps += [(at_least, 0, 1, 0x40000000), (give, 0, 0, refuse)]  # x32: the same calls with other numbers
    for number in refused:
        steps += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    for number in ignored:
        steps += [(equal, 0, 1, number), (give, 0, 0, ignore)]
    steps.append((give, 0, 0, allow))
    code = b"".join(
        op.to_bytes(2, sys.byteorder) + bytes((yes, no)) + value.to_bytes(4, sys.byteorder)
        for op, yes, no, value in steps
    )
    program = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    held = Program(len(steps), ctypes.addressof(program))
    _checked(libc.prctl(_SECCOMP, 2, ctypes.byref(held), 0, 0))


def _new_namespaces(libc: ctypes.CDLL) -> None:
    """Start later children in name spaces of users and processes, if the system allows it."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USERS | _NEW_PROCESSES) == 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with suppress(OSError):
                Path("/proc/self", name).write_text(text, encoding="ascii")


def _limits(seconds: float) -> None:
    cores = os.cpu_count() or 1
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, TASKS),
        (resource.RLIMIT_CPU, int(seconds * cores) + 1),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _exceeded_limit(child: int, until: float) -> str:
    """The limit that a process and its descendants exceed, as a sentence; empty if none."""
    import psutil

    if time.monotonic() > until:
        return "it exceeded its time limit"
    memory = processes = 0
    with suppress(psutil.Error):
        first = psutil.Process(child)
        for process in (first, *first.children(recursive=True)):
            with suppress(psutil.Error):
                memory, processes = memory + process.memory_info().rss, processes + 1
    if memory > MEMORY:
        return f"it took more than {MEMORY >> 30} GiB of memory"
    return f"it had more than {PROCESSES} processes" if processes > PROCESSES else ""


def _kill_descendants() -> None:
    """Kill all processes below this one, which adopts orphans."""
    import psutil

    while left := psutil.Process().children(recursive=True):
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _supervise(seconds: float, folder: Path, environment: Mapping[str, str], arguments: Sequence[str]) -> int:
    libc = _libc()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(LIMIT_EXCEEDED))
    _new_namespaces(libc)
    child = os.fork()
    if not child:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _limits(seconds)
            restrict(folder)
            os.execvpe(arguments[0], list(arguments), {**os.environ, **environment})
        except BaseException as error:
            print(f"it cannot be run confined: {error}", file=sys.stderr, flush=True)
        os._exit(127)
    until = time.monotonic() + seconds
    try:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if limit := _exceeded_limit(child, until):
                print(f"\n{limit}", file=sys.stderr, flush=True)
                return LIMIT_EXCEEDED
            time.sleep(POLL_SECONDS)
    finally:
        _kill_descendants()


if __name__ == "__main__":
    sys.exit(_supervise(float(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]))
