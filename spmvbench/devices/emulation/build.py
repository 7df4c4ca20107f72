"""From a .cu file and name expressions to a loaded library, by the host's C++ compiler and a cache on disk.

The cache knows every instantiation by a name of its own, whatever others its library holds: a survey combines the
expressions in ever new ways, but one by one they repeat. What is asked for together is compiled together, in half of
the time. A library of the checking build holds one: what leaves its shared memory must not end in another's.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import importlib.util
import itertools
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from spmvbench import paths
from spmvbench.devices.base import DeviceUnavailable, does_not_compile
from spmvbench.devices.emulation import symbols
from spmvbench.errors import SpmvbenchError
from spmvbench.formats.kernels import absent, headers

FOLDER = Path(__file__).resolve().parent

FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",  # libraries of one template must not share its shared memory
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-stack-protector",
    "-ffp-contract=off",  # __dmul_rn and its kin are plain operators here
    "-w",  # NVRTC's warnings count; a host compiler's would not know CUDA's rules
)
FAST = ("-Og",)  # -O1 compiles for half as long again and runs no faster: switching fibers is what takes the time
CHECKING = ("-O1", "-g1", "-DSPMVBENCH_CHECK")
GCC = ("-fno-gnu-unique", "-fno-extern-tls-init")
# Without the C++ library, which nothing here uses: looking through it is half of a linker's time.
GCC_LIBRARIES = ("-nodefaultlibs", "-lgcc", "-lc")

ANSWER_SECONDS = 10.0  # for a compiler to tell its version


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command, and what it says about its version (part of every library's hash)."""

    command: tuple[str, ...]
    version: str

    @property
    def clang(self) -> bool:
        """Whether it is Clang or built on it."""
        return "clang" in self.version


@cache
def find_compiler(chosen: str | None) -> Compiler:
    """The first that answers of: `chosen` (the environment's CXX), g++, clang++, the package ziglang.

    Raises DeviceUnavailable if none does, or where the chosen one does not. Each has ANSWER_SECONDS.
    """
    if chosen:
        compiler = _asked(shlex.split(chosen))
        if compiler is None:
            raise DeviceUnavailable(
                f"CXX names {chosen!r}, which is no C++ compiler that runs here and tells its version in "
                f"{ANSWER_SECONDS:g} s"
            )
        return compiler
    candidates = [["g++"], ["clang++"]]
    if importlib.util.find_spec("ziglang"):
        candidates.append([sys.executable, "-m", "ziglang", "c++"])
    for command in candidates:
        compiler = _asked(command)
        if compiler is not None:
            return compiler
    raise DeviceUnavailable(
        "the emulated device needs a C++ compiler: install g++, or run pip install 'spmvbench[cpu]'"
    )


def _asked(command: list[str]) -> Compiler | None:
    """The compiler that a command runs; None if it does not run."""
    path = shutil.which(command[0])
    if path is None:
        return None
    asked = [path, *command[1:], "--version"]
    try:
        answer = subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):  # a script without an interpreter, one that waits for a licence
        return None
    if answer.returncode:
        return None
    return Compiler((path, *command[1:]), answer.stdout)


class Library(ctypes.CDLL):
    """Instantiations of one source, loaded. `check`: whether it is the checking build."""

    def __init__(self, path: Path, check: bool):
        super().__init__(str(path))
        self.path, self.check = path, check
        self.spmvbench_arena_create.restype = ctypes.c_void_p
        self.spmvbench_arena_destroy.argtypes = [ctypes.c_void_p]
        self.spmvbench_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.spmvbench_run.restype = None
        self.spmvbench_take_launched.argtypes = [ctypes.c_void_p]
        self.spmvbench_take_launched.restype = ctypes.c_void_p
        self.spmvbench_free_launched.argtypes = [ctypes.c_void_p]
        self.spmvbench_free_launched.restype = None
        try:
            dynamic = ctypes.addressof(ctypes.c_char.in_dll(self, "dynamic_shared"))
        except ValueError:  # the kernel has none
            dynamic = None
        self.spmvbench_prepare.argtypes = [ctypes.c_void_p]
        self.spmvbench_prepare.restype = None
        self.spmvbench_prepare(dynamic)
        table = ctypes.pointer(Kernel.in_dll(self, "spmvbench_kernels"))
        listed = itertools.takewhile(lambda kernel: kernel.expression, (table[i] for i in itertools.count()))
        self.kernels = {kernel.expression.decode(): kernel for kernel in listed}


