"""NVRTC through ctypes: CUDA C++ to machine code of one architecture, on machines with a GPU and without.

The `cuda` device compiles with it, and so do the tests that compile every kernel without a GPU: one place
for options, so that what the tests accept is what runs.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from spmvbench.devices.base import DeviceFault, DeviceUnavailable, does_not_compile
from spmvbench.formats import kernel_options


def nvrtc_options(arch: str) -> list[str]:
    """The compiler's options for an architecture such as ``sm_90``: every kernel is compiled with these and no other.

    A real architecture gives machine code at once; a virtual one would leave a second compilation to the driver.
    """
    return [
        f"--gpu-architecture={arch}",
        *kernel_options(),
        "--generate-line-info",  # compute-sanitizer and Nsight Compute name source lines; the code stays the same
    ]


def key_options(arch: str) -> list[str]:
    """Those of `nvrtc_options` that decide what the same files compile to: all but where shared headers are.

    With the files' contents they are the key of a cache, which then holds wherever the package is installed.
    """
    return [option for option in nvrtc_options(arch) if not option.startswith("--include-path=")]


def compile(
    source: Path, expressions: Iterable[str], arch: str, *, newest: int | None = None
) -> tuple[bytes, dict[str, str]]:
    """Compile a .cu file with the instantiations wanted of it.

    expressions: name expressions such as ``ell_spmv<double, 2>``. arch: ``sm_90``. newest: the CUDA major version that
    the driver understands, where the code is meant to run.
    Returns (cubin, name in the cubin by expression). Raises DeviceFault with the compiler's log where the file does not
    compile, DeviceUnavailable where there is no NVRTC.
    """
    nvrtc = _library(newest)
    expressions = list(expressions)
    # The source's own folder, as for any C++ compiler's quoted includes: NVRTC does not know where its text came from.
    options = [*nvrtc_options(arch), f"--include-path={source.parent}"]
    program = ctypes.c_void_p()
    _must(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), os.fsencode(source), 0, None, None))
    try:
        for expression in expressions:
            _must(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), texts):
            log = _bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0").decode()
            raise does_not_compile(source, arch, log)
        names = {}
        for expression in expressions:
            name = ctypes.c_char_p()
            _must(nvrtc.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)))
            assert name.value is not None
            names[expression] = name.value.decode()
        return _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), names
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def version(newest: int | None = None) -> tuple[int, int]:
    """Major and minor version of the NVRTC in use. Raises DeviceUnavailable if there is none."""
    return _version(_library(newest))


def _version(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _must(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _must(status: int) -> None:
    if status:
        raise DeviceFault(f"NVRTC refused a call with status {status}")


def _bytes(size_of: Callable[..., int], read: Callable[..., int], program: ctypes.c_void_p) -> bytes:
    """What NVRTC returns in two calls: first the size, then the content."""
    size = ctypes.c_size_t()
    _must(size_of(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _must(read(program, content))
    return content.raw


def _candidates() -> Iterator[str]:
    """Where libnvrtc may be: NVIDIA's wheels, the toolkit's folders, then wherever the loader looks."""
    wheels = importlib.util.find_spec("nvidia")
    roots = [Path(folder) for folder in (wheels.submodule_search_locations or [])] if wheels else []
    found = [path for root in roots for path in root.glob("*/lib/libnvrtc.so.*")]
    for toolkit in filter(None, (os.environ.get("CUDA_PATH"), "/usr/local/cuda")):
        found += [path for lib in ("lib64", "lib") for path in Path(toolkit, lib).glob("libnvrtc.so.*")]
    # Of several versions the newest first; a file such as libnvrtc.alt.so.13 does not match.
    yield from (str(path) for path in sorted(found, key=lambda path: -int(re.findall(r"\d+", path.name)[0])))
    by_loader = ctypes.util.find_library("nvrtc")
    if by_loader:
        yield by_loader


def _load_headers(library: Path) -> None:
    """Load CUDA's headers, a library beside NVRTC that some versions look for on the loader's path only.

    A name without a folder is that of a library on this path: its headers are there too, and nothing is loaded from
    the working directory.
    """
    if library.is_absolute():
        for beside in library.parent.glob("libnvrtc-builtins.so.*"):
            with suppress(OSError):
                ctypes.CDLL(str(beside), mode=ctypes.RTLD_GLOBAL)


@cache
def _library(newest: int | None = None) -> ctypes.CDLL:
    """The first libnvrtc that loads and is no newer than `newest`: a driver refuses code of a later major version."""
    for candidate in _candidates():
        try:
            library = ctypes.CDLL(candidate)
        except OSError:
            continue
        if newest is None or _version(library)[0] <= newest:
            _load_headers(Path(candidate))
            return library
    wanted = newest or 13
    raise DeviceUnavailable(
        f"there is no NVRTC{f' for CUDA {newest} or older' if newest else ''} here: "
        f"pip install 'nvidia-cuda-nvrtc{'-cu12' if wanted == 12 else ''}=={wanted}.*'"
    )
