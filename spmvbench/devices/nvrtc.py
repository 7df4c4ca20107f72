"""NVRTC: CUDA C++ to machine code of one architecture, on machines with a GPU and without.

The `cuda` device compiles with it, and so do the tests that compile every kernel without a GPU: one place
for options, so that what the tests accept is what runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from spmvbench.devices.base import DeviceFault, DeviceUnavailable, does_not_compile
from spmvbench.devices.cuda_driver import must
from spmvbench.formats import kernel_options

# PTX ISA, atom, red and cp.reduce.async.bulk; sums of floats that are made of compare-and-swap do not count.
_FLOAT_ATOMIC = re.compile(r"\b(?:atom|red|cp\.reduce\.async\.bulk)[.\w:]*\.add[.\w:]*\.(?:b?f16(?:x2)?|f32|f64)\b")
_FUNCTION = re.compile(r"^[^\n;]*\.(?:entry|func)\b", re.MULTILINE)
DEVICE_LAUNCH = b'#include "device_launch.cuh"'  # in a file that is linked with CUDA's device runtime


class Compiled(NamedTuple):
    """Result of the compiler. names: in the cubin, by expression. ptx: what the machine code was made of."""

    cubin: bytes
    names: dict[str, str]
    ptx: str


def float_atomics(ptx: str, name: str) -> bool:
    """Whether a kernel, or a function of the file that is not part of another kernel that it does not launch, adds
    floating-point numbers by atomics. name: of the kernel in the PTX.
    """
    launches = "LaunchDevice" in ptx
    starts = [found.start() for found in _FUNCTION.finditer(ptx)]
    parts = [ptx[begin:end] for begin, end in zip(starts, [*starts[1:], len(ptx)], strict=True)]
    own = [
        part
        for part in parts
        if launches or ".entry" not in (head := part.partition("(")[0]) or head.split()[-1] == name
    ]
    return any(_FLOAT_ATOMIC.search(part) for part in own)


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


def compile(source: Path, expressions: Iterable[str], arch: str, *, newest: int | None = None) -> Compiled:
    """Compile a .cu file with the instantiations wanted of it.

    expressions: name expressions such as ``ell_spmv<double, 2>``. arch: ``sm_90``. newest: the CUDA major version that
    the driver understands, where the code is meant to run.
    Raises DeviceFault with the compiler's log where the file does not compile, or cannot be linked,
    DeviceUnavailable where there is no NVRTC.
    """
    nvrtc = _library(newest)
    expressions = list(expressions)
    # The source's own folder, as for any C++ compiler's quoted includes: NVRTC does not know where its text came from.
    options = [option.encode() for option in (*nvrtc_options(arch), f"--include-path={source.parent}")]
    if launches := DEVICE_LAUNCH in source.read_bytes():
        options.append(b"--relocatable-device-code=true")
    program = must(nvrtc.nvrtcCreateProgram(source.read_bytes(), os.fsencode(source), 0, [], []))
    try:
        for expression in expressions:
            must(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        if int(nvrtc.nvrtcCompileProgram(program, len(options), options)[0]):
            log = bytes(must(nvrtc.nvrtcGetProgramLogSize(program)))
            must(nvrtc.nvrtcGetProgramLog(program, log))
            raise does_not_compile(source, arch, log.rstrip(b"\0").decode())
        names = {name: must(nvrtc.nvrtcGetLoweredName(program, name.encode())).decode() for name in expressions}
        cubin = bytes(must(nvrtc.nvrtcGetCUBINSize(program)))
        must(nvrtc.nvrtcGetCUBIN(program, cubin))
        if launches and cubin:
            cubin = _with_device_runtime(source, cubin, arch)
        ptx = bytes(must(nvrtc.nvrtcGetPTXSize(program)))
        must(nvrtc.nvrtcGetPTX(program, ptx))
        return Compiled(cubin, names, ptx.rstrip(b"\0").decode())
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _with_device_runtime(source: Path, cubin: bytes, arch: str) -> bytes:
    """Relocatable code linked with the library by which threads launch grids. Raises DeviceFault."""
    try:
        from cuda.bindings import nvjitlink
        from cuda.pathfinder import find_static_lib

        library = find_static_lib("cudadevrt")
        nvjitlink.version()
    except (ImportError, RuntimeError) as error:
        raise DeviceFault(
            f"{source.name} launches grids from the device, which takes nvJitLink and libcudadevrt.a: "
            "pip install 'cuda-toolkit[cudart,nvjitlink]' of the driver's CUDA version"
        ) from error
    handle = nvjitlink.create(1, [f"-arch={arch}"])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.CUBIN, cubin, len(cubin), source.name)
        nvjitlink.add_file(handle, nvjitlink.InputType.LIBRARY, library)
        nvjitlink.complete(handle)
        linked = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, linked)
        return bytes(linked)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise does_not_compile(source, arch, log.rstrip(b"\0").decode()) from error
    finally:
        nvjitlink.destroy(handle)


def version(newest: int | None = None) -> tuple[int, int]:
    """Major and minor version of the NVRTC in use. Raises DeviceUnavailable if there is none."""
    major, minor = must(_library(newest).nvrtcVersion())
    return major, minor


@cache
def _library(newest: int | None = None) -> Any:
    """NVIDIA's binding of NVRTC, no newer than `newest`: a driver refuses code of a later major version."""
    wanted = newest or 13
    install = (
        f"pip install 'cuda-bindings=={wanted}.*' 'nvidia-cuda-nvrtc{'-cu12' if wanted == 12 else ''}=={wanted}.*'"
    )
    try:
        from cuda.bindings import nvrtc

        major, _ = must(nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError) as error:  # no binding, no library
        raise DeviceUnavailable(f"there is no NVRTC here: {install}") from error
    if newest is not None and major > newest:
        raise DeviceUnavailable(f"there is no NVRTC for CUDA {newest} or older here: {install}")
    return nvrtc