@dataclass(frozen=True)
class Instantiation:
    """A kernel, in the library that holds it."""

    library: Library
    kernel: Kernel

    @cached_property
    def parameters(self) -> list[Parameter]:
        """What the kernel takes."""
        return list(self.kernel.parameters[: self.kernel.count])


class Parameter(ctypes.Structure):
    """emulation::Parameter of launcher.hpp."""

    @property
    def members(self) -> list[Parameter]:
        """The members of a struct."""
        members: list[Parameter] = self.first_member[: self.member_count]
        return members


Parameter._fields_ = [
    ("kind", ctypes.c_char),
    ("pointer", ctypes.c_bool),
    ("constant", ctypes.c_bool),
    ("bytes", ctypes.c_uint32),
    ("first_member", ctypes.POINTER(Parameter)),
    ("member_count", ctypes.c_uint64),
]


class Kernel(ctypes.Structure):
    """emulation::Kernel of launcher.hpp."""

    _fields_ = (
        ("expression", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(Parameter)),
        ("count", ctypes.c_uint64),
    )


def instantiations(source: Path, expressions: Iterable[str], *, check: bool) -> dict[str, Instantiation]:
    """Instantiations of a source by their expressions, those that the cache lacks compiled together.

    Raises DeviceFault with the compiler's words, DeviceUnavailable without a compiler, SpmvbenchError where the cache
    cannot be written.
    """
    names = cached_at(source, expressions, check)
    for together in [{expression: path} for expression, path in names.items()] if check else [names]:
        _make(source, together, check)
    loaded = {expression: _loaded(path, check) for expression, path in names.items()}
    return {expression: Instantiation(made, made.kernels[expression]) for expression, made in loaded.items()}


def cached_at(source: Path, expressions: Iterable[str], check: bool) -> dict[str, Path]:
    """Where the cache has, or will have, each instantiation."""
    common = _common(source, find_compiler(os.environ.get("CXX")), paths.include(), check)
    folder = paths.compiled() / "emulated"
    return {expression: folder / f"{_short(f'{common} {expression}')}.so" for expression in expressions}


_digests: dict[tuple[object, ...], tuple[dict[Path, tuple[int, int]], str]] = {}


def _common(source: Path, compiler: Compiler, include: Path, check: bool) -> str:
    """What the libraries of a source have in common in their names; files that did not change are not read again."""
    known = _digests.get(key := (source, compiler, include, check))
    if known is None or any(_stamp(file) != stamp for file, stamp in known[0].items()):
        files = [source, *headers(source), *_runtime_files()]
        stamps = {file: _stamp(file) for file in files}
        # By name and contents, wherever the files are: a second checkout, or a new environment, compiles nothing again.
        digest = _hash(_unit(Path(source.name), []), compiler, _flags(compiler, check), files)
        _digests[key] = known = stamps, digest
    return known[1]


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _unit(source: Path, expressions: Iterable[str]) -> str:
    kernels = " ".join(f'SPMVBENCH_KERNEL("{expression}", {expression})' for expression in sorted(expressions))
    return f'#include "cuda.hpp"\n#include "launcher.hpp"\n#include "{source}"\nSPMVBENCH_KERNELS({kernels})\n'


def _make(source: Path, names: dict[str, Path], check: bool) -> None:
    """Compile what has no file yet, one library with a name for each; who wants the same meanwhile waits for it."""
    if all(path.exists() for path in names.values()):
        return
    compiler = find_compiler(os.environ.get("CXX"))
    flags = _flags(compiler, check)
    folder = _cache()
    lock = folder / "locks" / _short(" ".join(sorted(path.name for path in names.values())))
    with _writing(folder), paths.locked(lock):
        missing = {expression: path for expression, path in names.items() if not path.exists()}
        if not missing:
            return
        if lacking := absent(source):  # the compiler here has standard headers
            log = [
                f'{path}:{line}: error: cannot open "{name}": NVRTC finds no such file' for path, line, name in lacking
            ]
            raise does_not_compile(source, "the emulated device", "\n".join(log))
        runtime = _runtime(compiler, flags, check, folder)
        with paths.scratch(folder) as scratch:
            text, made = scratch / "unit.cpp", scratch / "unit.so"
            text.write_text(_unit(source, missing))
            command = [*compiler.command, *flags, *_renamed(), f"-I{FOLDER}", f"-I{paths.include()}"]
            if check:
                instrumented = scratch / "unit.o"
                _compile(source, [*command, *_instrumentation(compiler), "-c", text, "-o", instrumented], scratch)
                text = instrumented
            libraries = () if compiler.clang else GCC_LIBRARIES
            _compile(source, [*command, "-shared", text, *runtime, "-lm", *libraries, "-o", made], scratch)
            for path in missing.values():  # whole or not there: others compile at the same time
                name = scratch / path.name
                try:
                    os.link(made, name)
                except OSError:  # a file system without links
                    shutil.copyfile(made, name)
                name.replace(path)


