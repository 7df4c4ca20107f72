"""What formats share in a measuring process beside the device: settings of Python, NumPy, the C library and the system.

A format that changes them by carelessness would change the verdicts and times of others. `ProcessState` notes them
before any format is imported; they are restored after each step of a format. What cannot be restored ends the process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import locale
import os
import resource
import signal
import sys
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import is_, itemgetter
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.registry import REGISTRY

PACKAGE = __name__.partition(".")[0]
LIMITS = sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
STREAMS = ("stdin", "stdout", "stderr")
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIBC = ctypes.CDLL(None)  # opened once, for what is asked after each step of a format
DEFAULT_FLOATS = ctypes.c_void_p(-1)  # FE_DFL_ENV of fenv.h
MISSING = object()
ALL, MAP, ZIP = all, map, zip  # bound before a format can replace them
PRINTED = 10_000  # bytes that are kept of what a step of a format prints


class Setting(NamedTuple):
    """A setting of the process: its name in messages, how it is read, and how it is restored to what was read."""

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object]


def _signals() -> dict[int, tuple[Any, int]]:
    """The handler of each signal, Python's and that of the C library, which code in C sets without Python."""
    found, action = {}, (ctypes.c_void_p * 32)()  # larger than a struct sigaction, whose first member is the handler
    for number in signal.valid_signals():
        LIBC.sigaction(number, None, action)
        found[int(number)] = signal.getsignal(number), action[0] or 0
    return found


def _with_signals(held: dict[int, tuple[Any, int]]) -> None:
    now = _signals()
    for number, (handler, function) in held.items():
        if now[number] == (handler, function):
            continue
        if handler is not None:
            signal.signal(number, handler)
        else:
            LIBC.signal(number, ctypes.c_void_p(function))
    if faulthandler.is_enabled():  # its handlers are none of Python's
        faulthandler.disable()
        faulthandler.enable(2)


def _environment(environ: Any) -> Callable[[Any], None]:
    def restore(held: dict[str, str]) -> None:
        vars(os)["environ"] = environ
        environ.clear()
        environ.update(held)

    return restore


def _with_streams(held: list[Any]) -> None:
    for name, stream in zip(STREAMS, held, strict=True):
        setattr(sys, name, stream)


def _with_limits(held: list[tuple[int, int]]) -> None:
    for number, limits in zip(LIMITS, held, strict=True):
        resource.setrlimit(number, limits)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _cuda_context() -> int:
    """The CUDA context that is current in this thread, which goes with the current device; 0 if there is none."""
    driver: Any = sys.modules.get("cuda.bindings.driver")
    try:
        return 0 if driver is None else int(driver.cuCtxGetCurrent()[1] or 0)
    except RuntimeError:  # bindings without a driver
        return 0


def _with_cuda_context(held: int) -> None:
    driver: Any = sys.modules["cuda.bindings.driver"]
    driver.cuCtxSetCurrent(driver.CUcontext(held))


def _umask() -> int:
    os.umask(mask := os.umask(0o077))
    return mask


def _with_collector(held: tuple[bool, Any]) -> None:
    (gc.enable if held[0] else gc.disable)()
    gc.set_threshold(*held[1])


