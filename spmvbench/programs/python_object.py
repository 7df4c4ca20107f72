"""Python functions as formats: Triton, Numba, PyTorch, JAX, Warp, CuPy, or a library behind ctypes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

from spmvbench.formats import Csr, Parameter, Skip, register
from spmvbench.formats.admission import MissingLibrary
from spmvbench.formats.arrays import Array, array_module
from spmvbench.formats.streams import Stream
from spmvbench.programs.base import MemoryTaken, Program, unreadable_later

Multiply = Callable[[Array, Array], Any]
Build = Callable[..., Multiply]


def program(
    name: str,
    *,
    reference: str,
    runs_on: str = "cuda",
    family: str = Program.family,
    packages: tuple[str, ...] = (),
    returns_y: bool = False,
    transposes: bool = False,
    square_only: bool = False,
    experiment: bool = False,
) -> Callable[[Build], Build]:
    """Register ``build(a, **parameters)`` as a format of this name.

    build: takes a matrix, `Csr` (``shape``, ``row_ptr``, ``col_idx``, ``values``) of CuPy, or of NumPy if `runs_on` is
    ``host``, and returns ``multiply(x, y)``, which enqueues y = A x on the current stream. Its keyword arguments with
    defaults are the parameters of the format. The conversion and all compiling belong into `build`. The matrix is
    unreadable after it has returned. It may raise Skip. The function that it returns may have the attributes
    ``nbytes`` (bytes that it takes), ``decode()`` (rows, cols, values), ``update(values)`` (enqueues new values of the
    same pattern, in the order of `a`), ``several(x, y)`` (Y = A X of k vectors, of (cols, k) and (rows, k), by rows or
    by columns) and, with `transposes`, ``transposed(x, y)``.

    runs_on: ``cuda``, ``host`` or ``both``. packages: distributions that it needs; the format is skipped where one is
    missing, and their versions are part of a row's identity. returns_y: multiply returns y instead of writing to it;
    the host then drives each product. experiment: never ranked. Raises ValueError for a name that is taken.
    """

    def registered(build: Build) -> Build:
        devices = {"cuda": ("cuda",), "host": ("emulated",), "both": ("cuda", "emulated")}
        if runs_on not in devices:
            raise ValueError(f"runs_on of {name} is cuda, host or both, not {runs_on!r}")
        signature = list(inspect.signature(build).parameters.values())
        attributes: dict[str, Any] = {
            "__doc__": inspect.getdoc(build) or f"The program {name}.",
            "__module__": build.__module__,
            "key": name,
            "family": family,
            "reference": reference,
            "devices": devices[runs_on],
            "build": staticmethod(build),
            "packages": packages,
            "returns_y": returns_y,
            "square_only": square_only,
            "has_transposed": transposes,
            "experiment": experiment or returns_y,
        }
        attributes |= {
            parameter.name: Parameter(parameter.default, f"of {build.__name__}")
            for parameter in signature[1:]
            if parameter.kind is not parameter.VAR_KEYWORD
        }
        register(type(build.__name__, (PythonProgram,), attributes))
        return build

    return registered


class PythonProgram(Program):
    """A Python function as a format, see `program`."""

    build: ClassVar[Build]
    packages: ClassVar[tuple[str, ...]]
    has_transposed: ClassVar[bool]

    @classmethod
    def transposes(cls) -> bool:
        return cls.has_transposed

    @classmethod
    def data_digest(cls) -> str:
        """What rows depend on beyond modules: versions of the packages."""
        return ",".join(f"{package} {_version(package)}" for package in cls.packages)

    @classmethod
    def description(cls) -> dict[str, Any]:
        return super().description() | {"packages": {package: _version(package) for package in cls.packages}}

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        if missing := [package for package in cls.packages if not _version(package)]:
            raise MissingLibrary(
                f"{' and '.join(missing)} is not installed"
                if len(missing) == 1
                else f"{', '.join(missing)} are not installed"
            )
        if a.vectors is not None and a.vectors != a.values.dtype:
            raise Skip(f"{cls.key} multiplies values and vectors of one type")
        home = array_module(a.values)
        with unreadable_later(a) as given, MemoryTaken(home) as memory_taken:
            multiply = cls.build(given, **params)
        if not callable(multiply):
            raise TypeError(f"{cls.key} returned a {type(multiply).__name__}, not a function of x and y")
        return {
            "matrix": PythonMatrix(multiply, home),
            "taken": memory_taken.taken,
            "dtype": given.values.dtype,
            "home": home,
        }


def _version(package: str) -> str:
    """The version of an installed distribution; empty if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


class PythonMatrix:
    """A matrix that a Python function holds."""

    def __init__(self, multiply: Multiply, home: Any):
        self._multiply, self._home = multiply, home

    def multiply(self, x: Array, y: Array, stream: int) -> Any:
        """Enqueue y = A x, or return y as an array of NumPy or CuPy, by DLPack if it is another library's."""
        with self._current(stream):
            found = self._multiply(x, y)
            own = found is None or isinstance(found, self._home.ndarray)
            return found if own else self._home.from_dlpack(found)

    def multiply_transposed(self, x: Array, y: Array, stream: int) -> Any:
        """Enqueue y = A^T x, likewise. Raises Skip if the function has no `transposed`."""
        transposed: Multiply = self._multiply.transposed  # type: ignore[attr-defined]
        with self._current(stream):
            return transposed(x, y)

    @property
    def several(self) -> Callable[[Array, Array, int], Any] | None:
        """Enqueues Y = A X for X of (cols, k), or returns Y; None if the function has no `several`."""
        several: Multiply | None = getattr(self._multiply, "several", None)
        return None if several is None else PythonMatrix(several, self._home).multiply

    @property
    def update(self) -> Callable[[Array, int], Any] | None:
        """Enqueues new values; None if the function has no `update`."""
        update: Callable[[Array], Any] | None = getattr(self._multiply, "update", None)
        if update is None:
            return None

        def enqueued(values: Array, stream: int) -> None:
            with self._current(stream):
                update(values)

        return enqueued

    def decode(self) -> tuple[Array, Array, Array]:
        """(rows, cols, values) of every entry. Raises NotImplementedError if the function has no `decode`."""
        decode = getattr(self._multiply, "decode", None)
        if decode is None:
            raise NotImplementedError("the program has no decode: it does not give its entries back")
        rows, cols, values = (self._home.asarray(part) for part in decode())
        return rows, cols, values

    def nbytes(self) -> int:
        """The function's attribute `nbytes`; 0 if it has none."""
        return int(getattr(self._multiply, "nbytes", 0))

    @contextmanager
    def _current(self, stream: int) -> Iterator[None]:
        """The stream is the current one of CuPy and, where it is imported, of PyTorch (and so of Triton)."""
        if self._home is np:
            yield
            return
        with ExitStack() as stack:
            stack.enter_context(self._home.cuda.Stream.from_external(Stream(stream)))
            if (torch := sys.modules.get("torch")) is not None:
                stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream)))
            yield