_loading = threading.Lock()
_libraries: dict[tuple[int, int], Library] = {}  # for good: what is mapped keeps its identity


def _loaded(path: Path, check: bool) -> Library:
    found = path.stat()
    identity = found.st_dev, found.st_ino  # one for all names of a file
    with _loading:  # it looks through all libraries of the process, and finds half of one that another thread loads
        if identity not in _libraries:
            _libraries[identity] = Library(path, check)
        return _libraries[identity]


def _flags(compiler: Compiler, check: bool) -> tuple[str, ...]:
    flags = FLAGS + (CHECKING if check else FAST)
    if not compiler.clang:
        flags += GCC
    if "ziglang" in compiler.command:
        flags += ("-nostdlib++",)  # else its first call builds the C++ library, two minutes
    return flags


def _renamed() -> tuple[str, ...]:
    """What makes the compiler write down folders by names that are the same wherever the package is installed."""
    return f"-fdebug-prefix-map={FOLDER}={symbols.RUNTIME}", f"-fdebug-prefix-map={paths.include()}={symbols.HELPERS}"


def _instrumentation(compiler: Compiler) -> tuple[str, ...]:
    """What makes the compiler report every access of a kernel. The hooks are ours, so the linker must not see it."""
    if compiler.clang:
        options = ("-tsan-distinguish-volatile", "-tsan-instrument-read-before-write")
        return ("-fsanitize=thread", *(word for option in options for word in ("-mllvm", option)))
    return ("-fsanitize=thread", "--param=tsan-distinguish-volatile=1", "-fno-store-merging")


def _runtime(compiler: Compiler, flags: tuple[str, ...], check: bool, folder: Path) -> list[Path]:
    """The objects of the scheduler and the checker, compiled separately: they are the same for every kernel."""
    objects = []
    for name in ("runtime.cpp", "checker.cpp") if check else ("runtime.cpp",):
        path = folder / f"{_hash(name, compiler, flags, _runtime_files())}.o"
        objects.append(path)
        if path.exists():
            continue
        with _writing(folder), paths.scratch(folder) as scratch:
            made = scratch / "made.o"
            _compile(FOLDER / name, [*compiler.command, *flags, *_renamed(), "-c", FOLDER / name, "-o", made], scratch)
            made.replace(path)
    return objects


def _runtime_files() -> list[Path]:
    return [*FOLDER.glob("*.hpp"), *FOLDER.glob("*.cpp")]


def _hash(text: str, compiler: Compiler, flags: tuple[str, ...], files: Iterable[Path]) -> str:
    digest = hashlib.sha256("\0".join((text, *compiler.command, compiler.version, *flags)).encode())
    for name, content in sorted((os.fsencode(file.name), file.read_bytes()) for file in files):
        digest.update(b"\0" + name + b"\0" + content)
    return digest.hexdigest()[:32]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _cache() -> Path:
    folder = paths.compiled() / "emulated"
    with _writing(folder):
        return paths.trusted_folder(folder)  # what lies there is loaded as code


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What cannot be written there is no kernel's fault: the SpmvbenchError names the folder and what is to be done."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise SpmvbenchError(f"cannot write compiled kernels to {folder} ({reason}); set SPMVBENCH_COMPILED") from None


def _compile(source: Path, command: list[str | Path], scratch: Path) -> None:
    """Run a compiler, whose own temporary files go to `scratch`. Raises DeviceFault, OSError where the disk is full."""
    speaking = {"LC_ALL": "C", "TMPDIR": str(scratch)}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | speaking)
    if answer.returncode:
        for number in paths.FULL:
            if os.strerror(number) in answer.stderr:
                raise OSError(number, os.strerror(number))
        if not shutil.disk_usage(scratch).free:  # some compilers only die of it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise does_not_compile(source, "the emulated device", answer.stderr)
