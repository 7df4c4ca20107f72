"""The CUDA driver's own functions, for what CuPy does not wrap or reports wrongly."""

from __future__ import annotations

import ctypes
import ctypes.util
import uuid
from collections.abc import Callable
from functools import cache

from spmvbench.devices.base import DeviceFault


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(ctypes.util.find_library("cuda") or "libcuda.so.1")


def function(name: str) -> Callable[..., int]:
    """A function of the driver, which returns its status."""
    found: Callable[..., int] = getattr(_library(), name)
    return found


def call(name: str, *args: object, without: str) -> None:
    """Call a function of the driver. Raises DeviceFault, with what there is then not, if it fails."""
    status = function(name)(*args)
    if status:
        raise DeviceFault(f"{name} failed with status {status}: no {without}")


def device_uuid(ordinal: int) -> uuid.UUID:
    """The UUID of a GPU, or of the instance of one, by its CUDA ordinal; the driver is initialised.

    CuPy's device properties hold it as a string of C, which ends at its first zero byte: about one GPU in 16 has one.
    Raises DeviceFault if the driver refuses.
    """
    device, found = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal), without="GPU of this number")
    call("cuDeviceGetUuid_v2", found, device, without="UUID of the GPU")
    return uuid.UUID(bytes=bytes(found))