def settings(streams: list[int]) -> list[Setting]:
    """All settings that are noted but those of modules (`ProcessState`). streams: copies of the descriptors 0 to 2."""
    smallest = np.finfo(np.float64).smallest_normal / np.arange(1.0, 3.0)
    environ = os.environ

    def floats() -> tuple[int, bool]:
        return LIBC.fegetround(), bool((smallest * 0.5)[1] == 0)

    def descriptors() -> list[tuple[int, int]]:
        return [(status.st_dev, status.st_ino) for status in map(os.fstat, range(3))]

    def few_descriptors() -> bool:
        return 2 * len(os.listdir("/proc/self/fd")) <= resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def raising() -> list[Any]:
        return [each for each in warnings.filters if each[0] == "error"]  # libraries add others when they are imported

    return [  # numbers can be compared only after the first
        Setting("rounding or subnormals of the processor", floats, lambda _: LIBC.fesetenv(DEFAULT_FLOATS)),
        Setting("sys.stdin, sys.stdout or sys.stderr", lambda: [getattr(sys, name) for name in STREAMS], _with_streams),
        Setting("file descriptors 0 to 2", descriptors, lambda _: [os.dup2(streams[n], n) for n in range(3)]),
        Setting("NumPy's handling of errors", np.geterr, lambda held: np.seterr(**held)),
        Setting("NumPy's callback for errors", np.geterrcall, np.seterrcall),
        Setting("NumPy's print options", np.get_printoptions, lambda held: np.set_printoptions(**held)),
        Setting("the environment", lambda: dict(os.environ), _environment(environ)),
        Setting("the working directory", os.getcwd, os.chdir),
        Setting("the umask", _umask, os.umask),
        Setting("signal handlers", _signals, _with_signals),
        Setting(
            "the signal mask",
            lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []),
            lambda held: signal.pthread_sigmask(signal.SIG_SETMASK, held),
        ),
        Setting(
            "timers",
            lambda: [bool(signal.getitimer(which)[0]) for which in TIMERS],
            lambda held: [signal.setitimer(which, 0) for which, on in zip(TIMERS, held, strict=True) if not on],
        ),
        Setting(
            "resource limits",
            lambda: [resource.getrlimit(number) for number in LIMITS],
            _with_limits,
        ),
        Setting("the limit of recursion", sys.getrecursionlimit, sys.setrecursionlimit),
        Setting("the interval of threads", sys.getswitchinterval, sys.setswitchinterval),
        Setting("the trace function", sys.gettrace, sys.settrace),
        Setting("the profile function", sys.getprofile, sys.setprofile),
        Setting("the garbage collector", lambda: (gc.isenabled(), gc.get_threshold()), _with_collector),
        Setting("filters that make warnings errors", raising, _raising_only),
        Setting("sys.path", lambda: list(sys.path), lambda held: sys.path.__setitem__(slice(None), held)),
        Setting(
            "the locale", lambda: locale.setlocale(locale.LC_ALL), lambda held: locale.setlocale(locale.LC_ALL, held)
        ),
        Setting("its processors", lambda: os.sched_getaffinity(0), lambda held: os.sched_setaffinity(0, held)),
        Setting(
            "its priority",
            lambda: os.getpriority(os.PRIO_PROCESS, 0),
            lambda held: os.setpriority(os.PRIO_PROCESS, 0, held),
        ),
        Setting("the current CUDA context or device", _cuda_context, _with_cuda_context),
        Setting("the number of free file descriptors", few_descriptors, lambda _: None),
    ]


def _raising_only(held: list[Any]) -> None:
    kept = [each for each in warnings.filters if each[0] != "error" or each in held]
    warnings.filters[:] = kept  # type: ignore[index]


def _read(setting: Setting) -> Any:
    try:
        return setting.read()
    except Exception as error:  # a working directory that was removed, a replaced function
        return repr(error)


def _version(members: Mapping[str, Any]) -> ctypes.c_uint64:
    """Where CPython before 3.14 counts all changes of dicts, and leaves in each one the number of its own last."""
    return ctypes.c_uint64.from_address(id(members) + object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t))


@cache
def _has_versions() -> bool:
    """Whether this Python has what `_version` reads."""
    if sys.implementation.name != "cpython":
        return False
    tried: dict[str, Any] = {}
    counted, seen = _version(tried), list[int]()
    for value in range(3):
        seen.append(counted.value)
        tried["a"] = value
    return len({*seen, counted.value}) == 4


