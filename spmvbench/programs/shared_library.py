"""Shared libraries of the interface in spmv_program.h as formats: ``run --program ./libmine.so``."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Format, Parameter, Skip, register
from spmvbench.formats.arrays import Array, ArrayModule, address, array_module, on_host
from spmvbench.formats.registry import REGISTRY
from spmvbench.programs import abi
from spmvbench.programs.base import Blocks, MemoryTaken, Program, resolved_text, unreadable_later

DESCRIBE_SECONDS = 60.0  # a library that loads CUDA and opens a device takes some of them
PLACES = {abi.HOST: ("emulated",), abi.CUDA: ("cuda",)}


class ProgramError(RuntimeError):
    """A function of a library failed; the message is its own sentence."""


def load(path: Path) -> type[Format]:
    """The format of a library, registered under the name that its description gives.

    The library is described in a process of its own. Raises UsageError with what is wrong with it.
    """
    print_of_file = fingerprint(path)
    for key, known in list(REGISTRY.items()):
        if issubclass(known, SharedLibrary) and known.path == path:
            if known.fingerprint == print_of_file:
                return known
            del REGISTRY[key]  # it was built again
    said = description(path, print_of_file)
    where = f"{path.name} (spmv_describe)"
    if said["runs_on"] not in PLACES or said["csr_on"] not in PLACES:
        raise UsageError(f"{where}: runs_on and csr_on are SPMV_HOST ({abi.HOST}) or SPMV_CUDA ({abi.CUDA})")
    if said["csr_on"] == abi.CUDA and said["runs_on"] == abi.HOST:
        raise UsageError(f"{where}: a product on the host cannot take its matrix from the GPU (csr_on)")
    if not said["types"] & sum(abi.TYPES.values()):
        raise UsageError(f"{where}: types is none of SPMV_F64 and SPMV_F32")
    attributes = {
        "__doc__": f"The program {said['name']} of {path.name}, which another project has built.",
        "__module__": __name__,
        "key": said["name"],
        "reference": said["reference"] or path.name,
        "devices": PLACES[said["runs_on"]],
        "path": path,
        "fingerprint": print_of_file,
        "said": said,
        "square_only": bool(said["flags"] & abi.SQUARE_ONLY),
        "wide_offsets": bool(said["flags"] & abi.WIDE_OFFSETS),
        "keeps_zeros": not said["flags"] & abi.LOSSY_DECODE,
    }
    try:
        parameters = _parameters(said["parameters"])
        attributes |= {"parameter_order": tuple(parameters)} | parameters
        return register(type(re.sub(r"\W", "_", said["name"]).title() or "Unnamed", (SharedLibrary,), attributes))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: {error}") from None


def _parameters(text: str) -> dict[str, Parameter[Any]]:
    """Parameters with their defaults; the type of each is the default's. Raises ValueError."""
    found: dict[str, Parameter[Any]] = {}
    for setting in filter(None, text.split(",")):
        name, equals, default = setting.partition("=")
        if not equals or not name.strip().isidentifier() or hasattr(SharedLibrary, name.strip()):
            raise ValueError(f"cannot read the parameter {setting!r}: write name=default")
        found[name.strip()] = Parameter(
            _value(default.strip()), f"a parameter of the program; {default.strip()} by default"
        )
    return found


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@cache
def description(path: Path, _fingerprint: str) -> dict[str, Any]:
    """What a library says of itself, asked in a process of its own. Raises UsageError."""
    command = [sys.executable, "-I", abi.__file__, str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=DESCRIBE_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{path} was still describing itself after {DESCRIBE_SECONDS:.0f} s") from None
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise UsageError(f"{path} ended the process that asked for its description ({how})") from None
    if "error" in answer:
        raise UsageError(f"{path} is no program for this bench: {answer['error']}")
    found: dict[str, Any] = answer["description"]
    return found


def fingerprint(path: Path) -> str:
    """SHA-256 (16 hex digits) of a library and of the libraries in its folder that it loads."""
    found = hashlib.sha256()
    for file, content in _beside(path).items():
        found.update(file.name.encode() + b"\0" + content)
    return found.hexdigest()[:16]


def _beside(path: Path) -> dict[Path, bytes]:
    """The bytes of a library, then by name of those of its folder whose names its bytes or theirs hold, as an ELF's
    NEEDED does.
    """
    others = sorted(
        file for file in path.parent.iterdir() if file != path and re.search(r"\.(so|dll|dylib)(\.|$)", file.name)
    )
    found, waiting = {path: path.read_bytes()}, [path]
    while waiting:
        content = found[waiting.pop()]
        for file in others:
            if file not in found and file.is_file() and file.name.encode() + b"\0" in content:
                found[file] = file.read_bytes()
                waiting.append(file)
    return {file: found[file] for file in (path, *sorted(found.keys() - {path}))}


class SharedLibrary(Program):
    """A shared library as a format. path: of the library, and its `fingerprint`. said: its description.

    parameter_order: names of parameters as the description has them. They have values here, so that no parameter of a
    library can take their names.
    """

    path: ClassVar[Path] = Path()
    fingerprint: ClassVar[str] = ""
    said: ClassVar[dict[str, Any]] = {}
    parameter_order: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def data_digest(cls) -> str:
        """What rows depend on beyond this package's modules."""
        return cls.fingerprint

    @classmethod
    def description(cls) -> dict[str, Any]:
        return cls.said | super().description() | {"file": cls.path.name, "fingerprint": cls.fingerprint}

    @classmethod
    def files(cls) -> list[Path]:
        return list(_beside(cls.path))

    @classmethod
    def transposes(cls) -> bool:
        return "spmv_transpose_multiply" in cls.said["functions"]

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        if a.values.dtype.name not in abi.TYPES or not abi.TYPES[a.values.dtype.name] & cls.said["types"]:
            raise Skip(f"{cls.key} does not multiply values of {a.values.dtype}")
        if a.vectors is not None and a.vectors != a.values.dtype:
            raise Skip(f"{cls.key} multiplies values and vectors of one type")
        home = array_module(a.values)
        if cls.said["csr_on"] == abi.HOST:
            a = a.on(np)  # the time of this copy is part of the conversion
        with unreadable_later(a) as given:
            text = resolved_text({name: params[name] for name in cls.parameter_order})
            matrix = LibraryMatrix(_loaded(cls.path), given, home, text)
        return {"matrix": matrix, "taken": matrix.taken, "dtype": given.values.dtype, "home": home}


@cache
def _loaded(path: Path) -> Any:
    try:
        return abi.load(str(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None


class LibraryMatrix:
    """A matrix that a library holds, released with this object."""

    def __init__(self, library: Any, a: Csr, home: ArrayModule, parameters: str):
        self._library, self._entries, self._home = library, a.nnz, home
        self._dtype, self._values_on = a.values.dtype, array_module(a.values)
        self._blocks = blocks = Blocks(home)
        self._failed = failed = list[str]()

        def allocate(size: int, _: Any) -> int | None:  # no part of this object: what keeps it alive would keep that
            try:
                return blocks.allocate(size)
            except Exception as error:  # nothing may leave a callback
                failed.append(f"{type(error).__name__}: {error}")
                return None

        callbacks = abi.ALLOCATE(allocate), abi.RELEASE(lambda pointer, _: blocks.release(pointer or 0))
        memory = abi.Memory(*callbacks, None)
        csr = abi.Csr(
            *a.shape,
            a.nnz,
            address(a.row_ptr),
            address(a.col_idx),
            address(a.values),
            8 * a.row_ptr.itemsize,
            abi.TYPES[a.values.dtype.name],
        )
        handle = ctypes.c_void_p()
        with MemoryTaken(home, self._blocks) as memory_taken:
            status = library.spmv_convert(
                ctypes.byref(csr), parameters.encode(), ctypes.byref(memory), _stream(home), ctypes.byref(handle)
            )
        self._check("spmv_convert", status)
        self.taken = memory_taken.taken
        self._handle = handle
        weakref.finalize(self, _release, library, handle, self._blocks, (callbacks, memory))

    def _check(self, function: str, status: int) -> None:
        """Raises Skip, MemoryError or ProgramError with the library's sentence."""
        if status == abi.OK:
            return
        text = abi.error_text(self._library)
        if status == abi.CANNOT_HOLD:
            raise Skip(text)
        if self._failed:
            raise MemoryError(f"{function}: {text} ({self._failed[-1]})")
        raise ProgramError(f"{function} returned {status}: {text}")

    def multiply(self, x: Array, y: Array, stream: int) -> None:
        """Enqueue y = A x. Raises ProgramError."""
        status = self._library.spmv_multiply(self._handle, address(x), address(y), stream)
        if status:
            self._check("spmv_multiply", status)

    def multiply_transposed(self, x: Array, y: Array, stream: int) -> None:
        """Enqueue y = A^T x. Raises Skip, ProgramError."""
        if self._library.spmv_transpose_multiply is None:
            raise Skip("the library has no spmv_transpose_multiply")
        status = self._library.spmv_transpose_multiply(self._handle, address(x), address(y), stream)
        self._check("spmv_transpose_multiply", status)

    @property
    def update(self) -> Callable[[Array, int], None] | None:
        """Takes new values, where the library wanted the CSR; raises ProgramError. None without spmv_update."""
        return None if self._library.spmv_update is None else self._updated

    def _updated(self, values: Array, stream: int) -> None:
        given = values if self._values_on is self._home else on_host(values)
        self._check("spmv_update", self._library.spmv_update(self._handle, address(given), stream))

    def decode(self) -> tuple[Array, Array, Array]:
        """(rows, cols, values) of every entry. Raises NotImplementedError, ProgramError."""
        if self._library.spmv_decode is None:
            raise NotImplementedError("the library has no spmv_decode: it does not give its entries back")
        rows, cols = (np.full(self._entries, -1, np.int32) for _ in range(2))
        values = np.full(self._entries, np.nan, self._dtype)
        status = self._library.spmv_decode(self._handle, address(rows), address(cols), address(values))
        self._check("spmv_decode", status)
        kept = (rows >= 0) & (cols >= 0)  # fewer entries than the matrix has, if stored zeros are left out
        rows, cols, values = (self._home.asarray(array[kept]) for array in (rows, cols, values))
        return rows, cols, values

    def nbytes(self) -> int:
        """What the library says; 0 if it does not."""
        return int(self._library.spmv_bytes(self._handle)) if self._library.spmv_bytes is not None else 0

    @property
    def zones(self) -> dict[str, tuple[Array, Array]]:
        """As `Blocks.zones`."""
        return self._blocks.zones


def _release(library: Any, handle: Any, blocks: Blocks, _keep: Any) -> None:
    library.spmv_release(handle)


def _stream(home: ArrayModule) -> Any:
    return None if home is np else home.cuda.get_current_stream().ptr
