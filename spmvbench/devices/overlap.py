"""Launches that start while the kernel before them still runs, by a function of the driver that CuPy does not wrap.

Programmatic dependent launch (CUDA C++ Programming Guide): the kernel itself waits for the one before it
(kernels/include/overlap.cuh). In a captured graph the launch is a node with a programmatic dependency (CUDA 12.3).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from spmvbench.devices import driver

CAPABILITY = 9  # major compute capability from which on devices have it
OLDEST = 12040  # the CUDA version of the driver from which on graphs have it
_PROGRAMMATIC = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute; `allowed` is the member of its union of 64 bytes that is used."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("allowed", ctypes.c_int),
        ("rest", ctypes.c_int * 15),
    )


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def bound(handle: int, shape: tuple[int, ...], pointers: Any, keep: object) -> Callable[[int], None]:
    """A call that launches a kernel in this way on a stream.

    handle: of the function. shape: grid and block, three each, and bytes of dynamic shared memory. pointers: a ctypes
    array of the addresses of the arguments. keep: what they point to. Raises CuPy's CUDADriverError when it is called.
    """
    import cupy

    attribute = _Attribute(id=_PROGRAMMATIC, allowed=1)
    grid, block = (ctypes.c_uint * 3)(*shape[:3]), (ctypes.c_uint * 3)(*shape[3:6])
    config = _Config(grid, block, shape[6], None, ctypes.pointer(attribute), 1)
    launch, kernel, at = driver.function("cuLaunchKernelEx"), ctypes.c_void_p(handle), ctypes.byref(config)

    def run(stream: int, _keep: Any = (keep, attribute, config)) -> None:
        config.stream = stream
        if status := launch(at, kernel, pointers, None):
            raise cupy.cuda.driver.CUDADriverError(status)

    return run