@dataclass(eq=False)
class _Owner:
    """A module or class, and its functions and classes. get: these, of its members now. version: of its members, if
    they are a dict that has one. seen: the version in which they were found unchanged.

    A process has tens of thousands of members, looked at after each step of a format: no loop in Python does it.
    """

    owner: Any
    members: Mapping[str, Any]
    names: tuple[str, ...]
    values: tuple[Any, ...]
    get: Callable[[Mapping[str, Any]], Any]
    version: ctypes.c_uint64 | None
    seen: int | None = None

    @classmethod
    def of(cls, owner: Any) -> _Owner | None:
        """None if it has none."""
        members = vars(owner)
        if isinstance(members, MappingProxyType):  # of a class: the dict behind it has a version
            (members,) = gc.get_referents(members)
        code = (
            (name, held) for name, held in list(members.items()) if callable(held) or hasattr(type(held), "__get__")
        )
        found = dict(code)  # a class method or a property is called by its class alone
        return cls.noted(owner, members, found) if found else None

    @classmethod
    def noted(cls, owner: Any, members: Mapping[str, Any], found: Mapping[str, Any]) -> _Owner:
        """What was found among its members, one or more."""
        names = tuple(found)
        get = itemgetter(*names, names[0])  # of one name it would give no tuple
        version = _version(members) if type(members) is dict and _has_versions() else None
        return cls(owner, members, names, tuple(found.values()), get, version)

    def is_unchanged(self) -> bool:
        """Whether each of them is the same object. Not whether it is equal: an object in its place says that itself."""
        version = None if self.version is None else self.version.value
        if version is not None and version == self.seen:
            return True
        try:
            unchanged = ALL(MAP(is_, self.get(self.members), self.values))
        except KeyError:
            return False
        self.seen = version if unchanged else None
        return unchanged


class ProcessState:
    """The settings of this process, and the functions and classes in its modules, as they were.

    Submitted formats' own modules are left out. lost: names of what was changed and could not be restored. printed:
    what was printed to standard output since it was last read, if this process owns that.
    """

    def __init__(self, printed: Callable[[], str] = str) -> None:
        self.lost: list[str] = []
        self.printed = printed
        streams = [os.dup(number) for number in range(3)]
        weakref.finalize(self, _close, streams)
        self._settings = settings(streams)
        self._held = [_read(setting) for setting in self._settings]
        self._modules: dict[str, ModuleType] = {}
        self._owners: list[_Owner] = []
        self.note_modules()

    def note_modules(self) -> None:
        """Note what has been imported since."""
        of_formats = {cls.__module__ for cls in REGISTRY.values()}
        for name, module in list(sys.modules.items()):
            if name in self._modules or not isinstance(module, ModuleType) or name == "__main__":
                continue
            ours = name.partition(".")[0] == PACKAGE
            if name in of_formats and not ours:
                continue
            self._modules[name] = module
            owners: list[Any] = [module]
            if ours:
                owners += [held for held in vars(module).values() if isinstance(held, type) and held.__module__ == name]
            self._owners += filter(None, map(_Owner.of, owners))
        self._loaded = _Owner.noted(sys, sys.modules, self._modules)

    def restore(self) -> list[str]:
        """Restore all that differs. Returns the names of what differed; `lost` has those of what still does."""
        found = []
        for name, module in () if self._loaded.is_unchanged() else self._modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                found.append(f"the module {name}")
        for owner in self._owners:
            for name, value in () if owner.is_unchanged() else ZIP(owner.names, owner.values, strict=True):
                if owner.members.get(name, MISSING) is not value:
                    setattr(owner.owner, name, value)
                    found.append(f"{getattr(owner.owner, '__module__', owner.owner.__name__)}.{name}")
        for setting, held in zip(self._settings, self._held, strict=True):
            if setting.name in self.lost or _read(setting) == held:
                continue
            with suppress(Exception):
                setting.restore(held)
            (found if _read(setting) == held else self.lost).append(setting.name)
        return found


def take_printed(descriptor: int, log: int = 2) -> str:
    """What was written to a file since the last call, without blanks at either end. It goes to the log."""
    if not (size := os.fstat(descriptor).st_size):
        return ""
    found = os.pread(descriptor, min(size, PRINTED), 0)
    os.ftruncate(descriptor, 0)
    os.write(log, found)
    return found.decode("utf-8", "replace").strip()


def take_own() -> str:
    """What this process has printed since the last call. Its standard output is a file."""
    with suppress(Exception):  # a stream that a format has closed
        sys.stdout.flush()
    LIBC.fflush(None)  # what C code has printed
    return take_printed(1)
